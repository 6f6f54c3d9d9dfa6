//! Every provider through the whole gateway: one conversation in every dialect, and requests that are divided into several calls.

mod api_keys;
mod claude_on_vertex;
mod fetched_images;
mod model_rules;
mod prefix_cache;
mod prompt_caches;
mod tool_history;

use gw_testkit::{Answer, Gateway};
use serde_json::{Value, json};

use crate::harness::dialects::{self, WORDS};
use crate::harness::providers::{PROVIDERS, all, targets};
use crate::harness::{KEY, assert_error};

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SYSTEM: &str = "You know the weather everywhere.";

fn question(model: &str) -> Value {
    json!({
        "model": model,
        "max_tokens": 300,
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": [
                {"type": "text", "text": "What is the weather where these were taken?"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
            ]},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get_weather", "description": "Tells the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        }}],
    })
}

/// The client's result of an answer: the message, the finish reason and the usage.
async fn ask(gateway: &Gateway, body: &Value, stream: bool) -> (Value, String, Value) {
    let client = gateway.client().with_key(KEY);
    if !stream {
        let answer = client.post_json("/v1/chat/completions", body).await.ok().json();
        let choice = &answer["choices"][0];
        let finish = choice["finish_reason"].as_str().unwrap_or_default().to_owned();
        return (choice["message"].clone(), finish, answer["usage"].clone());
    }
    let mut body = body.clone();
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let frames = client.stream("/v1/chat/completions", &body).await.rest().await;
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"), "{frames:?}");
    let (mut message, mut finish, mut usage) =
        (json!({"role": "", "content": ""}), String::new(), Value::Null);
    for chunk in gw_testkit::sse::chunks(&frames) {
        assert!(chunk.get("error").is_none(), "{chunk}");
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
        let Some(choice) = chunk["choices"].get(0) else { continue };
        merge(&mut message, &choice["delta"]);
        if let Some(reason) = choice["finish_reason"].as_str() {
            reason.clone_into(&mut finish);
        }
    }
    (message, finish, usage)
}

/// Merges a delta into a message as the OpenAI clients do: strings are appended, calls are found by their index.
fn merge(message: &mut Value, delta: &Value) {
    for name in ["role", "content"] {
        if let (Some(more), Some(text)) = (delta[name].as_str(), message[name].as_str()) {
            message[name] = json!(format!("{text}{more}"));
        }
    }
    for call in delta["tool_calls"].as_array().into_iter().flatten() {
        let at = call["index"].as_u64().and_then(|at| usize::try_from(at).ok()).expect("an index");
        if message.get("tool_calls").is_none() {
            message["tool_calls"] = json!([]);
        }
        let calls = message["tool_calls"].as_array_mut().expect("a list");
        if at == calls.len() {
            let mut first = call.clone();
            first.as_object_mut().expect("an object").remove("index");
            calls.push(first);
        } else {
            let known = calls[at]["function"]["arguments"].as_str().unwrap_or_default();
            let more = call["function"]["arguments"].as_str().unwrap_or_default();
            calls[at]["function"]["arguments"] = json!(format!("{known}{more}"));
        }
    }
}

/// The message without ids and without blanks in arguments, which may differ.
fn normal(message: &Value) -> Value {
    let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            assert!(call["id"].as_str().is_some_and(|id| !id.is_empty()), "{call}");
            let arguments: Value =
                serde_json::from_str(call["function"]["arguments"].as_str().expect("JSON text"))
                    .expect("JSON text");
            json!({"type": call["type"], "name": call["function"]["name"], "arguments": arguments})
        })
        .collect();
    json!({"role": message["role"], "content": message["content"], "calls": calls})
}

#[tokio::test]
async fn one_conversation_through_every_provider_ends_in_the_same_messages() {
    let (gateway, upstreams) = all().await;
    for (provider, upstream) in PROVIDERS.iter().zip(&upstreams) {
        for stream in [false, true] {
            let label = format!("{} stream={stream}", provider.name);
            let mut body = question(&format!("my-{}/{}", provider.name, provider.model));
            let (message, finish, usage) = ask(&gateway, &body, stream).await;
            let call =
                |city: &str| json!({"type": "function", "name": "get_weather", "arguments": {"city": city}});
            let expected =
                json!({"role": "assistant", "content": "", "calls": [call("Paris"), call("Rome")]});
            assert_eq!(normal(&message), expected, "{label}");
            assert_eq!(finish, "tool_calls", "{label}");
            let counts = [&usage["prompt_tokens"], &usage["completion_tokens"], &usage["total_tokens"]];
            assert_eq!(counts, [&json!(100), &json!(20), &json!(120)], "{label}");
            let cost = usage["cost_usd"].as_f64().unwrap();
            assert!((cost - (100.0 + 20.0 * 2.0) / 1e6).abs() < 1e-12, "{label}: {cost}");

            let ids: Vec<Value> =
                message["tool_calls"].as_array().unwrap().iter().map(|call| call["id"].clone()).collect();
            let messages = body["messages"].as_array_mut().unwrap();
            messages.push(message);
            // The results stand in another order than the calls.
            messages.push(json!({"role": "tool", "tool_call_id": ids[1], "content": "rainy"}));
            messages.push(json!({"role": "tool", "tool_call_id": ids[0], "content": "sunny"}));
            let (message, finish, _) = ask(&gateway, &body, stream).await;
            assert_eq!(
                normal(&message),
                json!({"role": "assistant", "content": WORDS, "calls": []}),
                "{label}"
            );
            assert_eq!(finish, "stop", "{label}");

            let sent = String::from_utf8_lossy(&upstream.last().body).into_owned();
            for part in [SYSTEM, PNG, "get_weather", "Paris", "Rome", "sunny", "rainy"] {
                assert!(sent.contains(part), "{label}: {part} is lost: {sent}");
            }
            assert!(!sent.contains("__thought__") || provider.name == "openai", "{label}: {sent}");
        }
    }
}

#[tokio::test]
async fn choices_that_a_provider_gives_one_at_a_time_are_asked_for_one_at_a_time() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    let at = PROVIDERS.iter().position(|provider| provider.name == "anthropic").unwrap();
    let mut body = json!({"model": "my-anthropic/claude-sonnet-4-5", "n": 3, "messages": [{"role": "user", "content": "hi"}]});
    let answer = client.post_json("/v1/chat/completions", &body).await.ok().json();
    assert_eq!(upstreams[at].hits(), 3);
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(choices.iter().all(|choice| choice["message"]["content"] == WORDS), "{answer}");
    assert_eq!(answer["usage"]["prompt_tokens"], 300);
    assert_eq!(answer["gateway"]["attempts"].as_array().map(Vec::len), Some(1), "one attempt in three calls");

    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let frames = client.stream("/v1/chat/completions", &body).await.rest().await;
    let chunks = gw_testkit::sse::chunks(&frames);
    let text = |index: u64| {
        let of = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"].get(0))
            .filter(|choice| choice["index"] == index);
        of.filter_map(|choice| choice["delta"]["content"].as_str()).collect::<String>()
    };
    assert_eq!([text(0), text(1), text(2)], [WORDS, WORDS, WORDS]);
    let roles: Vec<u64> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"].get(0))
        .filter(|choice| choice["delta"]["role"] == "assistant")
        .map(|choice| choice["index"].as_u64().unwrap())
        .collect();
    assert_eq!(roles, [0, 1, 2], "in the order of their indexes, once each");
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 60);

    body["n"] = json!(9);
    let refused = client.post_json("/v1/chat/completions", &body).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "unsupported_value"), "{}", refused.text());
}

#[tokio::test]
async fn text_completions_of_a_chat_provider_have_a_choice_for_each_prompt() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    let at = PROVIDERS.iter().position(|provider| provider.name == "anthropic").unwrap();
    let body =
        json!({"model": "my-anthropic/claude-sonnet-4-5", "prompt": ["one", "two"], "n": 2, "echo": true});
    let answer = client.post_json("/v1/completions", &body).await.ok().json();
    assert_eq!(upstreams[at].hits(), 4);
    let texts: Vec<&str> =
        answer["choices"].as_array().unwrap().iter().map(|choice| choice["text"].as_str().unwrap()).collect();
    let [one, two] = ["one", "two"].map(|prompt| format!("{prompt}{WORDS}"));
    assert_eq!(texts, [&one, &one, &two, &two]);
    assert_eq!(answer["object"], "text_completion");
}

#[tokio::test]
async fn one_broken_part_fails_the_whole_answer() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    let at = PROVIDERS.iter().position(|provider| provider.name == "anthropic").unwrap();
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    upstreams[at].enqueue(Answer::json(529, &overloaded));
    let body = json!({"model": "my-anthropic/claude-sonnet-4-5", "n": 2, "messages": [{"role": "user", "content": "hi"}]});
    let answer = client.post_json("/v1/chat/completions", &body).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "upstream_overloaded"), "{}", answer.text());
}

#[tokio::test]
async fn role_id_name_and_type_are_said_once_whatever_the_dialect_repeats() {
    let (gateway, _upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    for provider in &PROVIDERS {
        let mut body = question(&format!("my-{}/{}", provider.name, provider.model));
        body["stream"] = json!(true);
        let frames = client.stream("/v1/chat/completions", &body).await.rest().await;
        let chunks = gw_testkit::sse::chunks(&frames);
        let deltas =
            || chunks.iter().filter_map(|chunk| chunk["choices"].get(0)).map(|choice| &choice["delta"]);
        assert_eq!(deltas().filter(|delta| delta.get("role").is_some()).count(), 1, "{}", provider.name);
        let calls: Vec<&Value> = deltas().filter_map(|delta| delta["tool_calls"].get(0)).collect();
        for index in 0..2 {
            let of = |member: &str| {
                let own = calls.iter().filter(|call| call["index"] == index);
                own.filter(|call| call.pointer(member).is_some()).count()
            };
            assert_eq!([of("/id"), of("/type"), of("/function/name")], [1, 1, 1], "{}", provider.name);
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_every_upstream_call_of_its_request() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    let at = PROVIDERS.iter().position(|provider| provider.name == "anthropic").unwrap();
    upstreams[at].always(dialects::anthropic_that_hangs());
    for n in [1, 3] {
        let before = upstreams[at].hits();
        let body = json!({"model": "my-anthropic/claude-sonnet-4-5", "n": n, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let mut stream = client.stream("/v1/chat/completions", &body).await;
        stream.json().await;
        for call in 0..n {
            upstreams[at].request(before + call).await;
        }
        stream.close();
        for call in 0..n {
            upstreams[at].request(before + call).await.until_closed().await;
        }
    }
}

#[tokio::test]
async fn a_provider_without_embeddings_says_that_the_model_is_the_wrong_one() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    let at = PROVIDERS.iter().position(|provider| provider.name == "anthropic").unwrap();
    // The catalogue does not know the capabilities of a model without a category; the dialect does.
    let body = json!({"model": "my-anthropic/unknown", "input": "x"});
    let answer = client.post_json("/v1/embeddings", &body).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "unsupported_model"), "{}", answer.text());
    assert_eq!(upstreams[at].hits(), 0);
}

#[tokio::test]
async fn each_call_of_a_request_with_a_seed_has_a_seed_of_its_own() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    // The provider, the number of choices, and the seeds of its calls for the seed 7.
    let cases: [(&str, &str, u32, &[i64]); 3] = [
        ("cohere", "/seed", 3, &[7, 8, 9]),
        ("ollama", "/options/seed", 3, &[7, 8, 9]),
        ("openai", "/seed", 3, &[7]),
    ];
    for (name, member, n, expected) in cases {
        let at = PROVIDERS.iter().position(|provider| provider.name == name).unwrap();
        let model = format!("my-{name}/{}", PROVIDERS[at].model);
        let body =
            json!({"model": model, "n": n, "seed": 7, "messages": [{"role": "user", "content": "hi"}]});
        // OpenAI takes `n`. Its fake answers with one choice, which only adds a warning.
        client.post_json("/v1/chat/completions", &body).await.ok();
        let sent = upstreams[at].requests();
        let mut seeds: Vec<i64> =
            sent.iter().filter_map(|sent| sent.json().pointer(member)?.as_i64()).collect();
        seeds.sort_unstable();
        assert_eq!(seeds, expected, "{name}");
    }
}

/// A maintenance page in JSON, or a proxy that lost the answer: the shape is right, and nothing is in it.
#[tokio::test]
async fn an_answer_without_content_end_and_usage_is_no_answer_in_any_dialect() {
    let (gateway, upstreams) = all().await;
    let client = gateway.client().with_key(KEY);
    for ((name, model), upstream) in targets().zip(&upstreams) {
        let blank = match name {
            "openai" | "azure" | "mistral" => json!({"choices": [{}]}),
            "gemini" | "vertex" => json!({"candidates": [{}]}),
            "cohere" | "ollama" => json!({"message": {}}),
            "bedrock" => continue,
            _ => json!({"content": []}),
        };
        upstream.always(Answer::json(200, &blank));
        for stream in [false, true] {
            let label = format!("{name} {stream}");
            let body =
                json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]});
            let answer = client.post_json("/v1/chat/completions", &body).await;
            assert_error(&label, &answer, 502, "upstream_error", "upstream_invalid_response");
        }
    }
}
