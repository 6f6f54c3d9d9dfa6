//! Custom tools, tool names that a provider refuses, and `allowed_tools`, in requests and in answers.

use gw_testkit::{Answer, FakeUpstream, Gateway};
use serde_json::{Value, json};

use crate::harness::providers::{CLAUDE_ON_VERTEX, api};
use crate::harness::{KEY, serve};

/// A gateway with one provider of each API. All of them use this upstream.
async fn gateway(upstream: &FakeUpstream) -> Gateway {
    let mut config = format!("[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n");
    for (name, lines, model) in [
        ("openai", "", "m"),
        ("anthropic", "", "m"),
        (CLAUDE_ON_VERTEX, "project = \"p\"", "claude-opus-4-5@20251101"),
        ("bedrock", "region = \"eu-west-1\"", "m"),
        ("gemini", "", "m"),
        ("vertex", "project = \"p\"", "gemini-2.5-pro"),
        ("mistral", "", "m"),
        ("cohere", "", "m"),
        ("ollama", "", "m"),
    ] {
        config.push_str(&format!(
            "[[providers]]\nname = \"my-{name}\"\napi = \"{}\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n{lines}\n[[models]]\nid = \"my-{name}/m\"\nupstream_model = \"{model}\"\n",
            api(name),
            upstream.addr
        ));
    }
    serve(&config).await
}

/// The tool calls of a stream as openai-python accumulates them: it appends strings.
fn calls(frames: &[String]) -> Vec<Value> {
    let mut calls: Vec<Value> = Vec::new();
    for chunk in gw_testkit::sse::chunks(frames) {
        for piece in chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let at = usize::try_from(piece["index"].as_u64().expect("an index")).expect("small");
            if at == calls.len() {
                let mut first = piece.clone();
                first.as_object_mut().expect("a call").remove("index");
                calls.push(first);
                continue;
            }
            for (kind, text) in [("custom", "input"), ("function", "arguments")] {
                if let Some(more) = piece[kind][text].as_str() {
                    let known = calls[at][kind][text].as_str().expect("text").to_owned();
                    calls[at][kind][text] = json!(known + more);
                }
            }
        }
    }
    calls
}

const INPUT: &str = "print(\"東京 😀\")\n";

fn custom_call() -> Value {
    json!({"id": "call_1", "type": "custom", "custom": {"name": "run", "input": INPUT}})
}

fn question(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "x"}], "tools": [
        {"type": "custom", "custom": {"name": "run", "description": "Runs code.", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /.+/"}}}},
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}},
    ]})
}

/// The models that answer in Anthropic's dialect, plain and streamed.
fn claudes() -> impl Iterator<Item = (&'static str, bool)> {
    let models = ["my-anthropic/m", "my-claude-on-vertex/m"];
    models.into_iter().flat_map(|model| [(model, false), (model, true)])
}

fn anthropic_call(name: &str, input: &Value, stream: bool) -> Answer {
    let usage = json!({"input_tokens": 5, "output_tokens": 5});
    let block = |input: &Value| json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": input});
    if !stream {
        return Answer::json(
            200,
            &json!({"type": "message", "content": [block(input)], "stop_reason": "tool_use", "usage": usage}),
        );
    }
    let text = input.to_string();
    let mut events = vec![
        json!({"type": "message_start", "message": {"usage": usage}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block(&json!({}))}),
    ];
    let pieces: Vec<String> = text.chars().map(String::from).collect();
    events.extend(pieces.iter().map(|piece| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}})));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage}));
    events.push(json!({"type": "message_stop"}));
    Answer::sse().all(&events).end()
}

#[tokio::test]
async fn a_custom_call_of_an_openai_type_provider_stays_one() {
    let upstream = FakeUpstream::start().await;
    let gateway = gateway(&upstream).await;
    let client = gateway.client().with_key(KEY);
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10});
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [custom_call()]}, "finish_reason": "tool_calls"});
    upstream.always(Answer::json(
        200,
        &json!({"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}),
    ));
    let mut body = question("my-openai/m");
    let answer = client.post_json("/v1/chat/completions", &body).await.ok().json();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"], json!([custom_call()]));
    assert_eq!(upstream.last().json()["tools"], body["tools"]);

    let piece = |call: Value| json!({"object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]});
    upstream.always(
        Answer::sse()
            .all(&[
                piece(json!({"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "run", "input": ""}})),
                piece(json!({"index": 0, "custom": {"input": "print("}})),
                piece(json!({"index": 0, "custom": {"input": "\"東京 😀\")\n"}})),
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": usage}),
            ])
            .done()
            .end(),
    );
    body["stream"] = json!(true);
    let frames = client.stream("/v1/chat/completions", &body).await.rest().await;
    assert_eq!(calls(&frames), [custom_call()], "{frames:?}");
}

#[tokio::test]
async fn a_custom_tool_is_a_function_with_one_string_elsewhere_and_its_calls_come_back_as_custom() {
    let upstream = FakeUpstream::start().await;
    let gateway = gateway(&upstream).await;
    let client = gateway.client().with_key(KEY);
    for (model, stream) in claudes() {
        upstream.always(anthropic_call("run", &json!({"input": INPUT}), stream));
        let mut body = question(model);
        body["tool_choice"] = json!({"type": "custom", "custom": {"name": "run"}});
        body["stream"] = json!(stream);
        let called = if stream {
            calls(&client.stream("/v1/chat/completions", &body).await.rest().await)
        } else {
            let answer = client.post_json("/v1/chat/completions", &body).await.ok().json();
            answer["choices"][0]["message"]["tool_calls"].as_array().expect("calls").clone()
        };
        let mut expected = custom_call();
        expected["id"] = json!("toolu_1");
        assert_eq!(called, [expected], "{model} stream={stream}");
        let sent = upstream.last().json();
        let tool = &sent["tools"][0];
        assert_eq!((&tool["name"], &sent["tool_choice"]["name"]), (&json!("run"), &json!("run")));
        assert_eq!(tool["input_schema"]["properties"], json!({"input": {"type": "string"}}));
        assert!(tool["description"].as_str().is_some_and(|words| words.contains("start: /.+/")), "{tool}");
    }
    // The history of every dialect.
    for api in ["anthropic", CLAUDE_ON_VERTEX, "bedrock", "gemini", "mistral", "cohere", "ollama"] {
        upstream.always(Answer::json(500, &json!({})));
        let mut body = question(&format!("my-{api}/m"));
        body["messages"] = json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": null, "tool_calls": [custom_call()]},
            {"role": "tool", "tool_call_id": "call_1", "content": "done"},
        ]);
        client.post_json("/v1/chat/completions", &body).await;
        let sent = upstream.last().json().to_string();
        assert!(sent.contains("run") && sent.contains("東京 😀"), "{api}: {sent}");
    }
}

#[tokio::test]
async fn names_that_a_provider_refuses_are_changed_there_and_back() {
    let upstream = FakeUpstream::start().await;
    let gateway = gateway(&upstream).await;
    let client = gateway.client().with_key(KEY);
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    for api in ["anthropic", CLAUDE_ON_VERTEX, "bedrock", "gemini", "mistral", "cohere"] {
        upstream.always(Answer::json(500, &json!({})));
        let body = json!({"model": format!("my-{api}/m"), "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": null, "tool_calls": [call("c1", "weather at/now!"), call("c2", "9")]},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "tool", "tool_call_id": "c2", "content": "r"},
        ], "tools": [{"type": "function", "function": {"name": "weather at/now!"}}]});
        client.post_json("/v1/chat/completions", &body).await;
        let sent = upstream.last().json().to_string();
        assert!(!sent.contains("at/now!") && sent.contains("weather_at_now_"), "{api}: {sent}");
    }
    for (model, stream) in claudes() {
        upstream.always(anthropic_call("weather_at_now_", &json!({"a": 1}), stream));
        let body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": "weather at/now!"}}]});
        let called = if stream {
            calls(&client.stream("/v1/chat/completions", &body).await.rest().await)
        } else {
            let answer = client.post_json("/v1/chat/completions", &body).await.ok().json();
            answer["choices"][0]["message"]["tool_calls"].as_array().expect("calls").clone()
        };
        assert_eq!(called[0]["function"], json!({"name": "weather at/now!", "arguments": "{\"a\":1}"}));
    }
}

#[tokio::test]
async fn allowed_tools_are_said_as_each_provider_can() {
    let upstream = FakeUpstream::start().await;
    let gateway = gateway(&upstream).await;
    let client = gateway.client().with_key(KEY);
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let body = |api: &str, mode: &str| {
        json!({"model": format!("my-{api}/m"), "messages": [{"role": "user", "content": "x"}], "tools": [tool("f"), tool("g"), tool("h")],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [tool("f"), tool("h")]}}})
    };
    for (mode, said) in [("auto", "VALIDATED"), ("required", "ANY")] {
        upstream.always(Answer::json(
            200,
            &json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]}),
        ));
        let answer = client.post_json("/v1/chat/completions", &body("gemini", mode)).await.ok().json();
        let sent = upstream.last().json();
        let config = json!({"mode": said, "allowedFunctionNames": ["f", "h"]});
        assert_eq!(sent["toolConfig"]["functionCallingConfig"], config);
        assert_eq!(sent["tools"][0]["functionDeclarations"].as_array().map(Vec::len), Some(3));
        assert_eq!(answer["gateway"]["warnings"], json!(["price_unknown"]));

        upstream.always(anthropic_call("f", &json!({}), false));
        let answer = client.post_json("/v1/chat/completions", &body("anthropic", mode)).await.ok().json();
        let sent = upstream.last().json();
        let names: Vec<&Value> = sent["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["f", "h"]);
        assert_eq!(sent["tool_choice"]["type"], if mode == "auto" { "auto" } else { "any" });
        assert_eq!(
            answer["gateway"]["warnings"],
            json!(["parameter_simplified:tool_choice", "price_unknown"])
        );
        // Vertex AI has VALIDATED in v1beta1 only.
        let offered_alone = ["bedrock", "mistral", "cohere", "ollama"]
            .into_iter()
            .chain((mode == "auto").then_some("vertex"));
        for api in offered_alone {
            upstream.always(Answer::json(500, &json!({})));
            client.post_json("/v1/chat/completions", &body(api, mode)).await;
            let tools = upstream.last().json().to_string();
            assert!(
                tools.contains("\"f\"") && tools.contains("\"h\"") && !tools.contains("\"g\""),
                "{api}: {tools}"
            );
        }
    }
    upstream.always(Answer::json(500, &json!({})));
    client.post_json("/v1/chat/completions", &body("vertex", "required")).await;
    let config = json!({"mode": "ANY", "allowedFunctionNames": ["f", "h"]});
    assert_eq!(upstream.last().json()["toolConfig"]["functionCallingConfig"], config);
    // OpenAI accepts the member.
    upstream.always(Answer::json(500, &json!({})));
    let asked = body("openai", "auto");
    client.post_json("/v1/chat/completions", &asked).await;
    assert_eq!(upstream.last().json()["tool_choice"], asked["tool_choice"]);
}
