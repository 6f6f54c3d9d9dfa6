//! The client of the drill: sends one request and judges its outcome.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_engine::{CallLog, Caller, ClientSurface, Engine, EventStream, Reply, ReplyBody, RequestContext};
use gw_wire::operation::PlainOperation;
use gw_wire::sse::SseDecoder;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::script::{ANSWER, CALLS, VECTOR};

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// A chat.
    Chat {
        /// Whether the answer is streamed.
        stream: bool,
        /// Whether the request has two tools, which the upstream calls.
        tools: bool,
    },
    /// The embedding of a text.
    Embeddings,
}

impl RequestKind {
    /// The body of a request to `name`, with this `routing` object.
    #[must_use]
    pub(super) fn body(self, name: &str, routing: Option<&Value>) -> Bytes {
        let mut body = match self {
            Self::Embeddings => json!({ "model": name, "input": "a drill" }),
            Self::Chat { stream, .. } => json!({
                "model": name, "stream": stream, "messages": [{ "role": "user", "content": "This is a drill." }],
            }),
        };
        if let (Self::Chat { tools, .. }, Some(members)) = (self, body.as_object_mut()) {
            if tools {
                let tool = |(name, _): &(&str, &str)| json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object" } } });
                members.insert("tools".to_owned(), CALLS.iter().map(tool).collect());
            }
            if let Some(routing) = routing {
                members.insert("routing".to_owned(), routing.clone());
            }
        }
        Bytes::from(body.to_string())
    }
}

/// The outcome of a request, as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The complete and right answer.
    Complete,
    /// A stream that began and ended with an error event of this code.
    ErrorEvent(String),
    /// An error of this status and code instead of an answer.
    Error(u16, String),
    /// An answer that breaks off without an error. This is a bug of the gateway.
    Truncated,
    /// A wrong answer. This is a bug of the gateway.
    Wrong,
    /// No end within the deadline. This is a bug of the gateway.
    NoEnd,
}

/// The facts that a client sees.
#[derive(Clone, Debug)]
pub(super) struct ClientView {
    /// The outcome.
    pub outcome: Outcome,
    /// The catalogue id of the model that served, or of the first model when none did.
    pub model: String,
    /// The number of upstream calls.
    pub attempts: u32,
    /// The time from the request to its end.
    pub duration: Duration,
}

/// Sends a request and waits for its outcome.
pub(super) async fn send(engine: &Engine, ask: RequestKind, body: Bytes, timeout: Duration) -> ClientView {
    let log = Arc::new(CallLog::default());
    let accepted = Instant::now();
    let context = Box::new(RequestContext {
        request_id: Arc::from("req_drill"),
        caller: Caller::operator(),
        accepted,
        log: Arc::clone(&log),
        client: None,
        session: None,
        attribution: None,
        warnings: Vec::new(),
        rules: None,
        max_cost: None,
        preset: None,
        matched_headers: Vec::new(),
        dry_run: None,
        cache_control: None,
        keepalive: None,
        surface: ClientSurface::default(),
        trace: None,
    });
    let ended = tokio::time::timeout(timeout, Box::pin(end(engine, ask, context, body))).await;
    let record = log.record();
    ClientView {
        outcome: ended.unwrap_or(Outcome::NoEnd),
        model: record.model.as_deref().unwrap_or_default().to_owned(),
        attempts: record.attempts,
        duration: accepted.elapsed(),
    }
}

async fn end(engine: &Engine, ask: RequestKind, context: Box<RequestContext>, body: Bytes) -> Outcome {
    let reply = match ask {
        RequestKind::Chat { .. } => engine.chat(context, body).await,
        RequestKind::Embeddings => engine.generate(PlainOperation::Embeddings, context, body).await,
    };
    match reply {
        Err(error) => Outcome::Error(error.status(), error.code().to_owned()),
        Ok(Reply { body: ReplyBody::Full(body), .. }) => judge(ask, &body),
        Ok(Reply { body: ReplyBody::Stream(stream), .. }) => read(ask, stream).await,
        // A drill asks for nothing in the background.
        Ok(Reply { body: ReplyBody::Background(_), .. }) => Outcome::NoEnd,
    }
}

fn judge(ask: RequestKind, body: &[u8]) -> Outcome {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_right = match ask {
        RequestKind::Embeddings => body.pointer("/data/0/embedding").is_some_and(is_vector),
        RequestKind::Chat { tools: true, .. } => {
            let calls = body.pointer("/choices/0/message/tool_calls").and_then(Value::as_array);
            let call = |call: &Value| {
                let text = |pointer: &str| call.pointer(pointer)?.as_str().map(str::to_owned);
                text("/function/name").zip(text("/function/arguments"))
            };
            let calls: Vec<_> = calls.into_iter().flatten().filter_map(call).collect();
            are_calls(&calls)
        }
        RequestKind::Chat { .. } => {
            body.pointer("/choices/0/message/content").and_then(Value::as_str) == Some(ANSWER)
        }
    };
    if is_right { Outcome::Complete } else { Outcome::Wrong }
}

fn is_vector(value: &Value) -> bool {
    let numbers: Option<Vec<f64>> =
        value.as_array().and_then(|items| items.iter().map(Value::as_f64).collect());
    numbers.as_deref() == Some(&VECTOR)
}

fn are_calls(calls: &[(String, String)]) -> bool {
    calls.iter().map(|(name, arguments)| (name.as_str(), arguments.as_str())).eq(CALLS)
}

async fn read(ask: RequestKind, mut stream: Box<EventStream>) -> Outcome {
    let (mut decoder, mut seen) = (SseDecoder::default(), Transcript::default());
    while let Some(frame) = stream.frame().await {
        let Ok(data) = frame.map(|frame| frame.into_data().unwrap_or_default());
        if decoder.feed(&data, &mut |event| seen.take(event.data)).is_err() {
            return Outcome::Wrong;
        }
    }
    decoder.eof(&mut |event| seen.take(event.data));
    seen.end(ask)
}

/// The events of a stream, put together as clients do.
#[derive(Debug, Default)]
struct Transcript {
    text: String,
    calls: Vec<(String, String)>,
    /// A piece of a call had an index that clients do not expect.
    has_bad_index: bool,
    is_finished: bool,
    is_done: bool,
    error: Option<String>,
}

impl Transcript {
    fn take(&mut self, data: &[u8]) {
        if data == b"[DONE]" {
            self.is_done = true;
            return;
        }
        let event: Value = serde_json::from_slice(data).unwrap_or_default();
        if let Some(error) = event.get("error") {
            let code = error.get("code").and_then(Value::as_str);
            self.error = Some(code.unwrap_or("error").to_owned());
        }
        let Some(choice) = event.pointer("/choices/0") else { return };
        self.is_finished |= choice.get("finish_reason").is_some_and(Value::is_string);
        self.text += choice.pointer("/delta/content").and_then(Value::as_str).unwrap_or_default();
        for piece in choice.pointer("/delta/tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(piece);
        }
    }

    fn call(&mut self, piece: &Value) {
        let text = |pointer| piece.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let index = piece.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        if index == Some(self.calls.len()) {
            self.calls.push((String::new(), String::new()));
        }
        match index.and_then(|index| self.calls.get_mut(index)) {
            Some((name, arguments)) => {
                name.push_str(text("/function/name"));
                arguments.push_str(text("/function/arguments"));
            }
            None => self.has_bad_index = true,
        }
    }

    fn end(self, ask: RequestKind) -> Outcome {
        let has_begun = !self.text.is_empty() || !self.calls.is_empty();
        match self.error {
            Some(code) if has_begun => return Outcome::ErrorEvent(code),
            Some(code) => return Outcome::Error(200, code),
            None => {}
        }
        if !self.is_finished || !self.is_done {
            return Outcome::Truncated;
        }
        let is_right = match ask {
            RequestKind::Chat { tools: true, .. } => are_calls(&self.calls) && !self.has_bad_index,
            _ => self.text == ANSWER,
        };
        if is_right { Outcome::Complete } else { Outcome::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(events: &[&str]) -> Outcome {
        let mut seen = Transcript::default();
        events.iter().for_each(|event| seen.take(event.as_bytes()));
        seen.end(RequestKind::Chat { stream: true, tools: false })
    }

    #[test]
    fn an_incomplete_answer_is_recognised() {
        let whole =
            json!({ "choices": [{ "delta": { "content": ANSWER }, "finish_reason": null }] }).to_string();
        let half = json!({ "choices": [{ "delta": { "content": &ANSWER[..9] } }] }).to_string();
        let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let error = r#"{"error":{"message":"m","type":"t","code":"upstream_stream_error"}}"#;
        assert_eq!(stream(&[&whole, stop, "[DONE]"]), Outcome::Complete);
        assert_eq!(stream(&[&whole, stop]), Outcome::Truncated);
        assert_eq!(stream(&[&half]), Outcome::Truncated);
        assert_eq!(stream(&[]), Outcome::Truncated);
        assert_eq!(stream(&[&half, stop, "[DONE]"]), Outcome::Wrong);
        assert_eq!(
            stream(&[&half, error, "[DONE]"]),
            Outcome::ErrorEvent("upstream_stream_error".to_owned())
        );
        assert_eq!(stream(&[error, "[DONE]"]), Outcome::Error(200, "upstream_stream_error".to_owned()));
    }

    #[test]
    fn calls_are_put_together_by_their_index() {
        let piece = |index: u64, name: &str, arguments: &str| {
            json!({ "choices": [{ "delta": { "tool_calls": [{ "index": index,
                    "function": { "name": name, "arguments": arguments } }] } }] })
            .to_string()
        };
        let end = |first: u64| {
            let mut seen = Transcript { is_finished: true, is_done: true, ..Transcript::default() };
            for (at, (name, arguments)) in (first..).zip(CALLS) {
                let (head, tail) = arguments.split_at(5);
                seen.take(piece(at, name, head).as_bytes());
                seen.take(piece(at, "", tail).as_bytes());
            }
            seen.end(RequestKind::Chat { stream: true, tools: true })
        };
        assert_eq!((end(0), end(7)), (Outcome::Complete, Outcome::Wrong));
    }
}
