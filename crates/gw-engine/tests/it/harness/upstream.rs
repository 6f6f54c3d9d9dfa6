//! An upstream that follows a script for each of its calls, and writes down what it saw.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use gw_providers::adapter::HttpCall;
use gw_providers::client::BodyChunk;
use gw_providers::in_process::{InProcess, InProcessBody, InProcessResponse, PendingHead};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::request::{RequestLimits, parse_chat};
use gw_wire::usage::{BYTES_PER_TOKEN, Usage};
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::time::{Instant, Sleep};

use super::script::{Document, Head, Piece, Script, Step};

/// The calls of all upstreams of a test, in the order in which they came.
pub(crate) type Calls = Arc<Mutex<Vec<SeenCall>>>;

/// How the head of a call came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadSeen {
    /// It has not come, and the request was sent.
    Awaited,
    /// The request was not sent, or was refused: nothing is billed.
    Refused,
    /// 200.
    Answered,
}

/// One call that an upstream saw.
#[derive(Clone, Debug)]
pub(crate) struct SeenCall {
    pub(crate) provider: &'static str,
    pub(crate) at: Instant,
    /// The `Authorization` header.
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
    raw: Bytes,
    pub(crate) head: HeadSeen,
    /// Bytes of text that the gateway has read.
    pub(crate) text_bytes: u64,
    /// The usage that the gateway has read.
    pub(crate) usage: Option<(u64, u64)>,
    /// An error event came before any text.
    pub(crate) failed_first: bool,
    /// The gateway has read the body to its end, or to its break.
    pub(crate) is_over: bool,
    /// The gateway let go of the call.
    pub(crate) is_dropped: bool,
}

impl SeenCall {
    /// The usage of a call that the gateway must bill: told, else estimated; None = nothing.
    pub(crate) fn billed(&self) -> Option<Usage> {
        let is_free = self.head == HeadSeen::Refused || (self.failed_first && self.usage.is_none());
        if is_free {
            return None;
        }
        Some(match self.usage {
            Some((prompt, completion)) => Usage { prompt, completion, ..Usage::default() },
            None => Usage::estimate(self.prompt_tokens(), self.text_bytes),
        })
    }

    /// The estimate of the prompt: a token for every three bytes, and eight for each message or input.
    fn prompt_tokens(&self) -> u64 {
        if let Some(inputs) = self.body["input"].as_array() {
            let bytes: usize = inputs.iter().map(|input| input.as_str().unwrap().len()).sum();
            return (bytes as u64).div_ceil(BYTES_PER_TOKEN) + 8 * inputs.len() as u64;
        }
        let request = parse_chat(self.raw.clone(), &RequestLimits::NONE).unwrap();
        let bytes = request.prompt_bytes + request.extras.bytes;
        bytes.div_ceil(BYTES_PER_TOKEN) + 8 * request.extras.frames
    }

    /// When the call came, in milliseconds of the test's clock.
    pub(crate) fn since(&self, begun: Instant) -> u128 {
        (self.at - begun).as_millis()
    }
}

/// A scripted upstream of one provider.
#[derive(Debug)]
pub(crate) struct Upstream {
    name: &'static str,
    scripts: Mutex<VecDeque<Script>>,
    calls: Calls,
}

impl Upstream {
    /// Follows one script for each call. Calls beyond the scripts are answered with 500.
    pub(crate) fn new(name: &'static str, scripts: Vec<Script>, calls: &Calls) -> Arc<Self> {
        Arc::new(Self { name, scripts: Mutex::new(scripts.into()), calls: Arc::clone(calls) })
    }
}

/// The place of a call in the list. Dropped, it notes that the gateway let go of the call.
struct RunningCall {
    calls: Calls,
    index: usize,
}

impl RunningCall {
    fn note(&self, change: impl FnOnce(&mut SeenCall)) {
        change(&mut self.calls.lock().unwrap()[self.index]);
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.note(|call| call.is_dropped = true);
    }
}

impl InProcess for Upstream {
    fn send(&self, call: HttpCall) -> PendingHead<'_> {
        Box::pin(async move {
            let script = self.scripts.lock().unwrap().pop_front();
            let Script { wait, head } = script.unwrap_or_else(|| super::refused(500));
            let place = self.begin(&call);
            pause(wait).await;
            let failed = |kind| Failure::new(kind, "The upstream provider could not be reached.");
            let (status, content_type, body) = match head {
                Head::Silent => std::future::pending().await,
                Head::Lost => return Err(failed(FailureKind::Unreachable).after_sending()),
                Head::Unreachable => {
                    place.note(|call| call.head = HeadSeen::Refused);
                    return Err(failed(FailureKind::Unreachable));
                }
                Head::Status(status, retry_after) => {
                    place.note(|call| call.head = HeadSeen::Refused);
                    return Ok(refusal(status, retry_after, place));
                }
                Head::Stream(steps) => (200, "text/event-stream", Body::new(place, None, steps)),
                Head::Document(document, steps) => {
                    (200, "application/json", Body::new(place, Some(document), steps))
                }
            };
            body.place.note(|call| call.head = HeadSeen::Answered);
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            Ok(InProcessResponse { status, headers, body: Box::new(body) })
        })
    }
}

impl Upstream {
    fn begin(&self, call: &HttpCall) -> RunningCall {
        let header = call.headers.get(AUTHORIZATION);
        let mut calls = self.calls.lock().unwrap();
        calls.push(SeenCall {
            provider: self.name,
            at: Instant::now(),
            key: header.map(|value| value.to_str().unwrap().to_owned()),
            body: serde_json::from_slice(&call.body).unwrap(),
            raw: call.body.clone(),
            head: HeadSeen::Awaited,
            text_bytes: 0,
            usage: None,
            failed_first: false,
            is_over: false,
            is_dropped: false,
        });
        RunningCall { index: calls.len() - 1, calls: Arc::clone(&self.calls) }
    }
}

/// A pause of no length is none: it must not cost a turn.
async fn pause(wait: Duration) {
    if wait > Duration::ZERO {
        tokio::time::sleep(wait).await;
    }
}

fn refusal(status: u16, retry_after: Option<u64>, place: RunningCall) -> InProcessResponse {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.extend(retry_after.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
    let text = r#"{"error":{"message":"Refused.","type":"refused"}}"#.to_owned();
    let body = Body::new(place, Some(Document { body: text, text_bytes: 0, usage: None }), Vec::new());
    InProcessResponse { status, headers, body: Box::new(body) }
}

/// A body that follows steps.
struct Body {
    place: RunningCall,
    steps: VecDeque<Step>,
    /// Sent behind the steps, at once.
    document: Option<Document>,
    sent: Option<Document>,
    sleep: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl Body {
    fn new(place: RunningCall, document: Option<Document>, steps: Vec<Step>) -> Self {
        Self { place, steps: steps.into(), document, sent: None, sleep: None, is_over: false }
    }

    /// The piece is handed over now.
    fn piece(&mut self, piece: &Piece) -> Bytes {
        self.place.note(|call| match piece {
            Piece::Text(text) => call.text_bytes += text.len() as u64,
            Piece::Usage(prompt, completion) => call.usage = Some((*prompt, *completion)),
            Piece::Error => call.failed_first = call.text_bytes == 0,
            Piece::Comment | Piece::Role | Piece::Finish | Piece::Done | Piece::Raw(_) => {}
        });
        piece.bytes().into()
    }
}

impl InProcessBody for Body {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<BodyChunk> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                std::task::ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match self.steps.pop_front() {
                Some(Step::Piece(piece)) => return Poll::Ready(Some(Ok(self.piece(&piece)))),
                Some(Step::Wait(wait)) => self.sleep = Some(Box::pin(tokio::time::sleep(wait))),
                Some(Step::Break) => {
                    self.is_over = true;
                    self.place.note(|call| call.is_over = true);
                    let failure = Failure::new(FailureKind::StreamBroken, "The answer broke off.");
                    return Poll::Ready(Some(Err(failure)));
                }
                Some(Step::Silence) => {
                    self.steps.push_front(Step::Silence);
                    return Poll::Pending;
                }
                None => {
                    if let Some(document) = self.document.take() {
                        let bytes = Bytes::from(document.body.clone());
                        self.sent = Some(document);
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                    self.is_over = true;
                    let told = self.sent.take();
                    self.place.note(|call| {
                        call.is_over = true;
                        if let Some(Document { text_bytes, usage, .. }) = told {
                            (call.text_bytes, call.usage) = (text_bytes, usage);
                        }
                    });
                    return Poll::Ready(None);
                }
            }
        }
    }
}
