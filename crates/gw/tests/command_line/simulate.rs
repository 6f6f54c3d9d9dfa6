//! `model-gateway simulate`: the replay of a log with results that are computed by hand.

use std::process::Output;

use gw_store::Store;
use gw_store::ledger::{Attempt, Entry, Tokens};
use gw_testkit::Launch;
use serde_json::{Value, json};

use crate::harness::binary;

/// `acme/m` is expensive and fast, `beta/m` cheap and slow; `gamma/m` has no requests, only a prior.
const CONFIG: &str = r#"
[[providers]]
name = "acme"
api = "openai"
base_url = "http://127.0.0.1:1/v1"
[[providers]]
name = "beta"
api = "openai"
base_url = "http://127.0.0.1:2/v1"
[[providers]]
name = "gamma"
api = "openai"
base_url = "http://127.0.0.1:3/v1"

[[models]]
id = "acme/m"
pricing = { official_input_per_m = 10.0, official_output_per_m = 20.0 }
quality_scores = { overall = 50.0 }
[[models]]
id = "beta/m"
pricing = { official_input_per_m = 1.0, official_output_per_m = 2.0 }
quality_scores = { overall = 40.0 }
[[models]]
id = "gamma/m"
context_length = 4000
pricing = { official_input_per_m = 50.0, official_output_per_m = 50.0 }
quality_scores = { overall = 90.0 }
performance = { latency_p50_ms = 1234, availability = 99.0 }
[[models]]
id = "acme/free"
[[models]]
id = "beta/free"
"#;

/// 2026-11-20T12:00:00Z.
const NOON: i64 = 1_795_176_000_000;
const DAY: i64 = 86_400_000;
/// A dollar in femto-USD.
const DOLLAR: i128 = 1_000_000_000_000_000;

fn attempts(calls: &[(&str, &'static str, u64)]) -> Vec<Attempt> {
    let call = |(model, status, latency_ms): &(&str, &'static str, u64)| Attempt {
        provider: model.split('/').next().unwrap_or_default().into(),
        model: (*model).into(),
        status: (*status).into(),
        latency_ms: *latency_ms,
        cost: Some(0),
        started_ms: 0,
        image_fetch_ms: 0,
        known_part: 0,
        reason: None,
    };
    calls.iter().map(call).collect()
}

/// The `n`th id of that moment.
fn id(n: usize, at: i64) -> String {
    let bits = (u128::from(at.unsigned_abs()) << 80) | n as u128;
    String::from_utf8_lossy(&gw_wire::request_id::format(bits)).into_owned()
}

/// A chat of 1,000 and 500 tokens under the name `m`.
fn row(n: usize, at: i64, model: &str, cost: i128) -> Entry {
    Entry {
        request_id: id(n, at).into(),
        at,
        operation: "chat".into(),
        requested_model: "m".to_owned(),
        model: model.to_owned().into(),
        status: "ok".into(),
        strategy: "default".into(),
        tokens: Tokens { prompt: 1000, completion: 500, ..Tokens::default() },
        cost,
        latency_ms: 400,
        attempts: attempts(&[(model, "ok", 400)]),
        ..Entry::default()
    }
}

/// The cost of 1,000 and 500 tokens: 0.02 USD at `acme/m`, 0.002 USD at `beta/m`, 0.075 USD at `gamma/m`.
fn log() -> Vec<Entry> {
    let cent = DOLLAR / 100;
    let failed_over = [("acme/m", "upstream_error", 100), ("beta/m", "ok", 900)];
    vec![
        row(0, NOON, "acme/m", 2 * cent),
        Entry { stream: true, ttft_ms: Some(100), ..row(1, NOON + 1, "acme/m", 2 * cent) },
        Entry {
            latency_ms: 1000,
            attempts: attempts(&failed_over),
            ..row(2, NOON + DAY, "beta/m", cent / 5)
        },
        // The simulation cannot judge these rows.
        Entry {
            status: "upstream_error".into(),
            cost: 0,
            attempts: Vec::new(),
            ..row(3, NOON + 3, "acme/m", 0)
        },
        Entry { operation: "embeddings".into(), ..row(4, NOON + 4, "acme/m", cent) },
        Entry { cache_hit: true, ..row(5, NOON + 5, "acme/m", 0) },
        Entry { requested_model: "gone".to_owned(), ..row(6, NOON + 6, "gone/gone", cent) },
        Entry { requested_model: "acme/m".to_owned(), ..row(7, NOON + 7, "acme/m", 2 * cent) },
        Entry { fallback: true, ..row(8, NOON + 8, "acme/other", cent) },
        Entry { requested_model: "free".to_owned(), ..row(9, NOON + 9, "beta/free", 0) },
    ]
}

async fn launch(entries: &[Entry]) -> Launch {
    let launch = Launch::new(binary()).file("gateway.toml", CONFIG);
    let data = launch.dir().join("data");
    std::fs::create_dir_all(&data).expect("a directory");
    let store = Store::open(&data.join("gateway.db")).await.expect("a store");
    store.record(entries).await.expect("recorded");
    store.close().await;
    launch
}

async fn simulate(entries: &[Entry], args: &[&str]) -> Output {
    let launch = launch(entries).await.arg("simulate");
    args.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn report(strategy: &str) -> Value {
    let args = ["--strategy", strategy, "--since", "2026-11-20", "--until", "2026-11-22", "--json"];
    let output = simulate(&log(), &args).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    serde_json::from_slice(&output.stdout).expect("a document")
}

#[tokio::test]
async fn the_cheapest_strategy_moves_what_was_dear_and_says_what_it_would_have_cost() {
    let report = report("cost").await;
    assert_eq!((&report["object"], &report["strategy"]), (&json!("simulation"), &json!("cheapest")));
    let total = &report["total"];
    assert_eq!((&total["requests"], &total["moved"]), (&json!(3), &json!(2)), "{report}");
    // Recorded: two requests of 0.02 USD and one of 0.002 USD. Replayed: three of 0.002 USD.
    assert_eq!((&total["cost_usd"]["was"], &total["cost_usd"]["would_be"]), (&json!(0.042), &json!(0.006)));
    // beta answers plain requests in 900 ms. Streams have no measurement, so the plain time counts for them.
    assert_eq!(total["latency_ms"], json!({ "was": 600.0, "would_be": 900.0 }));
    assert_eq!(total["first_token_ms"], json!({ "was": null, "would_be": null }));
    assert_eq!(total["failing_percent"], 0.0);
    let days: Vec<(&str, u64)> = report["days"]
        .as_array()
        .expect("days")
        .iter()
        .map(|day| (day["day"].as_str().expect("a day"), day["requests"].as_u64().expect("a count")))
        .collect();
    assert_eq!(days, [("2026-11-20", 2), ("2026-11-21", 1)]);
    assert_eq!(
        report["not_judged"],
        json!({ "failed": 1, "no_strategy": 1, "cached": 1, "unknown_name": 1, "no_choice": 1,
                "served_elsewhere": 1, "unpriced": 1 })
    );
    let model = |id: &str| {
        let models = report["models"].as_array().expect("models");
        models.iter().find(|row| row["model"] == id).unwrap_or_else(|| panic!("{id}: {report}")).clone()
    };
    let (acme, beta) = (model("acme/m"), model("beta/m"));
    assert_eq!((&acme["served"], &acme["would_serve"]), (&json!(2), &json!(0)));
    assert_eq!((&beta["served"], &beta["would_serve"]), (&json!(1), &json!(3)));
    // Three answers, one of them by its own id, and a failure. 500 tokens took 300 ms after the first one.
    assert_eq!((&acme["calls"], &acme["failed_percent"]), (&json!(4), &json!(25.0)));
    assert_eq!((&acme["first_token_ms"], &acme["stream_ms"]), (&json!(100.0), &json!(400.0)));
    assert!((acme["tokens_per_second"].as_f64().expect("a speed") - 1666.67).abs() < 0.01, "{acme}");
}

#[tokio::test]
async fn each_strategy_picks_as_it_does_for_a_request() {
    // The catalogue's first model: both requests of acme stay, and the failed-over one returns with acme's failure rate.
    let first = report("default").await;
    assert_eq!((&first["total"]["requests"], &first["total"]["moved"]), (&json!(3), &json!(1)));
    assert_eq!(first["total"]["cost_usd"], json!({ "was": 0.042, "would_be": 0.06 }));
    assert_eq!(first["total"]["latency_ms"]["would_be"], 425.0, "400 ms, and 100 lost in one call of four");
    assert_eq!(first["total"]["first_token_ms"], json!({ "was": 100.0, "would_be": 125.0 }));
    assert_eq!(first["total"]["failing_percent"], 25.0);
    // The best model has no requests: its prior counts, and it has no failures.
    let best = report("best_quality").await;
    assert_eq!((&best["total"]["moved"], &best["total"]["cost_usd"]["would_be"]), (&json!(3), &json!(0.225)));
    assert_eq!(best["total"]["latency_ms"]["would_be"], 1234.0);
    assert_eq!(best["total"]["failing_percent"], Value::Null);
    // The prompt exceeds the model's context, so the model is left out.
    let mut long = row(0, NOON, "acme/m", DOLLAR);
    long.tokens.prompt = 5000;
    let args = ["--strategy", "best_quality", "--since", "2026-11-20", "--until", "2026-11-22", "--json"];
    let output = simulate(&[long], &args).await;
    let told: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(
        (&told["total"]["moved"], &told["models"][0]["model"]),
        (&json!(0), &json!("acme/m")),
        "{told}"
    );
}

#[tokio::test]
async fn a_window_and_more_rows_than_a_page_are_counted_once_each() {
    let entries: Vec<Entry> =
        (0..2345).map(|n| row(n, NOON + i64::try_from(n / 10).unwrap(), "beta/m", DOLLAR / 500)).collect();
    let args = ["--strategy", "cheapest", "--since", "2026-11-20", "--until", "2026-11-21", "--json"];
    let output = simulate(&entries, &args).await;
    let told: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!((&told["total"]["requests"], &told["total"]["moved"]), (&json!(2345), &json!(0)), "{told}");
    assert_eq!(told["total"]["cost_usd"], json!({ "was": 4.69, "would_be": 4.69 }));
    let args = ["--strategy", "cheapest", "--since", "2026-11-21", "--until", "2026-11-22", "--json"];
    let told: Value = serde_json::from_slice(&simulate(&log(), &args).await.stdout).expect("a document");
    assert_eq!(told["total"]["requests"], 1, "{told}");
}

#[tokio::test]
async fn the_table_says_what_it_assumes_and_what_it_leaves_out() {
    let args = ["--strategy", "cheapest", "--since", "2026-11-20", "--until", "2026-11-22"];
    let output = simulate(&log(), &args).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let table = text(&output);
    assert!(
        table.starts_with("strategy cheapest over 3 of 10 requests, 2026-11-20T00:00:00.000Z to"),
        "{table}"
    );
    let total = table.lines().find(|line| line.starts_with("total")).expect("a total");
    assert_eq!(
        total.split_whitespace().collect::<Vec<_>>()[..5],
        ["total", "3", "2", "0.042", "0.006"],
        "{table}"
    );
    for part in [
        "2026-11-21",
        "acme/m",
        "skipped: 1 failed, 1 without a text to write",
        "assumptions:",
        "token counts, cached tokens included, stay as they were",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let empty = simulate(&[], &["--strategy", "cheapest"]).await;
    assert!(text(&empty).contains("over 0 of 0 requests"), "{}", text(&empty));
}

#[tokio::test]
async fn what_cannot_be_replayed_is_exit_code_2() {
    for (args, word) in [
        (vec!["--strategy", "least_busy"], "requests in flight"),
        (vec!["--strategy", "luckiest"], "best_quality"),
        (vec![], "--strategy"),
        (vec!["--strategy", "cheapest", "--since", "soon"], "soon"),
        (vec!["--strategy", "cheapest", "--since", "1d", "--until", "2d"], "--until"),
    ] {
        let output = simulate(&[], &args).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
        assert!(text(&output).contains(word), "{args:?}: {}", text(&output));
    }
}
