//! Reports in the published shape of each provider, with twelve planted differences in all. Each has its cause, and nothing else has one.
//!
//! The members are those of the examples of platform.openai.com/docs/api-reference/usage, platform.claude.com/docs/en/api/admin-api/usage-cost
//! and openrouter.ai/docs/api-reference/analytics, read November 2026.

use std::collections::BTreeMap;

use super::{
    Answer, Entry, FakeUpstream, MIDNIGHT, Recorded, Tokens, Value, args_of, attempt, config, json,
    reconcile, report, row, text,
};

const DAY_SECONDS: i64 = 86_400;

/// The configuration with these models more, at the prices of `m`.
fn with_models(config: &str, provider: &str, models: &[&str]) -> String {
    let model = |name: &&str| {
        format!(
            "[[models]]\nid = \"{provider}/{name}\"\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, \
             cached_input_per_m = 0.1, cache_write_per_m = 1.25, cache_write_1h_per_m = 2.0 }}\n"
        )
    };
    config.replace("[[reconcile]]", &format!("{}[[reconcile]]", models.iter().map(model).collect::<String>()))
}

/// The causes with their amounts of each day and model that has some. Each difference is the sum of its causes.
fn causes_of(report: &Value) -> BTreeMap<(String, String), Vec<(String, f64)>> {
    let mut all = BTreeMap::new();
    for row in report["days"].as_array().expect("days") {
        let causes = row["causes"].as_array().expect("causes").iter();
        let causes: Vec<_> = causes
            .map(|cause| {
                assert!(cause["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{row}");
                (
                    cause["cause"].as_str().unwrap_or_default().to_owned(),
                    cause["usd"].as_f64().unwrap_or_default(),
                )
            })
            .collect();
        let sum: f64 = causes.iter().map(|(_, usd)| usd).sum();
        let difference = row["difference_usd"].as_f64().expect("an amount");
        assert!((sum - difference).abs() < 1e-12, "{row}");
        if !causes.is_empty() {
            let text = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
            all.insert((text("day"), text("model")), causes);
        }
    }
    all
}

/// The planted differences, in the form of [`causes_of`].
fn planted(list: &[(&str, &str, &str, f64)]) -> BTreeMap<(String, String), Vec<(String, f64)>> {
    let mut all: BTreeMap<(String, String), Vec<(String, f64)>> = BTreeMap::new();
    for (day, model, cause, usd) in list {
        all.entry(((*day).to_owned(), (*model).to_owned())).or_default().push(((*cause).to_owned(), *usd));
    }
    all
}

/// A bucket of OpenAI's reports.
fn openai_bucket(results: &[Value]) -> Value {
    let start = MIDNIGHT / 1000;
    json!({ "object": "bucket", "start_time": start, "end_time": start + DAY_SECONDS, "results": results })
}

/// A million tokens of prompts and half a million of answers for each request.
fn openai_usage(model: &str, requests: u64, more: &Value) -> Value {
    let mut result = json!({
        "object": "organization.usage.completions.result", "input_tokens": 1_000_000 * requests,
        "output_tokens": 500_000 * requests, "input_cached_tokens": 0, "input_audio_tokens": 0, "output_audio_tokens": 0,
        "num_model_requests": requests, "project_id": null, "user_id": null, "api_key_id": null, "model": model,
        "batch": false, "service_tier": "default",
    });
    result.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    result
}

fn openai_cost(line_item: &str, value: &Value, currency: &str) -> Value {
    json!({
        "object": "organization.costs.result", "amount": { "value": value, "currency": currency },
        "line_item": line_item, "project_id": null, "organization_id": "org-123",
    })
}

fn openai(request: &Recorded) -> Answer {
    let usage = vec![
        openai_usage("gpt-same-2026-01-02", 1, &json!({})),
        openai_usage("gpt-more", 2, &json!({})),
        openai_usage("gpt-less", 1, &json!({})),
        openai_usage("gpt-dear", 1, &json!({})),
        openai_usage("gpt-cached", 1, &json!({ "input_cached_tokens": 500_000 })),
        openai_usage("gpt-batch", 1, &json!({ "batch": true, "service_tier": null })),
        openai_usage("gpt-flex", 1, &json!({ "service_tier": "flex" })),
        openai_usage("gpt-ghost", 1, &json!({})),
        openai_usage("gpt-free", 1, &json!({})),
    ];
    let usd = |item: &str, value: Value| openai_cost(item, &value, "usd");
    let costs = vec![
        // An amount is a number or a string.
        usd("gpt-same-2026-01-02, input", json!("1.000000000000000000")),
        usd("gpt-same-2026-01-02, output", json!(1.0)),
        usd("gpt-more, input", json!(2)),
        usd("gpt-more, output", json!(2)),
        usd("gpt-less, input", json!(1)),
        usd("gpt-less, output", json!(1)),
        usd("gpt-dear, input", json!(1.5)),
        usd("gpt-dear, output", json!(1)),
        usd("gpt-cached, input", json!(0.5)),
        usd("gpt-cached, cached input", json!(0.05)),
        usd("gpt-cached, output", json!(1)),
        usd("gpt-batch, batch input", json!(0.5)),
        usd("gpt-batch, batch output", json!(0.5)),
        usd("gpt-flex, input", json!(0.5)),
        usd("gpt-flex, output", json!(0.5)),
        usd("gpt-ghost, input", json!(1)),
        usd("gpt-free, output", json!(0.25)),
        openai_cost("gpt-euro, input", &json!(1.8), "eur"),
        usd("web search tool calls", json!(0.03)),
    ];
    let results = if request.path.contains("/usage/") { usage } else { costs };
    // Two pages, so that no difference comes from the end of the first one.
    let (first, second) = results.split_at(results.len() / 2);
    let is_second = request.path.contains("page=page_2");
    let (results, next) = if is_second { (second, Value::Null) } else { (first, json!("page_2")) };
    let page = json!({ "object": "page", "data": [openai_bucket(results)], "has_more": !is_second, "next_page": next });
    Answer::json(200, &page)
}

const MICRO: i128 = 1_000_000_000;

#[tokio::test]
async fn each_planted_difference_from_openais_reports_has_its_cause_and_nothing_else_has_one() {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(openai);
    let models = ["same", "more", "less", "dear", "cached", "batch", "flex", "gone", "euro"];
    let models = models.map(|name| format!("gpt-{name}"));
    let names: Vec<&str> = models.iter().map(String::as_str).collect();
    let config = with_models(&config("openai", "openai", &upstream.base_url()), "openai", &names);
    let config = config.replace("[[reconcile]]", "[[models]]\nid = \"openai/gpt-free\"\n[[reconcile]]");
    let mut rows: Vec<Entry> =
        names.iter().enumerate().map(|(place, name)| row(place, "openai", name, 3)).collect();
    rows.push(row(20, "openai", "gpt-less", 4));
    for cached in rows.iter_mut().filter(|row| *row.model == *"openai/gpt-cached") {
        cached.tokens.cached = 500_000;
        cached.cost = 1_550_000 * MICRO;
    }
    rows.push(Entry { cost: 0, unpriced: true, ..row(21, "openai", "gpt-free", 5) });
    let output = reconcile(&config, &rows, &args_of("openai", &[])).await;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let day = "2026-11-20";
    let expected = planted(&[
        (day, "-", "hosted_tools", 0.03),
        (day, "openai/gpt-more", "missing_here", 2.0),
        (day, "openai/gpt-ghost", "missing_here", 1.0),
        (day, "openai/gpt-less", "missing_there", -2.0),
        (day, "openai/gpt-gone", "missing_there", -2.0),
        (day, "openai/gpt-dear", "price", 0.5),
        (day, "openai/gpt-free", "price", 0.25),
        (day, "openai/gpt-batch", "tier", -1.0),
        (day, "openai/gpt-flex", "tier", -1.0),
        (day, "openai/gpt-euro", "currency", -2.0),
    ]);
    assert_eq!(causes_of(&report(&output)), expected, "{}", text(&output));
}

/// A bucket of Anthropic's reports.
fn anthropic_bucket(results: &[Value]) -> Value {
    json!({ "starting_at": "2026-11-20T00:00:00Z", "ending_at": "2026-11-21T00:00:00Z", "results": results })
}

fn anthropic_usage(model: &str, [uncached, read, short, long, output]: [u64; 5], tier: &str) -> Value {
    json!({
        "uncached_input_tokens": uncached,
        "cache_creation": { "ephemeral_1h_input_tokens": long, "ephemeral_5m_input_tokens": short },
        "cache_read_input_tokens": read, "output_tokens": output, "server_tool_use": { "web_search_requests": 10 },
        "api_key_id": null, "workspace_id": null, "model": model, "service_tier": tier, "context_window": "0-200k",
    })
}

/// A cost in cents.
fn anthropic_cost(model: &str, cents: &str, token_type: &str, tier: &str) -> Value {
    json!({
        "currency": "USD", "amount": cents, "workspace_id": null, "description": format!("{model} Usage - {token_type}"),
        "cost_type": "tokens", "context_window": "0-200k", "model": model, "service_tier": tier, "token_type": token_type,
    })
}

fn anthropic(request: &Recorded) -> Answer {
    let half = 500_000;
    let usage = vec![
        anthropic_usage("claude-same-20260102", [1_000_000, 0, 0, 0, half], "standard"),
        anthropic_usage("claude-life", [half, 0, 0, half, half], "standard"),
        anthropic_usage("claude-batch", [1_000_000, 0, 0, 0, half], "batch"),
        anthropic_usage("claude-dear", [half, half, 0, 0, half], "standard"),
    ];
    let standard = |model: &str, cents: &str, kind: &str| anthropic_cost(model, cents, kind, "standard");
    let web_search = json!({
        "currency": "USD", "amount": "10.000000", "workspace_id": null, "description": "Web Search Usage",
        "cost_type": "web_search", "context_window": null, "model": null, "service_tier": null, "token_type": null,
    });
    let costs = vec![
        standard("claude-same-20260102", "100.000000", "uncached_input_tokens"),
        standard("claude-same-20260102", "100.000000", "output_tokens"),
        standard("claude-life", "50", "uncached_input_tokens"),
        standard("claude-life", "100", "cache_creation.ephemeral_1h_input_tokens"),
        standard("claude-life", "100", "output_tokens"),
        anthropic_cost("claude-batch", "50.0", "uncached_input_tokens", "batch"),
        anthropic_cost("claude-batch", "50.0", "output_tokens", "batch"),
        standard("claude-dear", "50", "uncached_input_tokens"),
        standard("claude-dear", "10", "cache_read_input_tokens"),
        standard("claude-dear", "100", "output_tokens"),
        web_search,
    ];
    let results = if request.path.contains("/usage_report/") { usage } else { costs };
    let (first, second) = results.split_at(results.len() / 2);
    let is_second = request.path.contains("page=page_MjAy");
    let (results, next) = if is_second { (second, Value::Null) } else { (first, json!("page_MjAy")) };
    Answer::json(
        200,
        &json!({ "data": [anthropic_bucket(results)], "has_more": !is_second, "next_page": next }),
    )
}

#[tokio::test]
async fn each_planted_difference_from_anthropics_reports_has_its_cause_and_nothing_else_has_one() {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(anthropic);
    let models = ["claude-same", "claude-life", "claude-batch", "claude-dear"];
    let config = with_models(&config("claude", "anthropic", &upstream.base_url()), "claude", &models);
    let mut rows: Vec<Entry> =
        models.iter().enumerate().map(|(place, name)| row(place, "claude", name, 3)).collect();
    // Half of the prompt was written for five minutes here, and half of another one was read.
    rows[1].tokens = Tokens { cache_write: 500_000, ..rows[1].tokens };
    rows[1].cost = 2_125_000 * MICRO;
    rows[3].tokens = Tokens { cached: 500_000, ..rows[3].tokens };
    rows[3].cost = 1_550_000 * MICRO;
    let output = reconcile(&config, &rows, &args_of("claude", &[])).await;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let day = "2026-11-20";
    let expected = planted(&[
        (day, "-", "hosted_tools", 0.1),
        (day, "claude/claude-batch", "tier", -1.0),
        // 500,000 tokens that were read cost ten cents there and five here.
        (day, "claude/claude-dear", "price", 0.05),
        (day, "claude/claude-life", "cache_lifetime", 0.375),
    ]);
    assert_eq!(causes_of(&report(&output)), expected, "{}", text(&output));
}

fn activity(date: &str, model: &str, requests: u64, usage: f64) -> Value {
    json!({
        "date": date, "model": model, "model_permaslug": format!("{model}-2026-01-02"),
        "endpoint_id": "550e8400-e29b-41d4-a716-446655440000", "provider_name": "OpenAI", "usage": usage,
        "byok_usage_inference": 0.012, "requests": requests, "prompt_tokens": 1_000_000 * requests,
        "completion_tokens": 500_000 * requests, "reasoning_tokens": 25,
    })
}

#[tokio::test]
async fn each_planted_difference_from_openrouters_report_has_its_cause_and_nothing_else_has_one() {
    let upstream = FakeUpstream::start().await;
    let (first, second) = ("2026-11-20", "2026-11-21");
    let data = json!([
        // The days of this model begin at 05:00 UTC.
        activity(first, "m", 3, 6.0),
        activity(second, "m", 2, 4.0),
        activity(first, "acme/same", 1, 2.0),
        activity(first, "other:free", 1, 2.5),
        activity(second, "acme/ghost", 1, 0.75),
    ]);
    upstream.respond_with(move |_| Answer::json(200, &json!({ "data": data })));
    let config = config("openrouter", "openai", &upstream.base_url());
    let config = with_models(&config, "openrouter", &["acme/same"]);
    let hours = [8, 26, 27, 30, 52];
    let mut rows: Vec<Entry> =
        hours.iter().enumerate().map(|(place, hour)| row(place, "openrouter", "m", *hour)).collect();
    rows.push(row(10, "openrouter", "acme/same", 3));
    rows.push(row(11, "openrouter", "other", 3));
    // A call that was left for a fallback costs something here, and is not in the report.
    let mut left = attempt("x", "upstream_error", 50);
    (left.provider, left.model) = ("openrouter".into(), "openrouter/acme/same".into());
    let mut served = attempt("x", "ok", 200);
    (served.provider, served.model) = ("openrouter".into(), "openrouter/other".into());
    rows[6].attempts = vec![left, served];
    rows[6].cost = 2_500_000 * MICRO;
    let output = reconcile(&config, &rows, &args_of("openrouter", &[])).await;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let expected = planted(&[
        (first, "openrouter/acme/same", "missing_there", -0.5),
        (first, "openrouter/m", "time_zone", 4.0),
        (second, "openrouter/m", "time_zone", -2.0),
        (first, "openrouter/other", "price", 0.5),
        (second, "openrouter/acme/ghost", "missing_here", 0.75),
    ]);
    assert_eq!(causes_of(&report(&output)), expected, "{}", text(&output));
}
