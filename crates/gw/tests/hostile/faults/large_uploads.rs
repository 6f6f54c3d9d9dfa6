//! Uploads that are large, slow, torn or made of very many parts: the memory of the gateway is bounded, and each has its error.

use std::time::Duration;

use gw_testkit::measured::{at_most, is_checked};
use gw_testkit::wait::{DEADLINE, within};
use gw_testkit::wire::RawClient;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::forms::{FORM, form};
use crate::harness::ledger::rows;
use crate::harness::{Setup, World, assert_error};

const HEAR: &str = "/v1/audio/transcriptions";
const MIB: usize = 1 << 20;
/// The most that the process may grow, in KiB.
const GROWTH_KIB: u64 = 8 << 10;
/// The pause between two pieces of a MiB: 50 MB a second.
const PACE: Duration = Duration::from_millis(20);

/// The size of a large upload: a GiB in `./test long`.
fn upload_bytes() -> usize {
    if is_checked() { 1 << 30 } else { 64 * MIB }
}

/// Reads a request to its end, whose last bytes are these, and answers. Returns the number of its bytes.
async fn take_request(listener: &TcpListener, end: &[u8], answer: &str) -> usize {
    let (mut socket, _) = listener.accept().await.expect("a connection");
    let (mut piece, mut count, mut last) = (vec![0; 256 << 10], 0, Vec::new());
    while !last.ends_with(end) {
        let read = socket.read(&mut piece).await.expect("bytes");
        assert!(read > 0, "the request broke off after {count} bytes");
        count += read;
        last.extend_from_slice(&piece[..read]);
        let from = last.len().saturating_sub(end.len());
        last.drain(..from);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
    socket.write_all(answer.as_bytes()).await.expect("it is written");
    let _ = socket.shutdown().await;
    count
}

/// Sends so many bytes after `before`, at 50 MB a second, and then `after`.
async fn send_paced(wire: &mut RawClient, before: &[u8], bytes: usize, after: &[u8]) {
    wire.send(before).await;
    let piece = vec![b'a'; MIB];
    let mut ticks = tokio::time::interval(PACE);
    for _ in 0..bytes / MIB {
        ticks.tick().await;
        wire.send(&piece).await;
    }
    wire.send(after).await;
}

async fn upload_world(listener: &TcpListener) -> World {
    let address = listener.local_addr().expect("an address");
    let extra = format!(
        "[[providers]]\nname = \"raw\"\napi = \"openai\"\nbase_url = \"http://{address}/v1\"\napi_key = \"k\"\n\
         [[models]]\nid = \"raw/hear\"\ncategory = [\"transcription\"]\npricing = {{ official_per_second = 0.0001 }}\n\
         [[passthrough]]\npath = \"/pass\"\nprovider = \"raw\"\ncost_per_request = 0.0005\n"
    );
    let server = "upload_limit_mib = 2048";
    let timeouts = "first_token_ms = 600000\ntotal_ms = 3600000\nidle_ms = 600000";
    Setup { extra, server, timeouts, routing: "retries = 0", ..Setup::default() }.start().await
}

/// Sends one upload while the memory of the process is watched. Returns the growth in KiB.
async fn watched(world: &World, sending: impl Future<Output = ()>) -> u64 {
    let before = world.gateway.rss_kib();
    let mut most = before;
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let mut sending = std::pin::pin!(sending);
    loop {
        tokio::select! {
            () = &mut sending => return most - before,
            _ = ticks.tick() => most = most.max(world.gateway.rss_kib()),
        }
    }
}

#[tokio::test]
async fn a_large_upload_goes_through_in_bounded_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let world = upload_world(&listener).await;
    let file = upload_bytes();
    let whole = form(&[("model", None, b"raw/hear"), ("file", Some("a.bin"), b"SPLIT")]);
    let at = whole.windows(5).position(|part| part == b"SPLIT").expect("the file");
    let (before, after) = (&whole[..at], &whole[at + 5..]);
    // Everything that the first upload loads is no growth.
    for (size, is_watched) in [(MIB, false), (file, true)] {
        let length = before.len() + size + after.len();
        let mut wire = RawClient::connect(world.client.addr).await;
        wire.send(world.client.head("POST", HEAR, Some(FORM), Some(length))).await;
        let end = b"--\r\n\r\n0\r\n\r\n";
        let upload = async {
            let sending = send_paced(&mut wire, before, size, after);
            let ((), taken) = tokio::join!(sending, take_request(&listener, end, "{\"text\":\"x\"}"));
            assert!(taken > size, "{taken}");
        };
        let growth = watched(&world, upload).await;
        let answer = wire.response().await.expect("an answer").ok();
        assert_eq!(answer.json()["text"], "x");
        if is_watched {
            at_most("KiB that a process grows by a large transcription", growth, GROWTH_KIB);
        }
    }
    for (size, is_watched) in [(MIB, false), (file, true)] {
        let mut wire = RawClient::connect(world.client.addr).await;
        wire.send(world.client.head("POST", "/pass/files", Some("audio/mpeg"), Some(size + 3))).await;
        let upload = async {
            let sending = send_paced(&mut wire, b"", size, b"end");
            let ((), taken) = tokio::join!(sending, take_request(&listener, b"aend", "{}"));
            assert!(taken > size, "{taken}");
        };
        let growth = watched(&world, upload).await;
        assert_eq!(wire.response().await.expect("an answer").ok().json(), json!({}));
        if is_watched {
            at_most("KiB that a process grows by a large upload that passes through", growth, GROWTH_KIB);
        }
    }
    let found = rows(&world.gateway, 4).await;
    assert!(found.iter().all(|row| row.status == "ok"), "{found:?}");
}

/// A form that begins as this one, whose end does not come.
async fn begun(world: &World, length: usize, body: &[u8]) -> RawClient {
    let mut wire = RawClient::connect(world.client.addr).await;
    wire.send(world.client.head("POST", HEAR, Some(FORM), Some(length))).await;
    wire.send(body).await;
    wire
}

#[tokio::test]
async fn a_slow_form_gets_408_and_a_torn_or_a_lying_one_costs_nothing() {
    let server = "body_timeout_ms = 500";
    let world = Setup { server, ..Setup::default() }.start().await;
    let whole = form(&[("file", Some("a.bin"), &[7; 5_000]), ("model", None, b"acme/hear")]);
    let half = &whole[..2_000];
    let mut slow = begun(&world, whole.len(), half).await;
    let answer = within("an answer", slow.response()).await.expect("an answer");
    assert_error("slow", &answer, 408, "invalid_request_error", "request_timeout");
    // The head declares fewer bytes, so that the form has no end, and the others are no request.
    let mut shorter = begun(&world, 2_000, &whole).await;
    let answer = within("an answer", shorter.response()).await.expect("an answer");
    assert_error("a length that is too small", &answer, 400, "invalid_request_error", "invalid_request");
    let mut torn = begun(&world, whole.len(), half).await;
    torn.finish_sending().await;
    let _ = within("the connection ends", torn.until_closed()).await;
    assert_eq!(world.upstream.hits(), 0);
    // The head declares more bytes than come: the form is whole, and the connection is of no use any more.
    let mut longer = begun(&world, whole.len() + 100, &whole).await;
    within("an answer", longer.response()).await.expect("an answer").ok();
    let _ = within("the connection ends", longer.until_closed()).await;
    assert_eq!(world.upstream.hits(), 1);
}

#[tokio::test]
async fn a_form_of_very_many_parts_or_with_a_head_without_end_is_refused_in_bounded_memory() {
    let world = Setup { server: "upload_limit_mib = 64", ..Setup::default() }.start().await;
    let mut parts = Vec::new();
    for number in 0..100_000 {
        parts.extend_from_slice(
            format!("--b0undary\r\ncontent-disposition: form-data; name=\"f{number}\"\r\n\r\nx\r\n")
                .as_bytes(),
        );
    }
    let head = b"--b0undary\r\ncontent-disposition: form-data; name=\"a\"\r\nx-long: ".to_vec();
    let endless = [head, vec![b'x'; 32 * MIB]].concat();
    let lines = b"--b0undary\r\ncontent-disposition: form-data; name=\"a\"\r\n".to_vec();
    let many_lines = [lines, b"x-many: 1\r\n".repeat(2_000_000)].concat();
    let nested = b"--b0undary\r\n".repeat(1_000_000);
    for (label, body) in [
        ("very many parts", parts),
        ("a line without end", endless),
        ("a head of very many lines", many_lines),
        ("very many borders", nested),
    ] {
        let before = world.gateway.rss_kib();
        let mut socket = TcpStream::connect(world.client.addr).await.expect("the gateway accepts");
        let head = world.client.head("POST", HEAR, Some(FORM), Some(body.len()));
        socket.write_all(head.as_bytes()).await.expect("it is written");
        let (mut reading, mut writing) = socket.split();
        // The gateway may stop reading, because its answer is given.
        let sending = async {
            let _ = writing.write_all(&body).await;
        };
        let mut answer = vec![0; 4096];
        let receiving = async { reading.read(&mut answer).await.unwrap_or_default() };
        let both = tokio::time::timeout(DEADLINE, async { tokio::join!(sending, receiving) });
        let ((), read) = both.await.unwrap_or_else(|_| panic!("{label}: no answer"));
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(
            answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.1 413 "),
            "{label}: {answer}"
        );
        let growth = world.gateway.rss_kib().saturating_sub(before);
        at_most("KiB that a hostile form costs", growth, GROWTH_KIB);
        assert!(growth < 64 << 10, "{label}: {growth} KiB");
    }
    assert_eq!(world.upstream.hits(), 0);
}
