//! The limits, budgets and rules of a realtime session: they hold for each response, whoever asks for it.

use serde_json::{Value, json};

use super::realtime::rows;
use crate::harness::management::{ask, create};
use crate::harness::realtime::{
    RealtimeUpstream, created, done, full_usage, refused, session_of, world_with,
};
use crate::harness::socket::open_at;
use crate::harness::{ADMIN, KEY, Setup};

const RULES: &str = r#"
[[budgets]]
name = "spent"
match = { key = "ruled" }
budget_usd = 0.000000001

[[guards]]
match = { keys = ["guarded"] }
max_calls = 1
"#;

#[tokio::test]
async fn a_session_counts_one_request() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({"name": "one", "rpm": 1})).await;
    let (mut client, mut session) = session_of(&upstream, &world, &secret).await;
    assert_eq!(client.headers["x-ratelimit-remaining-requests"], "0");
    for id in ["a", "b", "c"] {
        client.send(&json!({"type": "response.create"})).await;
        session.event().await;
        session.respond(id, &full_usage()).await;
        client.event().await;
        assert_eq!(client.event().await["type"], "response.done");
    }
    let bearer = format!("Bearer {secret}");
    let refusal =
        open_at(world.gateway.addr, "/v1/realtime?model=rt/voice", &[("authorization", &bearer)]).await;
    let refusal = refusal.expect_err("a second session");
    assert_eq!(refused(&refusal), (429, "rate_limit_exceeded".to_owned()));
    assert!(refusal.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn each_rule_refuses_a_response_in_an_event_and_the_session_stays() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup { extra: RULES.to_owned(), ..Setup::default() }).await;
    let admin = world.gateway.client().with_key(ADMIN);
    for (key, code) in [
        (json!({"name": "poor", "budget_usd": 0.000_000_001}), "insufficient_quota"),
        (json!({"name": "ruled"}), "insufficient_quota"),
        (json!({"name": "slow", "tpm": 1}), "rate_limit_exceeded"),
    ] {
        let (secret, _) = create(&admin, key.clone()).await;
        let (mut client, mut session) = session_of(&upstream, &world, &secret).await;
        client.send(&json!({"type": "response.create", "event_id": "mine"})).await;
        let event = client.event().await;
        let found = (&event["type"], &event["status"], &event["error"]["code"], &event["error"]["event_id"]);
        assert_eq!(found, (&json!("error"), &json!(429), &json!(code), &json!("mine")), "{key}: {event}");
        // The upstream gets the next event, and not the refused one.
        client.send(&json!({"type": "input_audio_buffer.clear"})).await;
        assert_eq!(session.event().await["type"], "input_audio_buffer.clear", "{key}");
    }
}

#[tokio::test]
async fn a_guard_counts_the_responses_of_a_session() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup { extra: RULES.to_owned(), ..Setup::default() }).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({"name": "guarded"})).await;
    let bearer = format!("Bearer {secret}");
    let headers = [("authorization", bearer.as_str()), ("x-gateway-session", "run-1")];
    let opening = open_at(world.gateway.addr, "/v1/realtime?model=rt/voice", &headers);
    let (opened, mut session) = tokio::join!(opening, upstream.session());
    let mut client = opened.expect("a session");
    client.send(&json!({"type": "response.create"})).await;
    session.event().await;
    session.respond("r", &full_usage()).await;
    client.event().await;
    client.event().await;
    client.send(&json!({"type": "response.create"})).await;
    assert_eq!(client.event().await["error"]["code"], "session_limit_reached");
}

#[tokio::test]
async fn a_budget_that_is_spent_stops_a_response_that_the_upstream_began() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, key) = create(&admin, json!({"name": "voice", "budget_usd": 0.000_1})).await;
    let (mut client, mut session) = session_of(&upstream, &world, &secret).await;
    session.send(&created("vad")).await;
    assert_eq!(client.event().await["type"], "response.created");
    assert_eq!(client.event().await["error"]["code"], "insufficient_quota");
    assert_eq!(session.event().await, json!({"type": "response.cancel", "response_id": "vad"}));
    session.send(&done("vad", "cancelled", &full_usage())).await;
    assert_eq!(client.event().await["response"]["status"], "cancelled");
    let row = rows(&world, 1).await.remove(0);
    assert_eq!(
        (&row["cost_usd"], &row["status"]),
        (&json!(0.006_853_6), &json!("insufficient_quota")),
        "{row}"
    );
    // The cost counts although nothing was reserved for it.
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    let spent = admin.get(&path).await.json();
    assert_eq!(spent["budget"]["spent_usd"], json!(0.006_853_6), "{spent}");
}

#[tokio::test]
async fn a_response_that_the_upstream_began_is_charged() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({"name": "voice", "budget_usd": 5})).await;
    let (mut client, mut session) = session_of(&upstream, &world, &secret).await;
    session.respond("vad", &full_usage()).await;
    client.event().await;
    client.event().await;
    let row = rows(&world, 1).await.remove(0);
    assert_eq!((&row["cost_usd"], &row["status"]), (&json!(0.006_853_6), &json!("ok")), "{row}");
}

#[tokio::test]
async fn a_revoked_key_has_no_further_response() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, key) = create(&admin, json!({"name": "voice"})).await;
    let (mut client, mut session) = session_of(&upstream, &world, &secret).await;
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    let revoked = ask(&admin, "DELETE", &path, &Value::Null).await;
    assert!(revoked.status < 300, "{}", revoked.text());
    client.send(&json!({"type": "response.create"})).await;
    assert_eq!(client.event().await["error"]["code"], "invalid_api_key");
    session.send(&created("vad")).await;
    assert_eq!(client.event().await["type"], "response.created");
    assert_eq!(client.event().await["status"], 401);
    assert_eq!(client.closed().await, Some(1008));
    session.until_closed().await;
}

#[tokio::test]
async fn a_key_that_refuses_what_has_no_price_opens_no_session() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({"name": "careful", "unpriced": "refuse", "budget_usd": 1})).await;
    let bearer = format!("Bearer {secret}");
    let headers = [("authorization", bearer.as_str())];
    let refusal =
        open_at(world.gateway.addr, "/v1/realtime?model=rt/free", &headers).await.expect_err("no price");
    assert_eq!(refused(&refusal), (429, "insufficient_quota".to_owned()));
    let (mut client, mut session) = session_of(&upstream, &world, &secret).await;
    let update = json!({"type": "session.update", "session": {"audio": {"input": {"transcription": {"model": "free"}}}}});
    client.send(&update).await;
    assert_eq!(client.event().await["error"]["code"], "insufficient_quota");
    let update = json!({"type": "session.update", "session": {"audio": {"input": {"transcription": {"model": "scribe"}}}}});
    client.send(&update).await;
    assert_eq!(session.event().await["type"], "session.update");
}

#[tokio::test]
async fn sessions_are_bounded_and_idle_ones_are_closed() {
    let upstream = RealtimeUpstream::start().await;
    let server = "max_websockets = 4";
    let world = world_with(&upstream, Setup { server, ..Setup::default() }).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({"name": "voice"})).await;
    let _first = session_of(&upstream, &world, &secret).await;
    let _second = session_of(&upstream, &world, &secret).await;
    let bearer = format!("Bearer {secret}");
    let refusal =
        open_at(world.gateway.addr, "/v1/realtime?model=rt/voice", &[("authorization", &bearer)]).await;
    assert_eq!(refusal.expect_err("the share of a key").status().as_u16(), 429);
    let server = "websocket_idle_seconds = 1";
    let world = world_with(&upstream, Setup { server, ..Setup::default() }).await;
    let (mut first, _first) = session_of(&upstream, &world, KEY).await;
    let (mut second, _second) = session_of(&upstream, &world, KEY).await;
    assert_eq!((first.closed().await, second.closed().await), (Some(1001), Some(1001)));
    let server = "realtime_session_seconds = 1";
    let world = world_with(&upstream, Setup { server, ..Setup::default() }).await;
    let (mut client, _session) = session_of(&upstream, &world, KEY).await;
    assert_eq!(client.closed().await, Some(1001));
}
