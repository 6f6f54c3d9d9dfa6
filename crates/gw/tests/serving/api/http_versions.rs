//! HTTP/2 with and without TLS, and HTTP/1.1 over TLS, with the system's `curl` as the client.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gw_testkit::certificate::Certificate;
use gw_testkit::wait::within;
use gw_testkit::{FakeUpstream, Gateway, Launch};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::curl::curl;
use crate::harness::{KEY, Setup, binary, chat, chat_with, world};

#[tokio::test]
async fn http_2_without_tls_is_spoken_to_those_who_know() {
    let world = world().await;
    let url = format!("http://{}/v1/chat/completions", world.gateway.addr);
    let (version, status, body) = curl(&url, &["--http2-prior-knowledge"], &chat("acme/fast")).await;
    assert_eq!((version.as_str(), status.as_str()), ("2", "200"), "{body}");
    assert!(body.contains("Hello from upstream"));
    let streamed = chat_with("acme/fast", json!({ "stream": true }));
    let (_, _, body) = curl(&url, &["--http2-prior-knowledge"], &streamed).await;
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
    let (_, status, body) = curl(&url, &["--http2-prior-knowledge"], &chat("no/such")).await;
    assert_eq!(status, "404", "{body}");
    assert!(body.starts_with(r#"{"error":{"message":""#), "{body}");
}

async fn with_tls(upstream: &FakeUpstream) -> Gateway {
    with_tls_and(upstream, "tls = { cert = \"cert.pem\", key = \"key.pem\" }").await
}

async fn with_tls_and(upstream: &FakeUpstream, server: &'static str) -> Gateway {
    let made = Certificate::of(&["127.0.0.1"]);
    let setup = Setup { server, ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &upstream.base_url());
    let launch = Launch::new(binary())
        .file("gateway.toml", config)
        .file("cert.pem", made.pem)
        .file("key.pem", made.key_pem);
    launch.start().await
}

#[tokio::test]
async fn tls_offers_http_2_and_http_1() {
    let upstream = FakeUpstream::start().await;
    let gateway = with_tls(&upstream).await;
    let ca: &Path = &gateway.dir().join("cert.pem");
    let ca = ca.to_string_lossy().into_owned();
    let url = format!("https://{}/v1/chat/completions", gateway.addr);
    for (flag, expected) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let (version, status, body) = curl(&url, &[flag, "--cacert", &ca], &chat("acme/fast")).await;
        assert_eq!((version.as_str(), status.as_str()), (expected, "200"), "{body}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_an_http_2_stream_ends_its_upstream_only() {
    let world = world().await;
    world.upstream.enqueue(gw_testkit::Answer::sse().hang());
    let url = format!("http://{}/v1/chat/completions", world.gateway.addr);
    let mut child = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "-N", "-H", &format!("Authorization: Bearer {KEY}")])
        .args(["-d", &chat_with("acme/fast", json!({ "stream": true })).to_string()])
        .args(["-H", "Content-Type: application/json", &url])
        .spawn()
        .expect("curl");
    let upstream = world.upstream.request(0).await;
    child.kill().expect("a running child");
    child.wait().expect("a child");
    upstream.until_closed().await;
    world.chat_ok(&chat("acme/fast")).await;
}

/// The client never pauses for as long as the clock of a head: only the sum of its pauses is too long.
#[tokio::test]
async fn c06_a_tls_hello_that_drips_is_closed_at_the_clock_of_the_head() {
    let upstream = FakeUpstream::start().await;
    let server = "head_timeout_ms = 400\ntls = { cert = \"cert.pem\", key = \"key.pem\" }";
    let gateway = with_tls_and(&upstream, server).await;
    let mut socket = TcpStream::connect(gateway.addr).await.expect("the gateway listens");
    // A handshake record of 512 bytes with a ClientHello in it.
    let hello = [&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03][..], &[0; 506]].concat();
    let mut sent = 0;
    within("the connection is closed", async {
        let mut answer = [0; 64];
        for byte in &hello {
            let write = socket.write_all(std::slice::from_ref(byte)).await;
            let read = tokio::time::timeout(Duration::from_millis(40), socket.read(&mut answer)).await;
            if write.is_err() || matches!(read, Ok(Ok(0) | Err(_))) {
                break;
            }
            sent += 1;
        }
    })
    .await;
    assert!(sent < 100, "closed after {sent} bytes");
}
