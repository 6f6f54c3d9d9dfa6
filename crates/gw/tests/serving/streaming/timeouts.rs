//! The timeouts of a stream end it, whatever the upstream sends and however slowly the client reads (C30).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_testkit::measured::at_most;
use gw_testkit::upstream::sse_data;
use gw_testkit::wait::{eventually, within};
use gw_testkit::wire::RawClient;
use gw_testkit::{Client, Gateway};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::dialects::frame;
use crate::harness::{KEY, chat_with, compressed, serve};

const CHAT: &str = "/v1/chat/completions";
/// The tolerated delay of a timeout. A debug build on a busy machine is slow.
const SLACK: Duration = Duration::from_millis(if cfg!(debug_assertions) { 4_000 } else { 250 });

/// The first bytes of an upstream, and the bytes that it repeats for ever without a pause.
pub(crate) struct Shape {
    name: &'static str,
    api: &'static str,
    kind: &'static str,
    first: Vec<u8>,
    again: Vec<u8>,
    /// The bytes of one write: less than a chunk for one chunk after the other.
    write_bytes: usize,
}

fn shape(name: &'static str, api: &'static str, again: impl AsRef<[u8]>) -> Shape {
    let kind = "text/event-stream";
    Shape { name, api, kind, first: Vec::new(), again: again.as_ref().to_vec(), write_bytes: 64 * 1024 }
}

fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

fn event(value: &Value) -> Vec<u8> {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default()).into_bytes()
}

/// Events without content, in each dialect.
fn without_content() -> Vec<Shape> {
    let no_parts = json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": []}}]});
    let empty =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}});
    let line = json!({"model": "up", "message": {"role": "assistant", "content": ""}, "done": false});
    vec![
        shape("comments", "openai", ":\n\n"),
        shape("empty deltas", "openai", data(&sse_data(&json!({}), None))),
        shape("empty content", "openai", data(&sse_data(&json!({ "content": "" }), None))),
        shape("roles", "openai", data(&sse_data(&json!({ "role": "assistant" }), None))),
        shape("line ends", "openai", "\r\n"),
        shape("pings", "openai", "event: ping\ndata: {}\n\n"),
        shape("unknown events", "openai", "event: news\nid: 7\nretry: 1\n\n"),
        Shape { first: Vec::new(), ..shape("packed comments", "openai", Vec::new()) },
        shape("pings", "anthropic", event(&json!({"type": "ping"}))),
        shape("empty deltas", "anthropic", event(&empty)),
        shape("unknown events", "anthropic", event(&json!({"type": "news"}))),
        shape("no parts", "gemini", data(&no_parts)),
        Shape {
            kind: "application/vnd.amazon.eventstream",
            ..shape("starts", "bedrock", frame("messageStart", &json!({"role": "assistant"})))
        },
        shape("starts", "cohere", event(&json!({"type": "message-start", "id": "x"}))),
        Shape { kind: "application/x-ndjson", ..shape("empty lines", "ollama", format!("{line}\n")) },
    ]
}

/// Content, and then the endless bytes of the shape.
fn after_content(again: Vec<u8>) -> Shape {
    let first = data(&sse_data(&json!({ "content": "word" }), None));
    Shape { first, ..shape("after content", "openai", again) }
}

pub(crate) fn endless_content(bytes: usize) -> Shape {
    after_content(data(&sse_data(&json!({ "content": "x".repeat(bytes) }), None)))
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Upstreams that never pause, one for each shape, at `/s<index>`. They run in threads, independent of the test.
pub(crate) struct Flood {
    addr: SocketAddr,
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Flood {
    pub(crate) fn start(shapes: &[Shape]) -> Self {
        let answers: Vec<(Vec<u8>, Vec<u8>)> = shapes.iter().map(answer).collect();
        let answers = Arc::new(answers);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("it is bound");
        let flood = Self { addr, opened: Arc::default(), closed: Arc::default() };
        let (opened, closed) = (Arc::clone(&flood.opened), Arc::clone(&flood.closed));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (answers, closed) = (Arc::clone(&answers), Arc::clone(&closed));
                opened.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    if let Ok(mut socket) = socket {
                        pour(&mut socket, &answers);
                    }
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        flood
    }

    /// The number of connections so far.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// Waits until every connection is closed.
    pub(crate) async fn all_closed(&self, calls: usize) {
        eventually("every upstream call is dropped", || {
            let (opened, closed) = (self.opened.load(Ordering::SeqCst), self.closed.load(Ordering::SeqCst));
            (opened >= calls && closed == opened).then_some(())
        })
        .await;
    }
}

/// The head with the first bytes, and the bytes of one write, each event in its own chunk.
fn answer(shape: &Shape) -> (Vec<u8>, Vec<u8>) {
    let packed = shape.again.is_empty();
    let encoding = if packed { "content-encoding: gzip\r\n" } else { "" };
    let kind = shape.kind;
    let mut head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{encoding}transfer-encoding: chunked\r\n\r\n")
            .into_bytes();
    if !shape.first.is_empty() {
        head.extend(chunk(&shape.first));
    }
    let unit =
        if packed { chunk(&compressed("gzip", &b":\n\n".repeat(100_000))) } else { chunk(&shape.again) };
    let times = (shape.write_bytes / unit.len()).max(1);
    (head, unit.repeat(times))
}

fn pour(socket: &mut std::net::TcpStream, answers: &[(Vec<u8>, Vec<u8>)]) {
    let mut request = Vec::new();
    let mut buffer = [0; 16 * 1024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => request.extend_from_slice(&buffer[..count]),
        }
    }
    let text = String::from_utf8_lossy(&request);
    let index = text.split("/s").nth(1).and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
    let (head, again) = &answers[index.expect("the path names a shape")];
    let mut written = socket.write_all(head);
    while written.is_ok() {
        written = socket.write_all(again);
    }
}

/// A gateway with a provider for each shape, `p<index>`.
pub(crate) async fn gateway(flood: &Flood, shapes: &[Shape], settings: &str) -> Gateway {
    let mut config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nkeepalive_seconds = 1\nshed_after_ms = 0\n[routing]\nretries = 0\n{settings}\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n"
    );
    for (index, Shape { api, .. }) in shapes.iter().enumerate() {
        let region = if *api == "bedrock" { "region = \"eu-west-1\"" } else { "" };
        config.push_str(&format!(
            "[[providers]]\nname = \"p{index}\"\napi = \"{api}\"\nbase_url = \"http://{}/s{index}\"\napi_key = \"sk-upstream-key-000\"\n{region}\n[[models]]\nid = \"p{index}/m\"\ncategory = [\"chat\"]\n",
            flood.addr
        ));
    }
    serve(&config).await
}

pub(crate) fn streamed(index: usize) -> Value {
    chat_with(&format!("p{index}/m"), json!({ "stream": true }))
}

/// The longest duration of `/healthz` over new connections while `working` runs.
async fn healthz_while<T>(client: &Client, working: impl Future<Output = T>) -> (T, Duration) {
    let mut working = std::pin::pin!(working);
    let mut longest = Duration::ZERO;
    loop {
        let start = Instant::now();
        let asked = client.get("/healthz");
        tokio::select! {
            done = &mut working => return (done, longest),
            answer = asked => {
                assert_eq!(answer.status, 200);
                longest = longest.max(start.elapsed());
            }
        }
        // Sleeps: it asks at a fixed pace.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn c30_the_first_token_clock_ends_an_upstream_that_never_pauses() {
    let shapes = without_content();
    let flood = Flood::start(&shapes);
    let settings = "[timeouts]\nfirst_token_ms = 500\nidle_ms = 60000\ntotal_ms = 60000";
    let gateway = gateway(&flood, &shapes, settings).await;
    let client = gateway.client().with_key(KEY);
    let all = futures_util::future::join_all((0..shapes.len()).map(|index| {
        let client = client.clone();
        async move {
            let start = Instant::now();
            let answer = client.post_json(CHAT, &streamed(index)).await;
            (answer, start.elapsed())
        }
    }));
    let (answers, longest) = healthz_while(&gateway.client(), all).await;
    for (shape, (answer, took)) in shapes.iter().zip(answers) {
        let label = format!("{} of {}", shape.name, shape.api);
        assert_eq!((answer.status, answer.code().as_str()), (504, "upstream_timeout"), "{label}");
        assert!(took >= Duration::from_millis(500), "{label}: {took:?}");
        at_most(
            "c30_the_first_token_clock_ends_an_upstream_that_never_pauses",
            took,
            Duration::from_millis(500) + SLACK,
        );
    }
    at_most("c30_the_first_token_clock_ends_an_upstream_that_never_pauses", longest, SLACK);
    flood.all_closed(shapes.len()).await;
}

#[tokio::test]
async fn c30_the_idle_clock_hears_content_only_and_keep_alives_go_on() {
    let comments = || after_content(b":\n\n".to_vec());
    let deltas = after_content(data(&sse_data(&json!({}), None)));
    let shapes = [comments(), deltas];
    let flood = Flood::start(&shapes);
    let settings = "[timeouts]\nfirst_token_ms = 60000\nidle_ms = 2500\ntotal_ms = 60000";
    let gateway = gateway(&flood, &shapes, settings).await;
    let client = gateway.client().with_key(KEY);
    for index in 0..shapes.len() {
        let mut stream = client.stream(CHAT, &streamed(index)).await;
        let mut frames = vec![stream.frame().await.expect("content")];
        let start = Instant::now();
        let ((), longest) = healthz_while(&gateway.client(), async {
            frames.extend(stream.rest().await);
        })
        .await;
        let took = start.elapsed();
        at_most(
            "c30_the_idle_clock_hears_content_only_and_keep_alives_go_on",
            took,
            Duration::from_millis(2500) + SLACK,
        );
        assert!(frames.iter().any(|frame| frame == ": keepalive\n\n"), "{frames:?}");
        assert!(frames.iter().any(|frame| frame.contains("upstream_timeout")), "{frames:?}");
        assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
        at_most("c30_the_idle_clock_hears_content_only_and_keep_alives_go_on", longest, SLACK);
    }
    flood.all_closed(shapes.len()).await;
}

#[tokio::test]
async fn c30_the_total_clock_ends_content_that_never_pauses() {
    let shapes = [endless_content(5), endless_content(20_000)];
    let flood = Flood::start(&shapes);
    let gateway = gateway(&flood, &shapes, "[timeouts]\ntotal_ms = 1500").await;
    let client = gateway.client().with_key(KEY);
    for index in 0..shapes.len() {
        let start = Instant::now();
        let (last, longest) = healthz_while(&gateway.client(), async {
            let mut stream = client.stream(CHAT, &streamed(index)).await;
            let mut last = Vec::new();
            while let Some(frame) = stream.frame().await {
                last.push(frame);
                let surplus = last.len().saturating_sub(2);
                last.drain(..surplus);
            }
            (last, stream.broken)
        })
        .await;
        let (last, is_broken) = last;
        let took = start.elapsed();
        // A client that does not take the flood in time loses its connection, and its request ends by the clock all the same.
        if index == 0 {
            assert!(!is_broken);
            assert!(last.concat().contains("\"upstream_timeout\""), "{last:?}");
            assert_eq!(last.last().map(String::as_str), Some("data: [DONE]\n\n"));
        }
        assert!(took >= Duration::from_millis(1500), "{took:?}");
        at_most(
            "c30_the_total_clock_ends_content_that_never_pauses",
            took,
            Duration::from_millis(1500) + SLACK,
        );
        at_most("c30_the_total_clock_ends_content_that_never_pauses", longest, SLACK);
    }
    ended_in_time(&gateway, &flood, shapes.len()).await;
}

/// The pause between two reads.
const READ_EVERY: Duration = Duration::from_millis(100);
const RATES: [usize; 5] = [0, 10, 200, 2_000, 20_000];

/// Sends a request over HTTP/1 and reads at this rate until the connection ends.
async fn read_slowly(addr: SocketAddr, request: String, rate: usize) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small window");
    let stream = socket.connect(addr).await.expect("the gateway accepts");
    stream.writable().await.expect("it can be written to");
    assert_eq!(stream.try_write(request.as_bytes()).expect("it is written"), request.len());
    let mut buffer = vec![0; (rate / 10).max(1)];
    loop {
        // Sleeps: the client is slow.
        tokio::time::sleep(READ_EVERY).await;
        if rate == 0 {
            continue;
        }
        if let Ok(0) = stream.try_read(&mut buffer) {
            return;
        }
    }
}

/// Sends a request over HTTP/2 and opens the stream's window at this rate.
async fn read_slowly_http2(addr: SocketAddr, body: String, rate: usize) {
    let tcp = TcpStream::connect(addr).await.expect("the gateway accepts");
    let mut builder = h2::client::Builder::new();
    // The h2 library closes a connection on which many small frames pile up.
    builder.initial_window_size(u32::try_from(rate.min(2_000)).expect("it is small"));
    let (sender, connection) = builder.handshake::<_, Bytes>(tcp).await.expect("a handshake");
    let driver = tokio::spawn(connection);
    let mut sender = sender.ready().await.expect("it is ready");
    let request = http::Request::post(format!("http://{addr}{CHAT}"))
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "application/json")
        .body(())
        .expect("a request");
    let (response, mut sending) = sender.send_request(request, false).expect("it is sent");
    sending.send_data(body.into(), true).expect("its body is sent");
    let mut reading = response.await.expect("an answer").into_body();
    while let Some(Ok(piece)) = reading.data().await {
        let seconds = piece.len() as f64 / rate.max(1) as f64;
        // Sleeps: the client is slow.
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        let _over = reading.flow_control().release_capacity(piece.len());
    }
    driver.abort();
}

/// Checks that every request ends at its total timeout, is logged so, and closes its upstream call.
async fn ended_in_time(gateway: &Gateway, flood: &Flood, calls: usize) {
    let lines = eventually("every request has its line", || {
        let lines = gateway.logs();
        let ours: Vec<Value> = lines.into_iter().filter(|line| line["route"] == CHAT).collect();
        (ours.len() >= calls).then_some(ours)
    })
    .await;
    for line in lines {
        assert_eq!(line["code"], "upstream_timeout", "{line}");
        let took = Duration::from_millis(line["duration_ms"].as_u64().expect("a time"));
        assert!(took >= Duration::from_millis(1500), "{line}");
        at_most("ended_in_time", took, Duration::from_millis(1500) + SLACK);
    }
    flood.all_closed(calls).await;
}

#[tokio::test]
async fn c30_the_total_clock_ends_a_stream_whose_reader_is_slow() {
    for bytes in [5, 20_000] {
        let shapes = [endless_content(bytes)];
        let flood = Flood::start(&shapes);
        let gateway = gateway(&flood, &shapes, "[timeouts]\ntotal_ms = 1500").await;
        let body = streamed(0).to_string();
        let client = gateway.client().with_key(KEY);
        let mut readers = tokio::task::JoinSet::new();
        for rate in RATES {
            let request = client.head("POST", CHAT, Some("application/json"), Some(body.len())) + &body;
            readers.spawn(read_slowly(gateway.addr, request, rate));
            readers.spawn(read_slowly_http2(gateway.addr, body.clone(), rate));
        }
        let ended = ended_in_time(&gateway, &flood, 2 * RATES.len());
        let ((), longest) = healthz_while(&gateway.client(), ended).await;
        at_most("c30_the_total_clock_ends_a_stream_whose_reader_is_slow", longest, SLACK);
    }
}

#[tokio::test]
async fn c30_a_shared_call_ends_at_its_total_clock_though_nobody_reads() {
    let shapes = [endless_content(20_000)];
    let flood = Flood::start(&shapes);
    let gateway = gateway(&flood, &shapes, "[timeouts]\ntotal_ms = 1500\n[cache]").await;
    let mut body = streamed(0);
    body["cache"] = json!({ "enabled": true });
    let body = body.to_string();
    let client = gateway.client().with_key(KEY);
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let request = client.head("POST", CHAT, Some("application/json"), Some(body.len())) + &body;
        readers.spawn(read_slowly(gateway.addr, request, 0));
    }
    let start = Instant::now();
    flood.all_closed(1).await;
    let took = start.elapsed();
    at_most(
        "c30_a_shared_call_ends_at_its_total_clock_though_nobody_reads",
        took,
        Duration::from_millis(1500) + SLACK,
    );
    eventually("every request has its line", || {
        (gateway.logs().iter().filter(|line| line["route"] == CHAT).count() == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn c30_a_document_that_never_pauses_ends_at_its_total_clock() {
    // A system call for each byte: a fast gateway would read all that an answer may have within the second.
    let blanks = Shape { kind: "application/json", write_bytes: 1, ..shape("blanks", "openai", " ") };
    let shapes = [blanks];
    let flood = Flood::start(&shapes);
    let gateway = gateway(&flood, &shapes, "[timeouts]\ntotal_ms = 1000").await;
    let client = gateway.client().with_key(KEY);
    for streams in [false, true] {
        let start = Instant::now();
        let body = chat_with("p0/m", json!({ "stream": streams }));
        let (answer, longest) = healthz_while(&gateway.client(), client.post_json(CHAT, &body)).await;
        let took = start.elapsed();
        assert_eq!((answer.status, answer.code().as_str()), (504, "upstream_timeout"), "{}", answer.text());
        at_most(
            "c30_a_document_that_never_pauses_ends_at_its_total_clock",
            took,
            Duration::from_secs(1) + SLACK,
        );
        at_most("c30_a_document_that_never_pauses_ends_at_its_total_clock", longest, SLACK);
    }
    flood.all_closed(2).await;
}

#[tokio::test]
async fn c30_a_reader_that_keeps_up_gets_the_error_event_at_the_total_clock() {
    // Slow content: the reader waits for the gateway, and the gateway never waits for the reader.
    let shapes = [endless_content(5)];
    let flood = Flood::start(&shapes);
    let gateway = gateway(&flood, &shapes, "[timeouts]\ntotal_ms = 1000").await;
    let client = gateway.client().with_key(KEY);
    let body = streamed(0).to_string();
    let mut wire = RawClient::connect(gateway.addr).await;
    wire.send(client.head("POST", CHAT, Some("application/json"), Some(body.len())) + &body).await;
    let answer = within("the stream ends", wire.response()).await.expect("an answer");
    assert!(!answer.broken);
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    // The connection stays usable: the timeout of a finished answer does not affect the next one.
    wire.send(client.head("GET", "/healthz", None, None)).await;
    assert_eq!(wire.response().await.map(|answer| answer.status), Some(200));
}
