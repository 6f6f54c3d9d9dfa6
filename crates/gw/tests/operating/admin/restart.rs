//! The end of a process and the start of the next one on the same address: nothing is refused, nothing is lost.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::sse::text_of;
use gw_testkit::upstream::{Step, default_answer, sse_data};
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, FakeUpstream, Launch, Signal, eventually, open_files, within};
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};

use crate::harness::ledger::{rows, rows_in};
use crate::harness::{KEY, Setup, binary, chat, chat_with, world};

const CHAT: &str = "/v1/chat/completions";

/// Sends 500 requests a second until `over` is set. Each has a connection of its own. Returns their number, after it has seen
/// that each was answered with 200.
fn load(client: &Client, over: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let (client, over) = (client.clone(), Arc::clone(over));
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(2));
        let mut asking = JoinSet::new();
        while !over.load(Ordering::Acquire) {
            ticks.tick().await;
            let client = client.clone();
            asking.spawn(async move { client.post_json(CHAT, &chat("acme/fast")).await.status });
        }
        let statuses = asking.join_all().await;
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
        statuses.len()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p04_a_gateway_that_takes_over_under_load_refuses_nothing() {
    open_files(8192);
    let upstream = FakeUpstream::start().await;
    let config = Setup::default().config(&upstream.base_url(), &upstream.base_url());
    let mut first = Launch::new(binary()).file("gateway.toml", &config).start().await;
    let over = Arc::new(AtomicBool::new(false));
    let loading = load(&first.client().with_key(KEY), &over);
    eventually("the load has begun", || (upstream.hits() > 100).then_some(())).await;
    let data = first.dir().join("data");
    let second = Launch::new(binary())
        .file("gateway.toml", &config)
        .env("MODEL_GATEWAY_DATA_DIR", data.to_str().expect("UTF-8"))
        .arg("serve")
        .arg("--take-over")
        .start()
        .await;
    assert_eq!(second.addr, first.addr);
    assert_eq!(first.ended().await.code(), Some(0));
    let answered = second.logs().len();
    eventually("the second gateway serves alone", || (second.logs().len() > answered + 100).then_some(()))
        .await;
    over.store(true, Ordering::Release);
    let sent = loading.await.expect("every request is answered with 200");
    assert_eq!(rows(&first, sent).await.len(), sent, "one row each");
    assert_eq!(upstream.hits(), sent);
}

#[tokio::test]
async fn a_gateway_that_has_taken_over_records_what_the_earlier_one_had_under_way_when_it_died() {
    let upstream = FakeUpstream::start().await;
    let config = Setup::default().config(&upstream.base_url(), &upstream.base_url());
    let data = tempfile::tempdir().expect("a folder");
    let launch = || {
        let launch = Launch::new(binary()).file("gateway.toml", &config);
        launch.env("MODEL_GATEWAY_DATA_DIR", data.path().to_str().expect("UTF-8"))
    };
    let first = launch().start().await;
    let begun = Answer::sse().data(&sse_data(&json!({ "content": "begun" }), None)).hang();
    upstream.enqueue(begun);
    let client = first.client().with_key(KEY);
    let mut stream = client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    stream.json().await;
    stream.json().await;
    let second = launch().arg("serve").arg("--take-over").start().await;
    assert_eq!(second.addr, first.addr);
    let started = second.stderr().join("\n");
    assert!(!started.contains("another running gateway uses the same data directory"), "{started}");
    second.client().with_key(KEY).post_json(CHAT, &chat("acme/fast")).await.ok();
    assert_eq!(rows_in(&data.path().join("gateway.db"), 1).await[0].status, "ok");
    // The first one drains, for the stream.
    let _directory = first.stop();
    let found = rows_in(&data.path().join("gateway.db"), 2).await;
    let statuses: Vec<_> = found.iter().map(|row| &*row.status).collect();
    assert_eq!(statuses, ["ok", "interrupted"], "the newest first");
}

#[tokio::test]
async fn a_take_over_without_a_running_gateway_is_a_usual_start() {
    let config = Setup::default().config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let gateway =
        Launch::new(binary()).file("gateway.toml", config).arg("serve").arg("--take-over").start().await;
    gateway.client().get("/healthz").await.ok();
}

#[tokio::test]
async fn silent_peers_of_the_hand_over_hold_up_no_take_over() {
    let config = Setup::default().config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let mut first = Launch::new(binary()).file("gateway.toml", config.clone()).arg("serve").start().await;
    let data = first.dir().join("data");
    // The gateway serves a moment before it offers its sockets.
    let socket = data.join("hand-over.sock");
    eventually("the socket is there", || socket.exists().then_some(())).await;
    // More of them than processes that may start at one time.
    let mut silent = Vec::new();
    for _ in 0..6 {
        let mut stream = tokio::net::UnixStream::connect(&socket).await.expect("the socket");
        // Each has been given the sockets before the next one asks.
        let mut byte = [0];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut byte).await.expect("the byte with the sockets");
        silent.push(stream);
    }
    let second = Launch::new(binary())
        .file("gateway.toml", config.replace("127.0.0.1:0", &first.addr.to_string()))
        .env("MODEL_GATEWAY_DATA_DIR", data.to_str().expect("UTF-8"))
        .arg("serve")
        .arg("--take-over")
        .start()
        .await;
    assert_eq!(second.addr, first.addr);
    assert_eq!(first.ended().await.code(), Some(0));
    second.client().get("/healthz").await.ok();
}

#[tokio::test]
async fn a_gateway_that_gives_no_sockets_ends_a_take_over_with_a_clear_error() {
    let launch = Launch::new(binary())
        .file("gateway.toml", Setup::default().config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"));
    let data = launch.dir().join("data");
    std::fs::create_dir(&data).expect("a directory");
    let _frozen = std::os::unix::net::UnixListener::bind(data.join("hand-over.sock")).expect("a socket");
    let launch = launch.env("MODEL_GATEWAY_DATA_DIR", data.to_str().expect("UTF-8"));
    let output = launch.arg("serve").arg("--take-over").run();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("gave no sockets within 10 s; stop it, or start without --take-over"), "{said}");
}

#[tokio::test]
async fn a_gateway_goes_on_when_the_next_one_cannot_use_its_sockets() {
    let mut world = world().await;
    let data = world.gateway.dir().join("data");
    let other = Setup::default().config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let next = Launch::new(binary())
        .file("gateway.toml", other.replace("127.0.0.1:0", "127.0.0.2:0"))
        .env("MODEL_GATEWAY_DATA_DIR", data.to_str().expect("UTF-8"))
        .arg("serve")
        .arg("--take-over")
        .run();
    assert_eq!(next.status.code(), Some(2), "{}", String::from_utf8_lossy(&next.stderr));
    assert!(String::from_utf8_lossy(&next.stderr).contains("and not on 127.0.0.2:0"));
    world.chat_ok(&chat("acme/fast")).await;
    assert!(world.gateway.is_running());
}

/// Starts the program as systemd does: the socket is descriptor 3.
fn activated(launch: &Launch, socket: &TcpListener) -> Child {
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" serve";
    let home = launch.dir();
    Command::new("sh")
        .args(["-c", script, binary()])
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .env("MODEL_GATEWAY_DATA_DIR", home.join("data"))
        .stdin(OwnedFd::from(socket.try_clone().expect("a copy of the socket")))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh can be executed")
}

async fn ended(child: &mut Child) -> Option<i32> {
    eventually("the gateway ends", || child.try_wait().expect("the child can be asked")).await.code()
}

fn terminate(child: &Child) {
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p04_connections_wait_in_the_socket_of_the_service_manager() {
    let upstream = FakeUpstream::start().await;
    let config = Setup::default().config(&upstream.base_url(), &upstream.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr: SocketAddr = socket.local_addr().expect("an address");
    let client = Client::new(addr).with_key(KEY);
    let mut first = activated(&launch, &socket);
    client.post_json(CHAT, &chat("acme/fast")).await.ok();
    // One request runs while the first gateway ends.
    let release = Signal::new();
    let paused = release.clone();
    upstream.respond_with(move |request| default_answer(request).after(Step::Wait(paused.clone())));
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.post_json(CHAT, &chat("acme/fast")).await.status }
    });
    upstream.request(1).await;
    terminate(&first);
    upstream.respond_with(default_answer);
    release.fire();
    assert_eq!(running.await.expect("an answer"), 200);
    assert_eq!(ended(&mut first).await, Some(0));
    // No gateway accepts connections now. They wait in the queue of the socket.
    let mut waiting = JoinSet::new();
    for _ in 0..50 {
        let client = client.clone();
        waiting.spawn(async move { client.post_json(CHAT, &chat("acme/fast")).await.status });
    }
    let mut second = activated(&launch, &socket);
    assert_eq!(waiting.join_all().await, vec![200; 50]);
    terminate(&second);
    assert_eq!(ended(&mut second).await, Some(0));
}

#[tokio::test]
async fn the_service_manager_hears_of_start_reload_and_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let config = Setup::default().config("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1");
    let mut gateway = Launch::new(binary())
        .file("gateway.toml", config)
        .env("NOTIFY_SOCKET", path.to_str().expect("UTF-8"))
        .env("WATCHDOG_USEC", "20000000")
        .start()
        .await;
    let next = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let ready = format!("READY=1\nMAINPID={}", gateway.pid());
    assert_eq!([next(), next()], [ready.clone(), "WATCHDOG=1".to_owned()]);
    let sent = Command::new("kill").args(["-HUP", &gateway.pid().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let reloading = next();
    let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").map(str::parse::<u64>);
    assert!(matches!(micros, Some(Ok(micros)) if micros > 0), "{reloading}");
    assert_eq!(next(), ready);
    gateway.sigterm();
    assert_eq!(next(), "STOPPING=1");
    assert_eq!(gateway.ended().await.code(), Some(0));
}

const STREAMS: usize = 1000;
/// The times before and in the grace. A pause of the test of a few seconds fits into each.
const DELAY: Duration = Duration::from_secs(6);
const GRACE: Duration = Duration::from_secs(10);

/// Waits until the gateway has closed these connections.
async fn closed(wires: Vec<RawClient>) {
    for mut wire in wires {
        wire.until_closed().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p02_a_thousand_streams_finish_in_the_grace_or_get_an_error_event() {
    open_files(8192);
    let mut world = Setup {
        server: "drain_seconds = 10\nshutdown_delay_seconds = 6\nhead_timeout_ms = 600000\nkeepalive_seconds = 0",
        ..Setup::default()
    }
    .start()
    .await;
    let release = Signal::new();
    let (number, released) = (AtomicUsize::new(0), release.clone());
    world.upstream.respond_with(move |request| {
        if request.json()["stream"] != true {
            return default_answer(request);
        }
        let begun = Answer::sse().data(&sse_data(&json!({ "content": "begun" }), None));
        if number.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            let rest = begun.wait(&released).data(&sse_data(&json!({ "content": " ended" }), None));
            return rest.data(&sse_data(&json!({}), Some("stop"))).done();
        }
        begun.hang()
    });
    let mut opening = JoinSet::new();
    for _ in 0..STREAMS {
        let client = world.client.clone();
        opening.spawn(async move {
            let mut stream = client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
            stream.json().await;
            stream.json().await;
            stream
        });
    }
    let streams = opening.join_all().await;
    let (mut idle, mut half_open) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let mut wire = RawClient::connect(world.gateway.addr).await;
        wire.send(world.client.head("GET", "/v1/models", None, None)).await;
        wire.response().await.expect("an answer").ok();
        idle.push(wire);
        let mut wire = RawClient::connect(world.gateway.addr).await;
        wire.send("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n").await;
        half_open.push(wire);
    }
    let start = Instant::now();
    world.gateway.sigterm();
    let probe = world.client.without_key();
    within("readiness fails", async { while probe.get("/readyz").await.status != 503 {} }).await;
    assert_eq!(world.client.post_json(CHAT, &chat("acme/fast")).await.status, 200, "the delay is not over");
    // Idle connections close when the grace begins.
    closed(idle).await;
    // Each signal lets one stream go on.
    let releasing = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        loop {
            ticks.tick().await;
            release.fire();
        }
    });
    let mut reading = JoinSet::new();
    for mut stream in streams {
        reading.spawn(async move { stream.rest().await });
    }
    closed(half_open).await;
    let ends = reading.join_all().await;
    releasing.abort();
    let is_whole = |frames: &&Vec<String>| {
        text_of(frames, 0) == " ended" && frames.last().is_some_and(|frame| frame == "data: [DONE]\n\n")
    };
    let is_error = |frames: &&Vec<String>| {
        frames.iter().any(|frame| frame.contains("\"upstream_stream_error\""))
            && !frames.iter().any(|frame| frame.contains("\"finish_reason\":\""))
    };
    assert_eq!(ends.iter().filter(is_whole).count(), STREAMS / 2, "streams that end in the grace are whole");
    assert_eq!(ends.iter().filter(is_error).count(), STREAMS / 2, "the others get an error event");
    assert_eq!(world.gateway.ended().await.code(), Some(0));
    let most = DELAY + GRACE + Duration::from_secs(2);
    at_most("p02_a_thousand_streams_finish_in_the_grace_or_get_an_error_event", start.elapsed(), most);
}

#[tokio::test]
async fn p03_a_second_sigterm_ends_at_once_and_the_ledger_is_whole() {
    let mut world = Setup { server: "drain_seconds = 600", ..Setup::default() }.start().await;
    world.upstream.always(Answer::sse().data(&sse_data(&json!({ "content": "begun" }), None)).hang());
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
        stream.json().await;
        stream.json().await;
        streams.push(stream);
    }
    world.gateway.sigterm();
    let probe = world.client.without_key();
    within("readiness fails", async { while probe.get("/readyz").await.status != 503 {} }).await;
    let start = Instant::now();
    world.gateway.sigterm();
    for mut stream in streams {
        assert!(stream.rest().await.iter().any(|frame| frame.contains("\"upstream_stream_error\"")));
    }
    assert_eq!(world.gateway.ended().await.code(), Some(0));
    at_most(
        "p03_a_second_sigterm_ends_at_once_and_the_ledger_is_whole",
        start.elapsed(),
        Duration::from_secs(10),
    );
    let ends: Vec<String> =
        rows(&world.gateway, 20).await.into_iter().map(|row| row.status.into_owned()).collect();
    assert_eq!(ends, vec!["gateway_shutdown"; 20]);
}
