//! `GET /v1/realtime`: its handshake, its events, its charges and its end.

use gw_testkit::wait::{eventually, eventually_async};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::realtime::{RealtimeUpstream, created, done, full_usage, refused, session, world_with};
use crate::harness::socket::open_at;
use crate::harness::{ADMIN, KEY, LIMITED, Setup, UPSTREAM_KEY, World, world};

const VOICE: &str = "/v1/realtime?model=rt/voice";

/// The rows of the surface, the newest first, when there are so many.
pub(super) async fn rows(world: &World, count: usize) -> Vec<Value> {
    let admin = world.gateway.client().with_key(ADMIN);
    eventually_async("the rows are in the ledger", async || {
        let page = admin.get("/admin/v1/requests?surface=realtime").await.json();
        let rows = page["data"].as_array().cloned().unwrap_or_default();
        if rows.len() >= count {
            assert_eq!(rows.len(), count, "{page}");
            return Some(rows);
        }
        None
    })
    .await
}

async fn text(client: &mut crate::harness::socket::SocketClient) -> String {
    match client.message().await {
        Some(Message::Text(text)) => text.to_string(),
        other => panic!("no event: {other:?}"),
    }
}

#[tokio::test]
async fn a_handshake_needs_a_key_and_goes_upstream_with_the_providers_own() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    for headers in [
        vec![],
        vec![("authorization", "Bearer sk-wrong")],
        vec![("api-key", "sk-wrong")],
        vec![("sec-websocket-protocol", "realtime, openai-insecure-api-key.sk-wrong")],
    ] {
        let refusal = open_at(world.gateway.addr, VOICE, &headers).await.expect_err("no key");
        assert_eq!(refused(&refusal), (401, "invalid_api_key".to_owned()), "{headers:?}");
    }
    let protocols = format!("realtime, openai-insecure-api-key.{KEY}, openai-beta.realtime-v1");
    let bearer = format!("Bearer {KEY}");
    for (headers, is_beta) in [
        (vec![("authorization", bearer.as_str())], false),
        (vec![("authorization", bearer.as_str()), ("openai-beta", "realtime=v1")], true),
        (vec![("api-key", KEY)], false),
        (vec![("x-api-key", KEY)], false),
        (vec![("sec-websocket-protocol", protocols.as_str())], true),
    ] {
        let (opened, session) =
            tokio::join!(open_at(world.gateway.addr, VOICE, &headers), upstream.session());
        let opened = opened.expect("a session");
        let chosen = opened.headers.get("sec-websocket-protocol").map(|value| value.to_str().unwrap_or(""));
        let offers = headers.iter().any(|(name, _)| *name == "sec-websocket-protocol");
        assert_eq!(chosen, offers.then_some("realtime"), "{headers:?}");
        let request = &session.request;
        assert_eq!(
            request.uri().path_and_query().map(|it| it.as_str()),
            Some("/v1/realtime?model=voice-2026")
        );
        let sent = request.headers();
        assert_eq!(sent["authorization"], format!("Bearer {UPSTREAM_KEY}").as_str());
        assert_eq!(sent.get("openai-beta").is_some(), is_beta, "{headers:?}");
        assert!(!sent.contains_key("sec-websocket-protocol"));
        assert!(!format!("{sent:?}").contains(KEY), "no upstream gets the gateway's key");
    }
}

#[tokio::test]
async fn a_handshake_that_is_refused_says_why() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let bearer = format!("Bearer {KEY}");
    for (path, status, code) in [
        ("/v1/realtime", 400, "missing_required_parameter"),
        ("/v1/realtime?model=rt/none", 404, "model_not_found"),
        ("/v1/realtime?model=acme/fast", 400, "unsupported_model"),
        ("/v1/realtime?model=acme/embed", 400, "unsupported_model"),
        ("/v1/realtime?model=rt/voice&model=rt/voice", 400, "invalid_request"),
        ("/v1/realtime?model=@preset/none", 404, "model_not_found"),
        ("/v1/realtime?model=rt/voice&intent=transcription", 400, "unsupported_value"),
        ("/v1/realtime?call_id=rtc_1", 400, "unsupported_parameter"),
    ] {
        let refusal = open_at(world.gateway.addr, path, &[("authorization", &bearer)]).await.expect_err(path);
        assert_eq!(refused(&refusal), (status, code.to_owned()), "{path}");
    }
    let limited = format!("Bearer {LIMITED}");
    let refusal =
        open_at(world.gateway.addr, VOICE, &[("authorization", &limited)]).await.expect_err("a list");
    assert_eq!(refused(&refusal), (403, "model_not_allowed".to_owned()));
    for path in ["/v1/realtime?model=rt/voice", "/v1/realtime"] {
        let answer = world.gateway.client().get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (426, "upgrade_required"), "{}", answer.text());
        assert_eq!(answer.header("upgrade"), Some("websocket"));
    }
    let posted = world.client.post_json("/v1/realtime", &json!({})).await;
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
}

#[tokio::test]
async fn an_upstream_that_refuses_is_mapped_and_another_one_is_tried() {
    let (upstream, spare) = (RealtimeUpstream::start().await, RealtimeUpstream::start().await);
    let extra = format!(
        "[[providers]]\nname = \"spare\"\napi = \"openai\"\nbase_url = \"http://{}/v1\"\napi_key = \"sk-spare\"\n\
         [[models]]\nid = \"spare/voice\"\ncategory = [\"realtime\"]\n",
        spare.addr()
    );
    let aliases = "\"talk\" = [\"rt/voice\", \"spare/voice\"]";
    let world =
        world_with(&upstream, Setup { extra, aliases, routing: "retries = 0", ..Setup::default() }).await;
    let bearer = format!("Bearer {KEY}");
    let headers = [("authorization", bearer.as_str())];
    for (answer, body, status, code) in [
        (
            "401 Unauthorized",
            r#"{"error":{"message":"bad key","code":"invalid_api_key"}}"#,
            502,
            "upstream_auth_error",
        ),
        ("500 Oops", "{}", 502, "upstream_error"),
        ("200 OK", "{}", 502, "upstream_invalid_response"),
    ] {
        let opening = open_at(world.gateway.addr, VOICE, &headers);
        let ((), opened) = tokio::join!(upstream.refuse(answer, body), opening);
        assert_eq!(refused(&opened.expect_err(answer)), (status, code.to_owned()), "{answer}");
    }
    let opening = open_at(world.gateway.addr, "/v1/realtime?model=talk", &headers);
    let ((), opened, session) = tokio::join!(upstream.refuse("503 Busy", "{}"), opening, spare.session());
    assert!(opened.is_ok(), "{opened:?}");
    assert_eq!(session.request.headers()["authorization"], "Bearer sk-spare");
    let failed = rows(&world, 3).await;
    assert!(failed.iter().all(|row| row["cost_usd"] == 0 && row["status"] != "ok"), "{failed:?}");
}

#[tokio::test]
async fn events_pass_both_ways_as_they_are() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let (mut client, mut session) = session(&upstream, &world).await;
    for text in [
        "{\"type\":\"session.update\", \"session\" : {\"instructions\":\"\\u00fc \u{fc}\",\"x\":1e3}}",
        "{ \"type\":\"input_audio_buffer.append\",\"audio\":\"AAAA\" }",
        "{\"type\":\"something.new\",\"a\":[1, 2,\t3]}",
        "{\"event_id\":\"e1\",\"type\":\"conversation.item.create\",\"item\":{\"type\":\"message\"}}",
    ] {
        client.send_message(Message::text(text)).await;
        assert_eq!(session.text().await.as_deref(), Some(text));
    }
    for sent in [
        "{\"type\":\"session.created\", \"session\":{\"model\":\"voice-2026\"}}",
        "{\"type\":\"something.newer\",\"a\": [1 ]}",
        "no JSON at all",
    ] {
        session.send_text(sent).await;
        assert_eq!(text(&mut client).await, sent);
    }
    let large = format!(r#"{{"type":"response.output_audio.delta","delta":"{}"}}"#, "A".repeat(2 << 20));
    session.send_text(&large).await;
    assert!(text(&mut client).await == large, "a large event passes");
    let large = format!(r#"{{"type":"input_audio_buffer.append","audio":"{}"}}"#, "A".repeat(2 << 20));
    client.send_message(Message::text(large.as_str())).await;
    assert!(session.text().await.as_deref() == Some(&large), "a large event passes");
}

#[tokio::test]
async fn each_response_is_charged_to_the_last_digit_and_has_its_row_and_its_log_line() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let (mut client, mut session) = session(&upstream, &world).await;
    for id in ["resp_1", "resp_2"] {
        client.send(&json!({"type": "response.create"})).await;
        assert_eq!(session.event().await, json!({"type": "response.create"}));
        session.respond(id, &full_usage()).await;
        assert_eq!(client.event().await["type"], "response.created");
        let ended = client.event().await;
        assert_eq!(ended, done(id, "completed", &full_usage()));
    }
    for row in rows(&world, 2).await {
        assert_eq!((&row["status"], &row["surface"]), (&json!("ok"), &json!("realtime")), "{row}");
        assert_eq!((&row["cost_usd"], &row["model"]), (&json!(0.006_853_6), &json!("rt/voice")), "{row}");
        let line = eventually("a line of the access log", || {
            world.gateway.logs().into_iter().find(|line| line["request_id"] == row["request_id"])
        })
        .await;
        assert_eq!((&line["status"], &line["route"]), (&json!(200), &json!("/v1/realtime")), "{line}");
    }
    let admin = world.gateway.client().with_key(ADMIN);
    let metrics = admin.get("/metrics").await.text();
    assert!(metrics.contains("gateway_websockets 1"), "{metrics}");
    let usage = admin.get("/admin/v1/usage?by=model&surface=realtime").await.json();
    assert_eq!(usage["data"][0]["cost_usd"], json!(0.013_707_2), "{usage}");
}

#[tokio::test]
async fn the_end_of_a_response_decides_about_its_charge() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let (mut client, mut session) = session(&upstream, &world).await;
    let usage = json!({"total_tokens": 100, "input_tokens": 100, "output_tokens": 0});
    for (status, usage, cost, outcome) in [
        ("cancelled", &usage, json!(0.0004), "ok"),
        ("incomplete", &usage, json!(0.0004), "ok"),
        ("failed", &usage, json!(0.0004), "upstream_stream_error"),
        ("failed", &Value::Null, json!(0), "upstream_stream_error"),
    ] {
        client.send(&json!({"type": "response.create"})).await;
        session.event().await;
        session.send(&created(status)).await;
        session.send(&done(status, status, usage)).await;
        client.event().await;
        client.event().await;
        let newest = newest(&world).await;
        assert_eq!((&newest["cost_usd"], &newest["status"]), (&cost, &json!(outcome)), "{status}: {newest}");
    }
    // An end that comes twice is charged once. A count that cannot be is estimated from the output that passed.
    client.send(&json!({"type": "response.create"})).await;
    session.event().await;
    session.send(&created("twice")).await;
    let delta = json!({"type": "response.output_text.delta", "response_id": "twice", "delta": "0123456789".repeat(6)});
    session.send(&delta).await;
    let impossible = json!({"total_tokens": 100, "input_tokens": 100, "output_tokens": -5});
    for _ in 0..2 {
        session.send(&done("twice", "completed", &impossible)).await;
    }
    for _ in 0..4 {
        client.event().await;
    }
    let once = newest(&world).await;
    assert_eq!((&once["completion_tokens"], &once["estimated"]), (&json!(20), &json!(true)), "{once}");
    rows(&world, 5).await;
    // The upstream refuses a response.
    client.send(&json!({"type": "response.create", "event_id": "mine"})).await;
    session.event().await;
    session.send(&json!({"type": "error", "error": {"code": "conversation_already_has_active_response", "event_id": "mine"}})).await;
    assert_eq!(client.event().await["error"]["event_id"], "mine");
    let newest = newest(&world).await;
    assert_eq!(newest["cost_usd"], json!(0), "{newest}");
    assert_ne!(newest["status"], "ok", "{newest}");
}

/// The newest row, when all settled responses have theirs.
async fn newest(world: &World) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    let mut known = Value::Null;
    // Rows are written in order, so that a row of another request after it tells that it is there.
    let probe = world.chat_ok(&crate::harness::chat("acme/fast")).await;
    let id = probe["gateway"]["request_id"].as_str().expect("an id").to_owned();
    crate::harness::logged(&admin, &id).await;
    let page = admin.get("/admin/v1/requests?surface=realtime&limit=1").await.json();
    if let Some(row) = page["data"].as_array().and_then(|rows| rows.first()) {
        known.clone_from(row);
    }
    known
}

#[tokio::test]
async fn a_response_that_breaks_off_is_charged_for_what_came() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let delta =
        json!({"type": "response.output_audio.delta", "response_id": "r", "delta": "A".repeat(32_000)});
    // The upstream is gone.
    let (mut client, mut session_of_upstream) = session(&upstream, &world).await;
    client.send(&json!({"type": "response.create"})).await;
    session_of_upstream.event().await;
    session_of_upstream.send(&created("r")).await;
    session_of_upstream.send(&delta).await;
    client.event().await;
    client.event().await;
    drop(session_of_upstream);
    assert_eq!(client.event().await["error"]["code"], "upstream_stream_error");
    assert_eq!(client.closed().await, Some(1011));
    // The client is gone.
    let (mut client, mut session_of_upstream) = session(&upstream, &world).await;
    client.send(&json!({"type": "response.create"})).await;
    session_of_upstream.event().await;
    session_of_upstream.send(&created("r")).await;
    session_of_upstream.send(&delta).await;
    client.event().await;
    client.event().await;
    drop(client);
    session_of_upstream.until_closed().await;
    let rows = rows(&world, 2).await;
    let statuses: Vec<&str> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
    assert_eq!(statuses, ["client_closed_request", "upstream_stream_error"]);
    for row in rows {
        // Ten tokens of sound, and the prompt of a few words.
        assert!(row["cost_usd"].as_f64().is_some_and(|cost| cost > 0.000_64 && cost < 0.000_8), "{row}");
        assert_eq!(row["estimated"], true, "{row}");
    }
}

#[tokio::test]
async fn counts_that_cannot_be_true_become_the_estimated_prompt_and_the_longest_answer_of_the_model() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let (mut client, mut session) = session(&upstream, &world).await;
    client.send(&json!({"type": "response.create"})).await;
    session.event().await;
    session.send(&created("r")).await;
    let text = json!({"type": "response.output_text.delta", "response_id": "r", "delta": "Hello there"});
    session.send(&text).await;
    let usage = json!({"input_tokens": -4, "output_tokens": 10_000_000_000_000_000_000_u64});
    session.send(&done("r", "completed", &usage)).await;
    for _ in 0..3 {
        client.event().await;
    }
    let row = newest(&world).await;
    assert_eq!((&row["prompt_tokens"], &row["completion_tokens"]), (&json!(9), &json!(4_096)), "{row}");
    // 9 × 4 + 4,096 × 16 per million.
    assert_eq!((&row["cost_usd"], &row["estimated"]), (&json!(0.065_572), &json!(true)), "{row}");
}

#[tokio::test]
async fn a_close_of_either_side_reaches_the_other() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    for code in [1000, 1001, 1008, 4000] {
        let (mut client, mut session) = session(&upstream, &world).await;
        session.close(code, "bye").await;
        assert_eq!(client.closed().await, Some(code));
    }
    let (mut client, mut session) = session(&upstream, &world).await;
    client.send_message(Message::Close(None)).await;
    session.until_closed().await;
}

#[tokio::test]
async fn a_broken_frame_closes_the_session_with_its_reason() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup { server: "body_limit_mib = 1", ..Setup::default() }).await;
    for (label, bytes, code) in [
        ("unmasked", &[0x81, 2, b'{', b'}'][..], 1002),
        ("no UTF-8", &[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe][..], 1007),
        ("too large", &[0x81, 0xff, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0][..], 1009),
        ("binary", &[0x82, 0x81, 0, 0, 0, 0, 1][..], 1003),
    ] {
        let (mut client, mut session) = session(&upstream, &world).await;
        client.send_bytes(bytes).await;
        assert_eq!(client.closed().await, Some(code), "{label}");
        session.until_closed().await;
    }
}

#[tokio::test]
async fn what_only_the_gateway_decides_is_refused_in_an_event() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let (mut client, mut session) = session(&upstream, &world).await;
    let update = |settings: Value| json!({"type": "session.update", "event_id": "e", "session": settings});
    for (event, code) in [
        (update(json!({"model": "gpt-dear"})), "invalid_value"),
        (update(json!({"type": "transcription"})), "unsupported_value"),
        (update(json!({"tools": [{"type": "mcp", "server_url": "https://x.example"}]})), "unsupported_value"),
        (update(json!({"prompt": {"id": "pmpt_1"}})), "unsupported_value"),
        (
            json!({"type": "response.create", "event_id": "e", "response": {"model": "gpt-dear"}}),
            "invalid_value",
        ),
    ] {
        client.send(&event).await;
        let refusal = client.event().await;
        let found =
            (&refusal["type"], &refusal["status"], &refusal["error"]["code"], &refusal["error"]["event_id"]);
        assert_eq!(found, (&json!("error"), &json!(400), &json!(code), &json!("e")), "{event}: {refusal}");
    }
    client.send_message(Message::text("{]")).await;
    assert_eq!(client.event().await["error"]["code"], "invalid_json");
    // The upstream knows the model by its own name.
    client.send(&update(json!({"model": "rt/voice", "tools": [{"type": "function", "name": "f"}]}))).await;
    assert_eq!(session.event().await["session"]["model"], "voice-2026");
}

#[tokio::test]
async fn transcripts_are_charged_by_the_model_that_makes_them() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let (mut client, mut session) = session(&upstream, &world).await;
    let usage = json!({"type": "tokens", "total_tokens": 30, "input_tokens": 20, "output_tokens": 10,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 20}});
    for (name, cost) in [("scribe", json!(0.000_22)), ("unknown", Value::Null)] {
        let described = json!({"type": "session.updated", "session": {"audio": {"input": {"transcription": {"model": name}}}}});
        session.send(&described).await;
        let kind = "conversation.item.input_audio_transcription.completed";
        session.send(&json!({"type": kind, "item_id": "i", "transcript": "Hi", "usage": usage})).await;
        client.event().await;
        assert_eq!(client.event().await["transcript"], "Hi");
        let row = newest(&world).await;
        assert_eq!((&row["cost_usd"], &row["status"]), (&cost, &json!("ok")), "{name}: {row}");
    }
}

#[tokio::test]
async fn a_shutdown_lets_a_response_end_and_then_closes_with_1001() {
    let upstream = RealtimeUpstream::start().await;
    let mut world = world_with(&upstream, Setup::default()).await;
    let (mut idle, _idle_upstream) = session(&upstream, &world).await;
    let (mut busy, mut session) = session(&upstream, &world).await;
    busy.send(&json!({"type": "response.create"})).await;
    session.event().await;
    session.send(&created("r")).await;
    busy.event().await;
    world.gateway.sigterm();
    assert_eq!(idle.closed().await, Some(1001));
    busy.send(&json!({"type": "response.create"})).await;
    assert_eq!(busy.event().await["status"], 503);
    session.send(&done("r", "completed", &full_usage())).await;
    assert_eq!(busy.event().await["type"], "response.done");
    assert_eq!(busy.closed().await, Some(1001));
    assert!(world.gateway.ended().await.success());
}

#[tokio::test]
async fn the_demo_answers_a_session_offline() {
    let world = world().await;
    let bearer = format!("Bearer {KEY}");
    let headers = [("authorization", bearer.as_str())];
    let mut client =
        open_at(world.gateway.addr, "/v1/realtime?model=demo/realtime", &headers).await.expect("a session");
    assert_eq!(client.event().await["type"], "session.created");
    client
        .send(
            &json!({"type": "session.update", "session": {"output_modalities": ["text"], "audio": {"input": {
        "turn_detection": {"type": "server_vad"}, "transcription": {"model": "transcribe"}}}}}),
        )
        .await;
    assert_eq!(client.event().await["session"]["output_modalities"], json!(["text"]));
    let item =
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two words"}]});
    client.send(&json!({"type": "conversation.item.create", "item": item})).await;
    client.send(&json!({"type": "response.create"})).await;
    let mut words = String::new();
    let ended = loop {
        let event = client.event().await;
        match event["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" => words.push_str(event["delta"].as_str().unwrap_or_default()),
            "response.done" => break event,
            _ => {}
        }
    };
    assert_eq!(words, "You said: two words");
    assert_eq!(ended["response"]["usage"]["total_tokens"], 6, "{ended}");
    // A second of sound is a turn.
    let sound = "A".repeat(64_000);
    client.send(&json!({"type": "input_audio_buffer.append", "audio": sound})).await;
    while client.event().await["type"] != "response.done" {}
    let rows = rows(&world, 3).await;
    assert!(rows.iter().all(|row| row["status"] == "ok" && row["provider"] == "demo"), "{rows:?}");
}
