//! The network before an upstream: addresses, names and TLS (U1 to U4 of tests/guarantees.md).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gw_testkit::certificate::Certificate;
use gw_testkit::measured::at_most;
use gw_testkit::sse::text_of;
use gw_testkit::upstream::{chat_body, refused_address};
use gw_testkit::{Answer, FakeUpstream, Launch};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::harness::answers::{attempts, fallback, pairs};
use crate::harness::ledger::rows;
use crate::harness::{KEY, Setup, UPSTREAM_KEY, World, assert_error, binary, chat, chat_with};

pub(crate) const CHAT: &str = "/v1/chat/completions";
/// One attempt per target, and no circuit breaker, which would hide the fault.
pub(crate) const PLAIN: &str = "retries = 0\n[routing.breaker]\nfailures = 1000";

pub(crate) fn with_spare() -> Value {
    chat_with("acme/fast", fallback(&["beta/spare"]))
}

fn streamed_with_spare() -> Value {
    let mut body = with_spare();
    body["stream"] = json!(true);
    body
}

pub(crate) fn url(address: SocketAddr) -> String {
    format!("http://{address}/v1")
}

/// Plain and streamed requests are answered by `beta` after `acme` failed with this code.
async fn assert_spared(label: &str, world: &World, code: &str) {
    let body = world.chat_ok(&with_spare()).await;
    assert_eq!(attempts(&body), pairs(&[("acme/fast", code), ("beta/spare", "ok")]), "{label}");
    let frames = world.client.stream(CHAT, &streamed_with_spare()).await.rest().await;
    assert_eq!(text_of(&frames, 0), "Hello from upstream", "{label}: {frames:?}");
}

#[tokio::test]
async fn u01_a_refused_connection_moves_on_at_once() {
    let (dead, dead_too) = (refused_address().await, refused_address().await);
    let routing = PLAIN;
    let world = Setup { acme_url: Some(url(dead)), routing, ..Setup::default() }.start().await;
    let mut quickest = u64::MAX;
    for _ in 0..10 {
        let body = world.chat_ok(&with_spare()).await;
        let expected = [("acme/fast", "upstream_unreachable"), ("beta/spare", "ok")];
        assert_eq!(attempts(&body), pairs(&expected));
        quickest = quickest.min(body["gateway"]["attempts"][0]["latency_ms"].as_u64().expect("a time"));
    }
    assert!(quickest <= 50, "the next target is asked after {quickest} ms");
    let found = rows(&world.gateway, 10).await;
    assert_eq!(found.len(), 10, "one row a request");
    for row in found {
        let tried = serde_json::to_value(&row.attempts).expect("attempts are JSON");
        assert_eq!((&*row.status, tried.as_array().map(Vec::len)), ("ok", Some(2)), "{row:?}");
    }
    assert_spared("refused", &world, "upstream_unreachable").await;
    // No candidate is left.
    let config = Setup { routing, ..Setup::default() }.config(&url(dead), &url(dead_too));
    let gateway = crate::harness::serve(&config).await;
    let client = gateway.client().with_key(KEY);
    let answer = client.post_json(CHAT, &with_spare()).await;
    assert_error("all refused", &answer, 502, "upstream_error", "upstream_unreachable");
    let answer = client.try_stream(CHAT, &streamed_with_spare()).await.expect_err("no stream");
    assert_error("all refused", &answer, 502, "upstream_error", "upstream_unreachable");
}

/// An address that neither accepts nor refuses: a listener whose queue is full drops every further SYN.
async fn black_hole() -> (SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let listener = socket.listen(0).expect("it listens");
    let address = listener.local_addr().expect("its address");
    let mut waiting = Vec::new();
    while let Ok(open) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        waiting.push(open);
        assert!(waiting.len() < 64, "the queue is never full");
    }
    (address, (listener, waiting))
}

#[tokio::test]
async fn u02_a_black_hole_fails_at_the_connect_limit() {
    let (hole, _held) = black_hole().await;
    let timeouts = "connect_ms = 600\nfirst_token_ms = 30000\ntotal_ms = 60000";
    let world =
        Setup { acme_url: Some(url(hole)), routing: PLAIN, timeouts, ..Setup::default() }.start().await;
    let start = Instant::now();
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("alone", &answer, 504, "upstream_error", "upstream_timeout");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(600), "{took:?}");
    at_most("u02_a_black_hole_fails_at_the_connect_limit", took, Duration::from_secs(3));
    let body = world.chat_ok(&with_spare()).await;
    assert_eq!(attempts(&body), pairs(&[("acme/fast", "upstream_timeout"), ("beta/spare", "ok")]));
    let took = body["gateway"]["attempts"][0]["latency_ms"].as_u64().expect("a time");
    assert!(took >= 600, "{took} ms");
    at_most("u02_a_black_hole_fails_at_the_connect_limit", took, 3_000);
    assert_spared("black hole", &world, "upstream_timeout").await;
}

/// Builds the scripted resolver; gives the library and the file that holds its script.
fn scripted_resolver(dir: &Path) -> (PathBuf, PathBuf) {
    let (library, script) = (dir.join("resolver.so"), dir.join("resolver"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/faults/resolver.c");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status();
    assert!(built.expect("a C compiler, which our build needs anyway").success());
    (library, script)
}

#[tokio::test]
async fn u03_a_resolver_that_fails_stalls_or_changes_its_mind_is_bounded() {
    let upstream = FakeUpstream::start().await;
    // Each request needs a connection, each connection an address.
    upstream.respond_with(|_| Answer::json_with(200, &[("connection", "close")], &chat_body("m", "x")));
    let port = upstream.addr.port();
    let setup = Setup {
        routing: PLAIN,
        timeouts: "connect_ms = 2000\nfirst_token_ms = 30000\ntotal_ms = 60000",
        acme: "allow_private_network = true".to_owned(),
        ..Setup::default()
    };
    let (flips, slow) =
        (format!("http://flips.scripted.test:{port}/v1"), format!("http://slow.scripted.test:{port}/v1"));
    let launch = Launch::new(binary()).file("gateway.toml", setup.config(&flips, &slow));
    let (library, script) = scripted_resolver(launch.dir());
    let log = launch.dir().join("resolver.log");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let launch = launch.env("LD_PRELOAD", &text(&library)).env("RESOLVER", &text(&script));
    let gateway = launch.start().await;
    let client = gateway.client().with_key(KEY);
    let says = |what: &str| std::fs::write(&script, what).expect("the script can be written");
    let lookups = |name: &str| {
        std::fs::read_to_string(&log)
            .unwrap_or_default()
            .lines()
            .filter(|line| line.starts_with(name))
            .count()
    };
    for (label, address, status) in [
        ("no such name", "fail", 502),
        ("a dead address", "127.0.0.2", 502),
        ("a good one: nothing bad was remembered", "127.0.0.1", 200),
        ("the resolver is away: the address that worked last", "fail", 200),
        ("it points into the cloud's metadata now", "169.254.169.254", 502),
        ("and back", "127.0.0.1", 200),
    ] {
        says(address);
        let answer = client.post_json(CHAT, &chat("acme/fast")).await;
        assert_eq!(answer.status, status, "{label}: {}", answer.text());
        if status != 200 {
            assert_error(label, &answer, 502, "upstream_error", "upstream_unreachable");
        }
    }
    // A resolver that needs half a minute: the connect timeout ends it, and all waiting requests share one query.
    let start = Instant::now();
    let asked = (0..50).map(|_| async { client.post_json(CHAT, &chat("beta/fast")).await });
    for answer in futures_util::future::join_all(asked).await {
        assert_error("slow", &answer, 504, "upstream_error", "upstream_timeout");
    }
    let body = client.post_json(CHAT, &chat_with("beta/fast", fallback(&["acme/fast"]))).await.ok().json();
    assert_eq!(attempts(&body), pairs(&[("beta/fast", "upstream_timeout"), ("acme/fast", "ok")]));
    at_most(
        "u03_a_resolver_that_fails_stalls_or_changes_its_mind_is_bounded",
        start.elapsed(),
        Duration::from_secs(20),
    );
    assert_eq!(lookups("slow."), 1, "no thread for each request");
}

/// A server that reads once, sends these bytes, and keeps the connection.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The bytes that the server read on all connections.
    seen: Arc<Mutex<Vec<u8>>>,
    /// The connections, kept open.
    pub(crate) left: tokio::sync::mpsc::UnboundedReceiver<TcpStream>,
}

/// A server that sends these bytes on each connection.
pub(crate) async fn peer(says: impl Fn(usize) -> Vec<u8> + Send + 'static) -> Peer {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (leave, left) = tokio::sync::mpsc::unbounded_channel();
    let heard = Arc::clone(&seen);
    tokio::spawn(async move {
        for index in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut buffer = vec![0; 16 * 1024];
            let count = stream.read(&mut buffer).await.unwrap_or(0);
            heard.lock().expect("no panic while locked").extend_from_slice(&buffer[..count]);
            let _gone = stream.write_all(&says(index)).await;
            let _over = leave.send(stream);
        }
    });
    Peer { address, seen, left }
}

/// The record of a TLS 1.1 server hello.
fn tls11_hello() -> Vec<u8> {
    let mut hello = vec![2, 0, 0, 38, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0x00, 0x2f, 0]);
    let mut record = vec![22, 3, 2, 0, u8::try_from(hello.len()).expect("a short one")];
    record.extend(hello);
    record
}

#[tokio::test]
async fn u04_handshakes_that_go_wrong_never_show_the_key() {
    // The first connection also reads the machine's root certificates. The fault must be reported long before the timeout.
    let (long, short) = ("connect_ms = 30000\ntotal_ms = 60000", "connect_ms = 1000\ntotal_ms = 60000");
    let faults: [(&str, Vec<u8>, u16, &str); 5] = [
        ("it refuses our versions", vec![21, 3, 1, 0, 2, 2, 70], 502, "upstream_unreachable"),
        ("TLS 1.1 only", tls11_hello(), 502, "upstream_unreachable"),
        (
            "cleartext",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_vec(),
            502,
            "upstream_unreachable",
        ),
        ("noise", (0..=255).rev().collect(), 502, "upstream_unreachable"),
        ("silence", Vec::new(), 504, "upstream_timeout"),
    ];
    for (label, says, status, code) in faults {
        let timeouts = if status == 504 { short } else { long };
        let peer = peer(move |_| says.clone()).await;
        let acme_url = Some(format!("https://{}/v1", peer.address));
        let world = Setup { acme_url, routing: PLAIN, timeouts, ..Setup::default() }.start().await;
        let start = Instant::now();
        let answer = world.chat(&chat("acme/fast")).await;
        assert_error(label, &answer, status, "upstream_error", code);
        at_most("u04_handshakes_that_go_wrong_never_show_the_key", start.elapsed(), Duration::from_secs(10));
        assert_spared(label, &world, code).await;
        let seen = peer.seen.lock().unwrap().clone();
        let has = |part: &[u8]| seen.windows(part.len()).any(|window| window == part);
        assert_eq!(seen.first(), Some(&22), "{label}: a handshake was begun");
        assert!(has(&[0, 43, 0, 5, 4, 3, 4, 3, 3]), "{label}: only TLS 1.3 and 1.2 are offered");
        assert!(!has(UPSTREAM_KEY.as_bytes()) && !has(b"POST") && !has(b"Bearer"), "{label}");
    }
}

#[tokio::test]
async fn u04_a_name_with_a_nul_in_its_certificate_is_not_ours() {
    for (name, status, hits) in [("localhost", 200, 1), ("localhost\0.evil.example", 502, 0)] {
        let certificate = Certificate::of(&[name]);
        let upstream = FakeUpstream::start_tls(&certificate).await;
        let base = format!("https://localhost:{}/v1", upstream.addr.port());
        let acme = "allow_private_network = true".to_owned();
        let setup = Setup { routing: PLAIN, acme, ..Setup::default() };
        let launch = Launch::new(binary()).file("gateway.toml", setup.config(&base, &base));
        let launch = launch.file("roots.pem", &certificate.pem);
        let roots = launch.dir().join("roots.pem").to_string_lossy().into_owned();
        let gateway = launch.env("SSL_CERT_FILE", &roots).start().await;
        let answer = gateway.client().with_key(KEY).post_json(CHAT, &chat("acme/fast")).await;
        assert_eq!((answer.status, upstream.hits()), (status, hits), "{name:?}: {}", answer.text());
        assert!(upstream.connections() > 0, "{name:?}: it was tried");
        if status == 502 {
            assert_error("nul", &answer, 502, "upstream_error", "upstream_unreachable");
        }
    }
}

#[tokio::test]
async fn u05_no_response_head_fails_over_and_closes_the_upstream() {
    let acme = "timeouts = { first_token_ms = 500, idle_ms = 30000, total_ms = 60000 }".to_owned();
    let world = Setup { routing: PLAIN, acme, ..Setup::default() }.start().await;
    // No bytes, and an endless head.
    for silence in [Answer::default().hang(), Answer::raw("HTTP/1.1 200 OK\r\ncontent-type:").hang()] {
        world.upstream.always(silence);
        let start = Instant::now();
        let answer = world.chat(&chat("acme/fast")).await;
        assert_error("alone", &answer, 504, "upstream_error", "upstream_timeout");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(500), "{took:?}");
        at_most("u05_no_response_head_fails_over_and_closes_the_upstream", took, Duration::from_secs(3));
        assert_spared("no head", &world, "upstream_timeout").await;
    }
    assert_eq!(world.upstream.hits(), 6);
    for request in world.upstream.requests() {
        request.until_closed().await;
    }
}
