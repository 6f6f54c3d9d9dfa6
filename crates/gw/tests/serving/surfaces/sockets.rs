//! `GET /v1/responses` as a WebSocket: its handshake, its turns, its memory and its end.

use gw_testkit::upstream::{chat_transcript, sse_data};
use gw_testkit::wait::{eventually, eventually_true};
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{ask_responses, response};
use crate::harness::management::{ask, create};
use crate::harness::socket::{SocketClient, open, with_key};
use crate::harness::{ADMIN, KEY, METERED, Setup, World, logged, with, world};

fn turn(model: &str) -> Value {
    with(response(model), json!({"type": "response.create", "store": false}))
}

async fn socket(world: &World) -> SocketClient {
    with_key(world.gateway.addr, KEY).await
}

/// The frame of a text as a client sends it, with a mask of zeros.
fn frame(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x81];
    match u8::try_from(text.len()) {
        Ok(length @ 0..=125) => bytes.push(0x80 | length),
        _ => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&u16::try_from(text.len()).expect("a short text").to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

#[tokio::test]
async fn a_dry_run_is_refused_at_the_handshake() {
    let world = world().await;
    let key = format!("Bearer {KEY}");
    for asked in ["true", "maybe"] {
        let headers = [("authorization", key.as_str()), ("x-gateway-dry-run", asked)];
        let refusal = open(world.gateway.addr, &headers).await.expect_err("no report for a turn");
        let body: Value =
            serde_json::from_slice(refusal.body().as_deref().unwrap_or_default()).expect("an error");
        let found = (refusal.status().as_u16(), &body["error"]["code"]);
        assert_eq!(found, (400, &json!("unsupported_parameter")), "{asked}");
    }
}

#[tokio::test]
async fn a_handshake_needs_a_key_and_is_answered_in_full() {
    let world = world().await;
    for (label, headers) in [
        ("no key", vec![]),
        ("a wrong key", vec![("authorization", "Bearer sk-wrong")]),
        (
            "a wrong key among the subprotocols",
            vec![("sec-websocket-protocol", "realtime, openai-insecure-api-key.sk-wrong")],
        ),
    ] {
        let refusal = open(world.gateway.addr, &headers).await.expect_err(label);
        let body: Value = serde_json::from_slice(refusal.body().as_deref().unwrap_or_default()).expect(label);
        assert_eq!(
            (refusal.status().as_u16(), &body["error"]["code"]),
            (401, &json!("invalid_api_key")),
            "{label}"
        );
    }
    let protocol = format!("realtime, openai-insecure-api-key.{KEY}");
    for (label, headers) in [
        (
            "bearer",
            vec![
                ("authorization", format!("Bearer {KEY}")),
                ("openai-beta", "responses_websockets=2026-02-06".into()),
            ],
        ),
        ("x-api-key", vec![("x-api-key", KEY.to_owned())]),
        ("subprotocol", vec![("sec-websocket-protocol", protocol)]),
    ] {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut socket = open(world.gateway.addr, &headers).await.expect(label);
        let chosen = socket
            .headers
            .get("sec-websocket-protocol")
            .map(|value| value.to_str().expect("text").to_owned());
        assert_eq!(chosen.as_deref(), (label == "subprotocol").then_some("realtime"), "{label}");
        assert!(socket.headers.contains_key("x-request-id"), "{label}");
        assert_eq!(socket.ask(&turn("acme/fast")).await["type"], "response.completed", "{label}");
    }
    let upstream = world.upstream.last();
    assert!(!format!("{upstream:?}").contains(KEY), "no upstream gets the gateway's key");
}

#[tokio::test]
async fn the_events_of_a_turn_are_those_of_the_stream_over_http() {
    let world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    let mut socket = socket(&world).await;
    let streamed = with(response("acme/fast"), json!({"store": false, "stream": true}));
    let over_http = super::events(&world.client, "/v1/responses", &streamed).await;
    socket.send(&turn("acme/fast")).await;
    let events = socket.turn().await;
    let kinds = |events: &[Value]| events.iter().map(|event| event["type"].clone()).collect::<Vec<_>>();
    let wanted: Vec<Value> = over_http.into_iter().map(|(_, event)| event).collect();
    assert_eq!(kinds(&events), kinds(&wanted));
    let last = &events[events.len() - 1]["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], "Hello from upstream");
    assert_eq!(last["usage"]["cost_usd"], wanted[wanted.len() - 1]["response"]["usage"]["cost_usd"]);
    assert!(world.upstream.last().json().get("type").is_none());
}

#[tokio::test]
async fn each_turn_is_a_request_with_its_row_its_log_line_and_its_count() {
    let world = world().await;
    let mut socket = socket(&world).await;
    let admin = world.gateway.client().with_key(ADMIN);
    for _ in 0..2 {
        socket.ask(&turn("acme/fast")).await;
    }
    let metrics = world.gateway.client().with_key(ADMIN).get("/metrics").await.text();
    assert!(metrics.contains("gateway_websockets 1"), "{metrics}");
    // The client has the last event before its turn counts.
    let line = r#"gateway_http_requests_total{route="/v1/responses",method="POST",status="200"} 2"#;
    eventually_true("two turns count", async || admin.get("/metrics").await.text().contains(line)).await;
    let lines = eventually("two lines of the access log", || {
        let lines = world.gateway.logs();
        let turns: Vec<Value> = lines
            .into_iter()
            .filter(|line| line["route"] == "/v1/responses" && line["method"] == "POST")
            .collect();
        (turns.len() == 2).then_some(turns)
    })
    .await;
    for line in lines {
        let row = logged(&admin, line["request_id"].as_str().expect("an id")).await;
        assert_eq!((&row["status"], &row["surface"]), (&json!("ok"), &json!("responses")), "{row}");
        assert!(row["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{row}");
    }
}

#[tokio::test]
async fn a_refused_request_is_an_event_and_the_socket_stays_open() {
    let world = world().await;
    let mut socket = socket(&world).await;
    for (label, message, status, code) in [
        ("no type", json!({"model": "acme/fast", "input": "x"}), 400, "invalid_value"),
        ("another type", json!({"type": "response.cancel"}), 400, "invalid_value"),
        ("background", with(turn("acme/fast"), json!({"background": true})), 400, "unsupported_value"),
        ("an unknown model", turn("acme/none"), 404, "model_not_found"),
        ("no model", json!({"type": "response.create", "input": "x"}), 400, "missing_required_parameter"),
        (
            "an unknown response",
            with(turn("acme/fast"), json!({"previous_response_id": "resp_none"})),
            400,
            "previous_response_not_found",
        ),
    ] {
        let event = socket.ask(&with(message, json!({"stream_id": "s-1"}))).await;
        assert_eq!((&event["type"], &event["status"]), (&json!("error"), &json!(status)), "{label}: {event}");
        assert_eq!(
            (&event["error"]["code"], &event["stream_id"]),
            (&json!(code), &json!("s-1")),
            "{label}: {event}"
        );
        assert!(event["error"]["message"].is_string(), "{label}: {event}");
    }
    socket.send_message(Message::text("no JSON")).await;
    assert_eq!(socket.event().await["error"]["code"], "invalid_json");
    // An id that is no JSON would make the event unreadable.
    for id in ["\"\u{1}\"", "nonsense", "\"s"] {
        socket.send_message(Message::text(format!("{{\"stream_id\":{id}}}"))).await;
        let event = socket.event().await;
        assert_eq!((&event["error"]["code"], event.get("stream_id")), (&json!("invalid_json"), None), "{id}");
    }
    assert_eq!(socket.ask(&turn("acme/fast")).await["type"], "response.completed");
}

#[tokio::test]
async fn a_turn_that_breaks_off_ends_with_response_failed_behind_an_error_without_a_status() {
    let world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    let mut socket = socket(&world).await;
    world.upstream.enqueue(Answer::sse().all(&[sse_data(&json!({"content": "Hel"}), None)]).reset());
    socket.send(&turn("acme/fast")).await;
    let events = socket.turn().await;
    let [.., error, failed] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&error["type"], error.get("status")), (&json!("error"), None), "{error}");
    assert_eq!(
        (&failed["type"], &failed["response"]["status"]),
        (&json!("response.failed"), &json!("failed"))
    );
    // The next turn begins with its own events.
    socket.send(&turn("acme/fast")).await;
    let events = socket.turn().await;
    assert_eq!(events[0]["type"], "response.created", "{events:?}");
    assert_eq!(events[events.len() - 1]["type"], "response.completed", "{events:?}");
}

#[tokio::test]
async fn turns_count_to_the_limits_of_their_key_and_a_revoked_key_has_no_further_turn() {
    let world = world().await;
    let mut metered = with_key(world.gateway.addr, METERED).await;
    for _ in 0..2 {
        assert_eq!(metered.ask(&turn("acme/fast")).await["type"], "response.completed");
    }
    let refused = metered.ask(&turn("acme/fast")).await;
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(429), &json!("rate_limit_exceeded")));
    assert!(refused["headers"]["retry-after"].is_string(), "{refused}");

    let admin = world.gateway.client().with_key(ADMIN);
    let (key, record) = create(&admin, json!({"name": "leaving"})).await;
    let mut socket = with_key(world.gateway.addr, &key).await;
    assert_eq!(socket.ask(&turn("acme/fast")).await["type"], "response.completed");
    let path = format!("/admin/v1/keys/{}", record["id"].as_str().expect("an id"));
    assert!(ask(&admin, "DELETE", &path, &json!({})).await.status < 300);
    let hits = world.upstream.hits();
    let refused = socket.ask(&turn("acme/fast")).await;
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(401), &json!("invalid_api_key")));
    assert_eq!(world.upstream.hits(), hits);
}

#[tokio::test]
async fn a_turn_continues_another_one_of_its_socket_that_nothing_stores() {
    for store in ["memory", "off"] {
        let extra = format!("[responses]\nstore = \"{store}\"\n");
        let world = Setup { acme: "responses = false".into(), extra, ..Setup::default() }.start().await;
        let mut socket = socket(&world).await;
        let first = socket.ask(&turn("acme/fast")).await;
        let id = first["response"]["id"].clone();
        let again = with(turn("acme/fast"), json!({"input": "And again?", "previous_response_id": id}));
        let second = socket.ask(&again).await;
        assert_eq!(second["type"], "response.completed", "{store}: {second}");
        let third = json!({"input": "Third", "previous_response_id": second["response"]["id"]});
        socket.ask(&with(turn("acme/fast"), third)).await;
        let texts: Vec<String> = world.upstream.last().json()["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(|message| message["content"].as_str().expect("text").to_owned())
            .collect();
        let answer = "Hello from upstream";
        assert_eq!(texts, ["Hello", answer, "And again?", answer, "Third"], "{store}");
        // Another socket, and a request over HTTP, know nothing of it.
        let mut other = with_key(world.gateway.addr, KEY).await;
        assert_eq!(other.ask(&again).await["error"]["code"], "previous_response_not_found", "{store}");
        let over_http = json!({"model": "acme/fast", "input": "x", "previous_response_id": id});
        assert_eq!(ask_responses(&world.client, &over_http).await.code(), "previous_response_not_found");
    }
}

#[tokio::test]
async fn a_conversation_can_be_continued_from_its_first_turn_after_many_others() {
    let world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    let mut socket = socket(&world).await;
    let mut last = socket.ask(&turn("acme/fast")).await["response"]["id"].clone();
    let first = last.clone();
    for number in 1..40 {
        let next = json!({"input": format!("Turn {number}"), "previous_response_id": last});
        last = socket.ask(&with(turn("acme/fast"), next)).await["response"]["id"].clone();
    }
    let messages = |world: &World| world.upstream.last().json()["messages"].as_array().map(Vec::len);
    assert_eq!(messages(&world), Some(79), "all turns are in the last request");
    let branch = json!({"input": "Another way", "previous_response_id": first});
    assert_eq!(socket.ask(&with(turn("acme/fast"), branch)).await["type"], "response.completed");
    assert_eq!(messages(&world), Some(3));
}

#[tokio::test]
async fn a_stored_response_is_continued_before_and_after_turns_that_are_not() {
    let world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    let mut socket = socket(&world).await;
    let stored = ask_responses(&world.client, &response("acme/fast")).await.ok().json();
    let next = |input: &str, id: &Value| {
        with(turn("acme/fast"), json!({"input": input, "previous_response_id": id}))
    };
    let second = socket.ask(&next("Second", &stored["id"])).await;
    let third = socket.ask(&next("Third", &second["response"]["id"])).await;
    assert_eq!(third["type"], "response.completed", "{third}");
    let messages = world.upstream.last().json()["messages"].as_array().map(Vec::len);
    assert_eq!(messages, Some(5));
}

#[tokio::test]
async fn generate_false_calls_nothing_and_its_response_can_be_continued() {
    let world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    let mut socket = socket(&world).await;
    let warm = with(turn("acme/fast"), json!({"generate": false, "stream_id": 7}));
    socket.send(&warm).await;
    let events = socket.turn().await;
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["response.created", "response.completed"]);
    let ended = &events[1];
    assert_eq!((&ended["response"]["status"], &ended["stream_id"]), (&json!("completed"), &json!(7)));
    assert_eq!(
        (&ended["response"]["output"], &ended["response"]["usage"]["total_tokens"]),
        (&json!([]), &json!(0))
    );
    assert_eq!(world.upstream.hits(), 0);
    let next = json!({"input": "Now", "previous_response_id": ended["response"]["id"]});
    assert_eq!(socket.ask(&with(turn("acme/fast"), next)).await["type"], "response.completed");
    assert_eq!(world.upstream.last().json()["messages"].as_array().map(Vec::len), Some(2));
    let refused = socket.ask(&with(turn("acme/none"), json!({"generate": false}))).await;
    assert_eq!(refused["status"], 404);
}

#[tokio::test]
async fn a_frame_may_come_in_any_pieces() {
    let world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    let mut socket = socket(&world).await;
    let text =
        json!({"type": "response.create", "model": "acme/fast", "input": "Hi", "store": false}).to_string();
    let bytes = frame(&text);
    for cut in 1..bytes.len() {
        socket.send_bytes(&bytes[..cut]).await;
        socket.send_bytes(&bytes[cut..]).await;
        let events = socket.turn().await;
        assert_eq!(events[events.len() - 1]["type"], "response.completed", "cut at {cut}");
    }
    // One byte at a time.
    for byte in &bytes {
        socket.send_bytes(&[*byte]).await;
    }
    assert_eq!(socket.turn().await.pop().expect("an event")["type"], "response.completed");
}

#[tokio::test]
async fn a_broken_frame_closes_the_socket_with_its_reason() {
    let world = Setup { server: "body_limit_mib = 1", ..Setup::default() }.start().await;
    let unmasked = [0x81, 2, b'{', b'}'];
    let reserved = [0xf1, 0x80, 0, 0, 0, 0];
    let not_text = [0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe];
    let too_large = [0x81, 0xff, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0];
    let binary = [0x82, 0x81, 0, 0, 0, 0, 1];
    for (label, bytes, code) in [
        ("unmasked", &unmasked[..], 1002),
        ("reserved bits", &reserved[..], 1002),
        ("no UTF-8", &not_text[..], 1007),
        ("too large", &too_large[..], 1009),
        ("binary", &binary[..], 1003),
    ] {
        let mut socket = socket(&world).await;
        socket.send_bytes(bytes).await;
        assert_eq!(socket.closed().await, Some(code), "{label}");
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn turns_are_answered_one_after_another() {
    let world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    let mut socket = socket(&world).await;
    for number in 0..7 {
        socket.send(&with(turn("acme/fast"), json!({"stream_id": number}))).await;
    }
    for number in 0..7 {
        let events = socket.turn().await;
        assert!(events.iter().all(|event| event["stream_id"] == number), "{number}: {events:?}");
        assert_eq!(events[events.len() - 1]["type"], "response.completed", "{number}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_turn() {
    let world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    world.upstream.always(Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]).hang());
    let mut socket = socket(&world).await;
    socket.send(&turn("acme/fast")).await;
    while socket.event().await["type"] != "response.output_text.delta" {}
    drop(socket);
    world.upstream.last().until_closed().await;
    let line = world.gateway.log_with("client_closed_request").await;
    assert_eq!((&line["status"], &line["route"]), (&json!(499), &json!("/v1/responses")));
}

#[tokio::test]
async fn a_client_that_does_not_read_its_turn_is_disconnected() {
    let (acme, server) = ("responses = false".into(), "send_timeout_ms = 1000");
    let world = Setup { acme, server, ..Setup::default() }.start().await;
    // More than the buffers of the kernel take.
    let large = sse_data(&json!({"content": "x".repeat(512 << 10)}), None);
    world.upstream.always(Answer::sse().all(&vec![large; 64]).done());
    let mut socket = socket(&world).await;
    socket.send(&turn("acme/fast")).await;
    world.upstream.request(0).await;
    let before = world.gateway.rss_kib();
    let line = world.gateway.log_with("client_closed_request").await;
    assert_eq!((&line["status"], &line["route"]), (&json!(499), &json!("/v1/responses")));
    let growth = world.gateway.rss_kib().saturating_sub(before);
    gw_testkit::measured::at_most("KiB of a turn whose client stops", growth, 32 << 10);
    drop(socket);
}

#[tokio::test]
async fn a_shutdown_lets_a_turn_end_and_then_closes_with_1001() {
    let mut world = Setup { acme: "responses = false".into(), ..Setup::default() }.start().await;
    let release = Signal::new();
    let answer = Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]);
    world.upstream.always(answer.wait(&release).all(&chat_transcript(&[" again"])).done());
    let mut idle = socket(&world).await;
    let mut busy = socket(&world).await;
    busy.send(&turn("acme/fast")).await;
    while busy.event().await["type"] != "response.output_text.delta" {}
    world.gateway.sigterm();
    assert_eq!(idle.closed().await, Some(1001));
    release.fire();
    let events = busy.turn().await;
    assert_eq!(events[events.len() - 1]["type"], "response.completed", "{events:?}");
    assert_eq!(busy.closed().await, Some(1001));
    assert!(world.gateway.ended().await.success());
}

#[tokio::test]
async fn sockets_are_bounded_and_idle_ones_are_closed() {
    let world = Setup { server: "max_websockets = 4", ..Setup::default() }.start().await;
    let _open = (socket(&world).await, socket(&world).await);
    let key = format!("Bearer {KEY}");
    let refusal = open(world.gateway.addr, &[("authorization", &key)]).await.expect_err("the share of a key");
    assert_eq!(refusal.status().as_u16(), 429);
    let world = Setup { server: "websocket_idle_seconds = 1", ..Setup::default() }.start().await;
    let mut first = socket(&world).await;
    let mut second = socket(&world).await;
    assert_eq!((first.closed().await, second.closed().await), (Some(1001), Some(1001)));
    drop((first, second));
    let admin = world.gateway.client().with_key(ADMIN);
    eventually_true("the places are free", async || {
        admin.get("/metrics").await.text().contains("gateway_websockets 0")
    })
    .await;
}

#[tokio::test]
async fn messages_that_are_not_complete_hold_bounded_memory() {
    let server = "body_memory_mib = 1\nbody_limit_mib = 1";
    let world = Setup { server, ..Setup::default() }.start().await;
    // Half of the memory is the share of a key.
    let mut head = vec![0x81, 0xff];
    head.extend_from_slice(&(900_u64 << 10).to_be_bytes());
    head.extend_from_slice(&[0; 4]);
    let mut first = socket(&world).await;
    first.send_bytes(&head).await;
    first.send_bytes(&vec![b' '; 400 << 10]).await;
    let admin = world.gateway.client().with_key(ADMIN);
    eventually_true("the memory is held", async || {
        admin.get("/metrics").await.text().contains("gateway_websocket_bytes 458752")
    })
    .await;
    let mut second = socket(&world).await;
    second.send_bytes(&head).await;
    second.send_bytes(&vec![b' '; 200 << 10]).await;
    assert_eq!(second.closed().await, Some(1013));
    drop((first, second));
    eventually_true("the memory is free", async || {
        admin.get("/metrics").await.text().contains("gateway_websocket_bytes 0")
    })
    .await;
}
