//! The upstream answers of every dialect of a conversation, plain and streamed.

use base64::engine::general_purpose::STANDARD;
use gw_testkit::Answer;
use serde_json::{Value, json};

/// The answer of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// Two calls of `get_weather`, Paris and Rome.
    Calls,
    /// The closing words.
    Words,
}

pub(crate) const WORDS: &str = "Paris is sunny, Rome is rainy ☔";
/// The words in two pieces.
const PIECES: [&str; 2] = ["Paris is sunny, ", "Rome is rainy ☔"];
const CITIES: [&str; 2] = ["Paris", "Rome"];

fn arguments(city: &str) -> String {
    format!("{{\"city\": \"{city}\"}}")
}

fn sse(frames: impl IntoIterator<Item = String>) -> Answer {
    let body: String = frames.into_iter().collect();
    Answer::full(200, &[("content-type", "text/event-stream")], body)
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

pub(crate) fn openai(say: Say, stream: bool) -> Answer {
    let calls: Vec<Value> = CITIES
        .iter()
        .zip(["abcDEF123", "abcDEF456"])
        .enumerate()
        .map(|(index, (city, id))| json!({"index": index, "id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments(city)}}))
        .collect();
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120});
    let (message, finish) = match say {
        Say::Calls => (json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls"),
        Say::Words => (json!({"role": "assistant", "content": WORDS}), "stop"),
    };
    if !stream {
        return Answer::json(
            200,
            &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "up", "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}),
        );
    }
    let chunk = |delta: Value, finish: Value| json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut frames = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    match say {
        Say::Calls => {
            frames.extend(calls.into_iter().map(|call| chunk(json!({"tool_calls": [call]}), Value::Null)));
        }
        Say::Words => frames.extend(PIECES.map(|piece| chunk(json!({"content": piece}), Value::Null))),
    }
    let mut last = chunk(json!({}), json!(finish));
    last["usage"] = usage;
    frames.push(last);
    sse(frames.iter().map(data).chain(["data: [DONE]\n\n".to_owned()]))
}

#[expect(clippy::needless_pass_by_value, reason = "a test writes values")]
fn claude_message(content: Value, stop: Value, usage: &Value) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": content, "stop_reason": stop,
        "stop_sequence": null, "usage": usage})
}

#[expect(clippy::needless_pass_by_value, reason = "a test writes values")]
fn claude_tool(index: usize, city: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": format!("toolu_{index}{city}"), "name": "get_weather", "input": input})
}

pub(crate) fn anthropic(say: Say, stream: bool) -> Answer {
    let event =
        |value: &Value| format!("event: {}\n{}", value["type"].as_str().unwrap_or_default(), data(value));
    if stream {
        return sse(claude_events(say).iter().map(event));
    }
    let usage = json!({"input_tokens": 60, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10, "output_tokens": 20});
    let (content, stop) = match say {
        Say::Calls => (
            json!([
                claude_tool(0, "Paris", json!({"city": "Paris"})),
                claude_tool(1, "Rome", json!({"city": "Rome"}))
            ]),
            "tool_use",
        ),
        Say::Words => (json!([{"type": "text", "text": WORDS}]), "end_turn"),
    };
    Answer::json(200, &claude_message(content, json!(stop), &usage))
}

/// The events of a streamed answer of Claude.
fn claude_events(say: Say) -> Vec<Value> {
    let begun = json!({"input_tokens": 60, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10, "output_tokens": 1});
    let mut events = vec![
        json!({"type": "message_start", "message": claude_message(json!([]), Value::Null, &begun)}),
        json!({"type": "ping"}),
    ];
    match say {
        Say::Calls => {
            for (index, city) in CITIES.iter().enumerate() {
                events.push(json!({"type": "content_block_start", "index": index, "content_block": claude_tool(index, city, json!({}))}));
                for piece in ["{\"city\"", &format!(": \"{city}\"}}")] {
                    events.push(json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": piece}}));
                }
                events.push(json!({"type": "content_block_stop", "index": index}));
            }
        }
        Say::Words => {
            events.push(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
            events.extend(PIECES.map(|piece| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})));
            events.push(json!({"type": "content_block_stop", "index": 0}));
        }
    }
    let stop = if say == Say::Calls { "tool_use" } else { "end_turn" };
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 20}}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

/// Claude on Bedrock for a client of the Messages API: InvokeModel and InvokeModelWithResponseStream.
pub(crate) fn bedrock_invoke(say: Say, stream: bool) -> Answer {
    if !stream {
        return anthropic(say, false);
    }
    let body: Vec<u8> = claude_events(say).iter().flat_map(bedrock_chunk).collect();
    Answer::full(200, &[("content-type", "application/vnd.amazon.eventstream")], body)
}

/// A frame of InvokeModelWithResponseStream with an event of Claude.
pub(crate) fn bedrock_chunk(event: &Value) -> Vec<u8> {
    frame("chunk", &json!({"bytes": base64::Engine::encode(&STANDARD, event.to_string()), "p": "abcd"}))
}

pub(crate) fn gemini(say: Say, stream: bool) -> Answer {
    let call = |city: &str| json!({"functionCall": {"name": "get_weather", "args": {"city": city}}});
    let usage = json!({"promptTokenCount": 100, "cachedContentTokenCount": 30, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "totalTokenCount": 120});
    let chunk = |parts: Value, finish: Value| {
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
        if finish != Value::Null {
            candidate["finishReason"] = finish;
        }
        json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "up"})
    };
    let signed = |city: &str| {
        let mut part = call(city);
        part["thoughtSignature"] = json!("c2lnbmF0dXJl");
        part
    };
    let pieces: Vec<Value> = match say {
        Say::Calls => vec![signed("Paris"), call("Rome")],
        Say::Words => PIECES.iter().map(|piece| json!({"text": piece})).collect(),
    };
    if !stream {
        return Answer::json(200, &chunk(json!(pieces), json!("STOP")));
    }
    let mut frames: Vec<Value> = pieces.into_iter().map(|piece| chunk(json!([piece]), Value::Null)).collect();
    frames.push(chunk(json!([{"text": ""}]), json!("STOP")));
    sse(frames.iter().map(data))
}

pub(crate) fn bedrock(say: Say, stream: bool) -> Answer {
    let usage = json!({"inputTokens": 60, "cacheReadInputTokens": 30, "cacheWriteInputTokens": 10, "outputTokens": 20, "totalTokens": 120});
    let stop = if say == Say::Calls { "tool_use" } else { "end_turn" };
    if !stream {
        let tool = |city: &str| json!({"toolUse": {"toolUseId": format!("tooluse_{city}"), "name": "get_weather", "input": {"city": city}}});
        let content = match say {
            Say::Calls => json!([tool("Paris"), tool("Rome")]),
            Say::Words => json!(PIECES.map(|piece| json!({"text": piece}))),
        };
        return Answer::json(
            200,
            &json!({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 5}}),
        );
    }
    let mut body = frame("messageStart", &json!({"role": "assistant"}));
    match say {
        Say::Calls => {
            for (index, city) in CITIES.iter().enumerate() {
                body.extend(frame("contentBlockStart", &json!({"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": format!("tooluse_{city}"), "name": "get_weather"}}})));
                body.extend(frame(
                    "contentBlockDelta",
                    &json!({"contentBlockIndex": index, "delta": {"toolUse": {"input": arguments(city)}}}),
                ));
                body.extend(frame("contentBlockStop", &json!({"contentBlockIndex": index})));
            }
        }
        Say::Words => {
            for piece in PIECES {
                body.extend(frame(
                    "contentBlockDelta",
                    &json!({"contentBlockIndex": 0, "delta": {"text": piece}}),
                ));
            }
            body.extend(frame("contentBlockStop", &json!({"contentBlockIndex": 0})));
        }
    }
    body.extend(frame("messageStop", &json!({"stopReason": stop})));
    body.extend(frame("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 5}})));
    Answer::full(200, &[("content-type", "application/vnd.amazon.eventstream")], body)
}

/// A message of Amazon's event stream encoding (smithy.io, "Amazon Event Stream Specification").
pub(crate) fn frame(kind: &str, payload: &Value) -> Vec<u8> {
    message_of(":event-type", kind, "event", payload)
}

/// A message that tells an exception of the service.
pub(crate) fn exception(kind: &str, payload: &Value) -> Vec<u8> {
    message_of(":exception-type", kind, "exception", payload)
}

fn message_of(kind_header: &str, kind: &str, message_type: &str, payload: &Value) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in
        [(kind_header, kind), (":content-type", "application/json"), (":message-type", message_type)]
    {
        headers.push(u8::try_from(name.len()).expect("short"));
        headers.extend(name.as_bytes());
        headers.push(7);
        headers.extend(u16::try_from(value.len()).expect("short").to_be_bytes());
        headers.extend(value.as_bytes());
    }
    let payload = payload.to_string();
    let length = |bytes: usize| u32::try_from(bytes).expect("small").to_be_bytes();
    let mut message = Vec::new();
    message.extend(length(12 + headers.len() + payload.len() + 4));
    message.extend(length(headers.len()));
    message.extend(crc32(&message).to_be_bytes());
    message.extend(headers);
    message.extend(payload.as_bytes());
    message.extend(crc32(&message).to_be_bytes());
    message
}

/// The CRC-32 of gzip, bit by bit. A second implementation cannot share a fault with the gateway's.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

pub(crate) fn cohere(say: Say, stream: bool) -> Answer {
    let usage = json!({"billed_units": {"input_tokens": 7, "output_tokens": 3}, "tokens": {"input_tokens": 100, "output_tokens": 20}});
    let calls: Vec<Value> = CITIES
        .iter()
        .map(|city| json!({"id": format!("get_weather_{city}"), "type": "function", "function": {"name": "get_weather", "arguments": arguments(city)}}))
        .collect();
    let finish = if say == Say::Calls { "TOOL_CALL" } else { "COMPLETE" };
    if !stream {
        let message = match say {
            Say::Calls => json!({"role": "assistant", "tool_calls": calls}),
            Say::Words => {
                json!({"role": "assistant", "content": PIECES.map(|piece| json!({"type": "text", "text": piece}))})
            }
        };
        return Answer::json(
            200,
            &json!({"id": "x", "finish_reason": finish, "message": message, "usage": usage}),
        );
    }
    let mut events =
        vec![json!({"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant"}}})];
    match say {
        Say::Calls => {
            for (index, mut call) in calls.into_iter().enumerate() {
                let arguments = std::mem::replace(&mut call["function"]["arguments"], json!(""));
                events.push(json!({"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": call}}}));
                events.push(json!({"type": "tool-call-delta", "index": index, "delta": {"message": {"tool_calls": {"function": {"arguments": arguments}}}}}));
                events.push(json!({"type": "tool-call-end", "index": index}));
            }
        }
        Say::Words => {
            events.push(json!({"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}));
            events.extend(PIECES.map(|piece| json!({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": piece}}}})));
            events.push(json!({"type": "content-end", "index": 0}));
        }
    }
    events.push(json!({"type": "message-end", "delta": {"finish_reason": finish, "usage": usage}}));
    sse(events
        .iter()
        .map(|event| format!("event: {}\n{}", event["type"].as_str().unwrap_or_default(), data(event))))
}

pub(crate) fn ollama(say: Say, stream: bool) -> Answer {
    let line = |message: Value, done: bool| {
        let mut line =
            json!({"model": "up", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done});
        if done {
            line["done_reason"] = json!("stop");
            line["prompt_eval_count"] = json!(100);
            line["eval_count"] = json!(20);
        }
        line
    };
    let call = |city: &str| json!({"function": {"name": "get_weather", "arguments": {"city": city}}});
    if !stream {
        let message = match say {
            Say::Calls => json!({"role": "assistant", "content": "", "tool_calls": CITIES.map(call)}),
            Say::Words => json!({"role": "assistant", "content": WORDS}),
        };
        return Answer::json(200, &line(message, true));
    }
    let mut lines = match say {
        Say::Calls => {
            vec![line(json!({"role": "assistant", "content": "", "tool_calls": CITIES.map(call)}), false)]
        }
        Say::Words => {
            PIECES.map(|piece| line(json!({"role": "assistant", "content": piece}), false)).to_vec()
        }
    };
    lines.push(line(json!({"role": "assistant", "content": ""}), true));
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Answer::full(200, &[("content-type", "application/x-ndjson")], body)
}

/// The beginning of an answer, and then silence.
pub(crate) fn anthropic_that_hangs() -> Answer {
    let begin = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let block =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let text =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}});
    Answer::sse().all(&[begin, block, text]).hang()
}
