//! The choices of an upstream's answer are those that the client asked for: a choice for each prompt, each index once, none beyond.

use gw_testkit::Answer;
use gw_testkit::sse::chunks;
use serde_json::{Value, json};

use crate::harness::answers::{assert_broken_off, attempts, cache_result, fallback, pairs};
use crate::harness::{ADMIN, Setup, World, assert_error, chat_with, logged, with};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// A request, and the indexes of the choices that its upstream sends.
type Answered<'a> = (&'a str, Value, &'a [u32]);

async fn world() -> World {
    Setup { extra: "[cache]\ncompletions = true\n".to_owned(), ..Setup::default() }.start().await
}

fn text(more: Value) -> Value {
    with(json!({ "model": "acme/fast", "prompt": "Once", "cache": { "enabled": true } }), more)
}

fn cached_chat(more: Value) -> Value {
    with(chat_with("acme/fast", json!({ "cache": { "enabled": true } })), more)
}

/// An upstream's answer whose choices have these indexes.
fn answer(path: &str, indexes: &[u32]) -> Value {
    let choice = |index: &u32| {
        let said = format!("choice {index}");
        with(
            json!({ "index": index, "finish_reason": "stop" }),
            if path == TEXT {
                json!({ "text": said, "logprobs": null })
            } else {
                json!({ "message": { "role": "assistant", "content": said } })
            },
        )
    };
    json!({ "model": "m", "choices": indexes.iter().map(choice).collect::<Value>(),
            "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 } })
}

fn indexes(body: &Value) -> Vec<u64> {
    let choices = body["choices"].as_array().cloned().unwrap_or_default();
    choices.iter().filter_map(|choice| choice["index"].as_u64()).collect()
}

/// Answers that nobody can attribute to the prompts and choices of their requests.
fn wrong() -> Vec<Answered<'static>> {
    let two = || text(json!({ "prompt": ["a", "b"] }));
    vec![
        (TEXT, two(), &[0]),
        (TEXT, two(), &[1]),
        (TEXT, two(), &[0, 2]),
        (TEXT, two(), &[0, 7]),
        (TEXT, two(), &[0, 1, 2]),
        (TEXT, two(), &[0, 0]),
        (TEXT, two(), &[]),
        (TEXT, text(json!({ "prompt": ["a", "b"], "n": 2 })), &[0, 1]),
        (TEXT, text(json!({})), &[1]),
        (CHAT, cached_chat(json!({})), &[1]),
        (CHAT, cached_chat(json!({})), &[0, 7]),
        (CHAT, cached_chat(json!({})), &[0, 1]),
        (CHAT, cached_chat(json!({ "n": 2 })), &[0, 7]),
        (CHAT, cached_chat(json!({ "n": 2 })), &[0, 0]),
    ]
}

#[tokio::test]
async fn choices_that_were_not_asked_for_are_an_invalid_answer() {
    let world = world().await;
    for (path, body, indexes) in wrong() {
        let label = format!("{body} {indexes:?}");
        for _ in 0..2 {
            world.upstream.enqueue(Answer::json(200, &answer(path, indexes)));
            let before = world.upstream.hits();
            let refused = world.client.post_json(path, &body).await;
            assert_error(&label, &refused, 502, "upstream_error", "upstream_invalid_response");
            assert_eq!(world.upstream.hits(), before + 1, "{label}: nothing is kept");
            // The provider bills the tokens: 10 at 0.15 USD and 5 at 0.60 USD for a million.
            let id = refused.header("x-request-id").expect("an id");
            let row = logged(&world.client.with_key(ADMIN), id).await;
            assert_eq!(row["cost_usd"], json!(0.000_004_5), "{label}: {row}");
        }
    }
}

#[tokio::test]
async fn another_candidate_answers_instead_and_both_calls_are_paid() {
    let world = world().await;
    let two = text(with(json!({ "prompt": ["a", "b"] }), fallback(&["beta/fast"])));
    world.upstream.enqueue(Answer::json(200, &answer(TEXT, &[0])));
    let served = world.client.post_json(TEXT, &two).await.ok().json();
    assert_eq!(indexes(&served), [0, 1]);
    let tried = [("acme/fast", "upstream_invalid_response"), ("beta/fast", "ok")];
    assert_eq!(attempts(&served), pairs(&tried));
    assert_eq!(served["gateway"]["attempts"][0]["cost_usd"], json!(0.000_004_5));
}

#[tokio::test]
async fn fewer_choices_than_asked_for_are_an_answer_with_a_warning_that_is_not_kept() {
    let world = world().await;
    let few: [Answered<'_>; 4] = [
        (CHAT, cached_chat(json!({ "n": 2 })), &[0]),
        (CHAT, cached_chat(json!({ "n": 2 })), &[1]),
        (TEXT, text(json!({ "n": 3 })), &[0, 1]),
        (TEXT, text(json!({ "prompt": ["a", "b"], "n": 2 })), &[0, 2]),
    ];
    for (path, body, sent) in few {
        let label = format!("{body} {sent:?}");
        for _ in 0..2 {
            world.upstream.enqueue(Answer::json(200, &answer(path, sent)));
            let given = world.client.post_json(path, &body).await.ok();
            assert_eq!(cache_result(&given), "MISS", "{label}");
            let given = given.json();
            assert_eq!(indexes(&given), sent.iter().map(|index| u64::from(*index)).collect::<Vec<_>>());
            assert_eq!(given["gateway"]["warnings"], json!(["choices_missing"]), "{label}");
        }
    }
    // All of them: no warning, and it is kept.
    let body = cached_chat(json!({ "n": 2 }));
    world.upstream.enqueue(Answer::json(200, &answer(CHAT, &[1, 0])));
    let whole = world.client.post_json(CHAT, &body).await.ok();
    assert_eq!(whole.json()["gateway"]["warnings"], json!([]));
    assert_eq!(cache_result(&world.client.post_json(CHAT, &body).await.ok()), "HIT");
}

#[tokio::test]
async fn a_stream_with_fewer_choices_has_the_warning_and_is_not_kept() {
    let world = world().await;
    let body = cached_chat(json!({ "n": 2, "stream": true }));
    for _ in 0..2 {
        let mut stream = world.client.stream(CHAT, &body).await;
        assert_eq!(stream.head.header("x-gateway-cache"), Some("MISS"));
        let last = chunks(&stream.rest().await).pop().expect("a chunk");
        assert_eq!(last["gateway"]["warnings"], json!(["choices_missing"]));
    }
}

/// The begin of an upstream's stream in which each of these choices has a text and a finish reason.
fn stream_of(path: &str, indexes: &[u32]) -> Answer {
    let chunk = |index: &u32| {
        let said =
            if path == TEXT { json!({ "text": "said" }) } else { json!({ "delta": { "content": "said" } }) };
        json!({ "model": "m", "choices": [with(json!({ "index": index, "finish_reason": "stop" }), said)] })
    };
    Answer::sse().all(&indexes.iter().map(chunk).collect::<Vec<_>>())
}

#[tokio::test]
async fn a_stream_without_a_choice_for_one_of_the_prompts_is_broken_off() {
    let world = world().await;
    let two = |more: Value| text(with(json!({ "prompt": ["a", "b"], "stream": true }), more));
    for is_shared in [false, true] {
        let cache = json!({ "cache": { "enabled": is_shared } });
        for (n, sent) in [(1, &[0][..]), (1, &[1]), (2, &[0, 1])] {
            world.upstream.enqueue(stream_of(TEXT, sent).done());
            let body = two(with(cache.clone(), json!({ "n": n })));
            assert_broken_off(&world.client.stream(TEXT, &body).await.rest().await, "upstream_stream_error");
        }
        // The client has not been sent anything yet.
        world.upstream.enqueue(stream_of(TEXT, &[]).done());
        let refused = world.client.post_json(TEXT, &two(cache.clone())).await;
        assert_error("no choice", &refused, 502, "upstream_error", "upstream_invalid_response");
        // One choice of each prompt is an answer.
        world.upstream.enqueue(stream_of(TEXT, &[3, 0]).done());
        let body = two(with(cache, json!({ "n": 2 })));
        let last = chunks(&world.client.stream(TEXT, &body).await.rest().await).pop().expect("a chunk");
        assert_eq!(last["gateway"]["warnings"], json!(["choices_missing"]));
    }
}

#[tokio::test]
async fn a_stream_may_lack_any_choice_if_its_upstream_ends_it() {
    let world = world().await;
    for is_shared in [false, true] {
        let body = |n: u32| {
            let more = json!({ "n": n, "stream": true, "cache": { "enabled": is_shared } });
            chat_with("acme/fast", more)
        };
        for (n, sent) in [(2, &[0][..]), (2, &[1]), (3, &[0, 2])] {
            world.upstream.enqueue(stream_of(CHAT, sent).done());
            let all = chunks(&world.client.stream(CHAT, &body(n)).await.rest().await);
            let choices = all.iter().map(|chunk| &chunk["choices"][0]);
            let finished: Vec<_> = choices
                .filter(|choice| choice["finish_reason"].is_string())
                .map(|choice| choice["index"].clone())
                .collect();
            assert_eq!(json!(finished), json!(sent), "{n}: {all:?}");
            let last = all.last().expect("a chunk");
            assert_eq!(last["gateway"]["warnings"], json!(["choices_missing"]), "{n} {sent:?}");
        }
        // Without an end marker, the other choice may have been cut off.
        world.upstream.enqueue(stream_of(CHAT, &[0]).end());
        assert_broken_off(&world.client.stream(CHAT, &body(2)).await.rest().await, "upstream_stream_error");
    }
}

#[tokio::test]
async fn too_many_prompts_for_a_provider_that_takes_one_name_the_limit() {
    let extra = "[[providers]]\nname = \"llama\"\napi = \"ollama\"\nbase_url = \"<acme_url>\"\n\
        [[models]]\nid = \"llama/one\"\ncategory = [\"chat\"]\n";
    let world = Setup { extra: extra.to_owned(), ..Setup::default() }.start().await;
    let body = json!({ "model": "llama/one", "prompt": vec!["Once"; 33], "n": 2 });
    let refused = world.client.post_json(TEXT, &body).await;
    assert_error("66 calls", &refused, 400, "invalid_request_error", "unsupported_value");
    let named = "so many prompts in one request (they become 66 upstream calls, and 64 are the most)";
    assert!(refused.message().contains(named), "{}", refused.message());
    assert_eq!(world.upstream.hits(), 0);
}
