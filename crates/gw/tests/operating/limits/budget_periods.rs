//! Budget periods with a clock that the test sets (libfaketime).

use gw_testkit::upstream::chat_transcript;
use gw_testkit::wait::within;
use gw_testkit::{Answer, Client, FakeUpstream, Faketime, Gateway, Launch, Signal};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Setup, binary};

const CHAT: &str = "/v1/chat/completions";

/// 10 prompt and 5 completion tokens of `acme/plain` are 0.00002 USD.
fn ask() -> Value {
    json!({ "model": "acme/plain", "max_tokens": 5, "messages": [{ "role": "user", "content": "Hello!" }] })
}

/// A gateway with a lasting data directory.
async fn start(config: &str, data: &std::path::Path, time: &Faketime) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    time.apply(launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy())).start().await
}

async fn statuses(client: &Client, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(client.post_json(CHAT, &ask()).await.status);
    }
    statuses
}

fn config(upstream: &FakeUpstream) -> String {
    let key = |period: &str| {
        format!(
            "[[keys]]\nname = \"{period}\"\nkey = \"sk-{period}\"\nbudget_usd = 0.00005\nbudget_period = \"{period}\"\n"
        )
    };
    let extra = ["day", "week", "month", "quarter", "1d"].map(key).concat();
    Setup { extra, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url())
}

#[tokio::test]
async fn p10_a_clock_that_goes_back_and_forth_grants_nothing_anew() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    // 2026-11-23 is a Monday.
    let week = ["@2026-11-22 23:50:00", "@2026-11-23 00:10:00"];
    let month = ["@2026-11-30 23:50:00", "@2026-12-01 00:10:00"];
    let quarter = ["@2026-12-31 23:50:00", "@2027-01-01 00:10:00"];
    // The step of a rolling day is an hour.
    let rolling = ["@2027-02-01 12:10:00", "@2027-02-02 13:10:00"];
    let time = Faketime::at(week[0]);
    let gateway = start(&config(&upstream), data.path(), &time).await;
    for (period, moments) in
        [("day", week), ("week", week), ("month", month), ("quarter", quarter), ("1d", rolling)]
    {
        let client = gateway.client().with_key(&format!("sk-{period}"));
        for moment in moments {
            time.set(moment);
            assert_eq!(statuses(&client, 3).await, [200, 200, 429], "{period} at {moment}");
        }
        for moment in [moments[0], moments[1], moments[0], moments[1]] {
            time.set(moment);
            assert_eq!(statuses(&client, 2).await, [429, 429], "{period} at {moment} again");
        }
    }
    assert_eq!(upstream.hits(), 20);
}

#[tokio::test]
async fn a_stream_over_midnight_counts_on_the_day_on_which_it_began() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    let config = config(&upstream);
    let time = Faketime::at("@2026-11-22 23:59:00");
    let gateway = start(&config, data.path(), &time).await;
    let client = gateway.client().with_key("sk-day");
    let go = Signal::new();
    let pieces = chat_transcript(&["Hel", "lo"]);
    upstream.enqueue(Answer::sse().all(&pieces[..2]).wait(&go).all(&pieces[2..]).done());
    let streaming = tokio::spawn({
        let client = client.clone();
        let mut body = ask();
        body["stream"] = json!(true);
        async move { client.post_json(CHAT, &body).await }
    });
    upstream.request(0).await;
    time.set("@2026-11-23 00:00:10");
    go.fire();
    let streamed = streaming.await.expect("no panic").ok();
    assert!(streamed.text().contains("[DONE]"), "{}", streamed.text());
    // The whole budget of the new day is available, and no more.
    assert_eq!(statuses(&client, 3).await, [200, 200, 429]);
    said_by(&gateway, 0.000_04).await;
    let _ = gateway.stop();
    time.set("@2026-11-23 00:05:00");
    let gateway = start(&config, data.path(), &time).await;
    said_by(&gateway, 0.000_04).await;
    let client = gateway.client().with_key("sk-day");
    assert_eq!(statuses(&client, 1).await, [429], "after a restart, too");
    time.set("@2026-11-22 23:59:50");
    said_by(&gateway, 0.000_02).await;
    assert_eq!(statuses(&client, 2).await, [200, 429], "the day before has the stream");
}

/// Waits until the API reports this spending of the key with a daily budget.
async fn said_by(gateway: &Gateway, spent: f64) {
    let admin = gateway.client().with_key(ADMIN);
    let has_it = async || {
        let keys = admin.get("/admin/v1/keys").await.ok().json();
        let keys = keys["data"].as_array().expect("keys");
        let key = keys.iter().find(|key| key["name"] == "day").expect("the key");
        let seen = key["budget"]["spent_usd"].as_f64().expect("an amount");
        (seen - spent).abs() < 1e-12
    };
    within("the ledger has it", async { while !has_it().await {} }).await;
}
