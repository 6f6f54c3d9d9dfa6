//! `model-gateway reconcile`: a ledger with known rows against reports with planted differences.

mod recorded;

use std::process::Output;

use gw_store::Store;
use gw_store::ledger::{Attempt, Entry, Tokens};
use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, FakeUpstream, Launch};
use serde_json::{Value, json};

use crate::harness::binary;

const ADMIN_KEY: &str = "sk-admin-canary-5512";

/// `m` and `other` cost 1 USD a million tokens in and 2 out, a tenth of it cached, twice of it written for an hour.
fn config(name: &str, api: &str, base_url: &str) -> String {
    let model = |model: &str| {
        format!(
            "[[models]]\nid = \"{name}/{model}\"\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, \
             cached_input_per_m = 0.1, cache_write_per_m = 1.25, cache_write_1h_per_m = 2.0 }}\n"
        )
    };
    format!(
        "[[providers]]\nname = \"{name}\"\napi = \"{api}\"\nbase_url = \"{base_url}\"\napi_key = \"sk-test\"\n{}{}\
         [[reconcile]]\nprovider = \"{name}\"\nadmin_key = \"{ADMIN_KEY}\"\nbase_url = \"{base_url}\"\n",
        model("m"),
        model("other"),
    )
}

/// 2026-11-20T00:00:00Z.
const MIDNIGHT: i64 = 1_795_132_800_000;
const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;

/// A chat of 1,000,000 and 500,000 tokens, which costs 2 USD, at this hour after the first midnight.
fn row(place: usize, provider: &str, model: &str, hour: i64) -> Entry {
    let at = MIDNIGHT + hour * HOUR;
    let bits = (u128::from(at.unsigned_abs()) << 80) | place as u128;
    Entry {
        request_id: String::from_utf8_lossy(&gw_wire::request_id::format(bits)).into_owned().into(),
        at,
        operation: "chat".into(),
        requested_model: model.to_owned(),
        model: format!("{provider}/{model}").into(),
        provider: provider.to_owned().into(),
        status: "ok".into(),
        strategy: "default".into(),
        tokens: Tokens { prompt: 1_000_000, completion: 500_000, ..Tokens::default() },
        cost: 2_000_000_000_000_000,
        ..Entry::default()
    }
}

async fn reconcile(config: &str, rows: &[Entry], args: &[&str]) -> Output {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let data = launch.dir().join("data");
    std::fs::create_dir_all(&data).expect("a directory");
    let store = Store::open(&data.join("gateway.db")).await.expect("a store");
    store.record(rows).await.expect("recorded");
    store.close().await;
    let launch = args.iter().fold(launch.arg("reconcile"), |launch, arg| launch.arg(*arg));
    // The reports' server runs on this thread.
    tokio::task::spawn_blocking(move || launch.run()).await.expect("the program runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

/// The row of a day and a model as `(ours, theirs, causes)`.
fn row_of(report: &Value, day: &str, model: &Value) -> (Value, Value, Vec<(String, Value)>) {
    let rows = report["days"].as_array().expect("days");
    let row = rows.iter().find(|row| row["day"] == day && row["model"] == *model);
    let row = row.unwrap_or_else(|| panic!("{day} {model}: {report:#}"));
    let causes = row["causes"].as_array().expect("causes").iter();
    let causes =
        causes.map(|cause| (cause["cause"].as_str().unwrap_or_default().to_owned(), cause["usd"].clone()));
    (row["ours"].clone(), row["theirs"].clone(), causes.collect())
}

const DAYS: [&str; 6] = ["--from", "2026-11-20", "--to", "2026-11-21", "--format", "json"];

fn args_of<'a>(provider: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    ["--provider", provider].into_iter().chain(DAYS).chain(more.iter().copied()).collect()
}

/// OpenAI's reports: the costs have two pages.
fn openai(request: &Recorded) -> Answer {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    assert_eq!(request.header("authorization"), Some(&*format!("Bearer {ADMIN_KEY}")));
    let (first, second) = (MIDNIGHT / 1000, (MIDNIGHT + DAY) / 1000);
    assert!(query.contains(&format!("start_time={first}&end_time={}&", second + 86_400)), "{query}");
    let cost = |value: Value, item: &str| json!({ "amount": { "value": value, "currency": "usd" }, "line_item": item });
    let usage = |model: &str, input: u64, output: u64, requests: u64| {
        json!({ "input_tokens": input, "output_tokens": output, "input_cached_tokens": 0, "model": model,
                "num_model_requests": requests })
    };
    let page = |data: Value, next: Option<&str>| {
        Answer::json(
            200,
            &json!({ "object": "page", "data": data, "has_more": next.is_some(), "next_page": next }),
        )
    };
    match path {
        "/v1/organization/usage/completions" => page(
            json!([
                { "start_time": first, "results": [usage("m-2026-01-02", 1_000_000, 500_000, 1)] },
                { "start_time": second, "results": [
                    usage("m-2026-01-02", 3_000_000, 1_500_000, 3), usage("new", 10, 5, 1),
                ] },
            ]),
            None,
        ),
        "/v1/organization/costs" if !query.contains("page=") => page(
            json!([{ "start_time": first, "results": [
                cost(json!(1), "m-2026-01-02, input"), cost(json!("1.00"), "m-2026-01-02, output"),
            ] }]),
            Some("page 2"),
        ),
        "/v1/organization/costs" if query.contains("page=page%202") => page(
            json!([{ "start_time": second, "results": [
                cost(json!(6.5), "m-2026-01-02, input"), cost(json!(0.25), "new, output"),
                cost(json!(0.03), "web search tool calls"),
            ] }]),
            None,
        ),
        _ => Answer::error(404, "x", "boom"),
    }
}

#[tokio::test]
async fn each_difference_from_openais_reports_has_its_cause() {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(openai);
    let config = config("openai", "openai", &upstream.base_url());
    let rows = [
        row(0, "openai", "m", 3),
        row(1, "openai", "m", 30),
        row(2, "openai", "m", 31),
        row(3, "openai", "other", 32),
        Entry { cache_hit: true, cost: 0, ..row(4, "openai", "m", 33) },
        row(5, "elsewhere", "m", 34),
    ];
    let output = reconcile(&config, &rows, &args_of("openai", &[])).await;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let report = report(&output);
    assert_eq!((&report["object"], &report["provider"]), (&json!("reconciliation"), &json!("openai")));
    assert_eq!((&report["from"], &report["to"]), (&json!("2026-11-20"), &json!("2026-11-21")));
    assert_eq!(row_of(&report, "2026-11-20", &json!("openai/m")), (json!(2), json!(2), Vec::new()));
    let causes = vec![("missing_here".to_owned(), json!(2)), ("price".to_owned(), json!(0.5))];
    assert_eq!(row_of(&report, "2026-11-21", &json!("openai/m")), (json!(4), json!(6.5), causes));
    let causes = vec![("missing_here".to_owned(), json!(0.25))];
    assert_eq!(row_of(&report, "2026-11-21", &json!("openai/new")), (json!(0), json!(0.25), causes));
    let causes = vec![("missing_there".to_owned(), json!(-2))];
    assert_eq!(row_of(&report, "2026-11-21", &json!("openai/other")), (json!(2), json!(0), causes));
    let causes = vec![("hosted_tools".to_owned(), json!(0.03))];
    assert_eq!(row_of(&report, "2026-11-21", &Value::Null), (json!(0), json!(0.03), causes));
    assert_eq!(report["total"], json!({ "ours_usd": 8, "theirs_usd": 8.78, "difference_usd": 0.78 }));
    // The same difference is below another threshold.
    let output = reconcile(&config, &rows, &args_of("openai", &["--threshold-percent", "8.9"])).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

/// An attempt at a model that cost this much, in cents.
fn attempt(model: &str, status: &'static str, cents: i128) -> Attempt {
    Attempt {
        provider: "openai".into(),
        model: format!("openai/{model}").into(),
        status: status.into(),
        latency_ms: 5,
        started_ms: 0,
        image_fetch_ms: 0,
        cost: Some(cents * 10_000_000_000_000),
        known_part: 0,
        reason: None,
    }
}

/// OpenAI's reports of one day with these pages.
fn one_day(usage: Value, costs: Value) -> impl Fn(&Recorded) -> Answer + Send + Sync + 'static {
    move |request| {
        let results = if request.path.contains("/usage/") { &usage } else { &costs };
        let data = json!([{ "start_time": MIDNIGHT / 1000, "results": results }]);
        Answer::json(200, &json!({ "data": data, "has_more": false, "next_page": null }))
    }
}

#[tokio::test]
async fn ids_of_one_model_and_tools_that_the_ledger_charged_agree_with_the_bill() {
    let upstream = FakeUpstream::start().await;
    let cost =
        |usd: f64, item: &str| json!({ "amount": { "value": usd, "currency": "usd" }, "line_item": item });
    let usage = json!([{ "input_tokens": 2_000_000, "output_tokens": 1_000_000, "model": "m", "num_model_requests": 2 }]);
    let costs = json!([cost(4.0, "m, input"), cost(0.03, "web search tool calls")]);
    upstream.respond_with(one_day(usage, costs));
    let config = config("openai", "openai", &upstream.base_url()).replace(
        "[[reconcile]]",
        "[[models]]\nid = \"openai/quick\"\nupstream_model = \"m\"\n\
         pricing = { official_input_per_m = 1.0, official_output_per_m = 2.0 }\n[[reconcile]]",
    );
    let rows = [
        row(0, "openai", "quick", 3),
        Entry {
            cost: 2_030_000_000_000_000,
            attempts: vec![attempt("m", "ok", 203)],
            ..row(1, "openai", "m", 4)
        },
    ];
    let output = reconcile(&config, &rows, &args_of("openai", &["--threshold-percent", "0"])).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let found = report(&output);
    assert_eq!(found["days"].as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(row_of(&found, "2026-11-20", &json!("openai/m")), (json!(4.03), json!(4.03), Vec::new()));
    // A call that was left for a fallback cost half a dollar here, and nothing there.
    let left = Entry {
        cost: 2_530_000_000_000_000,
        attempts: vec![attempt("other", "upstream_error", 50), attempt("m", "ok", 203)],
        ..rows[1].clone()
    };
    let output = reconcile(&config, &[rows[0].clone(), left], &args_of("openai", &[])).await;
    let causes = vec![("missing_there".to_owned(), json!(-0.5))];
    let found = row_of(&report(&output), "2026-11-20", &json!("openai/other"));
    assert_eq!(found, (json!(0.5), json!(0), causes));
}

#[tokio::test]
async fn a_report_that_breaks_off_is_unreadable_and_other_currencies_are_above_any_threshold() {
    let upstream = FakeUpstream::start().await;
    let config = config("openai", "openai", &upstream.base_url());
    upstream.respond_with(|_| Answer::json(200, &json!({ "data": [], "has_more": true, "next_page": null })));
    let output = reconcile(&config, &[], &args_of("openai", &[])).await;
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let page = json!({ "data": [], "has_more": true, "next_page": "again" });
    upstream.respond_with(move |_| Answer::json(200, &page));
    let output = reconcile(&config, &[], &args_of("openai", &[])).await;
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let costs = json!([{ "amount": { "value": 900, "currency": "eur" }, "line_item": "new, input" }]);
    upstream.respond_with(one_day(json!([]), costs));
    let output = reconcile(&config, &[], &args_of("openai", &["--threshold-percent", "100"])).await;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let causes = vec![("currency".to_owned(), json!(0))];
    assert_eq!(row_of(&report(&output), "2026-11-20", &json!("openai/new")), (json!(0), json!(0), causes));
}

/// Anthropic's reports of one request, whose cache writes are kept for an hour.
fn anthropic(request: &Recorded) -> Answer {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    assert_eq!(request.header("x-api-key"), Some(ADMIN_KEY));
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    assert!(query.contains("starting_at=2026-11-20T00:00:00Z&ending_at=2026-11-22T00:00:00Z"), "{query}");
    let bucket = |results: Value| {
        let data = json!([{ "starting_at": "2026-11-20T00:00:00Z", "ending_at": "2026-11-21T00:00:00Z", "results": results }]);
        Answer::json(200, &json!({ "data": data, "has_more": false, "next_page": null }))
    };
    match path {
        "/v1/organizations/usage_report/messages" => bucket(json!([{
            "uncached_input_tokens": 500_000, "cache_read_input_tokens": 0, "output_tokens": 500_000, "model": "m",
            "cache_creation": { "ephemeral_1h_input_tokens": 500_000, "ephemeral_5m_input_tokens": 0 },
            "service_tier": "standard",
        }])),
        "/v1/organizations/cost_report" => bucket(json!([{
            "currency": "USD", "amount": "250", "cost_type": "tokens", "model": "m", "service_tier": "standard",
        }])),
        _ => Answer::error(404, "x", "boom"),
    }
}

#[tokio::test]
async fn a_cache_write_that_anthropic_keeps_for_an_hour_is_named() {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(anthropic);
    let config = config("claude", "anthropic", &upstream.base_url());
    let tokens = Tokens { prompt: 1_000_000, completion: 500_000, cache_write: 500_000, ..Tokens::default() };
    // 0.5 for the prompt, 0.625 for the cache, 1 for the answer.
    let rows = [Entry { tokens, cost: 2_125_000_000_000_000, ..row(0, "claude", "m", 3) }];
    let output = reconcile(&config, &rows, &args_of("claude", &[])).await;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let causes = vec![("cache_lifetime".to_owned(), json!(0.375))];
    let found = row_of(&report(&output), "2026-11-20", &json!("claude/m"));
    assert_eq!(found, (json!(2.125), json!(2.5), causes));
    let long = Entry { cache_write_1h: 500_000, cost: 2_500_000_000_000_000, ..rows[0].clone() };
    let output = reconcile(&config, &[long], &args_of("claude", &["--threshold-percent", "0"])).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[tokio::test]
async fn a_report_whose_days_begin_at_another_hour_is_found() {
    let upstream = FakeUpstream::start().await;
    let day = |date: &str, requests: u64| {
        json!({ "date": date, "model": "m", "usage": 2 * requests, "requests": requests,
                "prompt_tokens": 1_000_000 * requests, "completion_tokens": 500_000 * requests })
    };
    let data = json!([day("2026-11-20", 3), day("2026-11-21", 2), day("2026-11-22", 9)]);
    upstream.respond_with(move |request| {
        assert!(request.path.starts_with("/v1/activity?"), "{}", request.path);
        Answer::json(200, &json!({ "data": data }))
    });
    let config = config("openrouter", "openai", &upstream.base_url());
    // The report's days end at 05:00 UTC of the next day.
    let hours = [8, 26, 27, 30, 52];
    let rows: Vec<Entry> =
        hours.iter().enumerate().map(|(place, hour)| row(place, "openrouter", "m", *hour)).collect();
    let output = reconcile(&config, &rows, &args_of("openrouter", &[])).await;
    let report = report(&output);
    let causes = |usd: i64| vec![("time_zone".to_owned(), json!(usd))];
    assert_eq!(row_of(&report, "2026-11-20", &json!("openrouter/m")), (json!(2), json!(6), causes(4)));
    assert_eq!(row_of(&report, "2026-11-21", &json!("openrouter/m")), (json!(6), json!(4), causes(-2)));
}

#[tokio::test]
async fn a_price_that_differs_names_the_costs_that_answers_stated() {
    let upstream = FakeUpstream::start().await;
    let day = json!({ "date": "2026-11-20", "model": "m", "usage": 5, "requests": 2,
                      "prompt_tokens": 2_000_000, "completion_tokens": 1_000_000 });
    upstream.respond_with(move |_| Answer::json(200, &json!({ "data": [day] })));
    let config = config("openrouter", "openai", &upstream.base_url());
    let stated = Entry { provider_cost: Some(2_500_000_000_000_000), ..row(0, "openrouter", "m", 3) };
    let output =
        reconcile(&config, &[stated, row(1, "openrouter", "m", 4)], &args_of("openrouter", &[])).await;
    let report = report(&output);
    let cause = &report["days"][0]["causes"][0];
    assert_eq!((&cause["cause"], &cause["usd"]), (&json!("price"), &json!(1)), "{report}");
    let detail = cause["detail"].as_str().expect("a detail");
    let expected = "the answers of 1 requests stated 2.5 USD, the ledger has 2 USD for them";
    assert!(detail.ends_with(expected), "{detail}");
}

#[tokio::test]
async fn what_cannot_be_compared_says_why_and_shows_no_key() {
    let upstream = FakeUpstream::start().await;
    let config = config("openai", "openai", &upstream.base_url());
    for (args, code, expected) in [
        (args_of("nobody", &[]), 2, "no [[reconcile]] has provider = \"nobody\""),
        (args_of("openai", &["--threshold-percent=-1"]), 2, "write a number of per cent"),
        (args_of("openai", &[]), 1, "/organization/usage/completions: the provider answers with status 401"),
    ] {
        upstream.respond_with(|_| Answer::error(401, "x", "boom"));
        let output = reconcile(&config, &[], &args).await;
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains(expected), "{}", text(&output));
        assert!(!text(&output).contains(ADMIN_KEY), "{}", text(&output));
    }
    for (from, to, expected) in [
        ("2026-11-31", "2026-12-01", "--from: write a date (2026-11-21) instead of '2026-11-31'"),
        ("2026-11-21", "2026-11-20", "--to must not be before --from"),
        ("2026-01-01", "2026-11-20", "at most 92 days"),
    ] {
        let args = ["--provider", "openai", "--from", from, "--to", to];
        let output = reconcile(&config, &[], &args).await;
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(expected), "{}", text(&output));
    }
}
