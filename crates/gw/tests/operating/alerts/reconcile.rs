//! The nightly comparison with a provider's bill: once a day, over restarts, and its difference is told.

use std::path::Path;

use gw_store::Store;
use gw_store::ledger::{Entry, Tokens};
use gw_testkit::postgres::Postgres;
use gw_testkit::upstream::Recorded;
use gw_testkit::wait::eventually_async;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch, eventually};
use gw_wire::calendar::{rfc3339, unix_seconds};
use serde_json::json;

use super::{alert, by_id, heard, receiver, verified};
use crate::harness::{ADMIN, binary};

const DAY: i64 = 86_400;

/// A chat of 1,000,000 and 500,000 tokens, which costs 2 USD.
fn row(day: i64) -> Entry {
    let at = (day * DAY + 3_600) * 1_000;
    Entry {
        request_id: String::from_utf8_lossy(&gw_wire::request_id::format(
            u128::from(at.unsigned_abs()) << 80,
        ))
        .into_owned()
        .into(),
        at,
        operation: "chat".into(),
        requested_model: "m".to_owned(),
        model: "openrouter/m".into(),
        provider: "openrouter".into(),
        status: "ok".into(),
        strategy: "default".into(),
        tokens: Tokens { prompt: 1_000_000, completion: 500_000, ..Tokens::default() },
        cost: 2_000_000_000_000_000,
        ..Entry::default()
    }
}

/// OpenRouter's activity: each of the last days cost this much.
fn activity(usd: f64) -> impl Fn(&Recorded) -> Answer + Send + Sync + 'static {
    move |request| {
        assert!(request.path.starts_with("/v1/activity?"), "{}", request.path);
        let today = unix_seconds().div_euclid(DAY);
        let day = |ago: i64| {
            let date: String = rfc3339((today - ago) * DAY).chars().take(10).collect();
            json!({ "date": date, "model": "m", "usage": usd, "requests": 1, "prompt_tokens": 1_000_000,
                    "completion_tokens": 500_000 })
        };
        Answer::json(200, &json!({ "data": [day(4), day(3), day(2), day(1)] }))
    }
}

fn config(reports: &FakeUpstream, receiver: &FakeUpstream, more: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n\
         [[providers]]\nname = \"openrouter\"\napi = \"openai\"\nbase_url = \"{url}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"openrouter/m\"\ncategory = [\"chat\"]\n\
         pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\" }}\n\
         [[reconcile]]\nprovider = \"openrouter\"\nadmin_key = \"sk-admin-canary-5512\"\nnightly = true\n{more}{alerts}",
        url = reports.base_url(),
        alerts = alert("ops", "\"reconcile\"", receiver),
    )
}

/// A ledger with a request of 2 USD on each of the last days.
async fn fill(store: Store) {
    let today = unix_seconds().div_euclid(DAY);
    let rows: Vec<Entry> = (1..=4).map(|ago| row(today - ago)).collect();
    store.record(&rows).await.expect("recorded");
    store.close().await;
}

async fn fill_file(data: &Path) {
    fill(Store::open(&data.join("gateway.db")).await.expect("a store")).await;
}

async fn start(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// The line of the metric, as soon as there is one.
async fn difference(gateway: &Gateway) -> String {
    let admin = gateway.client().with_key(ADMIN);
    eventually_async("the metric is there", async || {
        let page = admin.get("/metrics").await.ok().text();
        let line = page.lines().find(|line| line.starts_with("gateway_reconcile_difference_usd{"));
        if let Some(line) = line {
            return Some(line.to_owned());
        }
        None
    })
    .await
}

const HALF: &str = "gateway_reconcile_difference_usd{provider=\"openrouter\"} 0.5";

#[tokio::test]
async fn a_difference_is_told_once_also_after_a_restart() {
    let (reports, receiver) = (FakeUpstream::start().await, receiver().await);
    reports.respond_with(activity(2.5));
    let data = tempfile::tempdir().expect("a directory");
    fill_file(data.path()).await;
    let config = config(&reports, &receiver, "");
    let gateway = start(&config, data.path()).await;
    let told = verified(&heard(&receiver, 1).await[0]);
    assert_eq!(told["event"], "reconcile", "{told}");
    assert_eq!(told["data"], json!({ "kind": "provider", "name": "openrouter" }));
    assert_eq!(difference(&gateway).await, HALF);
    let _ = gateway.stop();
    let gateway = start(&config, data.path()).await;
    assert_eq!(difference(&gateway).await, HALF);
    // A message that the stop cut off before it was noted comes again, with its id.
    assert_eq!((reports.hits(), by_id(&receiver).len()), (1, 1), "the day is not compared again");
}

#[tokio::test]
async fn replicas_compare_a_day_once() {
    let postgres = Postgres::start();
    let (reports, receiver) = (FakeUpstream::start().await, receiver().await);
    reports.respond_with(activity(2.5));
    let url = postgres.database();
    fill(Store::open_url(&url).await.expect("a store")).await;
    let config = config(&reports, &receiver, &format!("[store]\nurl = \"{url}\"\n"));
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let first = start(&config, one.path()).await;
    assert_eq!(difference(&first).await, HALF);
    let second = start(&config, two.path()).await;
    assert_eq!(difference(&second).await, HALF);
    heard(&receiver, 1).await;
    assert_eq!((reports.hits(), by_id(&receiver).len()), (1, 1));
}

#[tokio::test]
async fn a_small_difference_and_a_report_that_cannot_be_read_are_not_told() {
    for (answer, more, line) in [
        (None, "threshold_percent = 20\n", "the provider's bill agrees with the ledger"),
        (Some(401), "", "the provider's bill is not compared"),
    ] {
        let (reports, receiver) = (FakeUpstream::start().await, receiver().await);
        match answer {
            Some(status) => reports.respond_with(move |_| Answer::error(status, "x", "boom")),
            None => reports.respond_with(activity(2.5)),
        }
        let data = tempfile::tempdir().expect("a directory");
        fill_file(data.path()).await;
        let gateway = start(&config(&reports, &receiver, more), data.path()).await;
        let logged = || gateway.stderr().into_iter().find(|found| found.contains(line));
        let found = eventually(line, logged).await;
        assert!(!found.contains("canary"), "{found}");
        assert_eq!(receiver.hits(), 0);
    }
}
