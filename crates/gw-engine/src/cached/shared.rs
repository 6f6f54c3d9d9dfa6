//! The body of a streamed answer whose call is shared: the leader gets the pieces as they are, everybody else the same
//! content under an id and a `gateway` object of its own.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use gw_cache::{End, Follower, Next, Outcome};
use gw_providers::adapter::StreamDecoder;
use gw_providers::own;
use gw_wire::failure::FailureKind;
use gw_wire::money::Money;
use gw_wire::stream::{Closing, Normaliser, write_error};
use tokio::task::coop;

use super::hit::{self, Asker};
use super::{Caching, Done, Failed, Finished, Leaving, gone};
use crate::attempts::Call;
use crate::error::{Error, Kind};

fn too_large() -> Error {
    let message = "The answer holds an event that is too large to be shared; the stream was cut.";
    Error::new(Kind::UpstreamStreamError, message)
}

fn too_slow() -> Error {
    let message = "The stream was read too slowly to go on sharing its call; it was cut.";
    Error::new(Kind::UpstreamStreamError, message)
}

/// A stream that follows a shared call.
pub(crate) struct Shared {
    caching: Arc<Caching>,
    asker: Asker,
    follower: Follower<Finished, Failed>,
    reader: Reader,
    first: Option<Bytes>,
    /// Something of the answer has been sent.
    begun: bool,
    over: bool,
}

enum Reader {
    /// The one whose call it is; noted as gone when it is dropped before the end.
    Leader(Leaving),
    Other(Box<Other>),
}

struct Other {
    call: Box<Call>,
    decoder: Box<dyn StreamDecoder>,
    normaliser: Normaliser,
}

impl Shared {
    pub(super) fn new(
        caching: Arc<Caching>,
        asker: Asker,
        follower: Follower<Finished, Failed>,
        call: Option<Box<Call>>,
        first: Option<Bytes>,
    ) -> Self {
        let reader = match call {
            None => Reader::Leader(Leaving(Some(Arc::clone(&asker.log)))),
            Some(call) => {
                let model = call.plan.candidates.first().map_or("", |first| &*first.model.upstream_model);
                let normaliser = Normaliser::new(asker.opening(model));
                // What is more than a flight keeps is not copied for each who follows it.
                let decoder = own::stream(caching.flights.bounds().log);
                Reader::Other(Box::new(Other { call, decoder, normaliser }))
            }
        };
        Self { caching, asker, follower, reader, first, begun: false, over: false }
    }

    /// Whether something is there to be sent at once.
    pub(crate) fn has_content(&self) -> bool {
        self.first.is_some()
    }

    /// When its time is up, though the call that it follows may go on.
    pub(crate) fn deadline(&self) -> Instant {
        self.asker.deadline
    }

    /// Whether this reader owns the upstream call. The owner enforces and reports the total clock.
    pub(crate) fn is_leader(&self) -> bool {
        matches!(self.reader, Reader::Leader(_))
    }

    /// The stream is ended from outside, and not by its client.
    pub(crate) fn cut(&mut self, kind: Kind, code: &'static str) {
        self.over = true;
        self.asker.log.ended(code);
        match &mut self.reader {
            Reader::Leader(leaving) => leaving.0 = None,
            Reader::Other(other) => {
                let error = Error { code: Some(code.into()), ..Error::new(kind, "The stream was cut.") };
                other.call.tally.account.failed(&error);
            }
        }
    }

    /// The next bytes for the client; None = the end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            let next = match self.first.take() {
                Some(piece) => Next::Piece(piece),
                None => {
                    let step = std::task::ready!(coop::poll_proceed(cx));
                    let next = std::task::ready!(self.follower.poll_next(cx));
                    step.made_progress();
                    next
                }
            };
            let out = match next {
                Next::Piece(piece) => self.piece(piece),
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
            Reader::Other(other) => {
                let Other { decoder, normaliser, .. } = &mut **other;
                let mut out = Vec::with_capacity(piece.len());
                decoder.feed(&piece, &mut |event| normaliser.accept(event, &mut out));
                let fault = normaliser.failure().map(|failure| failure.kind);
                match fault {
                    // Too large. Who has been sent something must not go on without it.
                    Some(FailureKind::InvalidResponse) if self.begun => {
                        self.over = true;
                        self.broken(&too_large())
                    }
                    // Who has not gets the whole answer in the end, or the error that it ends with.
                    Some(_) if !self.begun => Bytes::new(),
                    _ => {
                        self.begun |= !out.is_empty();
                        out.into()
                    }
                }
            }
        }
    }

    fn end(&mut self, end: End<Finished, Failed>) -> Bytes {
        if let Reader::Leader(leaving) = &mut self.reader {
            leaving.0 = None;
        }
        match end {
            End::Complete(done) => self.complete(&done),
            // Whose limits they are is nobody else's business.
            End::Failed(fault) if fault.is_the_leaders && matches!(self.reader, Reader::Other(_)) => {
                self.broken(&gone())
            }
            End::Failed(fault) => self.broken(&fault.error),
            End::Gone => self.broken(&gone()),
            End::TooSlow => self.broken(&too_slow()),
        }
    }

    fn complete(&mut self, done: &Done) -> Bytes {
        let asker = self.asker.of(done);
        let warnings: &[&'static str] = if done.is_stale { &["stale_if_error"] } else { &[] };
        if !self.begun {
            // It was there after all, or made for somebody who wanted no stream.
            let answer = &done.answer;
            if !done.is_whole {
                return self.broken(&gone());
            }
            if let Reader::Other(other) = &mut self.reader {
                self.caching.cache.count(Outcome::Coalesced(answer));
                other.call.tally.account.cached(answer, done.fallback_used);
            }
            return hit::replay(&asker, answer, warnings)
                .map_or_else(|error| self.broken(&error), Bytes::from);
        }
        let Reader::Other(other) = &mut self.reader else { return Bytes::new() };
        if !other.normaliser.is_complete() {
            return self.broken(&gone());
        }
        let mut out = Vec::with_capacity(1024);
        let answer = &done.answer;
        let gateway = asker.meta(answer, warnings);
        let closing = Closing { usage: answer.usage, cost: Money::ZERO, gateway: &gateway };
        other.normaliser.finish(&closing, &mut out);
        self.caching.cache.count(Outcome::Coalesced(answer));
        other.call.tally.account.cached(answer, done.fallback_used);
        out.into()
    }

    /// The error event. What the leader has been sent holds it already.
    fn broken(&mut self, error: &Error) -> Bytes {
        let kind = if error.kind == Kind::UpstreamTimeout { error.kind } else { Kind::UpstreamStreamError };
        match &mut self.reader {
            Reader::Leader(_) if self.begun => return Bytes::new(),
            Reader::Leader(_) => {}
            Reader::Other(other) => other.call.tally.account.failed(error),
        }
        let mut out = Vec::new();
        write_error(&mut out, &error.message, "upstream_error", kind.code());
        out.into()
    }
}
