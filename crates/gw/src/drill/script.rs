//! The answers of the scripted upstream, right or with a fault.

use std::time::Duration;

use serde_json::{Value, json};

use super::fault::Fault;

/// The whole answer to a chat, which a client must have at the end.
pub(super) const ANSWER: &str = "Everything that was asked for is here: one, two, three, four, five.";
/// The bytes of a chunk of the answer.
const CHUNK_BYTES: usize = 12;
/// The tool calls of a request with tools, name and arguments.
pub(super) const CALLS: [(&str, &str); 2] =
    [("weather", r#"{"city":"Lisbon","days":3}"#), ("time", r#"{"zone":"Europe/Lisbon"}"#)];
/// The answer to an embeddings request.
pub(super) const VECTOR: [f64; 4] = [0.5, -0.25, 0.125, 1.0];

/// A step of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Sends bytes.
    Bytes(Vec<u8>),
    /// Waits for a time.
    Pause(Duration),
    /// Waits until the client closes the connection.
    Silence,
}

/// The steps of the answer to a request. The connection is closed after the last step.
pub(super) fn answer(fault: Option<Fault>, path: &str, request: &Value, pace: Duration) -> Vec<Step> {
    match fault {
        Some(Fault::RateLimited) => {
            let body = error("The drill asks too often.", "rate_limit_error", Some("rate_limit_exceeded"));
            vec![full("429 Too Many Requests", "retry-after: 1\r\n", &body)]
        }
        Some(Fault::Storm) => {
            let body = error("The drill broke it.", "server_error", None);
            vec![full("500 Internal Server Error", "", &body)]
        }
        _ if path.ends_with("embeddings") => plain(fault, &embeddings(request), pace),
        _ if request.get("stream").and_then(Value::as_bool) == Some(true) => stream(fault, request, pace),
        _ => plain(fault, &chat(fault, request), pace),
    }
}

/// An error object of OpenAI's API.
fn error(message: &str, kind: &str, code: Option<&str>) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

fn full(status: &str, headers: &str, body: &Value) -> Step {
    let body = body.to_string();
    let length = body.len();
    Step::Bytes(
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        )
        .into_bytes(),
    )
}

fn plain(fault: Option<Fault>, body: &Value, pace: Duration) -> Vec<Step> {
    let whole = full("200 OK", "", body);
    match fault {
        Some(Fault::Stall) => vec![Step::Silence],
        Some(Fault::Slow) => vec![Step::Pause(pace), whole],
        Some(Fault::Cut) => {
            let Step::Bytes(mut bytes) = whole else { return Vec::new() };
            bytes.truncate(bytes.len() * 3 / 4);
            vec![Step::Bytes(bytes)]
        }
        _ => vec![whole],
    }
}

fn usage() -> Value {
    json!({ "prompt_tokens": 20, "completion_tokens": 16, "total_tokens": 36 })
}

fn embeddings(request: &Value) -> Value {
    let count = request.get("input").and_then(Value::as_array).map_or(1, Vec::len);
    let row = |index| json!({ "object": "embedding", "index": index, "embedding": VECTOR });
    let data: Vec<Value> = (0..count).map(row).collect();
    json!({ "object": "list", "model": model(request), "data": data,
            "usage": { "prompt_tokens": 8, "total_tokens": 8 } })
}

fn model(request: &Value) -> &str {
    request.get("model").and_then(Value::as_str).unwrap_or_default()
}

fn has_tools(request: &Value) -> bool {
    request.get("tools").is_some()
}

/// The index of a tool call: its position, or with the fault a number that counts from 7 down.
fn index(fault: Option<Fault>, position: usize) -> usize {
    if fault == Some(Fault::ToolIndex) { 7 - position } else { position }
}

fn chat(fault: Option<Fault>, request: &Value) -> Value {
    let call = |(at, (name, arguments)): (usize, &(&str, &str))| {
        json!({ "index": index(fault, at), "id": format!("call_{at}"), "type": "function",
                "function": { "name": name, "arguments": arguments } })
    };
    let (message, finish) = if has_tools(request) {
        let calls: Vec<Value> = CALLS.iter().enumerate().map(call).collect();
        (json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
    } else {
        (json!({ "role": "assistant", "content": rest(request) }), "stop")
    };
    json!({ "id": "chatcmpl-drill", "object": "chat.completion", "created": 1_700_000_000, "model": model(request),
            "choices": [{ "index": 0, "message": message, "finish_reason": finish }], "usage": usage() })
}

/// The answer, or its rest when the request shows the beginning of the answer.
fn rest(request: &Value) -> &'static str {
    let messages = request.get("messages").and_then(Value::as_array).into_iter().flatten();
    let said = messages.filter_map(|message| message.get("content")?.as_str());
    let begun = said.filter(|text| !text.is_empty()).find_map(|text| ANSWER.strip_prefix(text));
    begun.unwrap_or(ANSWER)
}

fn stream(fault: Option<Fault>, request: &Value, pace: Duration) -> Vec<Step> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
                connection: close\r\n\r\n";
    let mut parts = vec![Step::Bytes(head.as_bytes().to_vec())];
    let mut events = events(fault, request);
    match fault {
        Some(Fault::Stall) => {
            parts.push(Step::Silence);
            return parts;
        }
        Some(Fault::Cut) => events.truncate(events.len() / 2),
        _ => events.push("[DONE]".to_owned()),
    }
    for event in events {
        if fault == Some(Fault::Slow) {
            parts.push(Step::Pause(pace));
        }
        let data = format!("data: {event}\n\n");
        parts.push(Step::Bytes(format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()));
    }
    if fault != Some(Fault::Cut) {
        parts.push(Step::Bytes(b"0\r\n\r\n".to_vec()));
    }
    parts
}

fn events(fault: Option<Fault>, request: &Value) -> Vec<String> {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({ "id": "chatcmpl-drill", "object": "chat.completion.chunk", "created": 1_700_000_000,
                "model": model(request), "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
        .to_string()
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    if has_tools(request) {
        for (at, (name, arguments)) in CALLS.iter().enumerate() {
            let index = index(fault, at);
            let begin = json!({ "index": index, "id": format!("call_{at}"), "type": "function",
                                "function": { "name": name, "arguments": "" } });
            events.push(chunk(json!({ "tool_calls": [begin] }), None));
            for piece in pieces(arguments) {
                let more = json!({ "index": index, "function": { "arguments": piece } });
                events.push(chunk(json!({ "tool_calls": [more] }), None));
            }
        }
    } else {
        events.extend(pieces(rest(request)).map(|piece| chunk(json!({ "content": piece }), None)));
    }
    events.push(chunk(json!({}), Some(if has_tools(request) { "tool_calls" } else { "stop" })));
    let usage = json!({ "id": "chatcmpl-drill", "object": "chat.completion.chunk", "created": 1_700_000_000,
                        "model": model(request), "choices": [], "usage": usage() });
    events.push(usage.to_string());
    events
}

/// All of these texts are ASCII.
fn pieces(text: &str) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    text.as_bytes().chunks(CHUNK_BYTES).map(String::from_utf8_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[Step]) -> String {
        let bytes = parts.iter().filter_map(|part| match part {
            Step::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        });
        bytes.collect()
    }

    #[test]
    fn a_begun_answer_is_continued() {
        let begun = &ANSWER[..20];
        let asked = json!({ "messages": [{ "role": "user", "content": "?" }, { "role": "assistant", "content": begun }] });
        assert_eq!(format!("{begun}{}", rest(&asked)), ANSWER);
        assert_eq!(rest(&json!({ "messages": [{ "role": "user", "content": "?" }] })), ANSWER);
    }

    #[test]
    fn a_cut_answer_lacks_its_end_and_a_right_one_has_it() {
        let asked = json!({ "model": "m", "stream": true });
        let well = text(&answer(None, "v1/chat/completions", &asked, Duration::ZERO));
        assert!(well.contains("[DONE]") && well.ends_with("0\r\n\r\n"), "{well}");
        let cut = text(&answer(Some(Fault::Cut), "v1/chat/completions", &asked, Duration::ZERO));
        assert!(
            cut.contains("Everything t") && !cut.contains("[DONE]") && !cut.ends_with("0\r\n\r\n"),
            "{cut}"
        );
        let cut = text(&answer(Some(Fault::Cut), "v1/embeddings", &json!({}), Duration::ZERO));
        assert!(cut.contains("content-length") && !cut.ends_with('}'), "{cut}");
    }

    #[test]
    fn names_of_faults_are_found_again() {
        for fault in Fault::ALL {
            assert_eq!(Fault::named(fault.as_str()), Some(fault));
        }
    }
}
