//! Connections with a small test service: over real sockets, and in memory where the test's clock is the thing.

use super::*;

use std::convert::Infallible;

use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};

use crate::quiet_body::QuietBody;

const QUICK: ClientTimeouts = ClientTimeouts {
    head: Duration::from_millis(300),
    idle: Duration::from_millis(600),
    send_timeout: Duration::from_millis(300),
};

struct Server<C> {
    client: C,
    drain: CancellationToken,
    tracker: TaskTracker,
}

impl Server<TcpStream> {
    /// Serves one connection over a real socket.
    async fn with(timeouts: ClientTimeouts) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        Self::serve(socket, client, timeouts)
    }
}

impl Server<DuplexStream> {
    /// Serves one connection in memory. The clock of such a test is paused: it goes on only while everybody waits, so its times are
    /// exact on a machine that stands still meanwhile.
    fn in_memory(timeouts: ClientTimeouts) -> Self {
        let (client, socket) = tokio::io::duplex(64 << 10);
        Self::serve(socket, client, timeouts)
    }

    /// Waits until the server closes, in a test whose clock is paused.
    async fn closes_within(mut self, from: u64, to: u64) -> String {
        let start = Instant::now();
        let heard = timeout(Duration::from_secs(20), self.rest()).await.expect("the connection stays open");
        let taken = u64::try_from(start.elapsed().as_millis()).unwrap();
        assert!((from..to).contains(&taken), "closed after {taken} ms");
        timeout(Duration::from_secs(5), self.tracker.wait()).await.expect("the task ends");
        heard
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> Server<C> {
    /// Serves one connection. The service echoes method, path and body; `/big` answers 64 MiB, `/refuse` reads no body.
    fn serve<T: Transport>(socket: T, client: C, timeouts: ClientTimeouts) -> Self {
        let drain = CancellationToken::new();
        let tracker = TaskTracker::new();
        let is_ending = Arc::new(AtomicBool::new(true));
        let settings = ConnectionSettings {
            timeouts,
            tls: None,
            drain: drain.clone(),
            is_ending,
            tracker: tracker.clone(),
            head_error_cors: Arc::default(),
        };
        let activity = Arc::new(Activity::default());
        let reported = Arc::clone(&activity);
        let service = service_fn(move |request: Request<Incoming>| {
            let activity = Arc::clone(&reported);
            Box::pin(async move {
                let _guard = activity.begin();
                let (parts, body) = request.into_parts();
                let path = parts.uri.path();
                let mut response = Response::new(Full::new(Bytes::new()));
                if path == "/refuse" {
                    activity.leave_unread();
                    *response.status_mut() = http::StatusCode::PAYLOAD_TOO_LARGE;
                    response
                        .headers_mut()
                        .insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
                } else if path == "/big" || path == "/big-in-time" {
                    if path == "/big-in-time" {
                        activity.answer_by(Some(Instant::now() + Duration::from_millis(600)));
                    }
                    *response.body_mut() = Full::new(Bytes::from(vec![b'x'; 64 << 20]));
                } else {
                    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                    let echo = format!("{} {path} {}", parts.method, String::from_utf8_lossy(&body));
                    *response.body_mut() = Full::new(Bytes::from(echo));
                }
                Ok::<_, Infallible>(response)
            })
        });
        tracker.spawn(run(socket, settings, activity, service));
        tracker.close();
        Self { client, drain, tracker }
    }

    async fn say(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until the server closes.
    async fn rest(&mut self) -> String {
        let mut heard = Vec::new();
        let _ = self.client.read_to_end(&mut heard).await;
        String::from_utf8_lossy(&heard).into_owned()
    }

    /// Reads until this much of the text has come.
    async fn hear(&mut self, part: &str) -> String {
        let mut heard = BytesMut::new();
        while !String::from_utf8_lossy(&heard).contains(part) {
            assert!(self.client.read_buf(&mut heard).await.unwrap() > 0, "closed: {heard:?}");
        }
        String::from_utf8_lossy(&heard).into_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn silence_half_heads_and_half_prefaces_end_at_the_head_timeout() {
    for beginning in ["", "G", "GET / HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n", "POST / HT"] {
        let mut server = Server::in_memory(QUICK);
        server.say(beginning).await;
        server.closes_within(200, 2000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_ends_at_the_idle_timeout() {
    let mut server = Server::in_memory(QUICK);
    for _ in 0..3 {
        server.say("GET /a HTTP/1.1\r\nhost: x\r\n\r\n").await;
        server.hear("GET /a ").await;
    }
    server.closes_within(400, 2500).await;
}

#[tokio::test]
async fn a_client_that_stops_reading_is_dropped() {
    let mut server = Server::with(QUICK).await;
    server.say("GET /big HTTP/1.1\r\nhost: x\r\n\r\n").await;
    server.hear("200 OK").await;
    timeout(Duration::from_secs(10), server.tracker.wait()).await.expect("the stalled connection ends");
}

#[tokio::test]
async fn c30_an_answer_that_is_read_too_slowly_ends_at_its_time() {
    let mut server = Server::with(QUICK).await;
    server.say("GET /big-in-time HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut taken = 0;
    let mut buffer = vec![0; 256 << 10];
    // The client reads often enough that the write never stalls.
    loop {
        // Sleeps: the client is slow.
        tokio::time::sleep(Duration::from_millis(20)).await;
        match timeout(Duration::from_secs(10), server.client.read(&mut buffer)).await.expect("it ends") {
            Ok(0) | Err(_) => break,
            Ok(count) => taken += count,
        }
    }
    assert!(taken < 64 << 20, "all of it was served");
    timeout(Duration::from_secs(10), server.tracker.wait()).await.expect("the connection ends");
}

#[tokio::test]
async fn both_lengths_at_once_close_the_connection_after_one_answer() {
    let mut server = Server::with(QUICK).await;
    let both = "POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 40\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    server.say(both).await;
    server.say("GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let heard = server.rest().await;
    assert!(heard.contains("POST /a hi"), "{heard}");
    assert!(!heard.contains("smuggled"), "{heard}");
}

#[tokio::test]
async fn what_follows_a_refused_body_is_never_a_request() {
    for framing in
        ["content-length: 1000000", "transfer-encoding: chunked", "content-length: 9\r\nexpect: 100-continue"]
    {
        let mut server = Server::with(QUICK).await;
        server.say(&format!("POST /refuse HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n")).await;
        server.say("GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let heard = server.rest().await;
        assert!(heard.starts_with("HTTP/1.1 413"), "{framing}: {heard}");
        assert_eq!(heard.matches("HTTP/1.1").count(), 1, "{framing}: {heard}");
    }
}

#[tokio::test]
async fn a_client_that_still_sends_can_read_why_it_was_refused() {
    let mut server = Server::with(QUICK).await;
    server.say("POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: 8000000\r\n\r\n").await;
    let chunk = vec![b'x'; 64 << 10];
    for _ in 0..8 {
        if server.client.write_all(&chunk).await.is_err() {
            break;
        }
    }
    let heard = server.hear("\r\n\r\n").await;
    assert!(heard.starts_with("HTTP/1.1 413"), "{heard}");
    assert!(heard.contains("connection: close"), "{heard}");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let mut server = Server::with(QUICK).await;
    let many: String = (0..200).map(|n| format!("GET /{n}/ HTTP/1.1\r\nhost: x\r\n\r\n")).collect();
    server.say(&many).await;
    let heard = server.hear("GET /199/").await;
    let places: Vec<_> = (0..200).map(|n| heard.find(&format!("GET /{n}/")).unwrap()).collect();
    assert!(places.is_sorted());
}

#[tokio::test]
async fn junk_and_oversized_heads_are_refused() {
    let flood = format!("GET / HTTP/1.1\r\nhost: x\r\ncookie: {}\r\n\r\n", "x".repeat(400 << 10));
    let cookie = format!("GET / HTTP/1.1\r\nhost: x\r\ncookie: {}\r\n\r\n", "x".repeat(40 << 10));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
    for (head, status) in [
        ("\u{1}\u{2}junk\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\nhost: x\r\ncontent-length: +4\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(), "400"),
        (cookie, "431"),
        (flood, "431"),
        (many, "431"),
    ] {
        let mut server = Server::with(QUICK).await;
        let _ = server.client.write_all(head.as_bytes()).await;
        let heard = server.rest().await;
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{}: {heard}", head.len());
    }
}

#[tokio::test]
async fn http2_is_recognised_by_its_preface() {
    let server = Server::with(QUICK).await;
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        TokioIo::new(server.client),
    )
    .await
    .unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::post("http://x/two").body(Full::new(Bytes::from_static(b"hello"))).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "POST /two hello");
    server.drain.cancel();
    driver.await.unwrap().unwrap();
    timeout(Duration::from_secs(5), server.tracker.wait()).await.expect("a drain ends the connection");
}

#[tokio::test]
async fn an_idle_http2_connection_is_told_goodbye() {
    let server = Server::with(QUICK).await;
    let (sender, connection) = hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(
        hyper_util::rt::TokioExecutor::new(),
        TokioIo::new(server.client),
    )
    .await
    .unwrap();
    let ended = timeout(Duration::from_secs(10), connection).await.expect("the server says goodbye");
    assert!(ended.is_ok());
    drop(sender);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_idle_connections_at_once_and_busy_ones_after_their_answer() {
    let patient = ClientTimeouts {
        head: Duration::from_secs(60),
        idle: Duration::from_secs(60),
        send_timeout: Duration::from_secs(60),
    };
    let server = Server::in_memory(patient);
    server.drain.cancel();
    server.closes_within(0, 1000).await;

    let mut server = Server::in_memory(patient);
    server.say("GET /a HTTP/1.1\r\nhost: x\r\n\r\n").await;
    server.hear("GET /a ").await;
    server.drain.cancel();
    server.closes_within(0, 1000).await;

    let mut server = Server::in_memory(patient);
    server.say("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n").await;
    server.hear("100 Continue").await;
    server.drain.cancel();
    // The paused clock goes on once the server knows of the drain and waits again.
    tokio::time::sleep(Duration::from_millis(1)).await;
    server.say("hi").await;
    let heard = server.closes_within(0, 1000).await;
    assert!(heard.contains("POST /a hi") && heard.contains("connection: close"), "{heard}");
}

/// The bytes of the future that is made of these parts.
fn bytes_of<P, F: Future>(_: impl FnOnce(P) -> F) -> usize {
    size_of::<F>()
}

/// A future is copied into its box, and the allocator's short path ends at 4 KiB. Parts that few requests run are boxed.
#[test]
fn the_future_of_a_request_is_small() {
    type Parts = (crate::origin::Origin, Request<QuietBody<Incoming>>);
    let bytes = bytes_of(|(origin, request): Parts| crate::handler::respond(origin, request));
    assert!(bytes <= 3_072, "{bytes}");
}
