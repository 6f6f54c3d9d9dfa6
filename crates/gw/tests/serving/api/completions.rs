//! Text completions, plain and streamed.

use gw_testkit::Answer;
use gw_testkit::sse::{chunks, text_of};
use serde_json::{Value, json};

use crate::harness::{Setup, World, assert_invalid, with, world};

const PATH: &str = "/v1/completions";

fn text(more: Value) -> Value {
    with(json!({ "model": "acme/fast", "prompt": "Once" }), more)
}

async fn ok(world: &World, body: &Value) -> Value {
    world.client.post_json(PATH, body).await.ok().json()
}

#[tokio::test]
async fn answers_with_every_field_of_the_specification() {
    let world = world().await;
    let body = ok(&world, &text(json!({}))).await;
    assert!(body["id"].as_str().is_some_and(|id| id.starts_with("cmpl-") && id != "cmpl-upstream"));
    assert_eq!(body["object"], "text_completion");
    assert!(body["created"].is_u64());
    assert_eq!(body["model"], "fast-2026-01");
    assert_eq!(
        body["choices"],
        json!([{ "index": 0, "text": "text 0", "logprobs": null, "finish_reason": "stop" }])
    );
    assert_eq!(body["usage"]["total_tokens"], 15);
    assert!(body["usage"]["cost_usd"].is_number());
    assert_eq!(body["gateway"]["model_used"], "acme/fast");
    assert_eq!(world.upstream.last().path, "/v1/completions");
}

#[tokio::test]
async fn several_prompts_and_choices_are_in_prompt_order() {
    let world = world().await;
    let body = ok(&world, &text(json!({ "prompt": ["a", "b", "c"], "n": 2, "best_of": 2 }))).await;
    let texts: Vec<_> =
        body["choices"].as_array().expect("choices").iter().map(|c| c["text"].clone()).collect();
    assert_eq!(texts, ["text 0", "text 1", "text 2", "text 3", "text 4", "text 5"]);
    for (place, choice) in body["choices"].as_array().expect("choices").iter().enumerate() {
        assert_eq!(choice["index"], json!(place));
    }
}

#[tokio::test]
async fn one_limit_of_tokens_goes_up_and_both_are_checked() {
    let world = world().await;
    for (limits, sent) in [
        (json!({ "max_tokens": 5 }), json!(5)),
        (json!({ "max_completion_tokens": 9 }), json!(9)),
        (json!({ "max_tokens": 5, "max_completion_tokens": 9 }), json!(9)),
    ] {
        ok(&world, &text(limits)).await;
        let body = world.upstream.last().json();
        assert_eq!((&body["max_tokens"], body.get("max_completion_tokens")), (&sent, None));
    }
    let wrong = world.client.post_json(PATH, &text(json!({ "max_completion_tokens": "x" }))).await;
    assert_invalid("text", &wrong, "invalid_type");
    let negative = world.client.post_json(PATH, &text(json!({ "max_completion_tokens": -1 }))).await;
    assert_invalid("negative", &negative, "integer_below_min_value");
}

#[tokio::test]
async fn prompts_of_every_kind_and_suffixes_go_up_as_they_came() {
    let world = world().await;
    for prompt in [json!("text"), json!(["text"]), json!(["one", "two"]), json!("")] {
        ok(&world, &text(json!({ "prompt": prompt, "suffix": "the end", "echo": false, "logprobs": 2 })))
            .await;
        let sent = world.upstream.last().json();
        assert_eq!(sent["prompt"], prompt);
        assert_eq!(sent["suffix"], "the end");
    }
}

/// Scores of a text's tokens are asked for in this way.
#[tokio::test]
async fn an_echoed_prompt_is_no_part_of_the_completion() {
    let world = world().await;
    let prompt = "the model has read all of this, and wrote none of it ".repeat(10);
    let mut upstream = json!({
        "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "text": prompt, "logprobs": null, "finish_reason": "length" }],
    });
    let wanted = text(json!({ "prompt": prompt, "echo": true, "max_tokens": 0 }));
    let usage = |answer: &Value| answer["usage"].clone();
    upstream["usage"] = json!({ "prompt_tokens": 90, "completion_tokens": 0, "total_tokens": 90 });
    world.upstream.always(Answer::json(200, &upstream));
    let told = usage(&ok(&world, &wanted).await);
    assert_eq!([&told["prompt_tokens"], &told["completion_tokens"], &told["total_tokens"]], [90, 0, 90]);
    upstream.as_object_mut().unwrap().remove("usage");
    world.upstream.always(Answer::json(200, &upstream));
    let estimated = usage(&ok(&world, &wanted).await);
    assert_eq!([&estimated["completion_tokens"], &estimated["prompt_tokens"]], [0, 185]);
    upstream["choices"][0]["text"] = json!(format!("{prompt}and six more"));
    world.upstream.always(Answer::json(200, &upstream));
    for best_of in [1, 5] {
        let wanted = text(json!({ "prompt": prompt, "echo": true, "best_of": best_of }));
        assert_eq!(usage(&ok(&world, &wanted).await)["completion_tokens"], 4, "best of {best_of}");
    }
}

#[tokio::test]
async fn token_prompts_go_only_to_providers_that_share_openais_tokens() {
    let extra = r#"
[[providers]]
name = "openai"
api = "openai"
base_url = "<acme_url>"
api_key = "sk-x"

[[models]]
id = "openai/test-model"
category = ["chat"]
"#;
    let world = Setup { extra: extra.to_owned(), ..Setup::default() }.start().await;
    for prompt in [json!([1, 2, 3]), json!([[1, 2], [3]])] {
        ok(&world, &json!({ "model": "openai/test-model", "prompt": prompt })).await;
        assert_eq!(world.upstream.last().json()["prompt"], prompt);
    }
    let answer = world.client.post_json(PATH, &json!({ "model": "acme/fast", "prompt": [1, 2] })).await;
    assert_invalid("other tokens", &answer, "unsupported_value");
}

#[tokio::test]
async fn mixed_or_empty_prompts_are_refused() {
    let world = world().await;
    for prompt in
        [json!(["a", 1]), json!([1, "a"]), json!([[1], "a"]), json!([null]), json!([[]]), json!([1.5])]
    {
        let answer = world.client.post_json(PATH, &text(json!({ "prompt": prompt }))).await;
        assert_eq!(answer.status, 400, "{prompt}: {}", answer.text());
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn streams_text_chunks_without_a_role() {
    let world = world().await;
    let mut stream = world.client.stream(PATH, &text(json!({ "stream": true }))).await;
    let frames = stream.rest().await;
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
    let all = chunks(&frames);
    assert!(all.iter().all(|chunk| chunk["object"] == "text_completion" && chunk["id"] == all[0]["id"]));
    assert_eq!(text_of(&frames, 0), "Once upon");
    let last = all.last().expect("chunks");
    assert_eq!(
        last["choices"],
        json!([{ "index": 0, "text": "", "logprobs": null, "finish_reason": "stop" }])
    );
    assert_eq!(last["gateway"]["model_used"], "acme/fast");
    assert!(all.iter().rev().skip(1).all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
    assert!(all.iter().all(|chunk| chunk.get("usage").is_none()), "usage only on request");
}

#[tokio::test]
async fn streamed_usage_comes_once_and_last_on_request() {
    let world = world().await;
    let body = text(json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let frames = world.client.stream(PATH, &body).await.rest().await;
    let all = chunks(&frames);
    let (last, before) = all.split_last().expect("chunks");
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 15);
    assert!(last["usage"]["cost_usd"].is_number());
    assert!(last["gateway"].is_object());
    assert!(before.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
}

#[tokio::test]
async fn the_demo_provider_completes_text() {
    let world = world().await;
    let body = ok(&world, &json!({ "model": "demo/chat", "prompt": ["a", "b"], "n": 2 })).await;
    assert_eq!(body["choices"].as_array().map(Vec::len), Some(4));
    assert!(!body["choices"][3]["text"].as_str().unwrap_or_default().is_empty());
}
