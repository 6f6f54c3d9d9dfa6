//! Every ending of a response of a realtime session: each has one status and one amount, and afterwards the budget has spent the sum
//! of the rows and holds nothing back.

use std::path::Path;

use gw_testkit::{Gateway, Launch};
use serde_json::{Value, json};

use crate::harness::ledger::rows_in;
use crate::harness::realtime::{RealtimeUpstream, UpstreamSession, created, done, full_usage};
use crate::harness::socket::{SocketClient, open_at};
use crate::harness::{KEY, binary};
use crate::ledger::grouped_sums;

/// A billionth of a USD.
const NANO: i128 = 1_000_000;

/// A session with a response that has begun, and of which ten tokens of sound have come.
async fn begun(
    gateway: &Gateway,
    upstream: &RealtimeUpstream,
    user: &str,
) -> (SocketClient, UpstreamSession) {
    let bearer = format!("Bearer {KEY}");
    let tag = format!("ending:{user}");
    let headers =
        [("authorization", bearer.as_str()), ("x-gateway-user", user), ("x-gateway-tags", tag.as_str())];
    let opening = open_at(gateway.addr, "/v1/realtime?model=rt/voice", &headers);
    let (opened, mut session) = tokio::join!(opening, upstream.session());
    let mut client = opened.expect("a session");
    client.send(&json!({"type": "response.create"})).await;
    session.event().await;
    session.send(&created("r")).await;
    let sound =
        json!({"type": "response.output_audio.delta", "response_id": "r", "delta": "A".repeat(32_000)});
    session.send(&sound).await;
    assert_eq!(client.event().await["type"], "response.created");
    assert_eq!(client.event().await["type"], "response.output_audio.delta");
    (client, session)
}

fn config(upstream: &RealtimeUpstream) -> String {
    let addr = upstream.addr();
    format!(
        r#"
[server]
listen = "127.0.0.1:0"
drain_seconds = 1
[store]
progress_tokens = 1
[[keys]]
name = "ci"
key = "{KEY}"
trust_attribution = true
budget_usd = 1000.0
[[providers]]
name = "rt"
api = "openai"
base_url = "http://{addr}/v1"
api_key = "sk-upstream-key-000"
[[models]]
id = "rt/voice"
category = ["realtime"]
context_length = 32000
max_output_tokens = 4096
pricing = {{ official_input_per_m = 4.0, official_output_per_m = 16.0, cached_input_per_m = 0.4, official_audio_input_per_m = 32.0, official_audio_output_per_m = 64.0 }}
"#
    )
}

async fn start(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

#[tokio::test]
async fn every_ending_of_a_response_has_one_amount_and_frees_its_reservation() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = RealtimeUpstream::start().await;
    let config = config(&upstream) + &grouped_sums::section();
    let mut gateway = start(&config, data.path()).await;
    let store = data.path().join("gateway.db");
    let usage = full_usage();
    for (ending, status, usage) in [
        ("done", "completed", &usage),
        ("told", "failed", &usage),
        ("free", "failed", &Value::Null),
        ("cut", "incomplete", &usage),
    ] {
        let (mut client, mut session) = begun(&gateway, &upstream, ending).await;
        session.send(&done("r", status, usage)).await;
        assert_eq!(client.event().await["type"], "response.done", "{ending}");
    }
    // The upstream refuses the response by an error.
    let (mut client, mut session) = begun(&gateway, &upstream, "twice").await;
    client.send(&json!({"type": "response.create", "event_id": "second"})).await;
    session.event().await;
    session.send(&json!({"type": "error", "error": {"code": "busy", "event_id": "second"}})).await;
    assert_eq!(client.event().await["error"]["code"], "busy");
    session.send(&done("r", "completed", &usage)).await;
    client.event().await;
    let (mut client, session) = begun(&gateway, &upstream, "torn").await;
    drop(session);
    assert_eq!(client.event().await["error"]["code"], "upstream_stream_error");
    let (client, mut session) = begun(&gateway, &upstream, "left").await;
    drop(client);
    session.until_closed().await;
    rows_in(&store, 8).await;
    assert_settled(&gateway, &store, 8).await;
    let (client, session) = begun(&gateway, &upstream, "stop").await;
    gateway.sigterm();
    gateway.ended().await;
    drop((client, session));
    let gateway = start(&config, data.path()).await;
    let under_way = begun(&gateway, &upstream, "kill").await;
    let _ = gateway.stop();
    drop(under_way);
    let gateway = start(&config, data.path()).await;
    let rows = rows_in(&store, 10).await;
    assert_settled(&gateway, &store, 10).await;
    let mut found: Vec<(String, String, i128)> = rows
        .iter()
        .map(|row| {
            let user = row.attribution.as_ref().and_then(|names| names.end_user.clone()).expect("a user");
            (user.into_string(), row.status.to_string(), row.cost / NANO)
        })
        .collect();
    found.sort();
    // The reported usage costs 0.0068536 USD. Ten tokens of sound that came are 0.00064 USD, and the prompt is an estimate.
    let (whole, begun) = (6_853_600, 640_000 + PROMPT);
    let expected = [
        ("cut", "ok", whole),
        ("done", "ok", whole),
        ("free", "upstream_stream_error", 0),
        ("kill", "interrupted", begun),
        ("left", "client_closed_request", begun),
        ("stop", "gateway_shutdown", begun),
        ("told", "upstream_stream_error", whole),
        ("torn", "upstream_stream_error", begun),
        ("twice", "busy", 0),
        ("twice", "ok", whole),
    ];
    let expected = expected.map(|(user, status, cost)| (user.to_owned(), status.to_owned(), cost));
    assert_eq!(found, expected);
}

/// The estimated prompt of the session's only event, in billionths of a USD.
const PROMPT: i128 = 9 * 4_000;

/// The budget, every rule and every report have the sum of the rows, and nothing is reserved.
async fn assert_settled(gateway: &Gateway, store: &Path, count: usize) {
    let rows = rows_in(store, count).await;
    grouped_sums::assert_agreement(gateway, &rows).await;
    let sum: i128 = rows.iter().map(|row| row.cost).sum();
    let me = gateway.client().with_key(KEY).get("/v1/me").await.ok().json();
    let budget = &me["limits"][0]["budget"];
    let spent = budget["spent_usd"].as_f64().expect("an amount");
    #[expect(clippy::cast_precision_loss, reason = "a comparison within a billionth")]
    let expected = sum as f64 / 1e15;
    assert!((spent - expected).abs() < 1e-9 && budget["reserved_usd"] == 0, "{expected}: {budget}");
}
