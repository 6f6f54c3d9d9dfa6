//! Events of the gateway's own state: the ledger, the certificate, the catalogue and the sums of days.

use std::path::Path;

use gw_store::Store;
use gw_store::ledger::Entry;
use gw_testkit::certificate::Certificate;
use gw_testkit::upstream::Recorded;
use gw_testkit::wait::eventually_async;
use gw_testkit::{Answer, ClosedUpstream, FakeUpstream, Faketime, Gateway, Launch, eventually};
use serde_json::{Value, json};

use super::{CHAT, SECRET, alert, ask, by_id, heard, limited, receiver, verified};
use crate::harness::database::{open, run};
use crate::harness::management::CONFIG;
use crate::harness::{ADMIN, binary};

const ALL: &str =
    "\"ledger_lag\", \"certificate_expiring\", \"catalogue_old\", \"cost_rise\", \"error_rise\"";

/// The events of these messages, with their data.
fn told(messages: &[std::sync::Arc<Recorded>]) -> Vec<(String, Value)> {
    let event = |message: &std::sync::Arc<Recorded>| {
        let body = verified(message);
        (body["event"].as_str().unwrap_or_default().to_owned(), body["data"].clone())
    };
    let mut all: Vec<_> = messages.iter().map(event).collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

#[tokio::test]
async fn a_certificate_that_ends_within_three_weeks_and_an_old_catalogue_are_told() {
    // The catalogue of the program is from 2026.
    for (date, expected) in [
        ("@2049-12-05 12:00:00", vec!["catalogue_old"]),
        ("@2049-12-20 12:00:00", vec!["catalogue_old", "certificate_expiring"]),
    ] {
        let receiver = receiver().await;
        let certificate = Certificate::ending(&["localhost"], (2050, 1, 1));
        let config = CONFIG
            .replace("[server]\n", "[server]\ntls = { cert = \"cert.pem\", key = \"key.pem\" }\n")
            + &alert("ops", ALL, &receiver);
        let launch = Launch::new(binary())
            .file("gateway.toml", config)
            .file("cert.pem", certificate.pem)
            .file("key.pem", certificate.key_pem);
        let clock = Faketime::at(date);
        let _gateway = clock.apply(launch).start().await;
        let messages = heard(&receiver, expected.len()).await;
        let found = told(&messages);
        let events: Vec<&str> = found.iter().map(|(event, _)| &**event).collect();
        assert_eq!(events, expected, "{date}");
        assert_eq!(found[0].1["kind"], "catalogue");
        assert!(found[0].1["name"].as_str().is_some_and(|name| name.starts_with("2026-")), "{found:?}");
        if let Some((_, data)) = found.get(1) {
            assert_eq!(data["kind"], "certificate");
            assert!(data["name"].as_str().is_some_and(|name| name.ends_with("cert.pem")), "{data}");
        }
    }
}

const DAY: i64 = 86_400_000;
/// 2026-11-18T00:00:00Z, a day before the gateway's.
const LAST: i64 = 1_794_960_000_000;

/// Requests of a day: so many failed, and each of 100 costs this much in femto-USD.
fn requests(day: i64, failed: usize, cost: i128) -> Vec<Entry> {
    let row = |number: usize| {
        let at = day + 3_600_000 + i64::try_from(number).expect("a number");
        let bits = (u128::from(at.unsigned_abs()) << 80) | number as u128;
        Entry {
            request_id: String::from_utf8_lossy(&gw_wire::request_id::format(bits)).into_owned().into(),
            at,
            status: if number < failed { "upstream_error" } else { "ok" }.to_owned().into(),
            cost,
            ..Entry::default()
        }
    };
    (0..100).map(row).collect()
}

#[tokio::test]
async fn a_day_that_costs_more_and_one_that_fails_more_often_than_a_week_before_are_told() {
    const CENTS: i128 = 10_000_000_000_000;
    let day = |kind: &str| (kind.to_owned(), json!({ "kind": "day", "name": "2026-11-18" }));
    for ((failed, cost), expected) in [
        ((20, 2 * CENTS), vec![day("cost_rise"), day("error_rise")]),
        ((20, CENTS), vec![day("error_rise")]),
        ((19, 2 * CENTS), vec![day("cost_rise")]),
    ] {
        let receiver = receiver().await;
        let config = format!("{CONFIG}[store]\nretention_days = 0\n{}", alert("ops", ALL, &receiver));
        let launch = Launch::new(binary()).file("gateway.toml", config);
        let data = launch.dir().join("data");
        std::fs::create_dir_all(&data).expect("a directory");
        let store = Store::open(&data.join("gateway.db")).await.expect("a store");
        let rows = [requests(LAST, failed, cost), requests(LAST - 7 * DAY, 1, CENTS)].concat();
        store.record(&rows).await.expect("recorded");
        store.close().await;
        let clock = Faketime::at("@2026-11-19 12:00:00");
        let gateway = clock.apply(launch).start().await;
        let messages = heard(&receiver, expected.len()).await;
        assert_eq!(told(&messages), expected, "{failed} {cost}");
        let queued = gateway.stderr().iter().filter(|line| line.contains("an alert is queued")).count();
        assert_eq!(queued, expected.len(), "{failed} {cost}");
    }
}

async fn start(config: &str, data: &Path, clock: &Faketime) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let launch = launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy());
    // The age of a row is measured by the monotonic clock.
    clock.apply(launch).env("FAKETIME_DONT_FAKE_MONOTONIC", "0").start().await
}

#[tokio::test]
async fn rows_that_wait_for_a_minute_are_told_while_the_store_takes_nothing_and_once() {
    let (data, receiver) = (tempfile::tempdir().expect("a directory"), receiver().await);
    let upstream = FakeUpstream::start().await;
    let config = limited("1.0", &alert("ops", "\"ledger_lag\"", &receiver))
        .config(&upstream.base_url(), &upstream.base_url());
    let clock = Faketime::at("+0");
    let gateway = start(&config, data.path(), &clock).await;
    gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    // Another program holds the lock of the writer.
    let mut locked = open(&data.path().join("gateway.db")).await;
    run(&mut locked, "BEGIN IMMEDIATE").await;
    gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    assert_eq!(receiver.hits(), 0);
    clock.set("+120");
    let messages = heard(&receiver, 1).await;
    let expected = ("ledger_lag".to_owned(), json!({ "kind": "ledger", "name": "ledger" }));
    assert_eq!(told(&messages), [expected]);
    run(&mut locked, "ROLLBACK").await;
    eventually("the claim is stored", || {
        let lines = gateway.stderr();
        lines.iter().any(|line| line.contains("the store has an alert that waited for it")).then_some(())
    })
    .await;
    let _ = gateway.stop();
    let gateway = start(&config, data.path(), &clock).await;
    let admin = gateway.client().with_key(ADMIN);
    let list = admin.get("/admin/v1/alerts").await.ok().json();
    assert_eq!((&list["data"][0]["waiting"], by_id(&receiver).len()), (&json!(0), 1), "{list}");
}

#[tokio::test]
async fn a_receiver_that_refuses_connections_gets_its_message_when_it_is_back() {
    let (other, closed) = (receiver().await, ClosedUpstream::bind());
    let alerts =
        alert("ops", "\"budget:1\"", &other).replace(&other.addr.to_string(), &closed.addr.to_string());
    let world = limited("0.00002", &alerts).start().await;
    world.gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    let failed = "an alert is not delivered";
    eventually("an attempt has failed", || {
        world.gateway.stderr().iter().any(|line| line.contains(failed)).then_some(())
    })
    .await;
    let admin = world.gateway.client().with_key(ADMIN);
    // The log tells the failure before the list has it.
    eventually_async("the list tells the failure", async || {
        let list = admin.get("/admin/v1/alerts").await.ok().json();
        assert_eq!(list["data"][0]["waiting"], 1, "{list}");
        list["data"][0]["last_error"].is_string().then_some(())
    })
    .await;
    let again = closed.open();
    again.respond_with(|_| Answer::full(204, &[], ""));
    let body = verified(&heard(&again, 1).await.remove(0));
    assert_eq!((&body["event"], &body["data"]["name"]), (&json!("budget:1"), &json!("limited-by")));
}

/// Slack's published example is `curl -X POST -H 'Content-type: application/json' --data '{"text":"Hello, World!"}'` at
/// `/services/T…/B…/X…`, which is answered with status 200 and `ok`. It answers `invalid_payload` to anything else
/// (docs.slack.dev/messaging/sending-messages-using-incoming-webhooks, read November 2026).
fn slack(request: &Recorded) -> Answer {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let has_text = body["text"].as_str().is_some_and(|text| !text.is_empty());
    let is_slacks = request.method == "POST"
        && request.path == "/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
        && request.header("content-type") == Some("application/json")
        && has_text
        && body.as_object().is_some_and(|members| members.len() == 1);
    let html = [("content-type", "text/html")];
    if is_slacks { Answer::full(200, &html, "ok") } else { Answer::full(400, &html, "invalid_payload") }
}

#[tokio::test]
async fn slacks_published_webhook_takes_the_messages() {
    let receiver = FakeUpstream::start().await;
    receiver.respond_with(slack);
    let url = format!("http://{}/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", receiver.addr);
    let alerts = format!(
        "[[alerts]]\nname = \"s\"\non = [\"budget:0.5\", \"budget:1\"]\nformat = \"slack\"\nurl = \"{url}\"\n"
    );
    let world = limited("0.00002", &alerts).start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let sent = admin.post_json("/admin/v1/alerts/s/test", &json!({})).await.ok().json();
    assert_eq!((&sent["delivered"], &sent["status"]), (&json!(true), &json!(200)), "{sent}");
    world.gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    heard(&receiver, 3).await;
    eventually("all are delivered", || {
        let delivered = |line: &&String| line.contains("an alert is delivered");
        (world.gateway.stderr().iter().filter(delivered).count() == 2).then_some(())
    })
    .await;
    assert_eq!(receiver.hits(), 3, "nothing is sent again");
    assert!(!world.gateway.stderr().join("\n").contains(SECRET));
}
