//! Too few descriptors, too many connections, and more large bodies than the memory holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_testkit::sse::text_of;
use gw_testkit::upstream::{chat_transcript, sse_data};
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, Signal, eventually, open_files, within};
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::{ADMIN, Setup, World, assert_error, chat, chat_with, logged};

const CHAT: &str = "/v1/chat/completions";
/// The pause of a worker after a connection that it could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(75);

/// The value of a metric without labels, asked on a connection that is open already.
async fn metric(wire: &mut RawClient, admin: &Client, name: &str) -> u64 {
    wire.send(admin.head("GET", "/metrics", None, None)).await;
    let text = wire.response().await.expect("an answer on the kept connection").ok().text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
}

/// Waits until the metric is at least `wanted`; gives its value.
async fn metric_reaches(wire: &mut RawClient, admin: &Client, name: &str, wanted: u64) -> u64 {
    within(&format!("{name} reaches {wanted}"), async {
        loop {
            let value = metric(wire, admin, name).await;
            if value >= wanted {
                return value;
            }
        }
    })
    .await
}

/// Sets the most open files of the running gateway.
fn limit_descriptors(world: &World, many: usize) {
    let (pid, limit) = (world.gateway.pid().to_string(), format!("--nofile={many}:{many}"));
    let status = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    assert!(status.is_ok_and(|status| status.success()), "prlimit of util-linux is installed");
}

#[tokio::test]
async fn p06_without_descriptors_live_streams_go_on_and_accepting_pauses_and_recovers() {
    open_files(2048);
    // Silent connections keep their descriptors until the test closes them.
    let world = Setup { server: "head_timeout_ms = 600000", ..Setup::default() }.start().await;
    let admin = world.client.with_key(ADMIN);
    limit_descriptors(&world, 256);
    let release = Signal::new();
    let text = |text: &str| sse_data(&json!({ "content": text }), None);
    let answer = Answer::sse().data(&text("before")).wait(&release).data(&text(" after"));
    world.upstream.enqueue(answer.data(&sse_data(&json!({}), Some("stop"))).done());
    let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    stream.json().await;
    assert_eq!(stream.json().await["choices"][0]["delta"]["content"], "before");
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    let mut kept = RawClient::connect(world.gateway.addr).await;
    assert_eq!(metric(&mut kept, &admin, "gateway_accept_errors_total").await, 0);

    // The kernel completes these connections, whether the gateway can accept them or not.
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(RawClient::connect(world.gateway.addr).await);
    }
    let first = metric_reaches(&mut kept, &admin, "gateway_accept_errors_total", 1).await;
    let start = Instant::now();
    let last = metric_reaches(&mut kept, &admin, "gateway_accept_errors_total", first + 10).await;
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u128;
    let most = workers * (start.elapsed().as_millis() / ACCEPT_PAUSE.as_millis() + 2);
    assert!(u128::from(last - first) <= most, "{} attempts in {:?}", last - first, start.elapsed());

    release.fire();
    assert_eq!(text_of(&stream.rest().await, 0), " after", "the live stream goes on");
    drop(silent);
    world.second.always(Answer::sse().all(&chat_transcript(&["fine"])).done());
    let frames =
        world.client.stream(CHAT, &chat_with("beta/fast", json!({ "stream": true }))).await.rest().await;
    assert_eq!(text_of(&frames, 0), "fine", "new clients are served again");
    assert_eq!(logged(&admin, &id).await["status"], "ok", "the stream has its row");
}

#[tokio::test]
async fn c22_connections_beyond_the_limit_wait_for_a_place() {
    let world = Setup { server: "max_connections = 4", ..Setup::default() }.start().await;
    let admin = world.client.with_key(ADMIN);
    let models = world.client.head("GET", "/v1/models", None, None);
    let mut inside = Vec::new();
    for _ in 0..4 {
        let mut wire = RawClient::connect(world.gateway.addr).await;
        wire.send(&models).await;
        wire.response().await.expect("an answer").ok();
        inside.push(wire);
    }
    let mut outside = RawClient::connect(world.gateway.addr).await;
    outside.send(&models).await;
    for wire in &mut inside {
        assert_eq!(metric(wire, &admin, "gateway_http_connections").await, 4, "those inside are served");
        assert_eq!(metric(wire, &admin, "gateway_accept_errors_total").await, 0);
    }
    assert!(outside.is_quiet_for(Duration::from_millis(200)).await, "there is no place yet");
    drop(inside.pop());
    outside.response().await.expect("an answer as soon as one leaves").ok();
}

/// The most memory that the gateway has ever had, in MiB.
fn peak_mib(world: &World) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.gateway.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the process has memory");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("VmHWM is a number") >> 10
}

/// A tenth of a container of 512 MiB: a memory for three bodies, and three waves of 60 bodies.
#[tokio::test]
async fn p05_large_bodies_together_take_a_bounded_memory_and_give_it_back() {
    const BODY_MEMORY_MIB: u64 = 7;
    let world = Setup { server: "body_limit_mib = 3\nbody_memory_mib = 7", ..Setup::default() }.start().await;
    let question =
        json!({ "messages": [{ "role": "user", "content": "x".repeat(2 << 20) }], "max_tokens": 1 });
    let body = Arc::new(chat_with("demo/chat", question).to_string().into_bytes());
    world.client.post_bytes(CHAT, &body).await.ok();
    let warm_mib = world.gateway.rss_kib() >> 10;
    for wave in 0..3 {
        let mut clients = JoinSet::new();
        for _ in 0..60 {
            let (client, body) = (world.client.clone(), Arc::clone(&body));
            clients.spawn(async move { client.post_bytes(CHAT, &body).await });
        }
        let (served, refused): (Vec<_>, Vec<_>) =
            clients.join_all().await.into_iter().partition(|answer| answer.status == 200);
        for answer in &refused {
            assert_error("a body too many", answer, 503, "upstream_error", "no_available_provider");
        }
        assert!(!served.is_empty() && !refused.is_empty(), "wave {wave}: {} served", served.len());
        // A body is held as it came, parsed, and in the form for its upstream.
        let most = warm_mib + 8 * BODY_MEMORY_MIB;
        assert!(peak_mib(&world) < most, "wave {wave}: {} MiB, and not {most}", peak_mib(&world));
    }
    let back = || (world.gateway.rss_kib() >> 10 <= warm_mib + warm_mib / 10).then_some(());
    eventually("the memory of the bodies is given back", back).await;
    world.chat_ok(&chat("demo/chat")).await;
}
