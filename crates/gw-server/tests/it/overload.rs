//! An overloaded gateway refuses generation requests and answers all others. A queue of the test reports the overload.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::harness::{ADMIN, Answer, Client, Gateway, KEY};

const CHAT: &str = "POST /v1/chat/completions";
const GENERATION: [&str; 3] = [CHAT, "POST /v1/completions", "POST /v1/embeddings"];

/// A gateway, and a switch for its overload.
async fn switched(shed_after: Duration) -> (Gateway, Arc<AtomicBool>) {
    let is_overloaded = Arc::new(AtomicBool::new(true));
    let shown = Arc::clone(&is_overloaded);
    let wait = move || Duration::from_secs(if shown.load(Ordering::Acquire) { 60 } else { 0 });
    let gateway = Gateway::loaded(|settings| settings.shed_after = shed_after, vec![Box::new(wait)]).await;
    (gateway, is_overloaded)
}

async fn overloaded() -> (Gateway, Arc<AtomicBool>) {
    switched(Duration::from_millis(20)).await
}

/// Checks the whole 503, except the parts that differ between requests.
fn assert_refused(label: &str, answer: &Answer) {
    assert_eq!((answer.status, answer.code().as_str()), (503, "no_available_provider"), "{label}");
    assert_eq!(
        answer.body,
        "{\"error\":{\"message\":\"The gateway has more requests than it can answer.\",\"type\":\"upstream_error\",\
         \"code\":\"no_available_provider\"}}",
        "{label}"
    );
    for (name, value) in [
        ("retry-after", "1"),
        ("content-type", "application/json"),
        ("access-control-allow-origin", "*"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{label}: {name}");
    }
    let id = answer.header("x-request-id").expect("an id");
    assert!(id.starts_with("req_") && id.len() == 30, "{label}: {id}");
    assert!(answer.header("openai-processing-ms").is_some(), "{label}");
}

#[tokio::test]
async fn c31_an_overloaded_gateway_refuses_generation_and_answers_all_else() {
    let (gateway, is_overloaded) = overloaded().await;
    let headers = [KEY, "content-type: application/json"];
    for path in GENERATION {
        let mut client = Client::connect(gateway.public).await;
        let answer = client.ask(path, &headers, "{}").await;
        assert_refused(path, &answer);
        assert_eq!(answer.header("connection"), Some("close"), "{path}");
        assert!(client.is_closed().await, "{path}");
    }
    for (path, key) in [
        ("GET /healthz", KEY),
        ("GET /readyz", KEY),
        ("GET /v1/models", KEY),
        ("GET /metrics", ADMIN),
        ("GET /admin/v1/keys", ADMIN),
    ] {
        assert_eq!(gateway.ask(path, &[key], "").await.status, 200, "{path}");
    }
    is_overloaded.store(false, Ordering::Release);
    for path in GENERATION {
        let answer = gateway.ask(path, &headers, "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "missing_required_parameter"), "{path}");
    }
}

#[tokio::test]
async fn c31_a_refusal_does_not_wait_for_the_body() {
    let (gateway, _) = overloaded().await;
    for framing in ["content-length: 9999999", "transfer-encoding: chunked"] {
        let mut client = Client::connect(gateway.public).await;
        client.say(&format!("{CHAT} HTTP/1.1\r\nhost: x\r\n{KEY}\r\n{framing}\r\n\r\n")).await;
        assert_refused(framing, &client.answer(false).await);
    }
}

#[tokio::test]
async fn c31_a_client_that_sends_all_of_a_large_body_first_can_read_its_refusal() {
    let (gateway, _) = overloaded().await;
    let body = "x".repeat(8 << 20);
    let mut client = Client::connect(gateway.public).await;
    let head = format!("{CHAT} HTTP/1.1\r\nhost: x\r\n{KEY}\r\ncontent-length: {}\r\n\r\n", body.len());
    client.say(&head).await;
    client.stream.write_all(body.as_bytes()).await.expect("the gateway reads the whole body");
    assert_refused("8 MiB", &client.answer(false).await);
}

#[tokio::test]
async fn c31_on_a_kept_connection_a_refusal_follows_the_order_of_the_checks() {
    let (gateway, is_overloaded) = overloaded().await;
    let mut client = Client::connect(gateway.public).await;
    for _ in 0..2 {
        assert_eq!(client.ask("GET /healthz", &[], "").await.status, 200);
        assert_eq!(client.ask(CHAT, &[], "").await.status, 401, "no key");
        assert_eq!(client.ask("GET /v1/chat/completions", &[KEY], "").await.status, 405);
        let refused = client.ask(CHAT, &[KEY], "").await;
        assert_refused("kept", &refused);
        assert_eq!(refused.header("connection"), None, "nothing is left unread");
    }
    is_overloaded.store(false, Ordering::Release);
    assert_eq!(client.ask(CHAT, &[KEY], "{}").await.status, 400, "recovered");
    is_overloaded.store(true, Ordering::Release);
    client.say(&format!("{CHAT} HTTP/1.1\r\nhost: x\r\n{KEY}\r\ncontent-length: 9999\r\n\r\n")).await;
    let refused = client.answer(false).await;
    assert_refused("kept, a body that does not come", &refused);
    assert_eq!(refused.header("connection"), Some("close"));
}

#[tokio::test]
async fn c31_refusals_are_counted() {
    let (gateway, is_overloaded) = overloaded().await;
    gateway.ask(CHAT, &[KEY], "{}").await;
    let mut kept = Client::connect(gateway.public).await;
    kept.ask("GET /healthz", &[], "").await;
    kept.ask(CHAT, &[KEY], "").await;
    is_overloaded.store(false, Ordering::Release);
    gateway.ask(CHAT, &[KEY], "{}").await;
    let label =
        "gateway_http_requests_total{route=\"/v1/chat/completions\",method=\"POST\",status=\"503\"} 2\n";
    let metrics = gateway.ask("GET /metrics", &[ADMIN], "").await.body;
    assert!(metrics.contains(label), "{metrics}");
    assert!(metrics.contains("gateway_shed_requests_total 2\n"), "{metrics}");
    for worker in 0..2 {
        let line = format!("gateway_admission_wait_seconds{{worker=\"{worker}\"}} 0.0\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}

#[tokio::test]
async fn c31_nothing_is_refused_where_shedding_is_off() {
    let (gateway, _) = switched(Duration::ZERO).await;
    let answer = gateway.ask(CHAT, &[KEY], "{}").await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "missing_required_parameter"));
}
