//! A request costs the same on every surface, and its row says which one it used.

use serde_json::{Value, json};

use super::{message, response};
use crate::harness::{ADMIN, Setup, World, chat_with, logged};

async fn row(world: &World, path: &str, body: &Value) -> Value {
    let answer = world.client.post_json(path, body).await.ok();
    let id = answer.header("x-request-id").expect("an id").to_owned();
    logged(&world.gateway.client().with_key(ADMIN), &id).await
}

#[tokio::test]
async fn the_rows_of_the_three_surfaces_are_equal_but_for_the_surface() {
    let world = Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    let chat = chat_with("acme/fast", json!({"max_tokens": 64}));
    let rows = [
        ("chat", row(&world, "/v1/chat/completions", &chat).await),
        ("messages", row(&world, "/v1/messages", &message("acme/fast")).await),
        ("responses", row(&world, "/v1/responses", &response("acme/fast")).await),
    ];
    let (_, first) = &rows[0];
    for (surface, row) in &rows {
        assert_eq!(row["surface"], *surface, "{row}");
        for name in ["model", "provider", "prompt_tokens", "completion_tokens", "cost_usd", "status"] {
            assert_eq!(row[name], first[name], "{surface} {name}");
        }
    }
}

#[tokio::test]
async fn a_cached_answer_is_given_on_each_surface_in_its_own_form() {
    let world = Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    for (path, body) in [("/v1/messages", message("acme/fast")), ("/v1/responses", response("acme/fast"))] {
        for stream in [false, true] {
            let body =
                crate::harness::with(body.clone(), json!({"cache": {"enabled": true}, "stream": stream}));
            let first = world.client.post_json(path, &body).await.ok();
            let second = world.client.post_json(path, &body).await.ok();
            assert_eq!(second.header("x-gateway-cache"), Some("HIT"), "{path} {stream}: {}", second.text());
            for answer in [&first, &second] {
                assert!(answer.text().contains("Hello from upstream") || stream, "{path}: {}", answer.text());
                let is_own = answer.text().contains("\"type\":\"message\"");
                assert!(is_own && !answer.text().contains("chat.completion"), "{path}: {}", answer.text());
            }
        }
    }
}

#[tokio::test]
async fn readers_of_one_shared_stream_get_their_own_dialects() {
    let world = Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    let body =
        crate::harness::with(message("acme/fast"), json!({"cache": {"enabled": true}, "stream": true}));
    let asks = (0..8).map(|_| super::events(&world.client, "/v1/messages", &body));
    let all = futures_util::future::join_all(asks).await;
    for events in all {
        assert_eq!(super::names(&events).first(), Some(&"message_start"));
        assert_eq!(super::names(&events).last(), Some(&"message_stop"));
    }
    assert_eq!(world.upstream.hits(), 1);
}
