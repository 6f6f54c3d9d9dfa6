//! The body of a streamed answer that requests share. The leader gets the pieces unchanged. Each follower gets the same
//! content with its own id and `gateway` object.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use gw_cache::{End, Follower, Next, Outcome};
use gw_providers::adapter::StreamDecoder;
use gw_providers::gateway_format;
use gw_wire::dialects::StreamError;
use gw_wire::failure::FailureKind;
use gw_wire::money::Money;
use gw_wire::stream::{Closing, Normaliser, close_with_error};
use tokio::task::coop;

use crate::call::Call;
use crate::cpu_pool::{HEAVY_BYTES, offload};
use crate::error::{Error, Kind};
use crate::event_memory::{Full, SMALL_EVENT};
use crate::response_cache::caching::ResponseCache;
use crate::response_cache::rendered;
use crate::response_cache::reply_context::ReplyContext;
use crate::response_cache::shared_answer::{FlightError, FlightResult, LogOnDisconnect, SharedAnswer, gone};

fn too_large() -> Error {
    let message = "The answer holds an event that is too large to be shared; the stream was cut.";
    Error::new(Kind::UpstreamStreamError, message)
}

fn event_memory_full() -> Error {
    let message = "The gateway is holding as many large events as it can; the stream was cut.";
    Error::new(Kind::UpstreamStreamError, message)
}

fn too_slow() -> Error {
    let message = "The stream was read too slowly to go on sharing its call; it was cut.";
    Error::new(Kind::UpstreamStreamError, message)
}

/// A stream that follows a shared call.
pub(crate) struct FollowerStream {
    caching: Arc<ResponseCache>,
    reply_context: ReplyContext,
    follower: Follower<FlightResult, FlightError>,
    reader: Reader,
    first: Option<Bytes>,
    /// A part of the answer has been sent.
    begun: bool,
    over: bool,
}

enum Reader {
    /// The request that started the call. A drop before the end counts as a disconnect.
    Leader(LogOnDisconnect),
    FollowerReader(Box<FollowerReader>),
}

struct FollowerReader {
    call: Box<Call>,
    /// None while the CPU pool reads a large piece.
    translator: Option<Box<Translator>>,
    reading: Option<PendingRead>,
}

/// Translates the leader's pieces into the follower's own.
struct Translator {
    decoder: Box<dyn StreamDecoder>,
    normaliser: Normaliser,
}

/// A large piece that the CPU pool reads. The call stays outside, so that the end of the stream can settle it.
type PendingRead = Pin<Box<dyn Future<Output = (Box<Translator>, Vec<u8>)> + Send>>;

impl Translator {
    fn read(&mut self, piece: &[u8]) -> Vec<u8> {
        let Self { decoder, normaliser } = self;
        let mut output = Vec::with_capacity(piece.len());
        decoder.feed(piece, &mut |event| normaliser.accept(event, &mut output));
        output
    }
}

impl FollowerReader {
    /// Reads a small piece. A large one goes to the CPU pool.
    fn read(&mut self, piece: Bytes) -> Option<Vec<u8>> {
        let mut translator = self.translator.take()?;
        if piece.len() < HEAVY_BYTES {
            let output = translator.read(&piece);
            self.translator = Some(translator);
            return Some(output);
        }
        self.reading = Some(Box::pin(self.call.context.cpu.host(async move {
            let output = offload(|| translator.read(&piece)).await;
            (translator, output)
        })));
        None
    }

    /// Waits for the large piece that is being read, if there is one.
    fn poll_reading(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let (translator, output) = std::task::ready!(reading.as_mut().poll(cx));
        self.reading = None;
        self.translator = Some(translator);
        Poll::Ready(Some(output))
    }

    /// Gives output for the client. A large piece is counted until the client has it.
    fn hand_out(&self, output: Vec<u8>) -> Result<Bytes, Full> {
        if output.len() <= SMALL_EVENT {
            return Ok(output.into());
        }
        self.call.context.snapshot.state.event_memory.hand_out(output)
    }
}

impl FollowerStream {
    pub(crate) fn new(
        caching: Arc<ResponseCache>,
        reply_context: ReplyContext,
        follower: Follower<FlightResult, FlightError>,
        call: Option<Box<Call>>,
        first: Option<Bytes>,
    ) -> Self {
        let reader = match call {
            None => Reader::Leader(LogOnDisconnect(Some(Arc::clone(&reply_context.log)))),
            Some(call) => {
                let model = call.plan.candidates.first().map_or("", |first| &*first.model.upstream_model);
                let normaliser = Normaliser::new(reply_context.opening(model));
                // An event larger than the flight's log is not copied for each follower.
                let decoder = gateway_format::stream(caching.flights.bounds().max_log_bytes);
                Reader::FollowerReader(Box::new(FollowerReader {
                    call,
                    translator: Some(Box::new(Translator { decoder, normaliser })),
                    reading: None,
                }))
            }
        };
        Self { caching, reply_context, follower, reader, first, begun: false, over: false }
    }

    /// Whether output is ready.
    pub(crate) fn has_content(&self) -> bool {
        self.first.is_some()
    }

    /// The deadline of this request. The call that it follows may run longer.
    pub(crate) fn deadline(&self) -> Instant {
        self.reply_context.deadline
    }

    /// Whether this reader started the call. The leader's call reports the total timeout itself.
    pub(crate) fn is_leader(&self) -> bool {
        matches!(self.reader, Reader::Leader(_))
    }

    /// Ends the stream for a reason other than its client.
    pub(crate) fn cut(&mut self, kind: Kind, code: &'static str) {
        self.over = true;
        self.reply_context.log.ended(code);
        match &mut self.reader {
            Reader::Leader(leaving) => leaving.0 = None,
            Reader::FollowerReader(other) => {
                let error = Error { code: Some(code.into()), ..Error::new(kind, "The stream was cut.") };
                other.call.fail(&error);
            }
        }
    }

    /// The next output; None = the end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            if let Reader::FollowerReader(other) = &mut self.reader
                && let Some(output) = std::task::ready!(other.poll_reading(cx))
            {
                let output = self.take_translated(output);
                if !output.is_empty() {
                    return Poll::Ready(Some(output));
                }
                continue;
            }
            let next = match self.first.take() {
                Some(piece) => Next::Chunk(piece),
                None => {
                    let step = std::task::ready!(coop::poll_proceed(cx));
                    let next = std::task::ready!(self.follower.poll_next(cx));
                    step.made_progress();
                    next
                }
            };
            let out = match next {
                Next::Chunk(piece) => self.piece(piece),
                Next::End(end) => {
                    self.over = true;
                    self.end(end)
                }
            };
            if !out.is_empty() {
                return Poll::Ready(Some(out));
            }
        }
    }

    fn piece(&mut self, piece: Bytes) -> Bytes {
        match &mut self.reader {
            Reader::Leader(_) => {
                self.begun = true;
                piece
            }
            Reader::FollowerReader(other) => match other.read(piece) {
                Some(output) => self.take_translated(output),
                None => Bytes::new(),
            },
        }
    }

    /// The output of a piece that was read.
    fn take_translated(&mut self, output: Vec<u8>) -> Bytes {
        let Reader::FollowerReader(other) = &mut self.reader else { return Bytes::new() };
        let failure = other.translator.as_ref().and_then(|translator| translator.normaliser.failure());
        match failure.map(|failure| failure.kind) {
            // The event is too large, and a reader that has a part of the answer cannot skip it.
            Some(FailureKind::InvalidResponse) if self.begun => {
                self.over = true;
                self.broken(&too_large())
            }
            // A reader without a part of the answer gets the whole answer at the end, or the call's error.
            Some(_) if !self.begun => Bytes::new(),
            _ => match other.hand_out(output) {
                Ok(output) => {
                    self.begun |= !output.is_empty();
                    output
                }
                Err(Full) => {
                    self.over = true;
                    self.broken(&event_memory_full())
                }
            },
        }
    }

    fn end(&mut self, end: End<FlightResult, FlightError>) -> Bytes {
        if let Reader::Leader(leaving) = &mut self.reader {
            leaving.0 = None;
        }
        match end {
            End::Complete(done) => self.complete(&done),
            // The leader's limits do not concern its followers.
            End::Failed(fault)
                if fault.is_the_leaders && matches!(self.reader, Reader::FollowerReader(_)) =>
            {
                self.broken(&gone())
            }
            End::Failed(fault) => self.broken(&fault.error),
            End::WorkLost => self.broken(&gone()),
            End::TooSlow => self.broken(&too_slow()),
        }
    }

    fn complete(&mut self, done: &SharedAnswer) -> Bytes {
        let reply_context = self.reply_context.of(done);
        let warnings: &[&'static str] = if done.is_stale { &["stale_if_error"] } else { &[] };
        if !self.begun {
            // The answer came from the cache, or from a call without a stream.
            let answer = &done.answer;
            if !done.is_whole {
                return self.broken(&gone());
            }
            if let Reader::FollowerReader(other) = &mut self.reader {
                self.caching.cache.count(Outcome::Coalesced(answer));
                other.call.finish_cached(answer, done.fallback_used);
            }
            return rendered::replay(&reply_context, answer, warnings)
                .map_or_else(|error| self.broken(&error), Bytes::from);
        }
        let Reader::FollowerReader(other) = &mut self.reader else { return Bytes::new() };
        let translator = other.translator.as_mut();
        let Some(translator) = translator.filter(|translator| translator.normaliser.is_complete()) else {
            return self.broken(&gone());
        };
        let mut out = Vec::with_capacity(1024);
        let answer = &done.answer;
        let gateway = reply_context.meta(answer, warnings);
        let closing = Closing { usage: answer.usage, cost: Money::ZERO, gateway: &gateway };
        translator.normaliser.finish(&closing, &mut out);
        self.caching.cache.count(Outcome::Coalesced(answer));
        other.call.finish_cached(answer, done.fallback_used);
        out.into()
    }

    /// The error event. The pieces of the leader hold it already.
    fn broken(&mut self, error: &Error) -> Bytes {
        let kind = if error.kind == Kind::UpstreamTimeout { error.kind } else { Kind::UpstreamStreamError };
        let fresh = || self.reply_context.opening("").encoder();
        let encoder = match &mut self.reader {
            Reader::Leader(_) if self.begun => return Bytes::new(),
            Reader::Leader(_) => fresh(),
            Reader::FollowerReader(other) => {
                other.call.fail(error);
                let translator = other.translator.as_mut();
                translator.and_then(|translator| translator.normaliser.take_encoder()).or_else(fresh)
            }
        };
        let mut out = Vec::new();
        let error_event = StreamError { message: &error.message, kind: "upstream_error", code: kind.code() };
        close_with_error(encoder, &mut out, &error_event);
        out.into()
    }
}
