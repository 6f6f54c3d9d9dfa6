//! A turn of a socket: one request, answered by the handler of all requests, whose events become messages.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gw_engine::cpu_pool::{CpuPool, is_heavy, offload_if};
use gw_engine::error::{Error, Result};
use gw_engine::shared_pool::PoolHolding;
use gw_wire::operation::Operation;
use gw_wire::sse::SseDecoder;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::earlier_turns::{EarlierTurn, EarlierTurns};
use super::error_event::{of_answer, of_error, with_stream_id};
use super::turn_request::{self, TurnRequest, final_items};
use super::warm_up;
use crate::origin::{GatewayBody, GatewayResponse, Origin, Respond};

/// A message that waits for its turn.
#[derive(Debug)]
pub(super) struct WaitingTurn {
    pub(super) message: Utf8Bytes,
    /// Its memory.
    pub(super) holding: PoolHolding,
}

/// The answer to a turn's request.
struct Asked {
    request: TurnRequest,
    response: GatewayResponse,
}

enum TurnPhase {
    /// The handler reads the request, and waits for the begin of the answer.
    Asking(BoxFuture<'static, Result<Asked>>),
    /// The answer is an error or a document.
    Whole(BoxFuture<'static, String>),
    /// The answer is a stream of events.
    Streaming(Box<GatewayBody>),
    Ended,
}

/// A turn in progress. It owns its request, so a turn that is dropped ends like a request whose client has gone.
pub(super) struct Turn {
    phase: TurnPhase,
    stream_id: Option<String>,
    /// The conversation of the turn, until its answer is known.
    conversation: Option<EarlierTurn>,
    earlier: Arc<Mutex<EarlierTurns>>,
    decoder: SseDecoder,
    /// Events that are not sent yet. There are no more than one piece of the stream has.
    events: VecDeque<String>,
}

impl Turn {
    /// Begins a turn.
    pub(super) fn begin(
        (origin, respond): (Origin, Respond),
        headers: HeaderMap,
        cpu: &CpuPool,
        earlier: Arc<Mutex<EarlierTurns>>,
        waiting: WaitingTurn,
    ) -> Self {
        let stream_id = turn_request::stream_id_of(&waiting.message);
        let (known, cpu) = (Arc::clone(&earlier), cpu.clone());
        let asking = async move {
            let WaitingTurn { message, holding } = waiting;
            let bytes = Bytes::from(message.clone());
            let request = cpu
                .host(async move {
                    let find = |id: &str| known.lock().of(id);
                    offload_if(is_heavy(&bytes), || turn_request::read(&message, find)).await
                })
                .await?;
            let response = respond(origin, http_request(headers, &request)).await;
            drop(holding);
            Ok(Asked { request, response })
        };
        Self {
            phase: TurnPhase::Asking(Box::pin(asking)),
            stream_id,
            conversation: None,
            earlier,
            decoder: SseDecoder::default(),
            events: VecDeque::new(),
        }
    }

    /// The next event. None: the turn is over. A call that is dropped loses nothing.
    pub(super) async fn next_event(&mut self) -> Option<String> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(with_stream_id(&event, self.stream_id.as_deref()));
            }
            match &mut self.phase {
                TurnPhase::Asking(asking) => {
                    let asked = asking.await;
                    self.answered(asked);
                }
                TurnPhase::Whole(reading) => {
                    let event = reading.await;
                    self.end_with(event);
                }
                TurnPhase::Streaming(body) => {
                    let frame = poll_fn(|cx| Pin::new(&mut **body).poll_frame(cx)).await;
                    match frame.map(|frame| frame.map(|frame| frame.into_data())) {
                        Some(Ok(Ok(piece))) => self.take_piece(&piece),
                        Some(Ok(Err(_))) => {}
                        Some(Err(_)) => self.end_with(of_error(&Error::internal())),
                        None => self.phase = TurnPhase::Ended,
                    }
                }
                TurnPhase::Ended => return None,
            }
        }
    }

    fn end_with(&mut self, event: String) {
        self.events.push_back(event);
        self.phase = TurnPhase::Ended;
    }

    fn answered(&mut self, asked: Result<Asked>) {
        let Asked { request, response } = match asked {
            Ok(asked) => asked,
            Err(refusal) => return self.end_with(of_error(&refusal)),
        };
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            let reading = async move {
                let whole = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                of_answer(head.status, &whole, &head.headers)
            };
            self.phase = TurnPhase::Whole(Box::pin(reading));
        } else if request.is_warm_up {
            // The answer is the report of a dry run. The client gets the events of a response instead.
            let (id, events) = warm_up::events(&request.body);
            self.earlier.lock().remember(EarlierTurn { id, ..request.conversation });
            let [begun, ended] = events;
            self.events.push_back(begun);
            let reading = async move {
                drop(body.collect().await);
                ended
            };
            self.phase = TurnPhase::Whole(Box::pin(reading));
        } else {
            self.conversation = Some(request.conversation);
            self.phase = TurnPhase::Streaming(Box::new(body));
        }
    }

    fn take_piece(&mut self, piece: &[u8]) {
        let Self { decoder, events, conversation, earlier, .. } = self;
        let mut take = |event: gw_wire::sse::SseEvent<'_>| {
            let text = String::from_utf8_lossy(event.data).into_owned();
            if !text.starts_with('{') {
                return;
            }
            let is_final = [&b"response.completed"[..], b"response.incomplete"].contains(&event.name);
            if is_final
                && let Some((id, items)) = final_items(&text)
                && let Some(mut turn) = conversation.take()
            {
                turn.id = id;
                turn.items.extend(Some(items).filter(|items| !items.is_empty()));
                earlier.lock().remember(turn);
            }
            events.push_back(text);
        };
        if decoder.feed(piece, &mut take).is_err() {
            self.end_with(of_error(&Error::internal()));
        }
    }
}

/// The request of a turn over HTTP.
fn http_request(mut headers: HeaderMap, request: &TurnRequest) -> Request<Full<Bytes>> {
    if request.is_warm_up {
        headers.insert("x-gateway-dry-run", HeaderValue::from_static("true"));
    }
    headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(request.body.len()));
    let mut http = Request::new(Full::new(request.body.clone()));
    *http.method_mut() = Method::POST;
    *http.uri_mut() = http::Uri::from_static(Operation::Responses.row().path);
    *http.version_mut() = Version::HTTP_11;
    *http.headers_mut() = headers;
    http
}
