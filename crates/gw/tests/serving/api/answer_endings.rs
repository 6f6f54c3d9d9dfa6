//! Finish reasons and the members beside the text of an answer are equal in plain and streamed answers.

use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::sse_data;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};

use crate::harness::{KEY, Setup, binary, chat, chat_with, world};

const CHAT: &str = "/v1/chat/completions";

/// A gateway with a Gemini upstream and a spare model of OpenAI's dialect.
async fn gemini() -> (Gateway, FakeUpstream, FakeUpstream) {
    let (first, spare) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 60000\n[routing]\nretries = 0\n\
         [routing.breaker]\nfailures = 1000\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"my\"\napi = \"gemini\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[providers]]\nname = \"spare\"\napi = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-001\"\n\
         [[models]]\nid = \"my/gem\"\n[[models]]\nid = \"spare/one\"\n",
        first.addr,
        spare.base_url()
    );
    (Launch::new(binary()).file("gateway.toml", &config).start().await, first, spare)
}

fn candidate(text: &str, reason: &str) -> Value {
    let parts = if text.is_empty() { json!([]) } else { json!([{ "text": text }]) };
    json!({ "candidates": [{ "index": 0, "content": { "parts": parts }, "finishReason": reason }] })
}

fn events(event: &Value) -> Answer {
    Answer::sse().data(event).end()
}

#[tokio::test]
async fn a_blocked_prompt_is_the_same_answer_plain_and_streamed() {
    let (gateway, upstream, _spare) = gemini().await;
    let client = gateway.client().with_key(KEY);
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" }, "usageMetadata": { "promptTokenCount": 4, "totalTokenCount": 4 } });
    upstream.enqueue(Answer::json(200, &blocked));
    let plain = client.post_json(CHAT, &chat("my/gem")).await.ok().json();
    let choice = &plain["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!(""), &json!("content_filter"))
    );
    upstream.enqueue(events(&blocked));
    let frames = client.stream(CHAT, &chat_with("my/gem", json!({ "stream": true }))).await.rest().await;
    let chunks = chunks(&frames);
    assert_eq!(chunks.last().expect("a chunk")["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(text_of(&frames, 0), "");
}

#[tokio::test]
async fn an_answer_that_the_model_gave_up_is_answered_by_another() {
    let (gateway, upstream, spare) = gemini().await;
    let client = gateway.client().with_key(KEY);
    let silent =
        json!({ "usageMetadata": { "promptTokenCount": 4, "totalTokenCount": 4 }, "modelVersion": "m" });
    let given_up = candidate("", "MALFORMED_FUNCTION_CALL");
    for broken in [&silent, &given_up] {
        for stream in [false, true] {
            let more = json!({ "stream": stream, "routing": { "fallback": ["spare/one"] } });
            upstream.enqueue(if stream { events(broken) } else { Answer::json(200, broken) });
            let hits = spare.hits();
            let answer = client.post_json(CHAT, &chat_with("my/gem", more)).await;
            assert_eq!(answer.status, 200, "{broken}, stream: {stream}: {}", answer.text());
            assert_eq!(spare.hits(), hits + 1, "{broken}, stream: {stream}");
            // Without another candidate the client gets the error before any content.
            upstream.enqueue(if stream { events(broken) } else { Answer::json(200, broken) });
            let answer = client.post_json(CHAT, &chat_with("my/gem", json!({ "stream": stream }))).await;
            assert_eq!((answer.status, answer.code().as_str()), (502, "upstream_error"), "{broken}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_given_up_after_content_is_an_error_event() {
    let (gateway, upstream, spare) = gemini().await;
    let client = gateway.client().with_key(KEY);
    upstream.enqueue(events(&candidate("Half", "UNEXPECTED_TOOL_CALL")));
    let more = json!({ "stream": true, "routing": { "fallback": ["spare/one"] } });
    let frames = client.stream(CHAT, &chat_with("my/gem", more)).await.rest().await;
    assert_eq!(text_of(&frames, 0), "Half");
    let chunks = chunks(&frames);
    assert_eq!(chunks.last().expect("the error")["error"]["code"], "upstream_stream_error");
    assert!(!frames.concat().contains("\"finish_reason\":\"stop\""), "{frames:?}");
    assert_eq!(spare.hits(), 0);
}

/// OpenRouter tells the failure of a provider in the choice, whatever its finish reason.
#[tokio::test]
async fn an_error_in_a_choice_is_no_answer() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    for (code, status, name) in [(502, 502, "upstream_error"), (429, 429, "upstream_rate_limited")] {
        let error = json!({"code": code, "message": "Provider disconnected"});
        for reason in [json!(null), json!("stop"), json!("length"), json!("error")] {
            let message = json!({"role": "assistant", "content": "par"});
            let choice = json!({"index": 0, "message": message, "finish_reason": reason, "error": error});
            world.upstream.enqueue(Answer::json(200, &json!({"choices": [choice], "usage": usage})));
            let answer = world.chat(&chat("acme/fast")).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, name), "{reason}");
        }
    }
    for (reason, then) in [(json!("stop"), None), (json!(null), Some("stop"))] {
        let chunk = |delta: Value, reason: &Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        let mut failed = chunk(json!({"content": ""}), &reason);
        failed["choices"][0]["error"] = json!({"code": 502, "message": "Provider disconnected"});
        let mut stream = Answer::sse().data(&chunk(json!({"content": "par"}), &json!(null))).data(&failed);
        if let Some(reason) = then {
            stream = stream.data(&chunk(json!({}), &json!(reason)));
        }
        world.upstream.enqueue(stream.done());
        let body = chat_with("acme/fast", json!({"stream": true}));
        let frames = world.client.stream(CHAT, &body).await.rest().await;
        assert_eq!(text_of(&frames, 0), "par");
        assert_eq!(chunks(&frames).last().expect("an error")["error"]["code"], "upstream_stream_error");
        assert!(!frames.concat().contains("\"finish_reason\":\"stop\""), "{frames:?}");
    }
}

#[tokio::test]
async fn members_of_an_answer_and_details_of_its_usage_come_through() {
    let world = world().await;
    let usage = json!({ "prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17,
        "prompt_tokens_details": { "cached_tokens": 1, "audio_tokens": 2 },
        "completion_tokens_details": { "reasoning_tokens": 1, "audio_tokens": 3, "accepted_prediction_tokens": 4, "rejected_prediction_tokens": 0 } });
    let annotations = json!([{ "type": "url_citation", "url_citation": { "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 1 } }]);
    let members = [
        ("service_tier", json!("priority")),
        ("metadata", json!({ "a": "b" })),
        ("moderation", json!({ "flagged": false })),
    ];
    let message = json!({ "role": "assistant", "content": "a", "annotations": annotations });
    let mut whole = json!({ "id": "x", "object": "chat.completion", "created": 1, "model": "up",
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }], "usage": usage });
    for (name, value) in &members {
        whole[*name] = value.clone();
    }
    world.upstream.enqueue(Answer::json(200, &whole));
    let plain = world.chat_ok(&chat("acme/fast")).await;
    let mut last = sse_data(&json!({}), Some("stop"));
    last["usage"] = usage.clone();
    for (name, value) in &members {
        last[*name] = value.clone();
    }
    let deltas = [json!({ "content": "a" }), json!({ "annotations": annotations })];
    let stream = deltas.iter().fold(Answer::sse(), |stream, delta| stream.data(&sse_data(delta, None)));
    world.upstream.enqueue(stream.data(&last).done());
    let more = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let frames = world.client.stream(CHAT, &chat_with("acme/fast", more)).await.rest().await;
    let chunks = chunks(&frames);
    let closing = chunks.last().expect("the last chunk");
    for answer in [&plain, closing] {
        for (name, value) in &members {
            assert_eq!(&answer[*name], value, "{name}");
        }
        for details in ["prompt_tokens_details", "completion_tokens_details"] {
            assert_eq!(answer["usage"][details], usage[details]);
        }
    }
    assert_eq!(plain["choices"][0]["message"]["annotations"], annotations);
    let streamed: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"]["annotations"])
        .filter(|list| !list.is_null())
        .collect();
    assert_eq!(streamed, [&annotations]);
    // A cached answer has these members, too.
    drop(world);
    let world = Setup::default().start().await;
    world.upstream.enqueue(Answer::json(200, &whole));
    let kept = chat_with("acme/fast", json!({ "cache": { "enabled": true } }));
    world.chat_ok(&kept).await;
    let hit = world.chat_ok(&kept).await;
    assert_eq!(
        (&hit["gateway"]["cache_hit"], &hit["moderation"]),
        (&json!(true), &json!({ "flagged": false }))
    );
    assert_eq!(hit["usage"]["completion_tokens_details"], usage["completion_tokens_details"]);
}
