//! Turns that go to another dialect than the client's: the reasoning that a target gets back, and the stop sequence that ended an
//! answer.

use gw_testkit::upstream::chat_body;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway};
use serde_json::{Value, json};

use super::{ask_messages, events, message};
use crate::harness::dialects::{self, Say, frame};
use crate::harness::{KEY, serve, with};

/// The name, the API with more lines of its entry, and the model of each provider.
const PROVIDERS: [(&str, &str, &str); 6] = [
    ("claude", "api = \"anthropic\"", "claude-sonnet-4-5"),
    ("vllm", "api = \"openai\"\nresponses = false", "m"),
    ("ollama", "api = \"ollama\"", "qwen3"),
    ("nova", "api = \"bedrock\"\nregion = \"eu-west-1\"", "amazon.nova-pro-v1:0"),
    ("mistral", "api = \"mistral\"", "mistral-large-2512"),
    ("cohere", "api = \"cohere\"", "command-a-03-2025"),
];

struct Providers {
    _gateway: Gateway,
    client: Client,
    upstreams: Vec<FakeUpstream>,
}

impl Providers {
    async fn start() -> Self {
        let mut config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 60000\n[routing]\nretries = 0\n\
             [[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n"
        );
        let mut upstreams = Vec::new();
        for (name, api, model) in PROVIDERS {
            let upstream = FakeUpstream::start().await;
            config.push_str(&format!(
                "[[providers]]\nname = \"{name}\"\n{api}\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
                 [[models]]\nid = \"{name}/{model}\"\n",
                upstream.addr
            ));
            upstreams.push(upstream);
        }
        let gateway = serve(&config).await;
        let client = gateway.client().with_key(KEY);
        Self { _gateway: gateway, client, upstreams }
    }

    fn upstream(&self, name: &str) -> &FakeUpstream {
        let place = PROVIDERS.iter().position(|(known, ..)| *known == name).expect("a provider");
        &self.upstreams[place]
    }
}

const SECRET: &str = "A secret thought.";

/// Claude's answer with a thought and a call.
fn claude_answer() -> Answer {
    let content = json!([
        {"type": "thinking", "thinking": SECRET, "signature": "c2ln"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    ]);
    Answer::json(
        200,
        &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": content,
            "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 5}}),
    )
}

fn reasoning_warnings(answer: &Value) -> usize {
    let warnings = answer["gateway"]["warnings"].as_array().into_iter().flatten();
    warnings.filter(|warning| **warning == "reasoning_dropped").count()
}

#[tokio::test]
async fn thoughts_of_one_provider_do_not_reach_another_as_plain_text() {
    let providers = Providers::start().await;
    let claude = providers.upstream("claude");
    claude.enqueue(claude_answer());
    let tools = json!({"tools": [{"name": "look", "input_schema": {"type": "object"}}]});
    let first = with(message("claude/claude-sonnet-4-5"), tools);
    let answer = ask_messages(&providers.client, &first).await.ok().json();
    assert_eq!(answer["content"][0]["thinking"], SECRET, "{answer}");
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "Dark."});
    let history = json!([{"role": "user", "content": "Hello"},
        {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [result]}]);
    providers.upstream("vllm").always(Answer::json(200, &chat_body("m", "Well")));
    providers.upstream("ollama").always(dialects::ollama(Say::Words, false));
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    claude.always(Answer::json(529, &overloaded));
    let fallback = |model: &str| json!({"routing": {"fallback": [model]}});
    for (serving, model, more) in [
        ("vllm", "vllm/m", json!({})),
        ("vllm", "claude/claude-sonnet-4-5", fallback("vllm/m")),
        ("ollama", "ollama/qwen3", json!({})),
    ] {
        let next = with(first.clone(), with(more, json!({"model": model, "messages": history})));
        let answer = ask_messages(&providers.client, &next).await.ok().json();
        let sent = providers.upstream(serving).last().json().to_string();
        assert!(sent.contains("Let me look.") && !sent.contains(SECRET), "{model}: {sent}");
        assert_eq!(reasoning_warnings(&answer), 1, "{model}: {answer}");
    }
}

#[tokio::test]
async fn reasoning_that_a_model_does_not_take_back_is_left_out_with_a_warning() {
    let providers = Providers::start().await;
    let thought = json!({"reasoningContent": {"reasoningText": {"text": SECRET, "signature": "c2ln"}}});
    let nova = json!({"output": {"message": {"role": "assistant", "content": [thought, {"text": "Well"}]}},
        "stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 5, "totalTokens": 10}});
    let mut mistral = chat_body("m", "");
    mistral["choices"][0]["message"]["content"] = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": SECRET}]}, {"type": "text", "text": "Well"}]);
    for (name, model, answer) in
        [("nova", "nova/amazon.nova-pro-v1:0", nova), ("mistral", "mistral/mistral-large-2512", mistral)]
    {
        providers.upstream(name).always(Answer::json(200, &answer));
        let first = ask_messages(&providers.client, &message(model)).await.ok().json();
        assert_eq!(first["content"][0]["thinking"], SECRET, "{name}: {first}");
        let history = json!([{"role": "user", "content": "Hello"},
            {"role": "assistant", "content": first["content"]}, {"role": "user", "content": "And?"}]);
        let next = with(message(model), json!({"messages": history}));
        let answer = ask_messages(&providers.client, &next).await.ok().json();
        let sent = providers.upstream(name).last().json().to_string();
        assert!(sent.contains("Well") && !sent.contains(SECRET), "{name}: {sent}");
        assert_eq!(reasoning_warnings(&answer), 1, "{name}: {answer}");
        // A turn without reasoning loses nothing.
        let plain = json!([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Well"},
            {"role": "user", "content": "And?"}]);
        let next = with(message(model), json!({"messages": plain}));
        let answer = ask_messages(&providers.client, &next).await.ok().json();
        assert_eq!(reasoning_warnings(&answer), 0, "{name}: {answer}");
    }
}

/// An answer of Converse that a stop sequence ended.
fn stopped_converse(stream: bool) -> Answer {
    let usage = json!({"inputTokens": 5, "outputTokens": 5, "totalTokens": 10});
    if !stream {
        let message = json!({"role": "assistant", "content": [{"text": "Well"}]});
        return Answer::json(
            200,
            &json!({"output": {"message": message}, "stopReason": "stop_sequence", "usage": usage}),
        );
    }
    let body = [
        frame("messageStart", &json!({"role": "assistant"})),
        frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": "Well"}})),
        frame("contentBlockStop", &json!({"contentBlockIndex": 0})),
        frame("messageStop", &json!({"stopReason": "stop_sequence"})),
        frame("metadata", &json!({"usage": usage})),
    ];
    Answer::full(200, &[("content-type", "application/vnd.amazon.eventstream")], body.concat())
}

/// An answer of Cohere that a stop sequence ended.
fn stopped_cohere(stream: bool) -> Answer {
    let usage = json!({"tokens": {"input_tokens": 5, "output_tokens": 5}});
    if !stream {
        let message = json!({"role": "assistant", "content": [{"type": "text", "text": "Well"}]});
        return Answer::json(
            200,
            &json!({"id": "x", "finish_reason": "STOP_SEQUENCE", "message": message, "usage": usage}),
        );
    }
    let text = json!({"content": {"text": "Well"}});
    Answer::sse()
        .all(&[
            json!({"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant"}}}),
            json!({"type": "content-delta", "index": 0, "delta": {"message": text}}),
            json!({"type": "message-end", "delta": {"finish_reason": "STOP_SEQUENCE", "usage": usage}}),
        ])
        .end()
}

/// The provider, its model, and its plain or streamed answer.
type StoppedAnswer = (&'static str, &'static str, fn(bool) -> Answer);

/// Neither API tells which sequence it was. It is known if the request has only one.
#[tokio::test]
async fn the_only_stop_sequence_of_a_request_is_told_where_the_upstream_stops_at_one() {
    let providers = Providers::start().await;
    let answers: [StoppedAnswer; 2] = [
        ("nova", "nova/amazon.nova-pro-v1:0", stopped_converse),
        ("cohere", "cohere/command-a-03-2025", stopped_cohere),
    ];
    for (name, model, answer) in answers {
        for (sequences, reason, sequence) in [
            (json!(["END"]), "stop_sequence", json!("END")),
            (json!(["END", "STOP"]), "end_turn", Value::Null),
        ] {
            let body = with(message(model), json!({"stop_sequences": sequences}));
            providers.upstream(name).enqueue(answer(false));
            let got = ask_messages(&providers.client, &body).await.ok().json();
            let told = (&got["stop_reason"], &got["stop_sequence"]);
            assert_eq!(told, (&json!(reason), &sequence), "{name}: {got}");
            providers.upstream(name).enqueue(answer(true));
            let streamed = with(body, json!({"stream": true}));
            let seen = events(&providers.client, "/v1/messages", &streamed).await;
            let (_, delta) = seen.iter().find(|(name, _)| name == "message_delta").expect("an end");
            let told = (&delta["delta"]["stop_reason"], &delta["delta"]["stop_sequence"]);
            assert_eq!(told, (&json!(reason), &sequence), "{name}: {delta}");
        }
    }
}
