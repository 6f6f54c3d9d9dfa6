//! OpenRouter's report: `GET /activity`, the last 30 whole days in UTC by model and provider
//! (openrouter.ai/docs/api-reference/analytics, read November 2026).

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::args::{DayRange, date};
use super::super::bill::{Bill, BilledTokens};
use super::super::fetch::{ReportError, ReportServer};
use super::page::{Page, amount, day, or_default, parse};

const ACTIVITY: &str = "/activity";

#[derive(Deserialize)]
struct Activity<'p> {
    date: String,
    model: Option<String>,
    #[serde(borrow)]
    usage: &'p RawValue,
    #[serde(default, deserialize_with = "or_default")]
    requests: u64,
    #[serde(default, deserialize_with = "or_default")]
    prompt_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    completion_tokens: u64,
}

/// Reads the report. A single day is asked for alone.
pub(super) async fn read(server: &ReportServer, range: DayRange) -> Result<Bill, ReportError> {
    let mut bill = Bill::default();
    let query = if range.first == range.last { format!("date={}", date(range.first)) } else { String::new() };
    server.pages(ACTIVITY, &query, |page| add_activity(&mut bill, page, range)).await?;
    Ok(bill)
}

/// Adds a page.
pub(super) fn add_activity(
    bill: &mut Bill,
    page: &Bytes,
    range: DayRange,
) -> Result<Option<String>, ReportError> {
    let page: Page<Activity<'_>> = parse(ACTIVITY, page)?;
    for row in &page.data {
        let day = day(ACTIVITY, &row.date)?;
        if !range.has(day) {
            continue;
        }
        let entry = bill.entry(day, row.model.as_deref());
        entry.token_cost += amount(ACTIVITY, row.usage, 0)?;
        entry.is_cache_unknown = true;
        let requests = entry.requests.get_or_insert_default();
        *requests = requests.saturating_add(row.requests);
        entry.tokens.get_or_insert_default().add(&BilledTokens {
            uncached: row.prompt_tokens,
            completion: row.completion_tokens,
            ..BilledTokens::default()
        });
    }
    page.next(ACTIVITY)
}
