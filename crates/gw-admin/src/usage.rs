//! The usage report: sums of the ledger, grouped and filtered, as JSON or CSV.

use std::collections::HashMap;

use gw_engine::error::Error;
use gw_store::ledger::{Filter, GroupBy, Sums, UnitSums};
use gw_wire::json::write_str;
use gw_wire::money::Money;

use crate::csv::csv_cell;
use crate::error::AdminError;
use crate::query::QueryParams;
use crate::records::Records;
use crate::response::{AdminResponse, AdminResult};
use crate::time::{format_millis, format_seconds};

/// The ledger sums requests up by the hour.
pub(crate) const MILLIS_PER_HOUR: i64 = 3_600_000;
const PARAMETERS: [&str; 11] =
    ["by", "group_by", "since", "until", "key", "team", "model", "provider", "session", "surface", "format"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportFormat {
    Json,
    Csv,
}

struct UsageReport {
    group_name: &'static str,
    group_by: GroupBy,
    filter: Filter,
    rows: Vec<UsageRow>,
    total: Sums,
    total_units: UnitSums,
}

struct UsageRow {
    /// `None` for requests that belong to no group: they had no team or session, or their model was not found.
    group: Option<String>,
    /// The name of the key, in a report by key.
    key_name: Option<String>,
    sums: Sums,
    /// Units other than tokens.
    units: UnitSums,
}

/// `GET /admin/v1/usage` at the time `now` (unix seconds).
pub(crate) async fn report_usage(
    records: &Records,
    query: &str,
    is_csv_preferred: bool,
    now: i64,
) -> AdminResult {
    let params = QueryParams::parse(query, &PARAMETERS)?;
    let (group_name, group_by) = group_by(&params)?;
    let preferred = if is_csv_preferred { ReportFormat::Csv } else { ReportFormat::Json };
    let formats = [("json", ReportFormat::Json), ("csv", ReportFormat::Csv)];
    let format = params.choice("format", &formats)?.unwrap_or(preferred);
    let filter = to_whole_hours(params.filter(now)?);
    let total = records.store.total(&filter).await?;
    if total.requests == 0 {
        records.check_filter(&filter).await?;
    }
    let (rows, total_units) = rows(records, group_by, &filter).await?;
    let report = UsageReport { group_name, group_by, filter, rows, total, total_units };
    Ok(match format {
        ReportFormat::Json => AdminResponse::json_text(report.to_json()),
        ReportFormat::Csv => AdminResponse::csv(report.to_csv()),
    })
}

/// The rows, and the units of all of them.
async fn rows(
    records: &Records,
    group_by: GroupBy,
    filter: &Filter,
) -> Result<(Vec<UsageRow>, UnitSums), AdminError> {
    let mut found = records.store.usage(group_by, filter).await?;
    let mut units: HashMap<String, UnitSums> =
        records.store.units(group_by, filter).await?.into_iter().collect();
    let mut total = UnitSums::new();
    for (unit, count) in units.values().flatten() {
        let sum = total.entry(unit).or_default();
        *sum = sum.plus(*count);
    }
    if matches!(group_by, GroupBy::Day | GroupBy::Hour) {
        // The group is a time in unix seconds, and the store orders the groups by cost.
        found.sort_by_key(|(group, _)| group.parse::<i64>().unwrap_or_default());
    }
    let names = if group_by == GroupBy::Key { records.key_names().await? } else { Default::default() };
    let row = |(group, sums): (String, Sums)| UsageRow {
        units: units.remove(&group).unwrap_or_default(),
        key_name: names.get(&group).cloned(),
        group: match group_by {
            GroupBy::Day => {
                Some(group.parse().map(format_seconds).unwrap_or_default().chars().take(10).collect())
            }
            GroupBy::Hour => Some(group.parse().map(format_seconds).unwrap_or_default()),
            _ => Some(group).filter(|group| !group.is_empty()),
        },
        sums,
    };
    Ok((found.into_iter().map(row).collect(), total))
}

/// The parameter `by`, or `group_by`, which means the same.
fn group_by(params: &QueryParams) -> Result<(&'static str, GroupBy), Error> {
    let all = GroupBy::ALL.map(|(name, by)| (name, (name, by)));
    let by = params.choice("by", &all)?;
    let by = if by.is_some() { by } else { params.choice("group_by", &all)? };
    Ok(by.unwrap_or(("day", GroupBy::Day)))
}

/// Extends the filter to whole hours: the sums exist for whole hours only, and the report names the time that it covers.
pub(crate) fn to_whole_hours(filter: Filter) -> Filter {
    let floor = |at: i64| at.div_euclid(MILLIS_PER_HOUR) * MILLIS_PER_HOUR;
    Filter {
        since: filter.since.map(floor),
        until: filter.until.map(|until| floor(until.saturating_add(MILLIS_PER_HOUR - 1))),
        ..filter
    }
}

impl UsageReport {
    fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.rows.len() * 320);
        out.extend_from_slice(b"{\"object\":\"usage\",\"by\":");
        write_str(&mut out, self.group_name);
        for (name, at) in [("since", self.filter.since), ("until", self.filter.until)] {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            write_text_or_null(&mut out, at.map(format_millis).as_deref());
        }
        out.extend_from_slice(b",\"data\":[");
        for (index, row) in self.rows.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
            write_str(&mut out, self.group_name);
            out.push(b':');
            write_text_or_null(&mut out, row.group.as_deref());
            if self.group_by == GroupBy::Key {
                out.extend_from_slice(b",\"key_name\":");
                write_text_or_null(&mut out, row.key_name.as_deref());
            }
            out.push(b',');
            write_sums(&mut out, &row.sums);
            write_units(&mut out, &row.units);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"total\":{");
        write_sums(&mut out, &self.total);
        // `total` has the members of every other total.
        out.push(b'}');
        write_units(&mut out, &self.total_units);
        out.push(b'}');
        out
    }

    fn to_csv(&self) -> String {
        let mut head = vec![self.group_name];
        if self.group_by == GroupBy::Key {
            head.push("key_name");
        }
        head.extend(columns(&Sums::default()).map(|(name, _)| name));
        // Most reports have no units.
        let has_units = !self.total_units.is_empty();
        if has_units {
            head.push("units");
        }
        let mut text = head.join(",");
        text.push_str("\r\n");
        for row in &self.rows {
            text.push_str(&csv_cell(row.group.as_deref().unwrap_or("")));
            if self.group_by == GroupBy::Key {
                text.push(',');
                text.push_str(&csv_cell(row.key_name.as_deref().unwrap_or("")));
            }
            for (_, value) in columns(&row.sums) {
                text.push(',');
                text.push_str(&value);
            }
            if has_units {
                let units: Vec<String> =
                    row.units.iter().map(|(unit, count)| format!("{unit}={count}")).collect();
                text.push(',');
                text.push_str(&csv_cell(&units.join(" ")));
            }
            text.push_str("\r\n");
        }
        text
    }
}

/// The names and the exact values of sums, in the order of the report.
fn columns(sums: &Sums) -> [(&'static str, String); 12] {
    let usd = |femtos| Money::from_femtos(femtos).to_string();
    let tokens = sums.tokens;
    [
        ("requests", sums.requests.to_string()),
        ("failed", sums.failed.to_string()),
        ("cache_hits", sums.cache_hits.to_string()),
        ("prompt_tokens", tokens.prompt.to_string()),
        ("completion_tokens", tokens.completion.to_string()),
        ("total_tokens", tokens.prompt.saturating_add(tokens.completion).to_string()),
        ("cached_tokens", tokens.cached.to_string()),
        ("cache_write_tokens", tokens.cache_write.to_string()),
        ("reasoning_tokens", tokens.reasoning.to_string()),
        ("cost_usd", usd(sums.cost)),
        ("saved_usd", usd(sums.saved)),
        // The requests whose cost is not, or not whole, in the sum.
        ("unpriced_requests", sums.unpriced.to_string()),
    ]
}

pub(crate) fn write_text_or_null(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => write_str(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

/// Writes units as a member of a JSON object, if there are some.
fn write_units(out: &mut Vec<u8>, units: &UnitSums) {
    for (index, (unit, count)) in units.iter().enumerate() {
        let begin = if index == 0 { ",\"units\":{" } else { "," };
        out.extend_from_slice(format!("{begin}\"{unit}\":{count}").as_bytes());
    }
    if !units.is_empty() {
        out.push(b'}');
    }
}

/// Writes sums as members of a JSON object. Amounts are written by their digits, so they stay exact.
pub(crate) fn write_sums(out: &mut Vec<u8>, sums: &Sums) {
    for (index, (name, value)) in columns(sums).iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        out.extend_from_slice(format!("{comma}\"{name}\":{value}").as_bytes());
    }
}
