//! A small model server for the probe: it does every task of the probe, and each planted fault breaks one behaviour.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gw_testkit::upstream::Step;
use gw_testkit::{Answer, FakeUpstream, Recorded, compressed};
use serde_json::{Value, json};

use super::{UPSTREAM_KEY, vectors};

/// A behaviour that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    Nothing,
    NoStreamUsage,
    ZeroUsage,
    WrongTotal,
    NoDone,
    CutStream,
    StalledStream,
    StreamAsText,
    JsonAsText,
    BufferedStream,
    OddEvent,
    ChangingIds,
    NoFinishReason,
    GzipUnasked,
    ThinkTags,
    ChoicesIgnored,
    StopIgnored,
    MaxTokensIgnored,
    SystemDropped,
    ForcedToolIgnored,
    BadArguments,
    NoCallId,
    MergedCalls,
    MergedArguments,
    ResultRefused,
    JsonModeIgnored,
    SchemaIgnored,
    ImageCrash,
    OddResponses,
    OddMessages,
    DeadAfterCancel,
    ErrorWith200,
    ErrorInHtml,
    ErrorWithoutShape,
    KeyAccepted,
    KeyEchoed,
    ParameterCrash,
    TruncatedPrompt,
    VectorsSwapped,
    VectorsReversed,
    DimensionsIgnored,
    Base64Ignored,
    NoVectorUsage,
}

/// The longest prompt of the server, in its own tokens.
const CONTEXT_TOKENS: usize = 1000;

/// Starts the server.
pub(super) async fn start(fault: Planted) -> FakeUpstream {
    let server = FakeUpstream::start().await;
    let is_dead = Arc::new(AtomicBool::new(false));
    server.respond_with(move |request| answer(request, fault, &is_dead));
    server
}

fn answer(request: &Recorded, fault: Planted, is_dead: &AtomicBool) -> Answer {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    if let Some(refusal) = refusal(request, &body, fault) {
        return refusal;
    }
    if is_dead.load(Ordering::SeqCst) {
        return Answer::error(503, "overloaded", "The only slot still writes the cancelled answer.");
    }
    match request.path.trim_start_matches("/v1") {
        "/models" => Answer::json(
            200,
            &json!({ "object": "list", "data": [{ "id": "m", "context_length": CONTEXT_TOKENS }, { "id": "e" }] }),
        ),
        "/chat/completions" if body["stream"] == true => {
            if fault == Planted::DeadAfterCancel && prompt(&body).contains("1 to 300") {
                is_dead.store(true, Ordering::SeqCst);
            }
            stream(&body, fault)
        }
        "/chat/completions" => plain(&body, fault),
        "/embeddings" => vectors::answer(&body, fault),
        "/responses" => {
            let object = if fault == Planted::OddResponses { "chat.completion" } else { "response" };
            Answer::json(200, &json!({ "id": "resp_1", "object": object, "output": [] }))
        }
        "/messages" => {
            let usage = if fault == Planted::OddMessages { json!({}) } else { json!({ "input_tokens": 9 }) };
            Answer::json(200, &json!({ "type": "message", "content": [], "usage": usage }))
        }
        _ => Answer::error(404, "unknown_url", "no such path"),
    }
}

/// The error answers of the server.
fn refusal(request: &Recorded, body: &Value, fault: Planted) -> Option<Answer> {
    let key = request.header("authorization").unwrap_or_default().trim_start_matches("Bearer ");
    if key != UPSTREAM_KEY && fault != Planted::KeyAccepted {
        let shown = if fault == Planted::KeyEchoed { key } else { "sk-…" };
        return Some(Answer::error(401, "invalid_api_key", &format!("Incorrect API key provided: {shown}")));
    }
    if body.is_null() {
        return None;
    }
    if !["m", "e"].contains(&body["model"].as_str().unwrap_or_default()) {
        return Some(match fault {
            Planted::ErrorWith200 => Answer::error(200, "model_not_found", "No such model."),
            Planted::ErrorInHtml => {
                Answer::full(404, &[("content-type", "text/html")], "<html><h1>Not found</h1></html>")
            }
            Planted::ErrorWithoutShape => Answer::json(404, &json!({ "detail": "No such model." })),
            _ => Answer::error(404, "model_not_found", "No such model."),
        });
    }
    if body["messages"].is_object() || body["input"].is_object() {
        let status = if fault == Planted::ParameterCrash { 500 } else { 400 };
        return Some(Answer::error(status, "invalid_type", "A list is expected."));
    }
    if prompt(body).split(' ').count() > CONTEXT_TOKENS && fault != Planted::TruncatedPrompt {
        return Some(Answer::error(400, "context_length_exceeded", "The prompt is too long."));
    }
    None
}

/// The text of the last message.
fn prompt(body: &Value) -> String {
    let message =
        body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    match &message["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn has_role(body: &Value, role: &str) -> bool {
    body["messages"].as_array().is_some_and(|messages| messages.iter().any(|message| message["role"] == role))
}

/// The pieces of the answer's text.
fn text(body: &Value, fault: Planted) -> Vec<String> {
    let prompt = prompt(body);
    let count = |most: u32| (1..=most).map(|number| format!("{number}, ")).collect::<Vec<_>>();
    let words = |text: &str| text.split_inclusive(' ').map(str::to_owned).collect::<Vec<_>>();
    match body["response_format"]["type"].as_str() {
        Some("json_object") if fault == Planted::JsonModeIgnored => return words("Sure! The value is true."),
        Some("json_object") => return words("{\"ok\": true}"),
        Some("json_schema") if fault == Planted::SchemaIgnored => return words("{\"name\": \"Tom\"}"),
        Some("json_schema") => return words("{\"animal\": \"cat\", \"legs\": 4}"),
        _ => {}
    }
    if has_role(body, "tool") {
        return words("It is 17 degrees.");
    }
    if prompt.contains("image_url") {
        return words("Red.");
    }
    if prompt.contains("Repeat exactly") {
        let is_stopped = body["stop"] == json!(["charlie"]) && fault != Planted::StopIgnored;
        return words(if is_stopped { "alpha bravo " } else { "alpha bravo charlie delta" });
    }
    let longest = [300, 100, 20].into_iter().find(|most| prompt.contains(&format!("1 to {most}")));
    if let Some(most) = longest {
        return count(most);
    }
    if has_role(body, "system") && fault != Planted::SystemDropped {
        return words("zebra");
    }
    words(if fault == Planted::ThinkTags { "<think>easy</think> ready" } else { "ready" })
}

/// The tool calls of the answer: their ids and arguments.
fn calls(body: &Value, fault: Planted) -> Vec<(&'static str, &'static str)> {
    let is_forced = !body["tool_choice"].is_null();
    if body["tools"].is_null() || has_role(body, "tool") || is_forced && fault == Planted::ForcedToolIgnored {
        return Vec::new();
    }
    let paris = match fault {
        Planted::BadArguments => "{\"city\": \"Par",
        _ => "{\"city\":\"Paris\"}",
    };
    let id = if fault == Planted::NoCallId { "" } else { "call_1" };
    match (prompt(body).contains("Tokyo"), fault) {
        (true, Planted::MergedArguments) => vec![(id, "{\"city\":\"Paris\"}{\"city\":\"Tokyo\"}")],
        (true, _) => vec![(id, paris), ("call_2", "{\"city\":\"Tokyo\"}")],
        (false, _) => vec![(id, paris)],
    }
}

/// The answer within its limit: pieces, finish reason, usage.
fn limited(body: &Value, fault: Planted) -> (Vec<String>, &'static str, Value) {
    let mut pieces = text(body, fault);
    let most = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body[*name].as_u64());
    let most = usize::try_from(most.unwrap_or(1000)).unwrap_or(1000);
    let is_cut = pieces.len() > most && fault != Planted::MaxTokensIgnored;
    if is_cut {
        pieces.truncate(most);
    }
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let messages =
        messages.iter().filter(|message| message["role"] != "system" || fault != Planted::SystemDropped);
    let bytes: usize = messages.map(|message| message["content"].to_string().len()).sum();
    let (prompt, completion) = match fault {
        Planted::ZeroUsage => (0, 0),
        _ => (bytes / 4 + 8, pieces.len()),
    };
    let total = if fault == Planted::WrongTotal { 1 } else { prompt + completion };
    let usage = json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total });
    (pieces, if is_cut { "length" } else { "stop" }, usage)
}

fn plain(body: &Value, fault: Planted) -> Answer {
    let prompt = prompt(body);
    if fault == Planted::ImageCrash && prompt.contains("image_url") {
        return Answer::error(500, "internal", "index out of range");
    }
    if fault == Planted::ResultRefused && has_role(body, "tool") {
        return Answer::error(400, "invalid_role", "Unknown role 'tool'.");
    }
    let (pieces, mut finish, usage) = limited(body, fault);
    let mut message = json!({ "role": "assistant", "content": pieces.concat() });
    let calls = calls(body, fault);
    if !calls.is_empty() {
        let call = |(id, arguments): &(&str, &str)| json!({ "id": id, "type": "function", "function": { "name": "get_weather", "arguments": arguments } });
        message = json!({ "role": "assistant", "content": null, "tool_calls": calls.iter().map(call).collect::<Vec<_>>() });
        finish = "tool_calls";
    }
    let count = if fault == Planted::ChoicesIgnored { 1 } else { body["n"].as_u64().unwrap_or(1) };
    let choices: Vec<Value> = (0..count)
        .map(|index| json!({ "index": index, "message": message, "finish_reason": finish }))
        .collect();
    let answer = json!({ "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
                         "choices": choices, "usage": usage });
    let text = answer.to_string();
    match fault {
        Planted::JsonAsText => Answer::full(200, &[("content-type", "text/plain")], text),
        Planted::GzipUnasked => {
            let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
            Answer::full(200, &headers, compressed("gzip", text.as_bytes()))
        }
        _ => Answer::json_with(200, &[("x-ratelimit-remaining-requests", "99")], &answer),
    }
}

fn stream(body: &Value, fault: Planted) -> Answer {
    let (pieces, mut finish, usage) = limited(body, fault);
    let calls = calls(body, fault);
    let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
    if calls.is_empty() {
        deltas.extend(pieces.iter().map(|piece| json!({ "content": piece })));
    }
    for (place, (id, arguments)) in calls.iter().enumerate() {
        let index = if fault == Planted::MergedCalls { 0 } else { place };
        let function = json!({ "name": "get_weather", "arguments": arguments });
        let call = json!({ "index": index, "id": id, "type": "function", "function": function });
        deltas.push(json!({ "tool_calls": [call] }));
        finish = "tool_calls";
    }
    let chunk = |place: usize, delta: Value, finish: Option<&str>, usage: Value| {
        let id =
            if fault == Planted::ChangingIds { format!("chatcmpl-{place}") } else { "chatcmpl-1".to_owned() };
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        let choices = if usage.is_null() { choices } else { json!([]) };
        json!({ "id": id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, "usage": usage })
    };
    let prompt = prompt(body);
    let mut events: Vec<Value> =
        deltas.into_iter().enumerate().map(|(place, delta)| chunk(place, delta, None, Value::Null)).collect();
    if fault != Planted::NoFinishReason {
        events.push(chunk(events.len(), json!({}), Some(finish), Value::Null));
    }
    if fault != Planted::NoStreamUsage && body["stream_options"]["include_usage"] == true {
        events.push(chunk(events.len(), json!({}), None, usage));
    }
    if prompt.contains("1 to 300") {
        return Answer::sse().all(events.get(..3).unwrap_or_default()).hang();
    }
    paced(events, fault, prompt.contains("1 to 20,"))
}

/// The stream with the pace of a model, so that the probe can judge its flushing.
fn paced(events: Vec<Value>, fault: Planted, is_slow: bool) -> Answer {
    if fault == Planted::BufferedStream && is_slow {
        let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let pause = Step::Pause(Duration::from_millis(400));
        return Answer::sse().then(pause).chunk(format!("{text}data: [DONE]\n\n")).end();
    }
    let count = events.len();
    let mut answer = if fault == Planted::StreamAsText {
        Answer::raw("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n")
    } else {
        Answer::sse()
    };
    for (place, event) in events.into_iter().enumerate() {
        if is_slow {
            answer = answer.then(Step::Pause(Duration::from_millis(20)));
        }
        answer = answer.data(&event);
        match fault {
            Planted::OddEvent if place == 2 && is_slow => answer = answer.chunk("data: {\"id\": \"chat\n\n"),
            Planted::CutStream if place == count / 2 => return answer.close(),
            Planted::StalledStream if place == count / 2 => return answer.hang(),
            _ => {}
        }
    }
    if fault == Planted::NoDone { answer.end() } else { answer.done() }
}
