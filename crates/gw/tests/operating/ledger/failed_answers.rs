//! Answers in which the model gives up: the tokens that the provider counts are charged, plain and streamed. An error at the beginning costs
//! nothing.

use gw_testkit::{Answer, FakeUpstream, Launch};
use serde_json::{Value, json};

use crate::harness::dialects::frame;
use crate::harness::ledger::rows_in;
use crate::harness::{KEY, binary};

/// One token at one USD per million.
const TOKEN: i128 = 1_000_000_000;

fn config(upstream: &FakeUpstream) -> String {
    let provider = |(name, base, more): (&str, String, &str)| {
        format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{name}\"\nbase_url = \"{base}\"\napi_key = \"sk-upstream-key-000\"\n\
             allow_private_network = true\n{more}\n\
             [[models]]\nid = \"{name}/m\"\nupstream_model = \"up\"\ncategory = [\"chat\"]\n\
             pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}\n"
        )
    };
    let root = format!("http://{}", upstream.addr);
    let providers = [
        ("openai", upstream.base_url(), ""),
        ("anthropic", root.clone(), ""),
        ("gemini", root.clone(), ""),
        ("bedrock", root.clone(), "region = \"eu-west-1\""),
        ("cohere", root.clone(), ""),
        ("ollama", root, ""),
    ]
    .map(provider);
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[routing]\nretries = 0\n[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n{}",
        providers.concat()
    )
}

fn events(events: &[Value]) -> Answer {
    let event = |event: &Value| match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    let body: String = events.iter().map(event).collect();
    Answer::full(200, &[("content-type", "text/event-stream")], body)
}

/// The plain and the streamed answer of an upstream that counts 5,000 and 700 tokens and gives up.
fn given_up(dialect: &str) -> [Answer; 2] {
    match dialect {
        "openai" => {
            let used = json!({"prompt_tokens": 5_000, "completion_tokens": 700, "total_tokens": 5_700});
            let answer = |object: &str, member: &str| {
                json!({"id": "x", "object": object, "created": 1, "model": "up",
                "choices": [{"index": 0, member: {"role": "assistant", "content": "Hi"}, "finish_reason": "error"}]})
            };
            let mut plain = answer("chat.completion", "message");
            plain["usage"] = used.clone();
            let last = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [], "usage": used});
            let stream = Answer::sse().all(&[answer("chat.completion.chunk", "delta"), last]).done().end();
            [Answer::json(200, &plain), stream]
        }
        "anthropic" => {
            let message = |stop: Value, output: u64| {
                json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up",
                "content": [], "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 5_000, "output_tokens": output}})
            };
            let stream = events(&[
                json!({"type": "message_start", "message": message(Value::Null, 1)}),
                json!({"type": "message_delta", "delta": {"stop_reason": "error"}, "usage": {"output_tokens": 700}}),
                json!({"type": "message_stop"}),
            ]);
            [Answer::json(200, &message(json!("error"), 700)), stream]
        }
        "gemini" => {
            let answer = json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "MALFORMED_FUNCTION_CALL"}],
                "modelVersion": "up", "usageMetadata": {"promptTokenCount": 5_000, "candidatesTokenCount": 700, "totalTokenCount": 5_700}});
            [Answer::json(200, &answer), events(&[answer])]
        }
        "bedrock" => {
            let usage = json!({"inputTokens": 5_000, "outputTokens": 700, "totalTokens": 5_700});
            let plain = json!({"output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}, "stopReason": "malformed_tool_use",
                "usage": usage, "metrics": {"latencyMs": 5}});
            let frames = [
                frame("messageStart", &json!({"role": "assistant"})),
                frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": "Hi"}})),
                frame("contentBlockStop", &json!({"contentBlockIndex": 0})),
                frame("messageStop", &json!({"stopReason": "malformed_tool_use"})),
                frame("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 5}})),
            ];
            let kind = [("content-type", "application/vnd.amazon.eventstream")];
            [Answer::json(200, &plain), Answer::full(200, &kind, frames.concat())]
        }
        "cohere" => {
            let usage = json!({"billed_units": {"input_tokens": 5_000, "output_tokens": 700}, "tokens": {"input_tokens": 5_000, "output_tokens": 700}});
            let plain = json!({"id": "x", "finish_reason": "ERROR", "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}, "usage": usage});
            let stream = events(&[
                json!({"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant"}}}),
                json!({"type": "message-end", "delta": {"finish_reason": "ERROR", "usage": usage}}),
            ]);
            [Answer::json(200, &plain), stream]
        }
        _ => {
            let line = json!({"model": "up", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": "Hi"},
                "done": true, "done_reason": "error", "prompt_eval_count": 5_000, "eval_count": 700});
            let kind = [("content-type", "application/x-ndjson")];
            [Answer::json(200, &line), Answer::full(200, &kind, format!("{line}\n"))]
        }
    }
}

/// An answer that begins with an error which names no class.
fn error_first(dialect: &str) -> Answer {
    let error = match dialect {
        "cohere" => json!({"message": "boom"}),
        "anthropic" => json!({"type": "error", "error": {"message": "boom"}}),
        "gemini" => json!({"error": {"message": "boom"}}),
        _ => json!({"error": "boom"}),
    };
    let body = if dialect == "ollama" { format!("{error}\n") } else { format!("data: {error}\n\n") };
    Answer::full(200, &[("content-type", "text/event-stream")], body)
}

#[tokio::test]
async fn an_answer_that_its_model_gives_up_costs_what_the_provider_counts() {
    let (upstream, data) = (FakeUpstream::start().await, tempfile::tempdir().expect("a directory"));
    let launch = Launch::new(binary()).file("gateway.toml", config(&upstream));
    let gateway = launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()).start().await;
    let client = gateway.client().with_key(KEY);
    let mut count = 0;
    for dialect in ["openai", "anthropic", "gemini", "bedrock", "cohere", "ollama"] {
        let [plain, stream] = given_up(dialect);
        let mut cases =
            vec![("gives up, plain", plain, false, 6_400), ("gives up, streamed", stream, true, 6_400)];
        if dialect != "bedrock" {
            cases.push(("an error first", error_first(dialect), true, 0));
        }
        for (case, answer, is_stream, expected) in cases {
            upstream.enqueue(answer);
            let body = json!({"model": format!("{dialect}/m"), "stream": is_stream, "max_tokens": 50,
                "messages": [{"role": "user", "content": "what is there"}]});
            let answer = client.post_json("/v1/chat/completions", &body).await;
            let id = answer.header("x-request-id").expect("an id");
            count += 1;
            let rows = rows_in(&data.path().join("gateway.db"), count).await;
            let row = rows.iter().find(|row| &*row.request_id == id).expect("the row");
            assert_ne!(&*row.status, "ok", "{dialect}, {case}");
            assert_eq!(row.cost, expected * TOKEN, "{dialect}, {case}: {row:?}");
        }
    }
}
