//! Token counts: the provider's own counter where it has one, and an estimate otherwise.

use gw_testkit::{Answer, FakeUpstream, Gateway};
use serde_json::{Value, json};

use crate::harness::{KEY, serve};

/// A provider with a counter.
struct Counting {
    name: &'static str,
    api: &'static str,
    /// The path of `base_url`.
    base: &'static str,
    lines: &'static str,
    model: &'static str,
    path: &'static str,
    answer: fn() -> Value,
    /// The body of the count for a system prompt, a question and a tool.
    body: fn() -> Value,
}

fn claude_messages() -> Value {
    json!([{"role": "user", "content": [{"type": "text", "text": "Hello"}]}])
}

fn claude_tools() -> Value {
    json!([{"name": "f", "description": "F", "input_schema": {"type": "object", "properties": {}}}])
}

fn gemini_contents() -> Value {
    json!([{"role": "user", "parts": [{"text": "Hello"}]}])
}

fn counters() -> [Counting; 6] {
    [
        Counting {
            name: "studio",
            api: "gemini",
            base: "",
            lines: "",
            model: "gemini-2.5-pro",
            path: "/v1beta/models/gemini-2.5-pro:countTokens",
            answer: || json!({"totalTokens": 4711, "promptTokensDetails": []}),
            body: || {
                json!({"generateContentRequest": {"model": "models/gemini-2.5-pro", "contents": gemini_contents(),
                    "systemInstruction": {"parts": [{"text": "Be brief."}]}}})
            },
        },
        Counting {
            name: "gcp",
            api: "vertex",
            base: "",
            lines: "project = \"p\"\nregion = \"eu\"\n",
            model: "gemini-2.5-pro",
            path: "/v1/projects/p/locations/eu/publishers/google/models/gemini-2.5-pro:countTokens",
            answer: || json!({"totalTokens": 4711}),
            body: || json!({"contents": gemini_contents(), "systemInstruction": {"parts": [{"text": "Be brief."}]}}),
        },
        Counting {
            name: "claude-gcp",
            api: "vertex",
            base: "",
            lines: "project = \"p\"\nregion = \"eu\"\n",
            model: "claude-opus-4-5@20251101",
            path: "/v1/projects/p/locations/eu/publishers/anthropic/models/count-tokens:rawPredict",
            answer: || json!({"input_tokens": 4711}),
            body: || {
                json!({"model": "claude-opus-4-5@20251101", "anthropic_version": "vertex-2023-10-16",
                    "system": "Be brief.", "messages": claude_messages(), "tools": claude_tools()})
            },
        },
        Counting {
            name: "aws",
            api: "bedrock",
            base: "",
            lines: "region = \"eu-west-1\"\n",
            model: "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            path: "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens",
            answer: || json!({"inputTokens": 4711}),
            body: || {
                json!({"input": {"converse": {"messages": [{"role": "user", "content": [{"text": "Hello"}]}],
                    "system": [{"text": "Be brief."}]}}})
            },
        },
        Counting {
            name: "vllm",
            api: "openai",
            base: "/v1",
            lines: "responses = false\n",
            model: "qwen",
            path: "/tokenize",
            answer: || json!({"count": 4711, "max_model_len": 8192, "tokens": [1, 2, 3]}),
            body: || {
                json!({"model": "qwen", "messages": [{"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Hello"}]})
            },
        },
        Counting {
            name: "llamacpp",
            api: "openai",
            base: "/v1",
            lines: "responses = false\n",
            model: "tiny",
            path: "/v1/messages/count_tokens",
            answer: || json!({"input_tokens": 4711}),
            body: || json!({"model": "tiny", "system": "Be brief.", "messages": claude_messages(), "tools": claude_tools()}),
        },
    ]
}

async fn start() -> (Gateway, Vec<FakeUpstream>) {
    let mut config = format!("[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n");
    let mut upstreams = Vec::new();
    for Counting { name, api, base, lines, model, .. } in counters() {
        let upstream = FakeUpstream::start().await;
        config.push_str(&format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{api}\"\nbase_url = \"http://{}{base}\"\napi_key = \"sk-upstream-key-000\"\n\
             {lines}[[models]]\nid = \"{name}/{model}\"\n",
            upstream.addr
        ));
        upstreams.push(upstream);
    }
    (serve(&config).await, upstreams)
}

/// Whether `part` holds in `whole`: the members of objects may be more.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| holds(found, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(found, value)| holds(found, value))
        }
        _ => whole == part,
    }
}

#[tokio::test]
async fn each_provider_with_a_counter_is_asked() {
    let (gateway, upstreams) = start().await;
    let client = gateway.client().with_key(KEY);
    for (counting, upstream) in counters().iter().zip(&upstreams) {
        let model = format!("{}/{}", counting.name, counting.model);
        let request = json!({"model": model, "system": "Be brief.", "messages": claude_messages(), "tools": claude_tools()});
        upstream.enqueue(Answer::json(200, &(counting.answer)()));
        let counted = client.post_json("/v1/messages/count_tokens", &request).await.ok();
        assert_eq!(counted.header("x-gateway-token-count"), Some("upstream"), "{model}");
        assert_eq!(counted.json(), json!({"input_tokens": 4711}), "{model}");
        let sent = upstream.last();
        assert_eq!(sent.path, counting.path, "{model}");
        let (got, wanted) = (sent.json(), (counting.body)());
        assert!(holds(&got, &wanted), "{model}: {got} does not hold {wanted}");
        for name in ["max_tokens", "max_completion_tokens", "stream", "generationConfig", "inferenceConfig"] {
            assert!(!got.to_string().contains(&format!("\"{name}\"")), "{model}: {name} in {got}");
        }
        upstream.enqueue(Answer::error(500, "x", "y"));
        let estimated = client.post_json("/v1/messages/count_tokens", &request).await.ok();
        assert_eq!(estimated.header("x-gateway-token-count"), Some("estimate"), "{model}");
    }
}

#[tokio::test]
async fn the_counters_serve_the_responses_api_as_well() {
    let (gateway, upstreams) = start().await;
    let client = gateway.client().with_key(KEY);
    for (counting, upstream) in counters().iter().zip(&upstreams) {
        let model = format!("{}/{}", counting.name, counting.model);
        upstream.enqueue(Answer::json(200, &(counting.answer)()));
        let request = json!({"model": model, "instructions": "Be brief.", "input": "Hello"});
        let counted = client.post_json("/v1/responses/input_tokens", &request).await.ok();
        // llama.cpp's server counts the tokens of the Messages API alone.
        let how = if counting.name == "llamacpp" { "estimate" } else { "upstream" };
        assert_eq!(counted.header("x-gateway-token-count"), Some(how), "{model}");
        assert_eq!(counted.json()["input_tokens"] == 4711, how == "upstream", "{model}");
    }
}
