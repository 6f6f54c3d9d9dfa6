//! `GET /admin/v1/overview`: the sums of a range and of the span before it, over time and by group, with the speed of its newest
//! requests. All sums are those of the usage report: the same queries of the same table, written by the same function.

use gw_engine::error::Error;
use gw_store::ledger::{Entry, Filter, GroupBy, RareSums, Sums};
use gw_wire::attribution::Dimension;

use crate::error::AdminError;
use crate::query::{NAMES, QueryParams, SPAN};
use crate::records::Records;
use crate::response::{AdminResponse, AdminResult};
use crate::time::{format_millis, format_seconds};
use crate::usage::{
    Grouping, MILLIS_PER_HOUR, to_whole_hours, total_rare, write_report_sums, write_sums, write_text_or_null,
};

/// The parameters beside the span and the names.
const PARAMETERS: [&str; 2] = ["by", "compare"];
/// The range of an overview without `since`, in hours.
const DEFAULT_HOURS: i64 = 24;
/// A longer range is shown by the day.
const MAX_HOURLY: i64 = 72;
/// The newest requests of the range whose speed is measured. They bound the work, however long the log is.
const MAX_SAMPLES: u32 = 2_000;
const GROUPS: [(&str, GroupBy); 5] = [
    ("model", GroupBy::Model),
    ("provider", GroupBy::Provider),
    ("key", GroupBy::Key),
    ("team", GroupBy::Team),
    ("surface", GroupBy::Surface),
];
/// The most end users, tags and the like of an overview. All others are one group.
const MAX_NAMES: u32 = 100;

/// `GET /admin/v1/overview` at the time `now` (unix seconds).
pub(crate) async fn show_overview(records: &Records, query: &str, now: i64) -> AdminResult {
    let params = QueryParams::parse(query, &[&PARAMETERS[..], &SPAN, &NAMES].concat())?;
    let (by_name, by) = grouping(&params)?;
    let has_previous = params.flag("compare")?;
    let as_of = now.saturating_mul(1000);
    let filter = params.filter(now)?;
    let until = filter.until.unwrap_or(as_of);
    let since = filter.since.unwrap_or(until.saturating_sub(DEFAULT_HOURS * MILLIS_PER_HOUR));
    let filter = to_whole_hours(Filter { since: Some(since), until: Some(until.max(since + 1)), ..filter });
    let store = &records.store;
    let range = Range::of(&filter);
    let series_by = if range.hours() <= MAX_HOURLY { GroupBy::Hour } else { GroupBy::Day };
    let mut series = store.usage(series_by, &filter).await?;
    series.sort_by_key(|(at, _)| at.parse::<i64>().unwrap_or_default());
    // The tiles are the sums of the chart, whatever is written meanwhile.
    let total = Sums::of(series.iter().map(|(_, sums)| sums));
    let before = range.before();
    let rare = total_rare(records, &filter).await?;
    let previous = match has_previous {
        true => {
            let filter = Filter { since: Some(before.since), until: Some(before.until), ..filter.clone() };
            Some((store.total(&filter).await?, total_rare(records, &filter).await?))
        }
        false => None,
    };
    let groups = groups(records, by, &filter).await?;
    if total.requests == 0 {
        records.check_filter(&filter).await?;
    }
    let samples = store.requests(&filter, None, MAX_SAMPLES).await?;

    let mut out = Vec::with_capacity(2048 + (series.len() + groups.len()) * 320);
    out.extend_from_slice(b"{\"object\":\"overview\"");
    push_text(&mut out, "as_of", Some(&format_millis(as_of)));
    range.push(&mut out);
    push_text(&mut out, "interval", Some(if series_by == GroupBy::Hour { "hour" } else { "day" }));
    push_text(&mut out, "by", Some(by_name));
    push_total(&mut out, &total, rare.as_ref());
    match previous {
        Some((sums, rare)) => {
            out.extend_from_slice(b",\"previous\":{\"object\":\"span\"");
            before.push(&mut out);
            push_total(&mut out, &sums, rare.as_ref());
            out.push(b'}');
        }
        None => out.extend_from_slice(b",\"previous\":null"),
    }
    push_rows(&mut out, "series", &series, |out, (at, sums)| {
        let at = at.parse().map(format_seconds).unwrap_or_default();
        out.extend_from_slice(b"\"at\":");
        write_text_or_null(out, Some(&at));
        sums
    });
    push_rows(&mut out, "groups", &groups, |out, group| {
        out.extend_from_slice(b"\"group\":");
        write_text_or_null(out, group.value.as_deref());
        push_text(out, "name", group.key_name.as_deref());
        if group.is_rest {
            out.extend_from_slice(b",\"other\":true");
        }
        &group.sums
    });
    out.extend_from_slice(b",\"speed\":");
    let is_complete = total.requests <= samples.len() as u64;
    out.extend_from_slice(speed(&samples, is_complete).to_string().as_bytes());
    out.push(b'}');
    Ok(AdminResponse::json_text(out))
}

/// The parameter `by`.
fn grouping(params: &QueryParams) -> Result<(&'static str, Grouping), Error> {
    let groups = GROUPS.map(|(name, by)| (name, (name, Grouping::By(by))));
    let names = Dimension::ALL.map(|kind| (kind.name(), (kind.name(), Grouping::Names(kind))));
    let by = params.choice("by", &[&groups[..], &names[..]].concat())?;
    Ok(by.unwrap_or(("model", Grouping::By(GroupBy::Model))))
}

/// The requests of one model, key, end user or the like.
struct Group {
    /// None: the requests belong to no group, or to all groups that are not listed.
    value: Option<String>,
    /// The name of a key.
    key_name: Option<String>,
    /// The requests of all names that are not listed.
    is_rest: bool,
    sums: Sums,
}

/// The groups, the most expensive first.
async fn groups(records: &Records, by: Grouping, filter: &Filter) -> Result<Vec<Group>, AdminError> {
    let store = &records.store;
    let group = |value, sums| Group { value, key_name: None, is_rest: false, sums };
    match by {
        Grouping::By(by) => {
            let names = if by == GroupBy::Key { records.key_names().await? } else { Default::default() };
            let found = store.usage(by, filter).await?.into_iter();
            let groups = found.map(|(value, sums)| {
                let key_name = names.get(&value).cloned();
                Group { key_name, ..group(Some(value).filter(|value| !value.is_empty()), sums) }
            });
            Ok(groups.collect())
        }
        Grouping::Names(kind) => {
            let found = store.usage_by_name(kind, filter, MAX_NAMES).await?;
            let listed = found.listed.into_iter().map(|(name, sums)| group(Some(name), sums));
            let others = Group { is_rest: true, ..group(None, found.others) };
            let rest =
                [others, group(None, found.unnamed)].into_iter().filter(|group| group.sums.requests > 0);
            Ok(listed.chain(rest).collect())
        }
    }
}

/// A span of whole hours in unix milliseconds.
#[derive(Clone, Copy)]
struct Range {
    since: i64,
    until: i64,
}

impl Range {
    fn of(filter: &Filter) -> Self {
        Self { since: filter.since.unwrap_or_default(), until: filter.until.unwrap_or_default() }
    }

    fn hours(self) -> i64 {
        self.until.saturating_sub(self.since) / MILLIS_PER_HOUR
    }

    /// The span of the same length before this one.
    fn before(self) -> Self {
        Self { since: self.since.saturating_sub(self.until.saturating_sub(self.since)), until: self.since }
    }

    fn push(self, out: &mut Vec<u8>) {
        push_text(out, "since", Some(&format_millis(self.since)));
        push_text(out, "until", Some(&format_millis(self.until)));
    }
}

fn push_text(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    out.extend_from_slice(format!(",\"{name}\":").as_bytes());
    write_text_or_null(out, value);
}

fn push_total(out: &mut Vec<u8>, sums: &Sums, rare: Option<&RareSums>) {
    out.extend_from_slice(b",\"total\":{");
    write_report_sums(out, sums, rare);
    out.push(b'}');
}

/// Writes a list of sums. `head` writes what a row stands for, and returns its sums.
fn push_rows<R>(
    out: &mut Vec<u8>,
    name: &str,
    rows: &[R],
    head: impl for<'r> Fn(&mut Vec<u8>, &'r R) -> &'r Sums,
) {
    out.extend_from_slice(format!(",\"{name}\":[").as_bytes());
    for (index, row) in rows.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
        let sums = head(out, row);
        out.push(b',');
        write_sums(out, sums);
        out.push(b'}');
    }
    out.push(b']');
}

/// The speed of requests that an upstream served, and the fallbacks of all.
fn speed(samples: &[Entry], is_complete: bool) -> serde_json::Value {
    let served = || samples.iter().filter(|entry| entry.status == "ok" && !entry.cache_hit);
    let per_second = |entry: &Entry| {
        let millis = entry.latency_ms.saturating_sub(entry.ttft_ms.unwrap_or(0));
        (millis > 0 && entry.tokens.completion > 0)
            .then(|| entry.tokens.completion as f64 * 1000.0 / millis as f64)
    };
    serde_json::json!({
        "samples": samples.len(),
        "since": samples.last().map(|oldest| format_millis(oldest.at)),
        "is_complete": is_complete,
        "latency_ms": percentiles(served().map(|entry| entry.latency_ms as f64).collect()),
        "ttft_ms": percentiles(served().filter_map(|entry| entry.ttft_ms).map(|ttft| ttft as f64).collect()),
        "tokens_per_second": percentiles(served().filter_map(per_second).collect()),
        "fallbacks": samples.iter().filter(|entry| entry.fallback).count(),
    })
}

/// The value that half of all values, and the one that 95 % of them do not exceed. Null without values.
fn percentiles(mut values: Vec<f64>) -> serde_json::Value {
    values.sort_by(f64::total_cmp);
    let rank = |percent: usize| {
        let rank = (values.len() * percent).div_ceil(100).max(1);
        values.get(rank - 1).map(|value| (value * 10.0).round() / 10.0)
    };
    match (rank(50), rank(95)) {
        (Some(p50), Some(p95)) => serde_json::json!({ "p50": p50, "p95": p95 }),
        _ => serde_json::Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn percentiles_are_values_of_the_sample() {
        assert_eq!(percentiles(Vec::new()), Value::Null);
        assert_eq!(percentiles(vec![7.0]), json!({ "p50": 7.0, "p95": 7.0 }));
        let hundred = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentiles(hundred), json!({ "p50": 50.0, "p95": 95.0 }));
    }

    #[test]
    fn only_answers_of_upstreams_have_a_speed() {
        let served = Entry { status: "ok".into(), latency_ms: 1100, ttft_ms: Some(100), ..Entry::default() };
        let served =
            Entry { tokens: gw_store::ledger::Tokens { completion: 50, ..Default::default() }, ..served };
        let failed =
            Entry { status: "upstream_error".into(), latency_ms: 9, fallback: true, ..Entry::default() };
        let cached = Entry { cache_hit: true, latency_ms: 1, ..served.clone() };
        let found = speed(&[served, failed, cached], true);
        assert_eq!(found["samples"], 3);
        assert_eq!(found["latency_ms"], json!({ "p50": 1100.0, "p95": 1100.0 }));
        assert_eq!(found["ttft_ms"]["p50"], 100.0);
        assert_eq!(found["tokens_per_second"]["p95"], 50.0);
        assert_eq!((&found["fallbacks"], &found["is_complete"]), (&json!(1), &json!(true)));
    }
}
