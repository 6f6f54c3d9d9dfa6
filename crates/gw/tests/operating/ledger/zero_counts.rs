//! Streams whose last report of usage has zeros: a zero tells nothing, so the counts that came before it are charged.

use gw_testkit::{Answer, FakeUpstream, Launch};
use serde_json::{Value, json};

use crate::harness::ledger::rows_in;
use crate::harness::{KEY, binary, with};

/// One token at one USD per million.
const TOKEN: i128 = 1_000_000_000;
const PRICING: &str = "pricing = { official_input_per_m = 1.0, official_output_per_m = 2.0 }";

fn config(upstream: &FakeUpstream) -> String {
    let part = |(name, api, base): (&str, &str, String)| {
        format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{api}\"\nbase_url = \"{base}\"\napi_key = \"sk-upstream-key-000\"\n\
             allow_private_network = true\n\
             [[models]]\nid = \"{name}/m\"\nupstream_model = \"up\"\ncategory = [\"chat\"]\n{PRICING}\n\
             [[passthrough]]\npath = \"/{name}\"\nprovider = \"{name}\"\nusage = \"{api}\"\n{PRICING}\n"
        )
    };
    let root = format!("http://{}", upstream.addr);
    let parts = [
        ("acme", "openai", upstream.base_url()),
        ("claude", "anthropic", root.clone()),
        ("gem", "gemini", root),
    ]
    .map(part);
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n{}",
        parts.concat()
    )
}

fn openai() -> Answer {
    let chunk = |choices: Value| json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": choices});
    let used = |prompt: u64, completion: u64| {
        let mut chunk = chunk(json!([]));
        chunk["usage"] = json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
        chunk
    };
    let text =
        json!([{"index": 0, "delta": {"role": "assistant", "content": "Hi all"}, "finish_reason": null}]);
    let stop = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    Answer::sse().all(&[chunk(text), chunk(stop), used(5_000, 700), used(0, 0)]).done().end()
}

fn anthropic() -> Answer {
    let usage = json!({"input_tokens": 5000, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 800, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage});
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi all"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 0, "output_tokens": 700}}),
        json!({"type": "message_stop"}),
    ];
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"));
    let body: String = events.iter().map(event).collect();
    Answer::full(200, &[("content-type", "text/event-stream")], body)
}

fn gemini() -> Answer {
    let part = |text: &str, more: Value, prompt: u64, answer: u64| {
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [{"text": text}]}});
        candidate["finishReason"] = more;
        let usage = json!({"promptTokenCount": prompt, "candidatesTokenCount": answer, "totalTokenCount": prompt + answer});
        json!({"candidates": [candidate], "modelVersion": "up", "usageMetadata": usage})
    };
    Answer::sse().all(&[part("Hi ", Value::Null, 5_000, 700), part("all", json!("STOP"), 0, 0)]).end()
}

#[tokio::test]
async fn a_zero_replaces_no_count_that_the_stream_has_told() {
    let (upstream, data) = (FakeUpstream::start().await, tempfile::tempdir().expect("a directory"));
    let launch = Launch::new(binary()).file("gateway.toml", config(&upstream));
    let gateway = launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()).start().await;
    let client = gateway.client().with_key(KEY);
    let talk = |model: &str| json!({"model": model, "stream": true, "max_tokens": 50, "messages": [{"role": "user", "content": "what is there"}]});
    let chat = |model: &str, n: u64| with(talk(model), json!({"n": n}));
    let contents = || json!({"contents": [{"role": "user", "parts": [{"text": "what is there"}]}]});
    const CHAT: &str = "/v1/chat/completions";
    const GENERATE: &str = "/gem/v1beta/models/up:streamGenerateContent?alt=sse";
    let plain = (5_000, 700, 0, 6_400);
    let cached = (6_700, 700, 900, 8_100);
    let mut count = 0;
    for (path, body, answer, calls, expected) in [
        (CHAT, chat("acme/m", 1), openai(), 1, plain),
        (CHAT, chat("claude/m", 1), anthropic(), 1, cached),
        (CHAT, chat("claude/m", 2), anthropic(), 2, (13_400, 1_400, 1_800, 16_200)),
        (CHAT, chat("gem/m", 1), gemini(), 1, plain),
        ("/v1/messages", talk("claude/m"), anthropic(), 1, cached),
        ("/v1/messages", talk("acme/m"), openai(), 1, plain),
        ("/acme/chat/completions", talk("up"), openai(), 1, plain),
        ("/claude/v1/messages", talk("up"), anthropic(), 1, cached),
        (GENERATE, contents(), gemini(), 1, plain),
    ] {
        (0..calls).for_each(|_| upstream.enqueue(answer.clone()));
        let name = format!("{path} {}", body["model"]);
        let answer = client.post_json(path, &body).await.ok();
        let id = answer.header("x-request-id").expect("an id");
        count += 1;
        let rows = rows_in(&data.path().join("gateway.db"), count).await;
        let row = rows.iter().find(|row| &*row.request_id == id).expect("the row");
        let told = (row.tokens.prompt, row.tokens.completion, row.tokens.cached, row.cost / TOKEN);
        assert_eq!((told, row.estimated), (expected, false), "{name}: {row:?}");
    }
}
