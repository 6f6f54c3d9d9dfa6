//! One answer in every dialect, plain and streamed: reasoning, two texts, more reasoning, a tool call, a last text; and its place
//! in the next request.

use gw_testkit::Answer;
use serde_json::{Value, json};

use crate::harness::dialects::{bedrock_chunk, frame};
use crate::harness::providers::CLAUDE_ON_VERTEX;

pub(crate) struct Dialect {
    /// Its API, or a name of its own where one API has two dialects.
    pub(crate) name: &'static str,
    /// More lines of the provider's entry in gateway.toml.
    pub(crate) lines: &'static str,
    pub(crate) model: &'static str,
    /// The upstream's answer.
    pub(crate) answer: fn(bool) -> Answer,
    /// The assistant's turn of a request to it.
    pub(crate) turn: fn(&Value) -> Value,
    /// The expected value of that turn.
    pub(crate) expected: fn() -> Value,
}

pub(crate) const DIALECTS: [Dialect; 10] = [
    Dialect {
        name: "anthropic",
        lines: "",
        model: "claude-opus-5-5",
        answer: anthropic,
        turn: message,
        expected: || json!({"role": "assistant", "content": anthropic_blocks()}),
    },
    Dialect {
        name: "bedrock",
        lines: "region = \"eu-west-1\"",
        model: "us.anthropic.claude-opus-4-20250514-v1:0",
        answer: bedrock,
        turn: message,
        expected: || json!({"role": "assistant", "content": bedrock_blocks()}),
    },
    Dialect {
        name: "gemini",
        lines: "",
        model: "gemini-3-flash-preview",
        answer: gemini,
        turn: contents,
        expected: || json!({"role": "model", "parts": gemini_parts()}),
    },
    Dialect {
        name: "vertex",
        lines: "project = \"p\"\nregion = \"europe-west4\"",
        model: "gemini-2.5-pro",
        answer: gemini,
        turn: contents,
        expected: || json!({"role": "model", "parts": gemini_parts()}),
    },
    Dialect {
        name: CLAUDE_ON_VERTEX,
        lines: "project = \"p\"\nregion = \"europe-west4\"",
        model: "claude-opus-5-5@20261101",
        answer: anthropic,
        turn: message,
        expected: || json!({"role": "assistant", "content": anthropic_blocks()}),
    },
    Dialect {
        name: "mistral",
        lines: "",
        model: "magistral-medium-2509",
        answer: mistral,
        turn: message,
        expected: mistral_message,
    },
    Dialect {
        name: "cohere",
        lines: "",
        model: "command-a-reasoning-08-2025",
        answer: cohere,
        turn: message,
        expected: cohere_message,
    },
    Dialect {
        name: "ollama",
        lines: "",
        model: "qwen3",
        answer: ollama,
        turn: message,
        expected: ollama_message,
    },
    Dialect {
        name: "openai",
        lines: "",
        model: "some-model",
        answer: openai,
        turn: message,
        expected: || openai_message(true),
    },
    Dialect {
        name: "azure",
        lines: "api_version = \"2024-10-21\"",
        model: "gpt-4o",
        answer: azure,
        turn: message,
        expected: || openai_message(false),
    },
];

/// A part of every signature.
pub(crate) const SIGNATURE: &str = "U0lHTkVE";
pub(crate) const SIGNATURES: [&str; 2] = ["AAAAU0lHTkVE", "BBBBU0lHTkVE"];
pub(crate) const THOUGHTS: [&str; 2] = ["What is it? 考え", "I must look."];
/// The pieces of text. A dialect without pieces joins them.
pub(crate) const SAID: [&str; 2] = ["Hm. 漢字 ", "I look."];
/// The text behind the call.
pub(crate) const LAST: &str = "Wait.";
const ARGUMENTS: &str = r#"{"at":"the moon"}"#;

/// The whole text.
pub(crate) fn words() -> String {
    SAID.concat() + LAST
}

fn input() -> Value {
    json!({"at": "the moon"})
}

fn message(sent: &Value) -> Value {
    sent["messages"][1].clone()
}

fn contents(sent: &Value) -> Value {
    sent["contents"][1].clone()
}

fn sse(values: &[Value]) -> Answer {
    Answer::sse().all(values).end()
}

pub(crate) fn anthropic_blocks() -> Value {
    json!([
        {"type": "thinking", "thinking": THOUGHTS[0], "signature": SIGNATURES[0]},
        {"type": "text", "text": SAID[0]},
        {"type": "text", "text": SAID[1]},
        {"type": "thinking", "thinking": THOUGHTS[1], "signature": SIGNATURES[1]},
        {"type": "redacted_thinking", "data": SIGNATURES[1]},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": input()},
        {"type": "text", "text": LAST},
    ])
}

fn anthropic_message(content: &Value) -> Value {
    json!({"id": "m", "type": "message", "role": "assistant", "model": "up", "content": content, "stop_reason": "tool_use", "usage": anthropic_usage()})
}

fn anthropic_usage() -> Value {
    json!({"input_tokens": 5, "output_tokens": 5})
}

pub(crate) fn anthropic(stream: bool) -> Answer {
    if stream { sse(&anthropic_events()) } else { Answer::json(200, &anthropic_message(&anthropic_blocks())) }
}

/// Anthropic's answer as Bedrock's `InvokeModel` gives it.
pub(crate) fn bedrock_invoke(stream: bool) -> Answer {
    if !stream {
        return anthropic(false);
    }
    let body: Vec<u8> = anthropic_events().iter().flat_map(bedrock_chunk).collect();
    Answer::full(200, &[("content-type", "application/vnd.amazon.eventstream")], body)
}

fn anthropic_events() -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": anthropic_message(&json!([]))})];
    for (index, block) in anthropic_blocks().as_array().into_iter().flatten().enumerate() {
        let mut start = block.clone();
        let mut deltas = Vec::new();
        for (name, kind, of) in [
            ("thinking", "thinking_delta", "thinking"),
            ("signature", "signature_delta", "signature"),
            ("text", "text_delta", "text"),
            ("input", "input_json_delta", "partial_json"),
        ] {
            let Some(value) = block.get(name) else { continue };
            start[name] = if name == "input" { json!({}) } else { json!("") };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let half = text.floor_char_boundary(text.len() / 2);
            for piece in [&text[..half], &text[half..]] {
                deltas.push(json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, of: piece}}));
            }
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(deltas);
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": anthropic_usage()}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

fn bedrock_blocks() -> Value {
    let thought = |at: usize| json!({"reasoningContent": {"reasoningText": {"text": THOUGHTS[at], "signature": SIGNATURES[at]}}});
    json!([
        thought(0),
        {"text": SAID[0]},
        {"text": SAID[1]},
        thought(1),
        {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": input()}},
        {"text": LAST},
    ])
}

fn bedrock(stream: bool) -> Answer {
    let usage = json!({"inputTokens": 5, "outputTokens": 5, "totalTokens": 10});
    if !stream {
        let message = json!({"role": "assistant", "content": bedrock_blocks()});
        return Answer::json(
            200,
            &json!({"output": {"message": message}, "stopReason": "tool_use", "usage": usage}),
        );
    }
    let mut body = frame("messageStart", &json!({"role": "assistant"}));
    for (index, block) in bedrock_blocks().as_array().into_iter().flatten().enumerate() {
        let thought = &block["reasoningContent"]["reasoningText"];
        let mut deltas = Vec::new();
        if thought.is_object() {
            deltas.push(json!({"reasoningContent": {"text": thought["text"]}}));
            deltas.push(json!({"reasoningContent": {"signature": thought["signature"]}}));
        } else if block["text"].is_string() {
            deltas.push(block.clone());
        } else {
            let start = json!({"toolUse": {"toolUseId": "tooluse_1", "name": "look"}});
            body.extend(frame("contentBlockStart", &json!({"contentBlockIndex": index, "start": start})));
            deltas.push(json!({"toolUse": {"input": ARGUMENTS}}));
        }
        for delta in deltas {
            body.extend(frame("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta})));
        }
        body.extend(frame("contentBlockStop", &json!({"contentBlockIndex": index})));
    }
    body.extend(frame("messageStop", &json!({"stopReason": "tool_use"})));
    body.extend(frame("metadata", &json!({"usage": usage})));
    Answer::full(200, &[("content-type", "application/vnd.amazon.eventstream")], body)
}

fn gemini_parts() -> Value {
    json!([
        {"text": THOUGHTS[0], "thought": true},
        {"text": SAID[0]},
        {"text": SAID[1], "thoughtSignature": SIGNATURES[0]},
        {"text": THOUGHTS[1], "thought": true},
        {"functionCall": {"name": "look", "args": input()}, "thoughtSignature": SIGNATURES[1]},
        {"text": LAST},
    ])
}

fn gemini(stream: bool) -> Answer {
    let chunk = |parts: &[Value]| json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}], "responseId": "r", "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10}});
    let parts = gemini_parts();
    let parts = parts.as_array().expect("a list");
    if stream {
        return sse(&parts.chunks(1).map(chunk).collect::<Vec<_>>());
    }
    Answer::json(200, &chunk(parts))
}

fn calls(id: &str) -> Value {
    json!([{"id": id, "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}])
}

fn mistral_chunks() -> [Value; 4] {
    let thought = |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    let text = |text: &str| json!({"type": "text", "text": text});
    [thought(THOUGHTS[0]), text(&SAID.concat()), thought(THOUGHTS[1]), text(LAST)]
}

fn mistral_message() -> Value {
    json!({"role": "assistant", "content": mistral_chunks(), "tool_calls": calls("abcDEF123")})
}

fn mistral(stream: bool) -> Answer {
    let mut deltas: Vec<Value> = mistral_chunks().iter().map(|chunk| json!({"content": [chunk]})).collect();
    deltas.insert(3, json!({"tool_calls": [{"index": 0, "id": "abcDEF123", "function": {"name": "look", "arguments": ARGUMENTS}}]}));
    openai_answer(stream, &mistral_message(), &deltas)
}

fn cohere_message() -> Value {
    json!({"role": "assistant", "tool_plan": "The plan.", "content": [
        {"type": "thinking", "thinking": THOUGHTS[0]},
        {"type": "text", "text": SAID.concat()},
        {"type": "thinking", "thinking": THOUGHTS[1]},
        {"type": "text", "text": LAST},
    ], "tool_calls": calls("look_1")})
}

fn cohere(stream: bool) -> Answer {
    let usage = json!({"tokens": {"input_tokens": 5, "output_tokens": 5}});
    let message = cohere_message();
    if !stream {
        return Answer::json(
            200,
            &json!({"id": "x", "finish_reason": "TOOL_CALL", "message": message, "usage": usage}),
        );
    }
    let mut events =
        vec![json!({"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant"}}})];
    for (index, piece) in message["content"].as_array().into_iter().flatten().enumerate() {
        let of = piece["type"].as_str().expect("a type");
        let text = piece[of].as_str().expect("text");
        let half = text.floor_char_boundary(text.len() / 2);
        events.push(json!({"type": "content-start", "index": index, "delta": {"message": {"content": {"type": of, of: ""}}}}));
        for part in [&text[..half], &text[half..]] {
            events.push(json!({"type": "content-delta", "index": index, "delta": {"message": {"content": {of: part}}}}));
        }
        events.push(json!({"type": "content-end", "index": index}));
        // The plan comes before any text.
        if index == 0 {
            events.push(json!({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "The plan."}}}));
        }
    }
    events.push(json!({"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": message["tool_calls"][0]}}}));
    events.push(json!({"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": usage}}));
    sse(&events)
}

fn ollama_message() -> Value {
    json!({"role": "assistant", "content": words(), "thinking": THOUGHTS.concat(), "tool_calls": [{"id": "call_1x2y", "function": {"name": "look", "arguments": input()}}]})
}

fn ollama(stream: bool) -> Answer {
    let line = |message: Value, done: bool| json!({"model": "up", "message": message, "done": done, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 5});
    let message = ollama_message();
    if !stream {
        return Answer::json(200, &line(message, true));
    }
    let pieces = [
        json!({"role": "assistant", "thinking": THOUGHTS[0]}),
        json!({"role": "assistant", "content": SAID.concat()}),
        json!({"role": "assistant", "thinking": THOUGHTS[1]}),
        json!({"role": "assistant", "tool_calls": message["tool_calls"]}),
        json!({"role": "assistant", "content": LAST}),
    ];
    let mut body: String = pieces.into_iter().map(|piece| format!("{}\n", line(piece, false))).collect();
    body.push_str(&format!("{}\n", line(json!({"role": "assistant", "content": ""}), true)));
    Answer::full(200, &[("content-type", "application/x-ndjson")], body)
}

fn openai_message(thinks: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": words(), "tool_calls": calls("call_1")});
    if thinks {
        message["reasoning_content"] = json!(THOUGHTS.concat());
        message["reasoning_details"] = json!([
            {"type": "reasoning.text", "text": THOUGHTS[0], "signature": SIGNATURES[0], "index": 0},
            {"type": "reasoning.encrypted", "data": SIGNATURES[1], "index": 1},
        ]);
    }
    message
}

fn openai(stream: bool) -> Answer {
    let deltas = [
        json!({"role": "assistant", "reasoning_content": THOUGHTS[0], "reasoning_details": [{"type": "reasoning.text", "text": THOUGHTS[0], "index": 0}]}),
        json!({"reasoning_details": [{"type": "reasoning.text", "signature": SIGNATURES[0], "index": 0}]}),
        json!({"content": SAID.concat()}),
        json!({"reasoning_content": THOUGHTS[1], "reasoning_details": [{"type": "reasoning.encrypted", "data": SIGNATURES[1], "index": 1}]}),
        json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}]}),
        json!({"content": LAST}),
    ];
    openai_answer(stream, &openai_message(true), &deltas)
}

fn azure(stream: bool) -> Answer {
    let deltas = [
        json!({"role": "assistant", "content": SAID[0]}),
        json!({"content": SAID[1]}),
        json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}]}),
        json!({"content": LAST}),
    ];
    openai_answer(stream, &openai_message(false), &deltas)
}

fn openai_answer(stream: bool, message: &Value, deltas: &[Value]) -> Answer {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10});
    if !stream {
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        return Answer::json(
            200,
            &json!({"id": "x", "object": "chat.completion", "model": "up", "choices": [choice], "usage": usage}),
        );
    }
    let chunk = |delta: &Value, finish: Value| json!({"id": "x", "object": "chat.completion.chunk", "model": "up", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut chunks: Vec<Value> = deltas.iter().map(|delta| chunk(delta, Value::Null)).collect();
    let mut last = chunk(&json!({}), json!("tool_calls"));
    last["usage"] = usage;
    chunks.push(last);
    Answer::sse().all(&chunks).done().end()
}
