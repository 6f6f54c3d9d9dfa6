//! The demo's answers in OpenAI's format: one document, or one event per word.

use bytes::Bytes;
use serde_json::{Value, json};

use super::choice::DemoChoice;
use super::text::{text_of, words};
use super::tools::DemoToolCall;

/// The endpoint that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoEndpoint {
    Chat,
    Text,
}

/// The complete answer.
pub(super) fn whole(endpoint: DemoEndpoint, model: &str, request: &Value, answers: &[DemoChoice]) -> Value {
    let choice = |(index, answer): (usize, &DemoChoice)| {
        let finish = answer.finish();
        match endpoint {
            DemoEndpoint::Chat => {
                json!({"index": index, "message": message(answer), "logprobs": null, "finish_reason": finish})
            }
            DemoEndpoint::Text => {
                json!({"index": index, "text": answer.text, "logprobs": null, "finish_reason": finish})
            }
        }
    };
    let choices: Vec<Value> = answers.iter().enumerate().map(choice).collect();
    let object = if endpoint == DemoEndpoint::Chat { "chat.completion" } else { "text_completion" };
    json!({
        "id": "demo", "object": object, "created": 0, "model": model, "system_fingerprint": "fp_demo",
        "choices": choices, "usage": usage(request, answers),
    })
}

fn message(answer: &DemoChoice) -> Value {
    match (&answer.called[..], answer.is_legacy) {
        ([], _) => json!({"role": "assistant", "content": answer.text, "refusal": null}),
        ([called, ..], true) => {
            json!({"role": "assistant", "content": null, "function_call": function(called)})
        }
        (called, false) => {
            let calls: Vec<Value> = called
                .iter()
                .map(|called| json!({"id": called.id, "type": "function", "function": function(called)}))
                .collect();
            json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": calls})
        }
    }
}

fn function(called: &DemoToolCall) -> Value {
    json!({"name": called.name, "arguments": called.arguments})
}

/// All events of the stream, with `[DONE]`.
pub(super) fn events(
    endpoint: DemoEndpoint,
    model: &str,
    request: &Value,
    answers: &[DemoChoice],
) -> Vec<Bytes> {
    let asked = request.pointer("/stream_options/include_usage").and_then(Value::as_bool) == Some(true);
    let object = if endpoint == DemoEndpoint::Chat { "chat.completion.chunk" } else { "text_completion" };
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut chunk = json!({
            "id": "demo", "object": object, "created": 0, "model": model, "system_fingerprint": "fp_demo",
            "choices": choices,
        });
        if let (true, Some(members)) = (asked, chunk.as_object_mut()) {
            members.insert("usage".to_owned(), usage.unwrap_or_default());
        }
        event(&chunk)
    };
    let mut events = Vec::new();
    for (index, answer) in answers.iter().enumerate() {
        let mut push = |piece: Value, finish: Value| {
            let choice = match endpoint {
                DemoEndpoint::Chat => {
                    json!({"index": index, "delta": piece, "logprobs": null, "finish_reason": finish})
                }
                DemoEndpoint::Text => {
                    json!({"index": index, "text": piece, "logprobs": null, "finish_reason": finish})
                }
            };
            events.push(chunk(json!([choice]), None));
        };
        if endpoint == DemoEndpoint::Text {
            pieces(&answer.text).for_each(|piece| push(json!(piece), Value::Null));
            push(json!(""), json!(answer.finish()));
            continue;
        }
        push(json!({"role": "assistant", "content": "", "refusal": null}), Value::Null);
        pieces(&answer.text).for_each(|piece| push(json!({"content": piece}), Value::Null));
        for (at, called) in answer.called.iter().enumerate() {
            call_deltas(at, called, answer.is_legacy).into_iter().for_each(|delta| push(delta, Value::Null));
        }
        push(json!({}), json!(answer.finish()));
    }
    if asked {
        events.push(chunk(json!([]), Some(usage(request, answers))));
    }
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

/// The deltas of a call: its start, then its arguments in pieces.
fn call_deltas(at: usize, called: &DemoToolCall, legacy: bool) -> Vec<Value> {
    let begin = json!({"name": called.name, "arguments": ""});
    let fragments = pieces(&called.arguments).map(|piece| json!({"arguments": piece}));
    if legacy {
        return std::iter::once(begin)
            .chain(fragments)
            .map(|function| json!({"function_call": function}))
            .collect();
    }
    let first = json!({"index": at, "id": called.id, "type": "function", "function": begin});
    let later = fragments.map(|function| json!({"index": at, "function": function}));
    std::iter::once(first).chain(later).map(|call| json!({"tool_calls": [call]})).collect()
}

/// Words with the blank before them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.get(first.len_utf8()..)?.find(' ').map_or(rest.len(), |at| at + first.len_utf8());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// One event of a stream.
pub(super) fn event(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

/// The usage, which counts words.
fn usage(request: &Value, answers: &[DemoChoice]) -> Value {
    let messages = request.get("messages").and_then(Value::as_array).into_iter().flatten();
    let chat: u64 = messages.map(|message| words(&text_of(message))).sum();
    let text = match request.get("prompt") {
        Some(Value::String(prompt)) => words(prompt),
        Some(Value::Array(list)) => list.iter().map(prompt_tokens).sum(),
        _ => 0,
    };
    let (prompt, completion) = ((chat + text).max(1), answers.iter().map(DemoChoice::tokens).sum::<u64>());
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

fn prompt_tokens(entry: &Value) -> u64 {
    match entry {
        Value::String(prompt) => words(prompt),
        Value::Array(tokens) => tokens.len() as u64,
        _ => 1,
    }
}
