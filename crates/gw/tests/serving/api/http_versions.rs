//! HTTP/2 with and without TLS, and HTTP/1.1 over TLS, with the system's `curl` as the client.

use std::path::Path;
use std::process::Command;

use gw_testkit::certificate::Certificate;
use gw_testkit::{FakeUpstream, Gateway, Launch};
use serde_json::json;

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
    let made = Certificate::of(&["127.0.0.1"]);
    let setup = Setup { server: "tls = { cert = \"cert.pem\", key = \"key.pem\" }", ..Setup::default() };
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
