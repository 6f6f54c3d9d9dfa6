//! A client of the drill: sends one request and says what came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_engine::{CallLog, Caller, Engine, EventStream, Reply, ReplyBody, RequestContext};
use gw_wire::sse::SseDecoder;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::script::{ANSWER, CALLS, VECTOR};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// A chat, answered at once or as a stream.
    Chat {
        /// Streamed.
        stream: bool,
        /// With two tools, which the upstream calls.
        tools: bool,
    },
    /// The vector of a text.
    Embeddings,
}

impl Ask {
    /// The request for this name; `routing` is what the clients say about routes.
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

/// How a request ended, as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The whole answer, and the right one.
    Whole,
    /// A stream had begun, and ended with an error event of this code.
    Told(String),
    /// An error of this status and code instead of an answer.
    Refused(u16, String),
    /// An answer that lacks its end, without a word: never to be seen.
    Silent,
    /// Something else than the answer: never to be seen.
    Wrong,
    /// No end at all within the deadline: never to be seen.
    Hung,
}

/// What a client saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How it ended.
    pub end: End,
    /// Catalogue id of the model that served, or that was asked first.
    pub model: String,
    /// Upstream calls.
    pub attempts: u32,
    /// From the request to its end.
    pub took: Duration,
}

/// Sends a request and waits for its end.
pub(super) async fn send(engine: &Engine, ask: Ask, body: Bytes, patience: Duration) -> Seen {
    let log = Arc::new(CallLog::default());
    let accepted = Instant::now();
    let context = RequestContext {
        request_id: Arc::from("req_drill"),
        caller: Caller::operator(),
        accepted,
        log: Arc::clone(&log),
        client: None,
        cache_control: None,
        keepalive: None,
    };
    let ended = tokio::time::timeout(patience, Box::pin(end(engine, ask, context, body))).await;
    let record = log.record();
    Seen {
        end: ended.unwrap_or(End::Hung),
        model: record.model.as_deref().unwrap_or_default().to_owned(),
        attempts: record.attempts,
        took: accepted.elapsed(),
    }
}

async fn end(engine: &Engine, ask: Ask, context: RequestContext, body: Bytes) -> End {
    let reply = match ask {
        Ask::Chat { .. } => engine.chat(context, body).await,
        Ask::Embeddings => engine.embeddings(context, body).await,
    };
    match reply {
        Err(error) => End::Refused(error.status(), error.code().to_owned()),
        Ok(Reply { body: ReplyBody::Full(body), .. }) => judge(ask, &body),
        Ok(Reply { body: ReplyBody::Stream(stream), .. }) => read(ask, stream).await,
    }
}

fn judge(ask: Ask, body: &[u8]) -> End {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let right = match ask {
        Ask::Embeddings => body.pointer("/data/0/embedding").is_some_and(is_vector),
        Ask::Chat { tools: true, .. } => {
            let calls = body.pointer("/choices/0/message/tool_calls").and_then(Value::as_array);
            let call = |call: &Value| {
                let text = |pointer: &str| call.pointer(pointer)?.as_str().map(str::to_owned);
                text("/function/name").zip(text("/function/arguments"))
            };
            let calls: Vec<_> = calls.into_iter().flatten().filter_map(call).collect();
            are_calls(&calls)
        }
        Ask::Chat { .. } => {
            body.pointer("/choices/0/message/content").and_then(Value::as_str) == Some(ANSWER)
        }
    };
    if right { End::Whole } else { End::Wrong }
}

fn is_vector(value: &Value) -> bool {
    let numbers: Option<Vec<f64>> =
        value.as_array().and_then(|items| items.iter().map(Value::as_f64).collect());
    numbers.as_deref() == Some(&VECTOR)
}

fn are_calls(calls: &[(String, String)]) -> bool {
    calls.iter().map(|(name, arguments)| (name.as_str(), arguments.as_str())).eq(CALLS)
}

async fn read(ask: Ask, mut stream: Box<EventStream>) -> End {
    let (mut decoder, mut seen) = (SseDecoder::default(), Transcript::default());
    while let Some(frame) = stream.frame().await {
        let Ok(data) = frame.map(|frame| frame.into_data().unwrap_or_default());
        if decoder.feed(&data, &mut |event| seen.take(event.data)).is_err() {
            return End::Wrong;
        }
    }
    decoder.eof(&mut |event| seen.take(event.data));
    seen.end(ask)
}

/// What a stream said, put together as clients do.
#[derive(Debug, Default)]
struct Transcript {
    text: String,
    calls: Vec<(String, String)>,
    /// A piece of a call came with an index that clients do not expect.
    astray: bool,
    finished: bool,
    done: bool,
    error: Option<String>,
}

impl Transcript {
    fn take(&mut self, data: &[u8]) {
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        let event: Value = serde_json::from_slice(data).unwrap_or_default();
        if let Some(error) = event.get("error") {
            let code = error.get("code").and_then(Value::as_str);
            self.error = Some(code.unwrap_or("error").to_owned());
        }
        let Some(choice) = event.pointer("/choices/0") else { return };
        self.finished |= choice.get("finish_reason").is_some_and(Value::is_string);
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
            None => self.astray = true,
        }
    }

    fn end(self, ask: Ask) -> End {
        let begun = !self.text.is_empty() || !self.calls.is_empty();
        match self.error {
            Some(code) if begun => return End::Told(code),
            Some(code) => return End::Refused(200, code),
            None => {}
        }
        if !self.finished || !self.done {
            return End::Silent;
        }
        let right = match ask {
            Ask::Chat { tools: true, .. } => are_calls(&self.calls) && !self.astray,
            _ => self.text == ANSWER,
        };
        if right { End::Whole } else { End::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(events: &[&str]) -> End {
        let mut seen = Transcript::default();
        events.iter().for_each(|event| seen.take(event.as_bytes()));
        seen.end(Ask::Chat { stream: true, tools: false })
    }

    #[test]
    fn a_client_tells_an_answer_from_half_of_one() {
        let whole =
            json!({ "choices": [{ "delta": { "content": ANSWER }, "finish_reason": null }] }).to_string();
        let half = json!({ "choices": [{ "delta": { "content": &ANSWER[..9] } }] }).to_string();
        let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let error = r#"{"error":{"message":"m","type":"t","code":"upstream_stream_error"}}"#;
        assert_eq!(stream(&[&whole, stop, "[DONE]"]), End::Whole);
        assert_eq!(stream(&[&whole, stop]), End::Silent);
        assert_eq!(stream(&[&half]), End::Silent);
        assert_eq!(stream(&[]), End::Silent);
        assert_eq!(stream(&[&half, stop, "[DONE]"]), End::Wrong);
        assert_eq!(stream(&[&half, error, "[DONE]"]), End::Told("upstream_stream_error".to_owned()));
        assert_eq!(stream(&[error, "[DONE]"]), End::Refused(200, "upstream_stream_error".to_owned()));
    }

    #[test]
    fn calls_are_put_together_by_their_index() {
        let piece = |index: u64, name: &str, arguments: &str| {
            json!({ "choices": [{ "delta": { "tool_calls": [{ "index": index,
                    "function": { "name": name, "arguments": arguments } }] } }] })
            .to_string()
        };
        let end = |first: u64| {
            let mut seen = Transcript { finished: true, done: true, ..Transcript::default() };
            for (at, (name, arguments)) in (first..).zip(CALLS) {
                let (head, tail) = arguments.split_at(5);
                seen.take(piece(at, name, head).as_bytes());
                seen.take(piece(at, "", tail).as_bytes());
            }
            seen.end(Ask::Chat { stream: true, tools: true })
        };
        assert_eq!((end(0), end(7)), (End::Whole, End::Wrong));
    }
}
