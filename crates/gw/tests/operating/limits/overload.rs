//! Overload: more requests than the gateway can answer, refused by its own measure of load.

use gw_testkit::upstream::chat_body;
use gw_testkit::{Answer, within};
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::{ADMIN, Setup, World, assert_error, chat, chat_with};

/// The value of a metric without labels.
async fn metric(world: &World, name: &str) -> u64 {
    let text = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{name} in {text}"))
}

#[tokio::test]
async fn c31_requests_that_wait_for_a_slow_upstream_are_no_load() {
    let world = Setup { server: "shed_after_ms = 1", ..Setup::default() }.start().await;
    world.upstream.always(Answer::default().hang());
    let mut waiting = JoinSet::new();
    for number in 1..=100 {
        let client = world.client.clone();
        waiting.spawn(async move { client.post_json("/v1/chat/completions", &chat("acme/fast")).await });
        world.upstream.request(number - 1).await;
    }
    for _ in 0..20 {
        world.chat_ok(&chat("beta/fast")).await;
    }
    assert_eq!(metric(&world, "gateway_shed_requests_total").await, 0);
    assert_eq!(metric(&world, "gateway_http_in_flight").await, 100);
}

#[tokio::test]
async fn c31_two_hundred_at_once_are_answered_or_told_to_come_back() {
    let world = Setup { server: "shed_after_ms = 20", ..Setup::default() }.start().await;
    world.upstream.respond_with(|_| Answer::json(200, &chat_body("m", "done")));
    let text = "A fox and a dog meet in a field and talk. ".repeat(81 * 1024 / 42);
    let body = chat_with("acme/fast", json!({ "messages": [{ "role": "user", "content": text }] }));
    let body = std::sync::Arc::new(body);
    let mut clients = JoinSet::new();
    for _ in 0..200 {
        let (client, body) = (world.client.clone(), std::sync::Arc::clone(&body));
        clients.spawn(async move { client.post_json("/v1/chat/completions", &body).await });
    }
    let (refused, good): (Vec<_>, Vec<_>) =
        clients.join_all().await.into_iter().partition(|answer| answer.status == 503);
    for answer in &refused {
        assert_error("refused", answer, 503, "upstream_error", "no_available_provider");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    for answer in &good {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert!(!good.is_empty(), "some requests are answered at any load");
    assert_eq!(world.upstream.hits(), good.len(), "a refused request reaches no provider");
    assert_eq!(metric(&world, "gateway_shed_requests_total").await, refused.len() as u64);
    // The queue is empty again, so the next request is answered.
    world.chat_ok(&body).await;
    within("it is alive", world.client.get("/healthz")).await.ok();
}
