//! No event of a realtime session goes round the model list of its key, its budgets, its rules or the secrets of the provider.

use gw_testkit::Client;
use gw_testkit::wait::eventually_async;
use serde_json::{Value, json};

use crate::harness::management::{ask, create};
use crate::harness::realtime::{
    RealtimeUpstream, created, done, full_usage, refused, session, session_of, world_with,
};
use crate::harness::socket::{SocketClient, open_at};
use crate::harness::{ADMIN, KEY, Setup, UPSTREAM_KEY};

const TRANSCRIPT: &str = "conversation.item.input_audio_transcription.completed";

#[expect(clippy::needless_pass_by_value, reason = "each caller makes the value in place")]
fn update(settings: Value) -> Value {
    json!({"type": "session.update", "session": settings})
}

async fn refusal_of(client: &mut SocketClient, event: &Value) -> Value {
    client.send(event).await;
    client.event().await["error"]["code"].clone()
}

#[tokio::test]
async fn a_transcriber_outside_the_model_list_is_refused_in_each_place() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({"name": "one", "models": ["rt/voice", "rt/scribe"]})).await;
    let (mut client, mut peer) = session_of(&upstream, &world, &secret).await;
    let (allowed, other) = (json!({"model": "scribe"}), json!({"model": "free"}));
    for (settings, code) in [
        (
            json!({"audio": {"input": {"transcription": other}}, "input_audio_transcription": allowed}),
            "model_not_allowed",
        ),
        (
            json!({"audio": {"input": {"transcription": allowed}}, "input_audio_transcription": other}),
            "model_not_allowed",
        ),
        (json!({"input_audio_transcription": {"language": "en"}}), "model_not_allowed"),
        (json!({"input_audio_transcription": {"model": 5}}), "invalid_value"),
    ] {
        assert_eq!(refusal_of(&mut client, &update(settings.clone())).await, code, "{settings}");
    }
    let both = json!({"type": "session.update", "session": {}, "response": {"model": "gpt-dear"}});
    assert_eq!(refusal_of(&mut client, &both).await, "invalid_value");
    let old = json!({"type": "transcription_session.update", "session": {}});
    assert_eq!(refusal_of(&mut client, &old).await, "unsupported_value");
    client.send(&update(json!({"input_audio_transcription": allowed}))).await;
    assert_eq!(peer.event().await["type"], "session.update", "the upstream got none of the others");
}

#[tokio::test]
async fn no_item_of_a_session_reaches_the_operators_files_or_network() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let (mut client, mut peer) = session(&upstream, &world).await;
    let message = |part: &Value| json!({"type": "message", "role": "user", "content": [part]});
    let item = |part: &Value| json!({"type": "conversation.item.create", "item": message(part)});
    let response = |part: &Value| json!({"type": "response.create", "response": {"input": [message(part)]}});
    for part in [
        json!({"type": "input_file", "file_id": "file-1"}),
        json!({"type": "input_image", "file_id": "file-1"}),
        json!({"type": "input_image", "image_url": "http://169.254.169.254/latest"}),
        json!({"type": "input_image", "image_url": format!("http://{}/v1/files", upstream.addr())}),
    ] {
        for event in [item(&part), response(&part)] {
            assert_eq!(refusal_of(&mut client, &event).await, "unsupported_value", "{event}");
        }
    }
    let image = item(&json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"}));
    client.send(&image).await;
    assert_eq!(peer.event().await, image, "the upstream got none of the others");
}

/// Says that a model transcribes, and waits until the client has the event.
async fn transcribing(client: &mut SocketClient, peer: &mut crate::harness::realtime::UpstreamSession) {
    let transcription = json!({"input": {"transcription": {"model": "scribe"}}});
    peer.send(&json!({"type": "session.updated", "session": {"audio": transcription}})).await;
    client.event().await;
}

async fn spent(admin: &Client, path: &str) -> Value {
    admin.get(path).await.ok().json()["budget"]["spent_usd"].clone()
}

#[tokio::test]
async fn what_is_said_needs_a_budget_and_a_key_where_a_model_transcribes_it() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, key) = create(&admin, json!({"name": "voice", "budget_usd": 0.000_1})).await;
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    let (mut client, mut peer) = session_of(&upstream, &world, &secret).await;
    let commit = json!({"type": "input_audio_buffer.commit"});
    transcribing(&mut client, &mut peer).await;
    client.send(&commit).await;
    assert_eq!(peer.event().await["type"], "input_audio_buffer.commit");
    let usage = json!({"type": "tokens", "total_tokens": 30, "input_tokens": 20, "output_tokens": 10,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 20}});
    peer.send(&json!({"type": TRANSCRIPT, "item_id": "i", "transcript": "Hi", "usage": usage})).await;
    assert_eq!(client.event().await["transcript"], "Hi");
    eventually_async("the transcript is charged", async || {
        (spent(&admin, &path).await == json!(0.000_22)).then_some(())
    })
    .await;
    assert_eq!(refusal_of(&mut client, &commit).await, "insufficient_quota");
    // An event without sound is not transcribed and costs nothing.
    client.send(&json!({"type": "input_audio_buffer.clear"})).await;
    assert_eq!(peer.event().await["type"], "input_audio_buffer.clear");
    let (secret, key) = create(&admin, json!({"name": "gone"})).await;
    let (mut client, mut peer) = session_of(&upstream, &world, &secret).await;
    transcribing(&mut client, &mut peer).await;
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    ask(&admin, "DELETE", &path, &Value::Null).await.ok();
    assert_eq!(refusal_of(&mut client, &commit).await, "invalid_api_key");
}

#[tokio::test]
async fn both_bounds_of_an_answer_are_reserved_and_a_viewer_generates_nothing() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, key) = create(&admin, json!({"name": "voice", "budget_usd": 0.001})).await;
    let (mut client, mut peer) = session_of(&upstream, &world, &secret).await;
    let ask_for = |bounds: Value| json!({"type": "response.create", "response": bounds});
    for bounds in [
        json!({"max_output_tokens": 1, "max_response_output_tokens": "inf"}),
        json!({"max_output_tokens": 1000, "max_response_output_tokens": 1}),
    ] {
        assert_eq!(refusal_of(&mut client, &ask_for(bounds.clone())).await, "insufficient_quota", "{bounds}");
    }
    client.send(&ask_for(json!({"max_output_tokens": 1, "max_response_output_tokens": 1}))).await;
    assert_eq!(peer.event().await["type"], "response.create");
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    ask(&admin, "PATCH", &path, &json!({"role": "viewer"})).await.ok();
    assert_eq!(refusal_of(&mut client, &ask_for(json!({"max_output_tokens": 1}))).await, "role_not_allowed");
}

#[tokio::test]
async fn the_providers_key_is_in_no_error_and_in_no_reason() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let (mut client, mut peer) = session(&upstream, &world).await;
    let message = format!("Incorrect API key provided: {UPSTREAM_KEY}.");
    peer.send(&json!({"type": "error", "error": {"code": "invalid_api_key", "message": message}})).await;
    assert_eq!(client.event().await["error"]["message"], "Incorrect API key provided: [redacted].");
    for (kind, details) in [
        ("conversation.item.input_audio_transcription.failed", json!({"error": {"message": message}})),
        (
            "response.done",
            json!({"response": {"id": "r", "status": "incomplete", "status_details": message}}),
        ),
    ] {
        let mut event = details;
        event["type"] = json!(kind);
        peer.send(&event).await;
        let shown = client.event().await.to_string();
        assert!(shown.contains("[redacted]") && !shown.contains(UPSTREAM_KEY), "{shown}");
    }
    peer.close(1008, &format!("bad key {UPSTREAM_KEY}")).await;
    let (code, reason) = client.closing().await.expect("a frame");
    assert_eq!((code, reason.as_str()), (1008, "bad key [redacted]"));
}

#[tokio::test]
async fn two_different_keys_open_no_session() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let bearer = format!("Bearer {KEY}");
    for (name, value) in [
        ("api-key", "sk-other"),
        ("x-api-key", "sk-other"),
        ("sec-websocket-protocol", "realtime, openai-insecure-api-key.sk-other"),
    ] {
        let headers = [("authorization", bearer.as_str()), (name, value)];
        let refusal = open_at(world.gateway.addr, "/v1/realtime?model=rt/voice", &headers).await;
        assert_eq!(refused(&refusal.expect_err(name)), (401, "invalid_api_key".to_owned()), "{name}");
    }
}

/// A rule of a provider counts the session as one request, and each response with its cost.
#[tokio::test]
async fn a_session_is_one_request_of_the_rules_of_its_provider() {
    let rules = "[[budgets]]\nname = \"of-rt\"\nmatch = { provider = \"rt\" }\nrpm = 2\nin_flight = 1\n\
        [[budgets]]\nname = \"watched\"\nmatch = { provider = \"rt\" }\nrpm = 1\nmode = \"shadow\"\n";
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup { extra: rules.to_owned(), ..Setup::default() }).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({"name": "voice"})).await;
    let (mut client, mut peer) = session_of(&upstream, &world, &secret).await;
    for id in ["a", "b", "c"] {
        client.send(&json!({"type": "response.create"})).await;
        assert_eq!(peer.event().await["type"], "response.create");
        peer.send(&created(id)).await;
        peer.send(&done(id, "completed", &full_usage())).await;
        assert_eq!(client.event().await["type"], "response.created", "{id}");
        assert_eq!(client.event().await["type"], "response.done", "{id}");
    }
    let counters = |rules: &Value, rule: usize| rules["data"][rule]["counters"][0].clone();
    let rules = admin.get("/admin/v1/budgets").await.ok().json();
    let (enforced, shadow) = (counters(&rules, 0), counters(&rules, 1));
    assert_eq!(
        (&enforced["requests_left"], &enforced["in_flight_left"]),
        (&json!(1), &json!(0)),
        "{enforced}"
    );
    assert_eq!(shadow["would_refuse"], json!(0), "{shadow}");
    let bearer = format!("Bearer {secret}");
    let headers = [("authorization", bearer.as_str())];
    let second = open_at(world.gateway.addr, "/v1/realtime?model=rt/voice", &headers).await;
    assert_eq!(refused(&second.expect_err("a second session")), (429, "rate_limit_exceeded".to_owned()));
    drop(client);
    peer.until_closed().await;
    eventually_async("the session has given its place back", async || {
        let rules = admin.get("/admin/v1/budgets").await.ok().json();
        (counters(&rules, 0)["in_flight_left"] == 1).then_some(())
    })
    .await;
}
