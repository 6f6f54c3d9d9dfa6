//! Bodies, limits, log lines and metrics of requests.

use std::time::Duration;

use crate::harness::{ADMIN, Client, Gateway, KEY};

const CHAT: &str = "POST /v1/chat/completions";
const HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-user\r\n";

#[tokio::test]
async fn a_refused_small_body_leaves_the_connection_usable() {
    let gateway = Gateway::start().await;
    let mut client = Client::connect(gateway.public).await;
    for _ in 0..3 {
        let answer =
            client.ask(CHAT, &["content-type: application/json"], "GET /healthz HTTP/1.1\r\n\r\n").await;
        assert_eq!((answer.status, answer.header("connection")), (401, None));
    }
    assert_eq!(client.ask("GET /healthz", &[], "").await.status, 200);
}

#[tokio::test]
async fn a_body_that_was_not_read_closes_the_connection() {
    let gateway = Gateway::start().await;
    for (framing, status) in [
        ("content-length: 9999999\r\n", 413),
        ("content-length: 9999999\r\nexpect: 100-continue\r\n", 413),
        ("content-length: 9\r\ncontent-encoding: br\r\nexpect: 100-continue\r\n", 415),
        ("content-length: 9\r\ncontent-type: text/plain\r\n", 415),
    ] {
        let mut client = Client::connect(gateway.public).await;
        client.say(&format!("{HEAD}{framing}\r\n")).await;
        let answer = client.answer(false).await;
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{framing}");
        let _ =
            tokio::io::AsyncWriteExt::write_all(&mut client.stream, b"GET /healthz HTTP/1.1\r\n\r\n").await;
        assert!(client.is_closed().await, "{framing}");
    }
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_is_413_as_soon_as_it_is() {
    let gateway = Gateway::start().await;
    let mut client = Client::connect(gateway.public).await;
    client.say(&format!("{HEAD}transfer-encoding: chunked\r\n\r\n")).await;
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    for _ in 0..9 {
        if tokio::io::AsyncWriteExt::write_all(&mut client.stream, chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let answer = client.answer(false).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "request_too_large"));
}

#[tokio::test]
async fn a_slow_body_is_408() {
    let mut gateway = Gateway::start().await;
    let mut client = Client::connect(gateway.public).await;
    client.say(&format!("{HEAD}content-length: 100\r\n\r\n{{")).await;
    let answer = client.answer(false).await;
    assert_eq!((answer.status, answer.code().as_str()), (408, "request_timeout"));
    assert!(client.is_closed().await);
    let line = gateway.line().await;
    assert_eq!((line["status"].as_u64(), line["code"].as_str()), (Some(408), Some("request_timeout")));
}

#[tokio::test]
async fn requests_beyond_max_in_flight_are_refused_at_once() {
    let gateway = Gateway::with(|settings| {
        settings.max_in_flight = 1;
        settings.body_timeout = Duration::from_secs(30);
    })
    .await;
    let mut holder = Client::connect(gateway.public).await;
    holder.say(&format!("{HEAD}content-length: 2\r\nexpect: 100-continue\r\n\r\n")).await;
    assert_eq!(holder.answer(false).await.status, 100, "the only request in flight");
    let refused = gateway.ask("GET /v1/models", &[KEY], "").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "no_available_provider"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(gateway.ask("GET /healthz", &[], "").await.status, 200, "probes do not count");
    holder.say("{}").await;
    assert_eq!(holder.answer(false).await.status, 400);
    assert_eq!(gateway.ask("GET /v1/models", &[KEY], "").await.status, 200);
}

#[tokio::test]
async fn every_request_is_one_line_without_secrets() {
    let mut gateway = Gateway::start().await;
    let headers = [KEY, "x-client-request-id: mine-1", "content-type: application/json"];
    let answer = gateway.ask("POST /v1/chat/completions?key=sk-query", &headers, "{\"secret prompt\"").await;
    let line = gateway.line().await;
    assert_eq!(line["request_id"].as_str(), answer.header("x-request-id"));
    assert_eq!(line["client_request_id"], "mine-1");
    assert_eq!(
        (line["method"].as_str(), line["path"].as_str()),
        (Some("POST"), Some("/v1/chat/completions"))
    );
    assert_eq!((line["status"].as_u64(), line["code"].as_str()), (Some(400), Some("invalid_json")));
    assert_eq!(line["key"], "user");
    assert_eq!(line["bytes_out"].as_u64(), Some(answer.body.len() as u64));
    assert!(line["client"].as_str().is_some_and(|client| client.starts_with("127.0.0.1:")));
    assert!(line["ts"].as_str().is_some_and(|ts| ts.len() == 24 && ts.ends_with('Z')));
    let text = line.to_string();
    assert!(!text.contains("sk-") && !text.contains("prompt\""), "{text}");
    gateway.ask("HEAD /v1/models", &[KEY], "").await;
    let line = gateway.line().await;
    assert_eq!((line["status"].as_u64(), line["code"].as_str()), (Some(200), Some("ok")));
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_upload_is_499() {
    let mut gateway = Gateway::with(|settings| settings.body_timeout = Duration::from_secs(30)).await;
    let mut client = Client::connect(gateway.public).await;
    client.say(&format!("{HEAD}content-length: 100\r\nexpect: 100-continue\r\n\r\n")).await;
    assert_eq!(client.answer(false).await.status, 100);
    client.say("{").await;
    drop(client);
    let line = gateway.line().await;
    assert_eq!((line["status"].as_u64(), line["code"].as_str()), (Some(499), Some("client_closed_request")));
}

#[tokio::test]
async fn requests_and_connections_are_counted() {
    let gateway = Gateway::start().await;
    gateway.ask("GET /v1/models", &[KEY], "").await;
    gateway.ask("GET /v1/models", &[], "").await;
    let metrics = gateway.ask("GET /metrics", &[ADMIN], "").await;
    assert!(
        metrics.header("content-type").is_some_and(|media| media.starts_with("application/openmetrics-text"))
    );
    for part in [
        "gateway_http_requests_total{route=\"/v1/models\",method=\"GET\",status=\"200\"} 1\n",
        "gateway_http_requests_total{route=\"/v1/models\",method=\"GET\",status=\"401\"} 1\n",
        "gateway_http_request_duration_seconds_count{route=\"/v1/models\"} 2\n",
        "gateway_http_in_flight 0\n",
        "gateway_panics_total 0\n",
    ] {
        assert!(metrics.body.contains(part), "{part}\n{}", metrics.body);
    }
    assert!(metrics.body.ends_with("# EOF\n"));
}
