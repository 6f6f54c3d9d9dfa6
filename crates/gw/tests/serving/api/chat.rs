//! Plain chat completions: the client's answer and the upstream's request.

use gw_testkit::Answer;
use gw_testkit::upstream::chat_body;
use serde_json::{Value, json};

use crate::harness::{UPSTREAM_KEY, assert_invalid, assert_request_id, chat, chat_with, world};

#[tokio::test]
async fn answers_with_every_field_of_the_specification() {
    let world = world().await;
    let answer = world.chat(&chat("acme/fast")).await.ok();
    let body = answer.json();
    assert!(body["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-") && id != "chatcmpl-upstream"));
    assert_eq!(body["object"], "chat.completion");
    assert!(
        body["created"].as_u64().is_some_and(|created| created > 1_750_000_000),
        "our clock, not the upstream's"
    );
    assert_eq!(body["model"], "fast-2026-01");
    assert_eq!(body["system_fingerprint"], "fp_upstream");
    let choice = &body["choices"][0];
    assert_eq!(choice["index"], 0);
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["message"]["content"], "Hello from upstream");
    assert_eq!(choice["finish_reason"], "stop");
    assert!(choice["message"].get("tool_calls").is_none(), "never an empty list");
    assert_eq!(body["usage"]["prompt_tokens"], 10);
    assert_eq!(body["usage"]["completion_tokens"], 5);
    assert_eq!(body["usage"]["total_tokens"], 15);
    assert!(body["usage"]["cost_usd"].is_number());
    let gateway = &body["gateway"];
    assert_eq!(gateway["request_id"].as_str(), answer.header("x-request-id"));
    assert_request_id("chat", answer.header("x-request-id"));
    assert_eq!(gateway["model_used"], "acme/fast");
    assert_eq!(gateway["provider"], "acme");
    assert_eq!(gateway["cache_hit"], false);
    assert_eq!(gateway["routing_strategy"], "default");
    assert_eq!(gateway["fallback_used"], false);
    assert!(gateway["latency_ms"].is_u64());
    let attempt = &gateway["attempts"][0];
    assert_eq!(
        (&attempt["provider"], &attempt["model"], &attempt["status"]),
        (&json!("acme"), &json!("acme/fast"), &json!("ok"))
    );
    assert!(attempt["latency_ms"].is_u64());
}

#[tokio::test]
async fn the_answer_has_its_headers_and_none_of_the_upstreams() {
    let world = world().await;
    let headers =
        [("set-cookie", "a=b"), ("server", "upstream"), ("x-request-id", "theirs"), ("x-secret", "1")];
    world.upstream.enqueue(Answer::json_with(200, &headers, &chat_body("m", "x")));
    let answer = world.chat(&chat("acme/fast")).await.ok();
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.header("openai-processing-ms").is_some_and(|ms| ms.parse::<u64>().is_ok()));
    assert_eq!(answer.header("x-gateway-model"), Some("acme/fast"));
    assert_eq!(answer.header("x-gateway-provider"), Some("acme"));
    assert_eq!(answer.header("set-cookie"), None);
    assert_eq!(answer.header("x-secret"), None);
    assert_ne!(answer.header("server"), Some("upstream"));
    assert_request_id("ours", answer.header("x-request-id"));
}

#[tokio::test]
async fn the_upstream_gets_the_request_without_what_is_ours() {
    let world = world().await;
    let client = world.client.with_header("x-stainless-lang", "python").with_header("cookie", "session=1");
    let body = chat_with(
        "acme/fast",
        json!({
            "temperature": 0.5, "top_p": 0.9, "max_tokens": 17, "stop": ["END"], "seed": -5, "user": "someone",
            "routing": { "strategy": "default", "fallback": ["acme/plain"] },
            "cache": { "enabled": false, "ttl": 60 }, "top_k": 40, "guided_json": { "a": [1, { "b": null }] }
        }),
    );
    client.post_json("/v1/chat/completions", &body).await.ok();
    let sent = world.upstream.last();
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(sent.header("authorization"), Some(format!("Bearer {UPSTREAM_KEY}").as_str()));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("cookie"), None);
    assert_eq!(sent.header("x-stainless-lang"), None);
    let sent = sent.json();
    assert_eq!(sent["model"], "fast-2026-01");
    assert_eq!(sent["messages"], json!([{ "role": "user", "content": "Hello" }]));
    for (name, value) in body.as_object().expect("an object") {
        match name.as_str() {
            "model" | "messages" => {}
            "routing" | "cache" => assert!(sent.get(name).is_none(), "{name} is ours"),
            _ => assert_eq!(&sent[name], value, "{name} is passed on"),
        }
    }
}

#[tokio::test]
async fn null_is_the_same_as_absent_for_optional_members() {
    let world = world().await;
    let body = chat_with(
        "acme/fast",
        json!({ "temperature": null, "n": null, "stop": null, "stream": null, "seed": null, "tools": null,
                "routing": null, "cache": null, "response_format": null, "logit_bias": null, "user": null,
                "max_tokens": null, "stream_options": null, "tool_choice": null }),
    );
    world.chat_ok(&body).await;
}

#[tokio::test]
async fn unusual_but_legal_requests_of_real_clients_are_accepted() {
    let world = world().await;
    let cases = [
        json!({ "stop": [] }),
        json!({ "tools": [] }),
        json!({ "logit_bias": { "foo": 0 } }),
        json!({ "max_tokens": 0, "max_completion_tokens": 0 }),
        json!({ "seed": -9_007_199_254_740_991_i64 }),
        json!({ "stream_options": { "include_usage": true, "include_obfuscation": false } }),
        json!({ "temperature": 1, "top_p": 1 }),
        json!({ "messages": [{ "role": "developer", "content": "Be kind" }, { "role": "user", "content": "" },
                { "role": "assistant" }, { "role": "assistant", "content": null, "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "f", "arguments": "not json" } }] },
                { "role": "tool", "tool_call_id": "c1", "content": [{ "type": "text", "text": "42" }] },
                { "role": "user", "name": "bob", "content": [{ "type": "text", "text": "x" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA", "detail": "low" } }] }] }),
        json!({ "metadata": { "a": "b" }, "store": false, "service_tier": "auto", "reasoning_effort": "low",
                "parallel_tool_calls": true, "prompt_cache_key": "k", "verbosity": "low" }),
        json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": {}, "strict": null } } }),
        json!({ "anything_at_all": [1, 2, { "x": null }] }),
    ];
    for more in cases {
        let answer = world.chat(&chat_with("acme/fast", more.clone())).await;
        assert_eq!(answer.status, 200, "{more}: {}", answer.text());
    }
}

#[tokio::test]
async fn messages_are_checked_by_role() {
    let world = world().await;
    let cases = [
        (json!({ "role": "user" }), "missing_required_parameter"),
        (json!({ "content": "x" }), "missing_required_parameter"),
        (json!({ "role": "tool", "content": "x" }), "missing_required_parameter"),
        (json!({ "role": "function", "content": "x" }), "missing_required_parameter"),
        (json!({ "role": "user", "content": [] }), "empty_array"),
        (json!({ "role": "user", "content": [{ "type": "text" }] }), "missing_required_parameter"),
        (json!({ "role": "user", "content": [{ "type": "text", "text": 5 }] }), "invalid_type"),
        (
            json!({ "role": "system", "content": [{ "type": "image_url", "image_url": { "url": "https://x.example/i.png" } }] }),
            "invalid_value",
        ),
        (
            json!({ "role": "assistant", "tool_calls": [{ "id": "a", "type": "function", "function": { "name": "f" } }] }),
            "missing_required_parameter",
        ),
    ];
    for (message, code) in cases {
        let answer = world.chat(&chat_with("acme/fast", json!({ "messages": [message] }))).await;
        assert_invalid(&message.to_string(), &answer, code);
        assert!(answer.message().contains("messages[0]"), "names the place: {}", answer.message());
    }
}

#[tokio::test]
async fn tool_calls_come_through_and_empty_arguments_become_an_object() {
    let world = world().await;
    let call = |id: Value, arguments: Value| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": arguments } });
    let mut upstream = chat_body("m", "");
    upstream["choices"][0]["message"] = json!({ "role": "assistant", "content": null,
        "tool_calls": [call(json!("call_1"), json!("{\"a\":1}")), call(json!("call_2"), json!(""))] });
    upstream["choices"][0]["finish_reason"] = json!("tool_calls");
    world.upstream.enqueue(Answer::json(200, &upstream));
    let tool = json!({ "type": "function", "function": { "name": "f", "description": "d",
        "parameters": { "type": "object", "properties": { "a": { "type": "integer" } } } } });
    let body =
        world.chat_ok(&chat_with("acme/fast", json!({ "tools": [tool], "tool_choice": "auto" }))).await;
    let message = &body["choices"][0]["message"];
    assert_eq!(message["content"], "", "always a string");
    assert_eq!(message["tool_calls"][0], call(json!("call_1"), json!("{\"a\":1}")));
    assert_eq!(message["tool_calls"][1]["function"]["arguments"], "{}");
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(world.upstream.last().json()["tools"], json!([tool]));
}

#[tokio::test]
async fn odd_upstream_answers_are_brought_into_shape() {
    let world = world().await;
    let cases = [
        (json!({ "choices": [] }), "", "stop"),
        (json!({ "choices": [{ "message": { "content": "x" }, "finish_reason": "weird" }] }), "x", "stop"),
        (
            json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": null }, "finish_reason": "content_filter" }] }),
            "",
            "content_filter",
        ),
        (
            json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": "cut" }, "finish_reason": "length" }] }),
            "cut",
            "length",
        ),
    ];
    for (upstream, content, finish) in cases {
        world.upstream.enqueue(Answer::json(200, &upstream));
        let body = world.chat_ok(&chat("acme/fast")).await;
        let choice = &body["choices"][0];
        assert_eq!(choice["message"]["role"], "assistant", "{upstream}");
        assert_eq!(choice["message"]["content"], content, "{upstream}");
        if !upstream["choices"].as_array().is_some_and(Vec::is_empty) {
            assert_eq!(choice["finish_reason"], finish, "{upstream}");
        }
        assert!(
            body["system_fingerprint"].as_str().is_some_and(|print| print.starts_with("fp_")),
            "{upstream}"
        );
        assert!(
            body["usage"]["prompt_tokens"].as_u64().is_some_and(|tokens| tokens > 0),
            "estimated: {body}"
        );
        assert_eq!(body["model"], "fast-2026-01", "the upstream's model name when it reports none");
    }
}

#[tokio::test]
async fn a_fingerprint_that_is_no_text_is_replaced() {
    let world = world().await;
    for odd in [json!(7), json!({"a": 1}), json!(["x"]), json!(true), json!("")] {
        let mut body = chat_body("m", "Hi");
        body["system_fingerprint"] = odd.clone();
        world.upstream.enqueue(Answer::json(200, &body));
        let answer = world.chat_ok(&chat("acme/fast")).await;
        assert_eq!(answer["choices"][0]["message"]["content"], "Hi", "{odd}");
        // The gateway's own takes its place.
        let own = answer["system_fingerprint"].as_str().is_some_and(|text| text.starts_with("fp_"));
        assert!(own, "{odd}: {answer}");
        let chunk = json!({
            "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": odd,
            "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}],
        });
        world.upstream.enqueue(Answer::sse().data(&chunk).done());
        let streamed = chat_with("acme/fast", json!({"stream": true}));
        let frames = world.client.stream("/v1/chat/completions", &streamed).await.rest().await;
        assert_eq!(gw_testkit::sse::text_of(&frames, 0), "Hi", "{odd}: {frames:?}");
    }
}

#[tokio::test]
async fn several_choices_keep_their_order() {
    let world = world().await;
    let body = world.chat_ok(&chat_with("acme/fast", json!({ "n": 3 }))).await;
    let indices: Vec<_> =
        body["choices"].as_array().expect("choices").iter().map(|choice| choice["index"].clone()).collect();
    assert_eq!(indices, [json!(0), json!(1), json!(2)]);
    assert_eq!(world.upstream.last().json()["n"], 3);
}

#[tokio::test]
async fn cached_and_reasoning_tokens_are_reported_when_known() {
    let world = world().await;
    let mut upstream = chat_body("m", "x");
    upstream["usage"] = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": { "cached_tokens": 64 }, "completion_tokens_details": { "reasoning_tokens": 12 } });
    world.upstream.enqueue(Answer::json(200, &upstream));
    let usage = world.chat_ok(&chat("acme/fast")).await["usage"].clone();
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 64);
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 12);
}

#[tokio::test]
async fn the_demo_provider_answers_offline_and_the_same_each_time() {
    let world = world().await;
    let (first, second) = (world.chat_ok(&chat("demo/chat")).await, world.chat_ok(&chat("demo/chat")).await);
    assert_eq!(first["choices"], second["choices"]);
    assert_eq!(first["gateway"]["provider"], "demo");
    assert!(!first["choices"][0]["message"]["content"].as_str().unwrap_or_default().is_empty());
    let tool =
        json!({ "type": "function", "function": { "name": "look_up", "parameters": { "type": "object" } } });
    let body =
        world.chat_ok(&chat_with("demo/chat", json!({ "tools": [tool], "tool_choice": "required" }))).await;
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(body["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "look_up");
    let body =
        world.chat_ok(&chat_with("demo/chat", json!({ "response_format": { "type": "json_object" } }))).await;
    let content = body["choices"][0]["message"]["content"].as_str().unwrap_or_default();
    assert!(serde_json::from_str::<Value>(content).is_ok_and(|value| value.is_object()), "{content}");
    assert_eq!(
        world.chat_ok(&chat_with("demo/chat", json!({ "n": 2 }))).await["choices"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(world.upstream.hits(), 0);
}
