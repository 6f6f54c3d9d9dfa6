//! docs/what-is-counted.md explains each figure of tokens, cost and time that the gateway shows, and no other.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::table::METRICS;
use crate::harness::{chat, world};

const PAGE: &str = "docs/what-is-counted.md";

/// Settings and times of waiting that have the form of a figure.
const SETTINGS: [&str; 18] = [
    "budget_tokens",
    "budget_usd",
    "cacheReadInputTokenCount",
    "gateway_per_second",
    "grace_seconds",
    "idle_seconds",
    "inputTokenCount",
    "limit_usd",
    "max_completion_tokens",
    "max_cost_usd",
    "max_input_tokens",
    "max_output_tokens",
    "max_tokens",
    "min_tokens",
    "official_per_second",
    "outputTokenCount",
    "timeout_ms",
    "total_ms",
];

/// Figures that no document of the HTTP API has: those of `reconcile` and of the messages of alerts.
const ELSEWHERE: [&str; 4] = ["difference_usd", "ours_usd", "spend_usd", "theirs_usd"];

/// Figures whose names have no unit.
const UNITLESS: [&str; 5] = ["cost", "duration", "requests", "tokens", "units"];

const ENDS: [&str; 12] = [
    "_tokens",
    "_usd",
    "_ms",
    "_seconds",
    "_requests",
    "TokenCount",
    "totalTokens",
    "requests_left",
    "tokens_left",
    "_per_minute",
    "_per_second",
    "_token_usage",
];

fn is_figure(name: &str) -> bool {
    let has_form = ENDS.iter().any(|end| name.ends_with(end)) || UNITLESS.contains(&name);
    has_form && !SETTINGS.contains(&name)
}

/// The names of members of objects anywhere in an OpenAPI document.
fn members(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                found.extend(properties.keys().filter(|name| is_figure(name)).cloned());
            }
            object.values().for_each(|value| members(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| members(value, found)),
        _ => {}
    }
}

/// The figures of the table of metrics, as a scrape shows them.
fn metrics() -> impl Iterator<Item = String> {
    let is_figure = |name: &str| {
        let parts = ["token", "usd", "seconds", "price"];
        let is_other = name.contains("timestamp") || !parts.iter().any(|part| name.contains(part));
        !is_other || name.ends_with("unpriced_requests")
    };
    METRICS.iter().filter(move |metric| is_figure(metric.name)).map(|metric| match metric.kind {
        super::table::Kind::Counter => format!("{}_total", metric.name),
        _ => metric.name.to_owned(),
    })
}

#[tokio::test]
async fn every_figure_is_explained() {
    let world = world().await;
    let document = world.client.get("/openapi.json").await.ok().json();
    let mut figures = BTreeSet::new();
    members(&document, &mut figures);
    let answer = world.chat(&chat("acme/fast")).await.ok();
    let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
    figures.extend(line.as_object().expect("an object").keys().filter(|name| is_figure(name)).cloned());
    figures.extend(metrics());
    figures.extend(ELSEWHERE.map(str::to_owned));

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = std::fs::read_to_string(path).expect(PAGE);
    let table =
        page.split_once("<!-- figures -->").and_then(|(_, rest)| rest.split_once("<!-- /figures -->"));
    let rows = table.expect("a table").0.lines().filter_map(|line| line.strip_prefix("| `"));
    let explained: Vec<String> =
        rows.map(|row| row.split('`').next().unwrap_or_default().to_owned()).collect();
    let known: BTreeSet<String> = explained.iter().cloned().collect();
    assert_eq!(explained.len(), known.len(), "a figure has one row");
    let missing: Vec<_> = figures.difference(&known).collect();
    assert!(missing.is_empty(), "{PAGE} does not explain {missing:?}");
    let gone: Vec<_> = known.difference(&figures).collect();
    assert!(gone.is_empty(), "{PAGE} explains figures that nothing shows: {gone:?}");
    for row in table.expect("a table").0.lines().filter(|line| line.starts_with("| `")) {
        assert_eq!(row.matches(" | ").count(), 4, "a row has a meaning, a source and a unit: {row}");
    }
}
