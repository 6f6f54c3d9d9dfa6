//! An overloaded gateway refuses generation requests that waited too long, serves keys in turn, and answers all else. The test
//! stops all starts, so the overload is certain.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use crate::harness::{ADMIN, Answer, Client, Gateway, KEY};

const CHAT: &str = "POST /v1/chat/completions";
const GENERATION: [&str; 4] = [CHAT, "POST /v1/completions", "POST /v1/embeddings", "POST /v1/rerank"];
/// A key of role admin may generate, too.
const OTHER_KEY: &str = ADMIN;

/// A gateway that starts no generation request.
async fn held(shed_after: Duration) -> Gateway {
    let gateway = Gateway::with_workers(1, |settings| settings.shed_after = shed_after).await;
    gateway.state.hold_starts(true);
    gateway
}

async fn overloaded() -> Gateway {
    held(Duration::from_millis(20)).await
}

/// Waits until this many requests are in flight: the waiting ones, and the one for the metrics if that counts itself.
async fn in_flight(gateway: &Gateway, count: usize) {
    let line = format!("gateway_http_in_flight {count}\n");
    while !gateway.ask("GET /metrics", &[ADMIN], "").await.body.contains(&line) {}
}

/// Sends `count` requests on connections of their own, and waits for their answers in tasks.
async fn flood(gateway: &Gateway, key: &'static str, count: usize) -> JoinSet<Answer> {
    let mut clients = JoinSet::new();
    for _ in 0..count {
        let mut client = Client::connect(gateway.public).await;
        clients.spawn(async move { client.ask(CHAT, &[key], "{}").await });
    }
    clients
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
    let gateway = overloaded().await;
    let headers = [KEY, "content-type: application/json"];
    for path in GENERATION {
        let mut client = Client::connect(gateway.public).await;
        let refused = client.ask(path, &headers, "{}").await;
        assert_refused(path, &refused);
        assert_eq!(refused.header("connection"), None, "{path}: the connection can be used again");
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
    gateway.state.hold_starts(false);
    for path in GENERATION {
        let answer = gateway.ask(path, &headers, "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "missing_required_parameter"), "{path}");
    }
}

#[tokio::test]
async fn c31_a_refusal_does_not_wait_for_the_body() {
    let gateway = overloaded().await;
    for framing in ["content-length: 9999999", "transfer-encoding: chunked"] {
        let mut client = Client::connect(gateway.public).await;
        client.say(&format!("{CHAT} HTTP/1.1\r\nhost: x\r\n{KEY}\r\n{framing}\r\n\r\n")).await;
        assert_refused(framing, &client.answer(false).await);
    }
}

#[tokio::test]
async fn c31_a_client_that_sends_all_of_a_large_body_first_can_read_its_refusal() {
    let gateway = overloaded().await;
    let body = "x".repeat(8 << 20);
    let mut client = Client::connect(gateway.public).await;
    let head = format!("{CHAT} HTTP/1.1\r\nhost: x\r\n{KEY}\r\ncontent-length: {}\r\n\r\n", body.len());
    client.say(&head).await;
    client.stream.write_all(body.as_bytes()).await.expect("the gateway reads the whole body");
    assert_refused("8 MiB", &client.answer(false).await);
}

#[tokio::test]
async fn c31_a_refusal_follows_the_order_of_the_checks() {
    let gateway = overloaded().await;
    let mut client = Client::connect(gateway.public).await;
    for _ in 0..2 {
        assert_eq!(client.ask("GET /healthz", &[], "").await.status, 200);
        assert_eq!(client.ask(CHAT, &[], "").await.status, 401, "no key");
        assert_eq!(client.ask("GET /v1/chat/completions", &[KEY], "").await.status, 405);
        let refused = client.ask(CHAT, &[KEY], "").await;
        assert_refused("kept", &refused);
        assert_eq!(refused.header("connection"), None, "nothing is left unread");
    }
    gateway.state.hold_starts(false);
    assert_eq!(client.ask(CHAT, &[KEY], "{}").await.status, 400, "recovered");
    gateway.state.hold_starts(true);
    client.say(&format!("{CHAT} HTTP/1.1\r\nhost: x\r\n{KEY}\r\ncontent-length: 9999\r\n\r\n")).await;
    let refused = client.answer(false).await;
    assert_refused("kept, a body that does not come", &refused);
    assert_eq!(refused.header("connection"), Some("close"));
}

#[tokio::test]
async fn c31_refusals_are_counted() {
    let gateway = overloaded().await;
    gateway.ask(CHAT, &[KEY], "{}").await;
    let mut kept = Client::connect(gateway.public).await;
    kept.ask("GET /healthz", &[], "").await;
    kept.ask(CHAT, &[KEY], "").await;
    gateway.state.hold_starts(false);
    gateway.ask(CHAT, &[KEY], "{}").await;
    let label =
        "gateway_http_requests_total{route=\"/v1/chat/completions\",method=\"POST\",status=\"503\"} 2\n";
    let metrics = gateway.ask("GET /metrics", &[ADMIN], "").await.body;
    assert!(metrics.contains(label), "{metrics}");
    assert!(metrics.contains("gateway_shed_requests_total 2\n"), "{metrics}");
    assert!(metrics.contains("gateway_admission_wait_seconds{worker=\"0\"} 0.0\n"), "{metrics}");
}

#[tokio::test]
async fn c31_nothing_is_refused_where_shedding_is_off() {
    let gateway = held(Duration::ZERO).await;
    let clients = flood(&gateway, KEY, 20).await;
    in_flight(&gateway, 20).await;
    gateway.state.hold_starts(false);
    for answer in clients.join_all().await {
        assert_eq!((answer.status, answer.code().as_str()), (400, "missing_required_parameter"));
    }
}

/// The requests wait far beyond `max_in_flight`, and each is answered: a burst is held until the worker has time for it.
#[tokio::test]
async fn c33_clients_that_come_together_are_held_and_none_is_refused() {
    let gateway = Gateway::with_workers(1, |settings| {
        settings.shed_after = Duration::from_secs(3_600);
        settings.max_in_flight = 100;
    })
    .await;
    gateway.state.hold_starts(true);
    let clients = flood(&gateway, KEY, 500).await;
    in_flight(&gateway, 500).await;
    gateway.state.hold_starts(false);
    for answer in clients.join_all().await {
        assert_eq!((answer.status, answer.code().as_str()), (400, "missing_required_parameter"));
    }
    let metrics = gateway.ask("GET /metrics", &[ADMIN], "").await.body;
    assert!(metrics.contains("gateway_shed_requests_total 0\n"), "{metrics}");
}

/// Each of the 30 finds the later ones waiting when it starts. They do not hold its place.
#[tokio::test]
async fn c33_of_clients_that_come_together_no_more_than_max_in_flight_are_started() {
    let gateway = Gateway::with_workers(1, |settings| {
        settings.shed_after = Duration::from_secs(3_600);
        settings.body_timeout = Duration::from_secs(3_600);
        settings.max_in_flight = 10;
    })
    .await;
    gateway.state.hold_starts(true);
    let mut clients = JoinSet::new();
    for _ in 0..30 {
        let mut client = Client::connect(gateway.public).await;
        let head = format!("{CHAT} HTTP/1.1\r\nhost: x\r\n{KEY}\r\ncontent-length: 9\r\n\r\n");
        clients.spawn(async move {
            client.say(&head).await;
            client.answer(false).await
        });
    }
    in_flight(&gateway, 30).await;
    gateway.state.hold_starts(false);
    let refused = async {
        for _ in 0..20 {
            assert_eq!(clients.join_next().await.expect("a client").expect("its answer").status, 503);
        }
    };
    tokio::time::timeout(Duration::from_secs(10), refused).await.expect("20 are refused");
    in_flight(&gateway, 10).await;
}

#[tokio::test]
async fn c34_another_key_is_served_in_turn_beside_a_flood() {
    let mut gateway = held(Duration::from_secs(3_600)).await;
    let flooding = flood(&gateway, KEY, 500).await;
    in_flight(&gateway, 500).await;
    let other = flood(&gateway, OTHER_KEY, 5).await;
    in_flight(&gateway, 505).await;
    while gateway.lines.try_recv().is_ok() {}
    gateway.state.hold_starts(false);
    assert!(other.join_all().await.iter().all(|answer| answer.status == 400));
    let mut before = 0;
    for _ in 0..5 {
        // The log has the order in which the requests ended.
        while {
            let line = gateway.line().await;
            assert_eq!(line["status"], 400, "{line}");
            line["key"] == "user"
        } {
            before += 1;
        }
    }
    assert!(before <= 64, "{before} of the flood's 500 were answered before the five");
    assert!(flooding.join_all().await.iter().all(|answer| answer.status == 400));
}
