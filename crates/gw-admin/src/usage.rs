//! The usage report: sums of the ledger, grouped and filtered, as JSON or CSV.

use std::collections::HashMap;

use gw_engine::error::Error;
use gw_store::ledger::{Filter, GroupBy, RareSums, RareSumsByName, Sums, UnitSums, UsageByName};
use gw_wire::attribution::Dimension;
use gw_wire::json::write_str;
use gw_wire::money::Money;

use crate::csv::csv_cell;
use crate::error::AdminError;
use crate::query::{NAMES, QueryParams, SPAN};
use crate::records::Records;
use crate::response::{AdminResponse, AdminResult};
use crate::time::{format_millis, format_seconds};

/// The ledger sums requests up by the hour.
pub(crate) const MILLIS_PER_HOUR: i64 = 3_600_000;
/// The parameters beside the span and the names.
const PARAMETERS: [&str; 4] = ["by", "group_by", "limit", "format"];
/// The most groups of a report that has a limit.
const MAX_GROUPS: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportFormat {
    Json,
    Csv,
}

/// The groups of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// A request belongs to one group.
    By(GroupBy),
    /// Names of this kind. A request may have several.
    Names(Dimension),
}

struct UsageReport {
    group_name: &'static str,
    grouping: Grouping,
    filter: Filter,
    rows: Vec<UsageRow>,
    total: Sums,
    total_units: UnitSums,
    total_rare: Option<RareSums>,
}

struct UsageRow {
    /// `None` for requests that belong to no group: they had no team or session, or their model was not found.
    group: Option<String>,
    /// The name of the key, in a report by key.
    key_name: Option<String>,
    /// All names that are not listed.
    is_rest: bool,
    sums: Sums,
    /// Units other than tokens.
    units: UnitSums,
    /// The amounts that prompt caches saved and cost, and the costs that providers stated. None: the sums do not hold them.
    rare: Option<RareSums>,
}

/// `GET /admin/v1/usage` at the time `now` (unix seconds).
pub(crate) async fn report_usage(
    records: &Records,
    query: &str,
    is_csv_preferred: bool,
    now: i64,
) -> AdminResult {
    let params = QueryParams::parse(query, &[&PARAMETERS[..], &SPAN, &NAMES].concat())?;
    let (group_name, grouping) = grouping(&params)?;
    let preferred = if is_csv_preferred { ReportFormat::Csv } else { ReportFormat::Json };
    let formats = [("json", ReportFormat::Json), ("csv", ReportFormat::Csv)];
    let format = params.choice("format", &formats)?.unwrap_or(preferred);
    let filter = to_whole_hours(params.filter(now)?);
    let (rows, total, total_rare) = match grouping {
        Grouping::By(by) => {
            let limit = params.value("limit").map(|_| params.page_size(MAX_GROUPS)).transpose()?;
            let total = records.store.total(&filter).await?;
            let mut found = rows(records, by, &filter).await?;
            if let Some(limit) = limit {
                found = most_expensive(found, limit);
            }
            let total_rare = added_rare(found.iter().map(|row| row.rare));
            (found, total, total_rare)
        }
        Grouping::Names(dimension) => {
            let limit = u32::try_from(params.page_size(MAX_GROUPS)?).unwrap_or(u32::MAX);
            let found = records.store.usage_by_name(dimension, &filter, limit).await?;
            let total = found.total;
            let names = found.listed.iter().map(|(name, _)| &**name);
            let rare = records.store.rare_sums_by_name(dimension, &filter, names).await?;
            let total_rare = rare.as_ref().map(|rare| rare.total);
            (rows_by_name(found, rare.as_ref()), total, total_rare)
        }
    };
    if total.requests == 0 {
        records.check_filter(&filter).await?;
    }
    let total_units = added_units(rows.iter().map(|row| &row.units));
    let report = UsageReport { group_name, grouping, filter, rows, total, total_units, total_rare };
    Ok(match format {
        ReportFormat::Json => AdminResponse::json_text(report.to_json()),
        ReportFormat::Csv => AdminResponse::csv(report.to_csv()),
    })
}

/// The units of all rows together.
fn added_units<'u>(rows: impl Iterator<Item = &'u UnitSums>) -> UnitSums {
    let mut total = UnitSums::new();
    for (unit, count) in rows.flatten() {
        let sum = total.entry(unit).or_default();
        *sum = sum.plus(*count);
    }
    total
}

/// The amounts that prompt caches saved and cost in all requests that match a filter, and the costs that providers stated. None: the sums do not know
/// them.
pub(crate) async fn total_rare(records: &Records, filter: &Filter) -> Result<Option<RareSums>, AdminError> {
    let days = records.store.rare_sums(GroupBy::Day, filter).await?;
    Ok(days.and_then(|days| added_rare(days.into_iter().map(|(_, sums)| Some(sums)))))
}

/// The amounts of all rows together; None = those of one are unknown.
fn added_rare(mut rows: impl Iterator<Item = Option<RareSums>>) -> Option<RareSums> {
    rows.try_fold(RareSums::default(), |mut total, more| {
        total.add(&more?);
        Some(total)
    })
}

/// The rows of a report by name: the names, then the rest of them, then the requests without a name. The units are not summed up by
/// name.
fn rows_by_name(found: UsageByName, rare: Option<&RareSumsByName>) -> Vec<UsageRow> {
    let row = |group, is_rest, sums, rare| UsageRow {
        group,
        key_name: None,
        is_rest,
        sums,
        units: UnitSums::new(),
        rare,
    };
    let of_name = |name: &str| rare.map(|rare| rare.listed.get(name).copied().unwrap_or_default());
    let listed = found.listed.into_iter().map(|(name, sums)| {
        let rare = of_name(&name);
        row(Some(name), false, sums, rare)
    });
    let (others, unnamed) = (rare.map(|rare| rare.others), rare.map(|rare| rare.unnamed));
    let others = (found.others.requests > 0).then(|| row(None, true, found.others, others));
    let unnamed = (found.unnamed.requests > 0).then(|| row(None, false, found.unnamed, unnamed));
    listed.chain(others).chain(unnamed).collect()
}

/// The most expensive groups of a report in their order, and the rest of them as one row.
fn most_expensive(rows: Vec<UsageRow>, limit: usize) -> Vec<UsageRow> {
    let (named, unnamed): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.group.is_some());
    let mut costs: Vec<i128> = named.iter().map(|row| row.sums.cost).collect();
    costs.sort_unstable_by(|one, other| other.cmp(one));
    let least = costs.get(limit.saturating_sub(1)).copied().unwrap_or(i128::MIN);
    // Groups of the least listed cost may be more than there is room for.
    let mut room = limit - costs.iter().take(limit).filter(|cost| **cost > least).count();
    let (listed, rest): (Vec<_>, Vec<_>) = named.into_iter().partition(|row| {
        let is_last = row.sums.cost == least && room > 0;
        room -= usize::from(is_last);
        row.sums.cost > least || is_last
    });
    let sums = Sums::of(rest.iter().map(|row| &row.sums));
    let units = added_units(rest.iter().map(|row| &row.units));
    let rare = added_rare(rest.iter().map(|row| row.rare));
    let others = UsageRow { group: None, key_name: None, is_rest: true, sums, units, rare };
    let others = (!rest.is_empty()).then_some(others);
    listed.into_iter().chain(others).chain(unnamed).collect()
}

async fn rows(records: &Records, group_by: GroupBy, filter: &Filter) -> Result<Vec<UsageRow>, AdminError> {
    let mut found = records.store.usage(group_by, filter).await?;
    // The units are summed up without end users, tags and the like.
    let mut units: HashMap<String, UnitSums> = match filter.names.is_empty() {
        true => records.store.units(group_by, filter).await?.into_iter().collect(),
        false => HashMap::new(),
    };
    let rare = records.store.rare_sums(group_by, filter).await?;
    let mut rare: Option<HashMap<String, RareSums>> = rare.map(|groups| groups.into_iter().collect());
    if matches!(group_by, GroupBy::Day | GroupBy::Hour) {
        // The group is a time in unix seconds, and the store orders the groups by cost.
        found.sort_by_key(|(group, _)| group.parse::<i64>().unwrap_or_default());
    }
    let names = if group_by == GroupBy::Key { records.key_names().await? } else { Default::default() };
    let row = |(group, sums): (String, Sums)| UsageRow {
        units: units.remove(&group).unwrap_or_default(),
        rare: rare.as_mut().map(|rare| rare.remove(&group).unwrap_or_default()),
        key_name: names.get(&group).cloned(),
        group: match group_by {
            GroupBy::Day => {
                Some(group.parse().map(format_seconds).unwrap_or_default().chars().take(10).collect())
            }
            GroupBy::Hour => Some(group.parse().map(format_seconds).unwrap_or_default()),
            _ => Some(group).filter(|group| !group.is_empty()),
        },
        is_rest: false,
        sums,
    };
    Ok(found.into_iter().map(row).collect())
}

/// The parameter `by`, or `group_by`, which means the same.
fn grouping(params: &QueryParams) -> Result<(&'static str, Grouping), Error> {
    let groups = GroupBy::ALL.map(|(name, by)| (name, (name, Grouping::By(by))));
    let names =
        Dimension::ALL.map(|dimension| (dimension.name(), (dimension.name(), Grouping::Names(dimension))));
    let all = [&groups[..], &names[..]].concat();
    let by = params.choice("by", &all)?;
    let by = if by.is_some() { by } else { params.choice("group_by", &all)? };
    Ok(by.unwrap_or(("day", Grouping::By(GroupBy::Day))))
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
    fn has_key_names(&self) -> bool {
        self.grouping == Grouping::By(GroupBy::Key)
    }

    /// Whether a row may stand for the rest of the groups.
    fn may_have_rest(&self) -> bool {
        matches!(self.grouping, Grouping::Names(_)) || self.rows.iter().any(|row| row.is_rest)
    }

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
            if self.has_key_names() {
                out.extend_from_slice(b",\"key_name\":");
                write_text_or_null(&mut out, row.key_name.as_deref());
            }
            if row.is_rest {
                out.extend_from_slice(b",\"other\":true");
            }
            out.push(b',');
            write_report_sums(&mut out, &row.sums, row.rare.as_ref());
            write_units(&mut out, &row.units);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"total\":{");
        write_report_sums(&mut out, &self.total, self.total_rare.as_ref());
        // `total` has the members of every other total.
        out.push(b'}');
        write_units(&mut out, &self.total_units);
        out.push(b'}');
        out
    }

    fn to_csv(&self) -> String {
        let mut head = vec![self.group_name];
        if self.has_key_names() {
            head.push("key_name");
        }
        if self.may_have_rest() {
            head.push("other");
        }
        head.extend(report_columns(&Sums::default(), None).map(|(name, _)| name));
        // Most reports have no units.
        let has_units = !self.total_units.is_empty();
        if has_units {
            head.push("units");
        }
        let mut text = head.join(",");
        text.push_str("\r\n");
        for row in &self.rows {
            text.push_str(&csv_cell(row.group.as_deref().unwrap_or("")));
            if self.has_key_names() {
                text.push(',');
                text.push_str(&csv_cell(row.key_name.as_deref().unwrap_or("")));
            }
            if self.may_have_rest() {
                text.push_str(if row.is_rest { ",true" } else { "," });
            }
            for (_, value) in report_columns(&row.sums, row.rare.as_ref()) {
                text.push(',');
                text.push_str(value.as_deref().unwrap_or_default());
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

/// The names and the exact amounts of what prompt caches saved and cost; None = unknown.
fn cache_columns(sums: Option<&RareSums>) -> [(&'static str, Option<String>); 3] {
    let caches = sums.map(|sums| sums.prompt_cache);
    let usd = |femtos| Money::from_femtos(femtos).to_string();
    [
        ("cache_saved_usd", caches.map(|caches| usd(caches.saved))),
        ("cache_surcharge_usd", caches.map(|caches| usd(caches.surcharge))),
        ("cache_lost_usd", caches.map(|caches| usd(caches.lost))),
    ]
}

/// The names and the exact values of a row of a report; None = unknown. The amounts of prompt caches stand between the tokens and the
/// costs, and the cost that providers stated stands beside ours.
fn report_columns(
    sums: &Sums,
    rare: Option<&RareSums>,
) -> impl Iterator<Item = (&'static str, Option<String>)> {
    let known = columns(sums).map(|(name, value)| (name, Some(value)));
    let costs = known.iter().position(|(name, _)| *name == "cost_usd").unwrap_or(known.len());
    let mut all = Vec::from(known);
    let stated = rare.and_then(RareSums::provider_cost).map(|femtos| Money::from_femtos(femtos).to_string());
    all.insert(costs + 1, ("provider_cost_usd", stated));
    all.splice(costs..costs, cache_columns(rare));
    all.into_iter()
}

/// Writes a row of a report as members of a JSON object.
pub(crate) fn write_report_sums(out: &mut Vec<u8>, sums: &Sums, rare: Option<&RareSums>) {
    for (index, (name, value)) in report_columns(sums, rare).enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let value = value.as_deref().unwrap_or("null");
        out.extend_from_slice(format!("{comma}\"{name}\":{value}").as_bytes());
    }
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
