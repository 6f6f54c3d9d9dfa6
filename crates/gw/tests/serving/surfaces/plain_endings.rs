//! Plain answers of upstreams that have no choice or no finish reason, on every surface.

use gw_testkit::Answer;
use gw_testkit::upstream::chat_body;
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, message, response};
use crate::harness::answers::cache_result;
use crate::harness::{ADMIN, Setup, World, chat, logged, with};

/// Providers of the other dialects at the same upstream.
const OTHERS: &str = "\
[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"<acme_url>\"\napi_key = \"k\"\n\
[[providers]]\nname = \"gem\"\napi = \"gemini\"\nbase_url = \"<acme_url>\"\napi_key = \"k\"\n\
[[models]]\nid = \"claude/one\"\ncategory = [\"chat\"]\n[[models]]\nid = \"gem/one\"\ncategory = [\"chat\"]\n";

async fn chats_only() -> World {
    let (acme, extra) = ("responses = false".to_owned(), OTHERS.to_owned());
    Setup { acme, extra, ..Setup::default() }.start().await
}

#[tokio::test]
async fn an_answer_without_a_choice_was_filtered_on_every_surface() {
    let world = chats_only().await;
    let mut empty = chat_body("m", "");
    empty["choices"] = json!([]);
    world.upstream.always(Answer::json(200, &empty));
    let cached = json!({"cache": {"enabled": true}});
    // The second answer is not the kept first one.
    for _ in 0..2 {
        let chat = world.chat_ok(&with(chat("acme/fast"), cached.clone())).await;
        assert_eq!(chat["choices"][0]["finish_reason"], "content_filter", "{chat}");
        let answer = ask_messages(&world.client, &with(message("acme/fast"), cached.clone())).await.ok();
        let told = answer.json();
        assert_eq!(cache_result(&answer), "MISS", "{told}");
        assert_eq!((&told["stop_reason"], &told["content"]), (&json!("refusal"), &json!([])), "{told}");
        assert_eq!(told["stop_details"]["type"], "refusal", "{told}");
        let answer = ask_responses(&world.client, &with(response("acme/fast"), cached.clone())).await.ok();
        let told = answer.json();
        assert_eq!(cache_result(&answer), "MISS", "{told}");
        let end = (&told["status"], &told["incomplete_details"]);
        assert_eq!(end, (&json!("incomplete"), &json!({"reason": "content_filter"})), "{told}");
    }
}

/// Answers that do not say why they ended, and the model that gives each.
fn endless() -> Vec<(&'static str, Value)> {
    let mut missing = chat_body("m", "Well");
    missing["choices"][0].as_object_mut().expect("a choice").remove("finish_reason");
    let mut null = chat_body("m", "Well");
    null["choices"][0]["finish_reason"] = Value::Null;
    let claude = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": null,
        "content": [{"type": "text", "text": "Well"}], "usage": {"input_tokens": 1, "output_tokens": 1}});
    let gemini = json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Well"}]}}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}});
    vec![("acme/fast", missing), ("acme/fast", null), ("claude/one", claude), ("gem/one", gemini)]
}

#[tokio::test]
async fn an_answer_that_does_not_say_why_it_ended_is_given_and_not_kept() {
    for (model, answer) in endless() {
        let world = chats_only().await;
        world.upstream.always(Answer::json(200, &answer));
        let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]});
        for (path, body) in [
            ("/v1/chat/completions".to_owned(), chat(model)),
            ("/v1/messages".to_owned(), message(model)),
            ("/v1/responses".to_owned(), response(model)),
            (format!("/v1beta/models/{model}:generateContent"), gemini),
        ] {
            for _ in 0..2 {
                let cached = with(body.clone(), json!({"cache": {"enabled": true}}));
                let told = world.client.post_json(&path, &cached).await.ok();
                assert!(told.text().contains("Well"), "{path} {model}: {}", told.text());
                assert_eq!(cache_result(&told), "MISS", "{path} {model}: {answer}");
            }
        }
        assert_eq!(world.upstream.hits(), 8, "{model}: {answer}");
    }
}

#[tokio::test]
async fn a_completion_that_does_not_say_why_it_ended_is_not_kept() {
    let extra = "[cache]\ncompletions = true\n".to_owned();
    let world = Setup { extra, ..Setup::default() }.start().await;
    let body = json!({"id": "x", "object": "text_completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "text": "Well", "logprobs": null, "finish_reason": null}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    world.upstream.always(Answer::json(200, &body));
    let asked = json!({"model": "acme/fast", "prompt": "Hello", "cache": {"enabled": true}});
    for _ in 0..2 {
        let told = world.client.post_json("/v1/completions", &asked).await.ok();
        assert_eq!(told.json()["choices"][0]["finish_reason"], "stop", "{}", told.text());
        assert_eq!(cache_result(&told), "MISS");
    }
}

#[tokio::test]
async fn a_response_that_failed_costs_the_usage_that_it_tells() {
    let (acme, routing) = ("responses = true".to_owned(), "retries = 0");
    let world = Setup { acme, routing, ..Setup::default() }.start().await;
    let failed = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "failed", "model": "m", "output": [],
        "error": {"code": "server_error", "message": "It broke."},
        "usage": {"input_tokens": 5000, "output_tokens": 700, "total_tokens": 5700}});
    world.upstream.enqueue(Answer::json(200, &failed));
    let answer = ask_responses(&world.client, &response("acme/fast")).await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    let id = answer.header("x-request-id").expect("an id");
    let row = logged(&world.gateway.client().with_key(ADMIN), id).await;
    let counted = ["prompt_tokens", "completion_tokens", "estimated"].map(|name| &row[name]);
    assert_eq!(counted, [&json!(5000), &json!(700), &json!(false)], "{row}");
}
