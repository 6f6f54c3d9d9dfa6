//! Anthropic's reports: `GET /v1/organizations/cost_report`, whose amounts are cents, and `GET /v1/organizations/usage_report/messages`
//! (platform.claude.com/docs/en/api/admin-api/usage-cost, read November 2026).

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::args::{DayRange, date};
use super::super::bill::{Bill, BilledTokens};
use super::super::fetch::{ReportError, ReportServer};
use super::page::{Page, add_token_cost, add_tokens, amount, day, note_foreign, or_default, parse};

const COSTS: &str = "/v1/organizations/cost_report";
const USAGE: &str = "/v1/organizations/usage_report/messages";
/// The power of ten of a cent in USD.
const CENT: i32 = -2;

#[derive(Deserialize)]
struct AnthropicCostBucket<'p> {
    starting_at: String,
    #[serde(borrow)]
    results: Vec<AnthropicCostResult<'p>>,
}

#[derive(Deserialize)]
struct AnthropicCostResult<'p> {
    #[serde(borrow)]
    amount: &'p RawValue,
    currency: Option<String>,
    cost_type: Option<String>,
    model: Option<String>,
    service_tier: Option<String>,
    description: Option<String>,
}

#[derive(Deserialize)]
struct AnthropicUsageBucket {
    starting_at: String,
    results: Vec<AnthropicUsageResult>,
}

#[derive(Deserialize)]
struct AnthropicUsageResult {
    #[serde(default, deserialize_with = "or_default")]
    uncached_input_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    cache_creation: CacheCreation,
    #[serde(default, deserialize_with = "or_default")]
    cache_read_input_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    output_tokens: u64,
    model: Option<String>,
    service_tier: Option<String>,
}

#[derive(Default, Deserialize)]
struct CacheCreation {
    #[serde(default, deserialize_with = "or_default")]
    ephemeral_1h_input_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    ephemeral_5m_input_tokens: u64,
}

/// Reads both reports.
pub(super) async fn read(server: &ReportServer, range: DayRange) -> Result<Bill, ReportError> {
    let mut bill = Bill::default();
    let (start, end) = (date(range.first), date(range.last + 1));
    let days = format!("starting_at={start}T00:00:00Z&ending_at={end}T00:00:00Z&bucket_width=1d&limit=31");
    let query = format!("{days}&group_by%5B%5D=model&group_by%5B%5D=service_tier");
    server.pages(USAGE, &query, |page| add_usage(&mut bill, page, range)).await?;
    let query = format!("{days}&group_by%5B%5D=description");
    server.pages(COSTS, &query, |page| add_costs(&mut bill, page, range)).await?;
    Ok(bill)
}

/// Adds a page of the usage.
pub(super) fn add_usage(
    bill: &mut Bill,
    page: &Bytes,
    range: DayRange,
) -> Result<Option<String>, ReportError> {
    let page: Page<AnthropicUsageBucket> = parse(USAGE, page)?;
    for bucket in &page.data {
        let day = day(USAGE, &bucket.starting_at)?;
        for result in bucket.results.iter().filter(|_| range.has(day)) {
            let tokens = BilledTokens {
                uncached: result.uncached_input_tokens,
                cached: result.cache_read_input_tokens,
                write_5m: result.cache_creation.ephemeral_5m_input_tokens,
                write_1h: result.cache_creation.ephemeral_1h_input_tokens,
                completion: result.output_tokens,
            };
            let entry = bill.entry(day, result.model.as_deref());
            let tier = result.service_tier.as_deref();
            add_tokens(entry, tier, &tokens);
        }
    }
    page.next(USAGE)
}

/// Adds a page of the costs.
pub(super) fn add_costs(
    bill: &mut Bill,
    page: &Bytes,
    range: DayRange,
) -> Result<Option<String>, ReportError> {
    let page: Page<AnthropicCostBucket<'_>> = parse(COSTS, page)?;
    for bucket in &page.data {
        let day = day(COSTS, &bucket.starting_at)?;
        for result in bucket.results.iter().filter(|_| range.has(day)) {
            let cost = amount(COSTS, result.amount, CENT)?;
            let entry = bill.entry(day, result.model.as_deref());
            if note_foreign(entry, cost, result.currency.as_deref()) {
                continue;
            }
            match result.cost_type.as_deref() {
                None | Some("tokens") => add_token_cost(entry, result.service_tier.as_deref(), cost),
                Some(tool) => {
                    entry.tool_cost += cost;
                    entry.tools.push(result.description.as_deref().unwrap_or(tool).to_owned());
                }
            }
        }
    }
    page.next(COSTS)
}
