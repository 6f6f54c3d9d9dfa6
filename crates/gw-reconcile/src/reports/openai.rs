//! OpenAI's reports: `GET /organization/costs` by line item and `GET /organization/usage/completions` by model, batch and service tier
//! (platform.openai.com/docs/api-reference/usage, read November 2026).

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::args::{DAY_SECONDS, DayRange};
use super::super::bill::{Bill, BilledTokens};
use super::super::fetch::{ReportError, ReportServer};
use super::page::{Page, add_token_cost, add_tokens, amount, note_foreign, or_default, parse};

const COSTS: &str = "/organization/costs";
const USAGE: &str = "/organization/usage/completions";

#[derive(Deserialize)]
struct OpenAiCostBucket<'p> {
    start_time: i64,
    #[serde(borrow)]
    results: Vec<OpenAiCostResult<'p>>,
}

#[derive(Deserialize)]
struct OpenAiCostResult<'p> {
    #[serde(borrow)]
    amount: CostAmount<'p>,
    line_item: Option<String>,
}

#[derive(Deserialize)]
struct CostAmount<'p> {
    #[serde(borrow)]
    value: &'p RawValue,
    currency: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiUsageBucket {
    start_time: i64,
    results: Vec<OpenAiUsageResult>,
}

#[derive(Deserialize)]
struct OpenAiUsageResult {
    #[serde(default, deserialize_with = "or_default")]
    input_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    output_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    input_cached_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    num_model_requests: u64,
    model: Option<String>,
    batch: Option<bool>,
    service_tier: Option<String>,
}

/// Reads both reports.
pub(super) async fn read(server: &ReportServer, range: DayRange) -> Result<Bill, ReportError> {
    let mut bill = Bill::default();
    let (start, end) = (range.first * DAY_SECONDS, (range.last + 1) * DAY_SECONDS);
    let days = format!("start_time={start}&end_time={end}&bucket_width=1d");
    let query = format!("{days}&limit=31&group_by=model&group_by=batch&group_by=service_tier");
    server.pages(USAGE, &query, |page| add_usage(&mut bill, page, range)).await?;
    let query = format!("{days}&limit=180&group_by=line_item");
    server.pages(COSTS, &query, |page| add_costs(&mut bill, page, range)).await?;
    Ok(bill)
}

/// Adds a page of the usage.
pub(super) fn add_usage(
    bill: &mut Bill,
    page: &Bytes,
    range: DayRange,
) -> Result<Option<String>, ReportError> {
    let page: Page<OpenAiUsageBucket> = parse(USAGE, page)?;
    for bucket in &page.data {
        let day = bucket.start_time.div_euclid(DAY_SECONDS);
        for result in bucket.results.iter().filter(|_| range.has(day)) {
            let cached = result.input_cached_tokens.min(result.input_tokens);
            let tokens = BilledTokens {
                uncached: result.input_tokens - cached,
                cached,
                completion: result.output_tokens,
                ..BilledTokens::default()
            };
            let entry = bill.entry(day, result.model.as_deref());
            let tier =
                if result.batch == Some(true) { Some("batch") } else { result.service_tier.as_deref() };
            add_tokens(entry, tier, &tokens);
            let requests = entry.requests.get_or_insert_default();
            *requests = requests.saturating_add(result.num_model_requests);
        }
    }
    page.next(USAGE)
}

/// Adds a page of the costs. The usage comes first, because its names of models tell where a line item's name of the model ends.
pub(super) fn add_costs(
    bill: &mut Bill,
    page: &Bytes,
    range: DayRange,
) -> Result<Option<String>, ReportError> {
    let page: Page<OpenAiCostBucket<'_>> = parse(COSTS, page)?;
    for bucket in &page.data {
        let day = bucket.start_time.div_euclid(DAY_SECONDS);
        for result in bucket.results.iter().filter(|_| range.has(day)) {
            let cost = amount(COSTS, result.amount.value, 0)?;
            let line = LineItem::read(bill, day, result.line_item.as_deref());
            let entry = bill.entry(day, line.model.as_deref());
            if note_foreign(entry, cost, result.amount.currency.as_deref()) {
                continue;
            }
            match &line.kind {
                ItemKind::Tokens(tier) => add_token_cost(entry, *tier, cost),
                ItemKind::Tool(name) => {
                    entry.tool_cost += cost;
                    entry.tools.push(name.clone());
                }
            }
        }
    }
    page.next(COSTS)
}

enum ItemKind {
    /// Tokens, and the service tier that the item names.
    Tokens(Option<&'static str>),
    Tool(String),
}

/// A line item, such as `gpt-4o-2024-08-06, cached input` or `web search tool calls`.
struct LineItem {
    model: Option<String>,
    kind: ItemKind,
}

impl LineItem {
    fn read(bill: &Bill, day: i64, item: Option<&str>) -> Self {
        let known: BTreeSet<&str> =
            bill.days.keys().filter(|(of, _)| *of == day).filter_map(|(_, model)| model.as_deref()).collect();
        let only = known.first().filter(|_| known.len() == 1).map(|model| (*model).to_owned());
        let Some(item) = item else { return Self { model: only, kind: ItemKind::Tokens(None) } };
        let starts = |model: &&&str| {
            let (start, rest) = (item.get(..model.len()), item.get(model.len()..).unwrap_or_default());
            let is_whole = rest.is_empty() || rest.starts_with([',', ' ']);
            is_whole && start.is_some_and(|start| start.eq_ignore_ascii_case(model))
        };
        let named = known.iter().filter(starts).max_by_key(|model| model.len());
        let (model, rest) = match named {
            Some(model) => (Some((*model).to_owned()), item.get(model.len()..).unwrap_or_default()),
            None => match item.rsplit_once(", ").filter(|(_, kind)| is_of_tokens(kind)) {
                Some((model, kind)) => (Some(model.to_owned()), kind),
                // A name of a model has no blanks, and those of tools have.
                None if !item.contains(' ') => (Some(item.to_owned()), ""),
                None => (only, item),
            },
        };
        let rest = rest.trim_start_matches([',', ' ']).to_lowercase();
        if rest.is_empty() || is_of_tokens(&rest) {
            let tier = ["batch", "flex", "priority"].into_iter().find(|tier| rest.contains(tier));
            return Self { model, kind: ItemKind::Tokens(tier) };
        }
        Self { model, kind: ItemKind::Tool(rest) }
    }
}

fn is_of_tokens(text: &str) -> bool {
    let text = text.to_lowercase();
    ["input", "output", "token"].iter().any(|word| text.contains(word))
}
