//! What was used, by whom and of what: sums of the ledger as JSON or CSV.

use std::collections::HashMap;

use bytes::Bytes;
use gw_store::ledger::{Filter, GroupBy, Sums};
use gw_wire::json::write_str;

use super::query::Params;
use super::write::{columns, time, time_of_millis};
use super::{Answer, Books, Document, Fault};
use crate::auth::configured_id;
use crate::error::Error;

/// Milliseconds of an hour: what is summed up is no finer.
const HOUR: i64 = 3_600_000;
const PARAMETERS: [&str; 9] =
    ["by", "group_by", "since", "until", "key", "team", "model", "provider", "format"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Csv,
}

struct Report {
    by: (&'static str, GroupBy),
    filter: Filter,
    rows: Vec<Row>,
    total: Sums,
}

struct Row {
    /// None: requests that belong to none (no team, no model found).
    group: Option<String>,
    /// The name of a key.
    name: Option<String>,
    sums: Sums,
}

impl Books {
    pub(super) async fn usage(&self, query: &str, csv: bool, now: i64) -> Answer {
        let params = Params::read(query, &PARAMETERS)?;
        let by = by(&params)?;
        let usual = if csv { Format::Csv } else { Format::Json };
        let format =
            params.choice("format", &[("json", Format::Json), ("csv", Format::Csv)])?.unwrap_or(usual);
        let filter = whole_hours(params.filter(now)?);
        let total = self.store.total(&filter).await?;
        if total.requests == 0 {
            self.check_names(&filter).await?;
        }
        let rows = self.rows(by.1, &filter).await?;
        let report = Report { by, filter, rows, total };
        Ok(match format {
            Format::Json => Document::json(report.json()),
            Format::Csv => Document { is_new: false, is_csv: true, body: Bytes::from(report.csv()) },
        })
    }

    async fn rows(&self, by: GroupBy, filter: &Filter) -> Result<Vec<Row>, Fault> {
        let mut found = self.store.usage(by, filter).await?;
        let is_time = matches!(by, GroupBy::Day | GroupBy::Hour);
        if is_time {
            // Of unix seconds; the store orders by cost.
            found.sort_by_key(|(group, _)| group.parse::<i64>().unwrap_or_default());
        }
        let names = if by == GroupBy::Key { self.names().await? } else { HashMap::new() };
        let row = |(group, sums): (String, Sums)| Row {
            name: names.get(&group).cloned(),
            group: match by {
                GroupBy::Day => Some(group.parse().map(time).unwrap_or_default().chars().take(10).collect()),
                GroupBy::Hour => Some(group.parse().map(time).unwrap_or_default()),
                _ => Some(group).filter(|group| !group.is_empty()),
            },
            sums,
        };
        Ok(found.into_iter().map(row).collect())
    }

    /// Names of keys, as they are now.
    async fn names(&self) -> Result<HashMap<String, String>, Fault> {
        let stored = self.store.keys().await?.into_iter().map(|key| (key.id, key.name));
        let configured = self.configured.iter().map(|key| (configured_id(&key.name), key.name.clone()));
        Ok(stored.chain(configured).collect())
    }
}

fn by(params: &Params) -> Result<(&'static str, GroupBy), Error> {
    let all = GroupBy::ALL.map(|(name, by)| (name, (name, by)));
    // `group_by` is what others call it.
    let by = params.choice("by", &all)?;
    let by = if by.is_some() { by } else { params.choice("group_by", &all)? };
    Ok(by.unwrap_or(("day", GroupBy::Day)))
}

/// The hours that the filter touches: what the sums are made of, and what the report says that it is about.
fn whole_hours(filter: Filter) -> Filter {
    let floor = |at: i64| at.div_euclid(HOUR) * HOUR;
    Filter {
        since: filter.since.map(floor),
        until: filter.until.map(|until| floor(until.saturating_add(HOUR - 1))),
        ..filter
    }
}

impl Report {
    fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.rows.len() * 320);
        out.extend_from_slice(b"{\"object\":\"usage\",\"by\":");
        write_str(&mut out, self.by.0);
        for (name, at) in [("since", self.filter.since), ("until", self.filter.until)] {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            text(&mut out, at.map(time_of_millis).as_deref());
        }
        out.extend_from_slice(b",\"data\":[");
        for (place, row) in self.rows.iter().enumerate() {
            out.extend_from_slice(if place == 0 { b"{" } else { b",{" });
            write_str(&mut out, self.by.0);
            out.push(b':');
            text(&mut out, row.group.as_deref());
            if self.by.1 == GroupBy::Key {
                out.extend_from_slice(b",\"key_name\":");
                text(&mut out, row.name.as_deref());
            }
            out.push(b',');
            sums(&mut out, &row.sums);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"total\":{");
        sums(&mut out, &self.total);
        out.extend_from_slice(b"}}");
        out
    }

    fn csv(&self) -> String {
        let mut head = vec![self.by.0];
        if self.by.1 == GroupBy::Key {
            head.push("key_name");
        }
        head.extend(columns(&Sums::default()).map(|(name, _)| name));
        let mut text = head.join(",");
        text.push_str("\r\n");
        for row in &self.rows {
            text.push_str(&cell(row.group.as_deref().unwrap_or("")));
            if self.by.1 == GroupBy::Key {
                text.push(',');
                text.push_str(&cell(row.name.as_deref().unwrap_or("")));
            }
            for (_, value) in columns(&row.sums) {
                text.push(',');
                text.push_str(&value);
            }
            text.push_str("\r\n");
        }
        text
    }
}

fn text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => write_str(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

/// Counts and exact amounts: nothing here was ever a float.
fn sums(out: &mut Vec<u8>, sums: &Sums) {
    for (place, (name, value)) in columns(sums).iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        out.extend_from_slice(format!("{comma}\"{name}\":{value}").as_bytes());
    }
}

/// A cell of text, quoted as RFC 4180 says. A spreadsheet would compute what begins like a formula, so that gets an
/// apostrophe in front.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guarded = if is_formula { format!("'{text}") } else { text.to_owned() };
    if guarded.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", guarded.replace('"', "\"\""))
    } else {
        guarded
    }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cells_are_quoted_and_formulas_are_text() {
        for (text, written) in [
            ("acme/fast", "acme/fast"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\nb", "\"a\nb\""),
            ("=1+1", "'=1+1"),
            ("+x", "'+x"),
            ("-x", "'-x"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("=HYPERLINK(\"x\",1)", "\"'=HYPERLINK(\"\"x\"\",1)\""),
            ("\tx", "'\tx"),
        ] {
            assert_eq!(cell(text), written, "{text}");
        }
    }
}
