//! The peers of a realtime session: clients and upstreams that do not read, upstreams over TLS and of Azure, and the processes that
//! follow one another while a session is open.

use gw_testkit::certificate::Certificate;
use gw_testkit::measured::at_most;
use gw_testkit::wait::{eventually, eventually_async, eventually_true};
use gw_testkit::{Gateway, Launch};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::realtime::rows;
use crate::harness::realtime::{
    RealtimeUpstream, UpstreamSession, created, done, full_usage, open_session, refused, session, world_with,
};
use crate::harness::socket::{SocketClient, open_at, with_key};
use crate::harness::{ADMIN, KEY, Setup, UPSTREAM_KEY, World, binary, with};

const MIB: usize = 1 << 20;
/// The settings of tests whose peers do not read.
const IMPATIENT: &str = "send_timeout_ms = 1000";
/// So many messages of a MiB do not fit into the buffers of the kernel.
const MANY: usize = 96;

fn delta(bytes: usize) -> String {
    json!({"type": "response.output_audio.delta", "response_id": "r", "delta": "A".repeat(bytes)}).to_string()
}

/// Has a response begin.
async fn begin(client: &mut SocketClient, upstream: &mut UpstreamSession) {
    client.send(&json!({"type": "response.create"})).await;
    upstream.event().await;
    upstream.send(&created("r")).await;
    assert_eq!(client.event().await["type"], "response.created");
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_one_message_and_is_disconnected() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup { server: IMPATIENT, ..Setup::default() }).await;
    let (mut client, mut session_of_upstream) = session(&upstream, &world).await;
    begin(&mut client, &mut session_of_upstream).await;
    let before = world.gateway.rss_kib();
    let taken = session_of_upstream.flood(&delta(MIB), MANY).await;
    assert!(taken < MANY, "the gateway read {taken} MiB for a client that reads nothing");
    at_most("KiB of a realtime client that stops", world.gateway.rss_kib().saturating_sub(before), 16 << 10);
    let row = rows(&world, 1).await.remove(0);
    assert_eq!((&row["status"], &row["estimated"]), (&json!("client_closed_request"), &json!(true)), "{row}");
    assert!(
        row["cost_usd"].as_f64().is_some_and(|cost| cost > 0.02),
        "the sound that came is charged: {row}"
    );
    until_free(&world).await;
}

#[tokio::test]
async fn an_upstream_that_does_not_read_is_told_to_the_client_with_1011() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup { server: IMPATIENT, ..Setup::default() }).await;
    let (client, _session) = session(&upstream, &world).await;
    let before = world.gateway.rss_kib();
    let sound = json!({"type": "input_audio_buffer.append", "audio": "A".repeat(MIB)}).to_string();
    let (taken, last) = client.flood(&sound, MANY).await;
    assert!(taken < MANY, "the gateway read {taken} MiB for an upstream that reads nothing");
    let Some(Message::Close(Some(frame))) = last else { panic!("no close frame: {last:?}") };
    assert_eq!(u16::from(frame.code), 1011);
    at_most(
        "KiB of a realtime upstream that stops",
        world.gateway.rss_kib().saturating_sub(before),
        16 << 10,
    );
    until_free(&world).await;
}

/// Waits until sockets hold no memory and no place.
async fn until_free(world: &World) {
    let admin = world.gateway.client().with_key(ADMIN);
    eventually_true("the memory and the places are free", async || {
        let metrics = admin.get("/metrics").await.text();
        ["gateway_websocket_bytes 0", "gateway_websockets 0"].iter().all(|line| metrics.contains(line))
    })
    .await;
}

#[tokio::test]
async fn messages_of_an_upstream_hold_memory_of_the_pool() {
    let upstream = RealtimeUpstream::start().await;
    let server = "body_memory_mib = 2\nbody_limit_mib = 2";
    let world = world_with(&upstream, Setup { server, ..Setup::default() }).await;
    // Half of the memory is the share of a key.
    let (mut client, mut session_of_upstream) = session(&upstream, &world).await;
    begin(&mut client, &mut session_of_upstream).await;
    session_of_upstream.send_text(&delta(MIB / 2)).await;
    assert!(matches!(client.message().await, Some(Message::Text(text)) if text.len() > MIB / 2));
    session_of_upstream.flood(&delta(2 * MIB), 1).await;
    assert_eq!(client.closed().await, Some(1013));
    let row = rows(&world, 1).await.remove(0);
    assert_eq!(row["status"], "upstream_stream_error", "{row}");
    until_free(&world).await;
}

/// A socket keeps a buffer as large as the largest frame that it has seen, so large messages come and go in fragments.
#[tokio::test]
async fn large_messages_leave_no_large_buffers_behind() {
    const SOCKETS: usize = 4;
    const LARGE: usize = 4 * MIB;
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let sound = json!({"type": "input_audio_buffer.append", "audio": "A".repeat(LARGE)}).to_string();
    let mut open = Vec::new();
    let mut before = 0;
    for number in 0..=SOCKETS {
        let (mut client, mut session) = session(&upstream, &world).await;
        client.send_message(Message::text(sound.as_str())).await;
        assert!(session.text().await.is_some_and(|text| text == sound), "it comes as it was sent");
        let event = delta(LARGE);
        let ((), message) = tokio::join!(session.send_text(&event), client.message());
        assert!(
            matches!(message, Some(Message::Text(text)) if text.as_str() == event),
            "it comes as it was sent"
        );
        // A small message, so that each side has read and written again.
        client.send(&json!({"type": "input_audio_buffer.clear"})).await;
        session.event().await;
        session.send(&json!({"type": "session.updated"})).await;
        client.event().await;
        open.push((client, session));
        if number == 0 {
            before = world.gateway.rss_kib();
        }
    }
    let each = world.gateway.rss_kib().saturating_sub(before) / SOCKETS as u64;
    at_most("KiB of a realtime session after messages of 4 MiB", each, 1024);
}

#[tokio::test]
async fn an_upstream_over_tls_has_to_show_a_certificate_that_is_trusted() {
    let certificate = Certificate::of(&["127.0.0.1"]);
    let upstream = RealtimeUpstream::start_tls(certificate.clone()).await;
    let other = Certificate::of(&["127.0.0.1"]);
    for (trusted, is_served) in [(&certificate, true), (&other, false)] {
        let config = config_of(&upstream, "https", "api = \"openai\"", "/v1");
        let launch = Launch::new(binary()).file("gateway.toml", config).file("roots.pem", &trusted.pem);
        let roots = launch.dir().join("roots.pem").to_string_lossy().into_owned();
        let gateway = launch.env("SSL_CERT_FILE", &roots).start().await;
        let bearer = format!("Bearer {KEY}");
        let headers = [("authorization", bearer.as_str())];
        let opening = open_at(gateway.addr, "/v1/realtime?model=up/voice", &headers);
        if is_served {
            let (opened, mut session) = tokio::join!(opening, upstream.session());
            let mut client = opened.expect("a session");
            client.send(&json!({"type": "response.create"})).await;
            session.event().await;
            session.respond("r", &full_usage()).await;
            client.event().await;
            assert_eq!(client.event().await["type"], "response.done");
            // A large message is in several records of TLS.
            session.send_text(&delta(MIB)).await;
            assert!(
                matches!(client.message().await, Some(Message::Text(text)) if text.as_str() == delta(MIB))
            );
        } else {
            let accepting = upstream.refused_handshake();
            let (opened, ()) = tokio::join!(opening, accepting);
            let refusal = opened.expect_err("another certificate");
            assert_eq!(refused(&refusal), (502, "upstream_unreachable".to_owned()));
        }
    }
}

/// A gateway.toml with one provider `up`, whose model `up/voice` is at this upstream.
fn config_of(upstream: &RealtimeUpstream, scheme: &str, provider: &str, path: &str) -> String {
    let addr = upstream.addr();
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"up\"\n{provider}\nbase_url = \"{scheme}://{addr}{path}\"\napi_key = \"{UPSTREAM_KEY}\"\n\
         [[models]]\nid = \"up/voice\"\ncategory = [\"realtime\"]\n[routing]\nretries = 0\n"
    )
}

#[tokio::test]
async fn azure_gets_its_own_address_and_key() {
    let upstream = RealtimeUpstream::start().await;
    for (provider, path, expected) in [
        ("api = \"azure\"", "", "/openai/v1/realtime?model=voice"),
        (
            "api = \"azure\"\napi_version = \"2024-10-01-preview\"\ndeployments = { voice = \"my-voice\" }",
            "",
            "/openai/realtime?api-version=2024-10-01-preview&deployment=my-voice",
        ),
        ("api = \"azure\"", "/openai/v1", "/openai/v1/realtime?model=voice"),
    ] {
        let gateway = Launch::new(binary())
            .file("gateway.toml", config_of(&upstream, "http", provider, path))
            .start()
            .await;
        // Clients of Azure send their key in its header to us, too.
        let opening = open_at(gateway.addr, "/v1/realtime?model=up/voice", &[("api-key", KEY)]);
        let (opened, mut session) = tokio::join!(opening, upstream.session());
        let mut client = opened.expect("a session");
        let head = &session.request;
        assert_eq!(head.uri().path_and_query().map(|it| it.as_str()), Some(expected), "{provider}");
        assert_eq!(head.headers()["api-key"], UPSTREAM_KEY, "{provider}");
        assert!(!head.headers().contains_key("authorization"), "{provider}");
        client.send(&json!({"type": "session.update", "session": {"model": "up/voice"}})).await;
        assert_eq!(session.event().await["session"]["model"], json!("voice"), "{provider}");
        client.send(&json!({"type": "response.create"})).await;
        session.event().await;
        session.respond("r", &full_usage()).await;
        client.event().await;
        assert_eq!(client.event().await, done("r", "completed", &full_usage()), "{provider}");
    }
}

#[tokio::test]
async fn azure_over_tls_is_relayed_from_the_handshake_to_the_row() {
    let certificate = Certificate::of(&["127.0.0.1"]);
    let upstream = RealtimeUpstream::start_tls(certificate.clone()).await;
    let prices = "pricing = { official_input_per_m = 4.0, official_output_per_m = 16.0, cached_input_per_m = 0.4, \
                  official_audio_input_per_m = 32.0, official_audio_output_per_m = 64.0, currency = \"USD\" }";
    let config = config_of(&upstream, "https", "api = \"azure\"", "")
        .replace("[routing]", &format!("{prices}\n[routing]"))
        + &format!("[[keys]]\nname = \"admin\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n");
    let launch = Launch::new(binary()).file("gateway.toml", config).file("roots.pem", &certificate.pem);
    let roots = launch.dir().join("roots.pem").to_string_lossy().into_owned();
    let gateway = launch.env("SSL_CERT_FILE", &roots).start().await;
    let opening = open_at(gateway.addr, "/v1/realtime?model=up/voice", &[("api-key", KEY)]);
    let (opened, mut session) = tokio::join!(opening, upstream.session());
    let mut client = opened.expect("a session");
    let head = &session.request;
    let path = head.uri().path_and_query().map(|it| it.as_str());
    assert_eq!(path, Some("/openai/v1/realtime?model=voice"));
    assert_eq!(head.headers()["api-key"], UPSTREAM_KEY);
    client.send(&json!({"type": "response.create"})).await;
    assert_eq!(session.event().await, json!({"type": "response.create"}));
    session.send(&created("r")).await;
    // A large message is in several records of TLS.
    session.send_text(&delta(MIB)).await;
    session.send(&done("r", "completed", &full_usage())).await;
    assert_eq!(client.event().await["type"], "response.created");
    assert!(matches!(client.message().await, Some(Message::Text(text)) if text.as_str() == delta(MIB)));
    assert_eq!(client.event().await, done("r", "completed", &full_usage()));
    let row = eventually_row(&gateway.client().with_key(ADMIN)).await;
    assert_eq!(
        (&row["model"], &row["provider"], &row["status"], &row["cost_usd"]),
        (&json!("up/voice"), &json!("up"), &json!("ok"), &json!(0.006_853_6)),
        "{row}"
    );
    session.close(1000, "bye").await;
    assert_eq!(client.closed().await, Some(1000));
}

#[tokio::test]
async fn a_reload_leaves_sessions_alone_and_the_next_process_lets_them_end() {
    let upstream = RealtimeUpstream::start().await;
    let mut world = world_with(&upstream, Setup::default()).await;
    let (mut idle, _idle_upstream) = session(&upstream, &world).await;
    let (mut client, mut session_of_upstream) = session(&upstream, &world).await;
    let mut turns = with_key(world.gateway.addr, KEY).await;
    begin(&mut client, &mut session_of_upstream).await;
    let admin = world.gateway.client().with_key(ADMIN);
    admin.send("POST", "/admin/v1/reload", Some("application/json"), Some(b"{}")).await.ok();
    session_of_upstream.send_text(&delta(100)).await;
    assert_eq!(client.event().await["type"], "response.output_audio.delta");
    let turn = with(super::response("acme/fast"), json!({"type": "response.create", "store": false}));
    assert_eq!(turns.ask(&turn).await["type"], "response.completed");

    let next = take_over(&world).await;
    assert_eq!(next.addr, world.gateway.addr);
    // An idle session ends, and a response that runs is finished.
    assert_eq!(idle.closed().await, Some(1001));
    assert_eq!(turns.closed().await, Some(1001));
    session_of_upstream.send_text(&delta(100)).await;
    assert_eq!(client.event().await["type"], "response.output_audio.delta");
    session_of_upstream.send(&done("r", "completed", &full_usage())).await;
    assert_eq!(client.event().await["type"], "response.done");
    assert_eq!(client.closed().await, Some(1001));
    assert_eq!(world.gateway.ended().await.code(), Some(0));

    // The next process has new sessions, and the row of the old one.
    let rows = next.client().with_key(ADMIN);
    let row = eventually_row(&rows).await;
    assert_eq!((&row["status"], &row["cost_usd"]), (&json!("ok"), &json!(0.006_853_6)), "{row}");
    let opening = open_session_at(&upstream, &next).await;
    let (mut client, mut session) = opening;
    begin(&mut client, &mut session).await;
}

async fn take_over(world: &World) -> Gateway {
    let folder = world.gateway.dir();
    let config = std::fs::read_to_string(folder.join("gateway.toml")).expect("the configuration");
    let data = folder.join("data");
    Launch::new(binary())
        .file("gateway.toml", config)
        .env("MODEL_GATEWAY_DATA_DIR", data.to_str().expect("UTF-8"))
        .arg("serve")
        .arg("--take-over")
        .start()
        .await
}

async fn eventually_row(admin: &gw_testkit::Client) -> Value {
    eventually_async("the row is in the ledger", async || {
        let page = admin.get("/admin/v1/requests?surface=realtime").await.json();
        if let Some(row) = page["data"].as_array().and_then(|rows| rows.first()) {
            return Some(row.clone());
        }
        None
    })
    .await
}

async fn open_session_at(upstream: &RealtimeUpstream, gateway: &Gateway) -> (SocketClient, UpstreamSession) {
    let bearer = format!("Bearer {KEY}");
    let headers = [("authorization", bearer.as_str())];
    let opening = open_at(gateway.addr, "/v1/realtime?model=rt/voice", &headers);
    let (opened, session) = tokio::join!(opening, upstream.session());
    (opened.expect("a session"), session)
}

#[tokio::test]
async fn a_response_that_outlives_the_drain_is_cut_with_1001() {
    let upstream = RealtimeUpstream::start().await;
    let mut world = world_with(&upstream, Setup { server: "drain_seconds = 1", ..Setup::default() }).await;
    let (mut client, mut session_of_upstream) = session(&upstream, &world).await;
    begin(&mut client, &mut session_of_upstream).await;
    session_of_upstream.send_text(&delta(32_000)).await;
    client.event().await;
    world.gateway.sigterm();
    assert_eq!(client.closed().await, Some(1001));
    session_of_upstream.until_closed().await;
    assert!(world.gateway.ended().await.success());
}

/// The number of sockets whose memory is measured; `IDLE_SOCKETS` sets another one.
fn idle_sockets() -> usize {
    std::env::var("IDLE_SOCKETS").map_or(100, |count| count.parse().expect("IDLE_SOCKETS is a number"))
}

#[tokio::test]
async fn an_idle_socket_costs_little_memory() {
    gw_testkit::open_files(16_384);
    let count = idle_sockets();
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let open = |count: usize| async move { format!("gateway_websockets {count}") };
    // The first ones load the code and the buffers that all sockets share.
    let mut turns = vec![with_key(world.gateway.addr, KEY).await];
    let mut sessions = vec![session(&upstream, &world).await];
    let before = world.gateway.rss_kib();
    for _ in 0..count {
        turns.push(with_key(world.gateway.addr, KEY).await);
    }
    let of_turns = world.gateway.rss_kib().saturating_sub(before);
    let before = world.gateway.rss_kib();
    for _ in 0..count {
        sessions.push(session(&upstream, &world).await);
    }
    let of_sessions = world.gateway.rss_kib().saturating_sub(before);
    let metrics = admin.get("/metrics").await.text();
    assert!(metrics.contains(&open(2 * count + 2).await), "{metrics}");
    let count = count as u64;
    at_most("KiB of an idle WebSocket of the Responses API", of_turns / count, 48);
    at_most("KiB of an idle realtime session", of_sessions / count, 80);
    drop((turns, sessions));
    until_free(&world).await;
}

#[tokio::test]
async fn a_session_of_an_unknown_path_or_a_head_without_a_key_reaches_no_upstream() {
    let upstream = RealtimeUpstream::start().await;
    let world = world_with(&upstream, Setup::default()).await;
    let bearer = format!("Bearer {KEY}");
    let headers = [("authorization", bearer.as_str())];
    for (path, status) in [("/v1/realtime/calls?model=rt/voice", 404), ("/v1/realtimes?model=rt/voice", 404)]
    {
        let refusal = open_session(&upstream, &world, path, &headers).await.err().expect(path);
        assert_eq!(refusal.status().as_u16(), status, "{path}");
    }
    let _ = eventually("a line of the access log", || {
        world.gateway.logs().into_iter().find(|line| line["status"] == 404)
    })
    .await;
}
