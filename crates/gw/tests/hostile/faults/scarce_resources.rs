//! Too few descriptors, too many connections, and more large bodies than the memory holds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_testkit::certificate::Certificate;
use gw_testkit::measured::at_most;
use gw_testkit::memory_group::MemoryGroup;
use gw_testkit::sse::text_of;
use gw_testkit::upstream::{chat_transcript, sse_data};
use gw_testkit::wire::RawClient;
use gw_testkit::{
    Answer, Client, FakeUpstream, Gateway, Launch, Response, Signal, eventually, open_files, within,
};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::signs::admin_address;
use crate::harness::{ADMIN, KEY, Setup, World, assert_error, binary, chat, chat_with, logged};

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
    // Attempts between the first figure and its answer count, too.
    let start = Instant::now();
    let first = metric_reaches(&mut kept, &admin, "gateway_accept_errors_total", 1).await;
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
async fn an_upstream_is_healthy_while_the_gateway_has_no_descriptor_for_it() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let admin = world.client.with_key(ADMIN);
    let mut kept = RawClient::connect(world.gateway.addr).await;
    assert_eq!(metric(&mut kept, &admin, "gateway_accept_errors_total").await, 0);
    let set = |limit: &str| {
        let pid = world.gateway.pid().to_string();
        let status = std::process::Command::new("prlimit").args(["--pid", &pid, limit]).status();
        assert!(status.is_ok_and(|status| status.success()), "prlimit of util-linux is installed");
    };
    // The standard streams are open, so no number is left for another file.
    set("--nofile=3:");
    let (body, mut ids) = (chat("acme/plain").to_string(), Vec::new());
    for _ in 0..20 {
        kept.send(world.client.head("POST", CHAT, Some("application/json"), Some(body.len()))).await;
        kept.send(&body).await;
        let answer = kept.response().await.expect("an answer on the kept connection");
        assert_error("no descriptor", &answer, 503, "upstream_error", "no_available_provider");
        ids.push(answer.header("x-request-id").expect("an id").to_owned());
    }
    assert_eq!(world.upstream.hits(), 0);
    set("--nofile=1024:");
    // No circuit has opened, and nothing was sent, so nothing is charged.
    world.chat_ok(&chat("acme/plain")).await;
    for id in ids {
        let row = logged(&admin, &id).await;
        assert_eq!((&row["cost_usd"], &row["prompt_tokens"]), (&json!(0), &json!(0)), "{row}");
    }
}

/// A connection whose request was answered, so that it has a place.
async fn placed(addr: SocketAddr, request: &str) -> RawClient {
    let mut wire = RawClient::connect(addr).await;
    wire.send(request).await;
    wire.response().await.expect("an answer").ok();
    wire
}

/// The answer to a request on a new connection, which the gateway closes.
async fn refused(addr: SocketAddr, request: &str) -> Response {
    let mut wire = RawClient::connect(addr).await;
    wire.send(request).await;
    let answer = wire.response().await.expect("an answer");
    assert!(wire.until_closed().await.is_empty(), "the connection is closed behind the answer");
    answer
}

#[tokio::test]
async fn c22_connections_beyond_the_limit_get_503_at_once() {
    let world = Setup { server: "max_connections = 4", ..Setup::default() }.start().await;
    let (admin, addr) = (world.client.with_key(ADMIN), world.gateway.addr);
    let models = world.client.head("GET", "/v1/models", None, None);
    let mut inside = Vec::new();
    for _ in 0..4 {
        inside.push(placed(addr, &models).await);
    }
    for _ in 0..20 {
        let start = Instant::now();
        let answer = refused(addr, &models).await;
        assert_error("a connection too many", &answer, 503, "upstream_error", "no_available_provider");
        assert_eq!(answer.header("connection"), Some("close"));
        at_most("c22_connections_beyond_the_limit_get_503_at_once", start.elapsed(), Duration::from_secs(1));
    }
    // A client that says nothing, and one that sends a large body first, can read the answer, too.
    let mut silent = RawClient::connect(addr).await;
    assert_eq!(silent.response().await.expect("an answer").status, 503);
    let body = vec![b'x'; 1 << 20];
    let large = world.client.send("POST", CHAT, Some("application/json"), Some(&body)).await;
    assert_error("a large body", &large, 503, "upstream_error", "no_available_provider");
    for wire in &mut inside {
        assert_eq!(metric(wire, &admin, "gateway_http_connections").await, 4, "those inside are served");
        assert!(metric(wire, &admin, "gateway_refused_connections_total").await >= 22);
        assert_eq!(metric(wire, &admin, "gateway_accept_errors_total").await, 0);
    }
    drop(inside.pop());
    within("the place of one that left is free", async {
        let mut wire = RawClient::connect(addr).await;
        wire.send(&models).await;
        while wire.response().await.is_none_or(|answer| answer.status != 200) {
            wire = RawClient::connect(addr).await;
            wire.send(&models).await;
        }
    })
    .await;
}

#[tokio::test]
async fn c22_a_flood_beyond_the_limit_costs_little_and_the_admin_listener_has_its_own_places() {
    let server = "max_connections = 2\nadmin_listen = \"127.0.0.1:0\"";
    let world = Setup { server, ..Setup::default() }.start().await;
    // One connection, which is kept: the place of a closed one is free a moment later.
    let admin = Client::new(admin_address(&world.gateway).await).with_key(ADMIN);
    let mut operator = RawClient::connect(admin.addr).await;
    let (addr, models) = (world.gateway.addr, world.client.head("GET", "/v1/models", None, None));
    let mut inside = [placed(addr, &models).await, placed(addr, &models).await];
    let before = world.gateway.anonymous_kib();
    let mut flood = JoinSet::new();
    for _ in 0..4 {
        flood.spawn(async move {
            let mut told = 0;
            while told < 1_000 {
                // The client leaves without reading, as a flood does. The kernel may refuse it.
                if let Ok(stream) = TcpStream::connect(addr).await {
                    told += 1;
                    drop(stream);
                }
            }
            told
        });
    }
    while !flood.is_empty() {
        for wire in &mut inside {
            wire.send(&models).await;
            wire.response().await.expect("those inside are served").ok();
        }
        metric(&mut operator, &admin, "gateway_refused_connections_total").await;
        while flood.try_join_next().is_some() {}
    }
    let count = metric(&mut operator, &admin, "gateway_refused_connections_total").await;
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    assert!(count > 0, "{count} refusals");
    // 64 between two pauses of 50 ms.
    at_most("refusals of a flood", count, workers * 64 * 200);
    let grown = world.gateway.anonymous_kib().saturating_sub(before) >> 10;
    at_most("MiB of a flood of connections", grown, 32);
}

#[tokio::test]
async fn c22_over_tls_a_connection_beyond_the_limit_is_closed() {
    let made = Certificate::of(&["127.0.0.1"]);
    let server = "max_connections = 1\ntls = { cert = \"cert.pem\", key = \"key.pem\" }";
    let config =
        Setup { server, ..Setup::default() }.config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let launch = Launch::new(binary()).file("gateway.toml", config).file("cert.pem", &made.pem);
    let gateway = launch.file("key.pem", &made.key_pem).start().await;
    // It has the place while its handshake is awaited.
    let mut inside = RawClient::connect(gateway.addr).await;
    assert!(inside.is_quiet_for(Duration::from_millis(300)).await);
    let mut outside = RawClient::connect(gateway.addr).await;
    assert_eq!(outside.until_closed().await, b"", "no handshake, and no answer without TLS");
    assert!(inside.is_quiet_for(Duration::from_millis(100)).await, "the first one keeps its place");
}

/// The most memory that the gateway has ever had, in MiB.
pub(super) fn peak_mib(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap_or_default();
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
        let peak = peak_mib(&world.gateway);
        at_most("MiB of large bodies", peak, most);
    }
    let back = || (world.gateway.rss_kib() >> 10 <= warm_mib + warm_mib / 10).then_some(());
    eventually("the memory of the bodies is given back", back).await;
    world.chat_ok(&chat("demo/chat")).await;
}

/// The container of the row: 512 MiB, and waves of 60 bodies of 20 MiB. A debug build reads them slowly: one wave in each run,
/// `P05_WAVES=3` is the full number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p05_waves_of_sixty_large_bodies_fit_into_a_container() {
    const CONTAINER_MIB: u64 = 512;
    const BODY_MIB: usize = 20;
    let waves = std::env::var("P05_WAVES").ok().and_then(|count| count.parse().ok()).unwrap_or(1);
    // Where no control group can be made, the gateway gets the setting that it would derive, and its peak is measured.
    let group = MemoryGroup::new(CONTAINER_MIB << 20);
    let server = if group.is_some() { "" } else { "body_memory_mib = 64" };
    let upstream = FakeUpstream::start().await;
    let config = Setup { server, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
    let join = group
        .as_ref()
        .map_or_else(String::new, |group| format!("echo $$ > '{}' && ", group.members().display()));
    let script = format!("{join}exec \"$0\" serve");
    let launch = Launch::new("sh").arg("-c").arg(script).arg(binary()).file("gateway.toml", config);
    let mut gateway = launch.start().await;
    let client = gateway.client().with_key(KEY);
    let question =
        json!({ "messages": [{ "role": "user", "content": "x".repeat(BODY_MIB << 20) }], "max_tokens": 1 });
    let body = Arc::new(chat_with("demo/chat", question).to_string().into_bytes());
    client.post_bytes(CHAT, &body).await.ok();
    let warm_kib = gateway.anonymous_kib();
    for wave in 0..waves {
        let mut clients = JoinSet::new();
        for _ in 0..60 {
            let (client, body) = (client.clone(), Arc::clone(&body));
            clients.spawn(async move { client.post_bytes(CHAT, &body).await });
        }
        let (served, refused): (Vec<_>, Vec<_>) =
            clients.join_all().await.into_iter().partition(|answer| answer.status == 200);
        for answer in &refused {
            assert_error("a body too many", answer, 503, "upstream_error", "no_available_provider");
        }
        assert!(!served.is_empty() && !refused.is_empty(), "wave {wave}: {} served", served.len());
        assert!(gateway.is_running(), "wave {wave}");
        assert_eq!(group.as_ref().map_or(0, MemoryGroup::kills), 0, "wave {wave}");
        assert!(peak_mib(&gateway) < CONTAINER_MIB, "wave {wave}: {} MiB", peak_mib(&gateway));
    }
    let back = || (gateway.anonymous_kib() <= warm_kib + warm_kib / 10).then_some(());
    eventually("the memory of the bodies is given back", back).await;
    client.post_json(CHAT, &chat("demo/chat")).await.ok();
}
