//! The body of an answer on its way to the client. Each piece passes as it comes; its usage is read in passing.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gw_providers::client::UpstreamBody;
use gw_providers::provider::SecretMask;
use gw_providers::usage_scan::UsageScanner;
use gw_wire::usage::BYTES_PER_TOKEN;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method};
use tokio::time::Sleep;

use super::charging::AnswerFacts;
use super::sending::{OK, SentCall, has_body};
use crate::call::settlement::Outcome;
use crate::call::upstream_call::AttemptOutcome;
use crate::clock;
use crate::document_memory::MAX_ANSWER_BYTES;
use crate::error::{GATEWAY_SHUTDOWN, Kind};
use crate::shutdown::CutoffWatch;

/// The answer broke off, or the gateway ended it. Its client must not take it for a complete one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornAnswer {
    /// The code in the records.
    pub code: &'static str,
}

impl fmt::Display for TornAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer broke off: {}", self.code)
    }
}

impl std::error::Error for TornAnswer {}

/// The facts about an answer beside its head and body.
#[derive(Debug)]
pub(super) struct RelayParts {
    pub(super) scanner: Option<UsageScanner>,
    /// Masks the credentials that the gateway put in. None: it put none in.
    pub(super) mask: Option<SecretMask>,
    pub(super) method: Method,
    pub(super) accepted: Instant,
    pub(super) due: Instant,
    pub(super) idle: Duration,
    pub(super) cut: CutoffWatch,
}

/// The body of an answer.
#[derive(Debug)]
pub struct RelayedBody {
    state: State,
}

#[derive(Debug)]
enum State {
    Whole(Bytes),
    Relaying(Box<dyn LiveAnswer>),
    /// It broke off, and the client does not know yet.
    Torn(TornAnswer),
    Over,
}

/// An answer that is under way, as its body sees it. The compiler need not look into it for each future that holds it.
trait LiveAnswer: fmt::Debug + Send + Sync {
    /// The next piece; None at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornAnswer>>>;

    /// The bytes to come, if the upstream told their number.
    fn left(&self) -> Option<u64>;

    /// The time by which it must end.
    fn due(&self) -> Instant;

    /// All of it was given.
    fn complete(&mut self);
}

impl LiveAnswer for Relay {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornAnswer>>> {
        self.poll_next(cx)
    }

    fn left(&self) -> Option<u64> {
        let held = self.parts.mask.as_ref().map_or(0, SecretMask::held_bytes);
        self.left.map(|left| left.saturating_add(held as u64))
    }

    fn due(&self) -> Instant {
        self.parts.due
    }

    fn complete(&mut self) {
        self.end(Ending::Complete);
    }
}

/// An answer that is under way.
#[derive(Debug)]
struct Relay {
    call: SentCall,
    upstream: UpstreamBody,
    parts: RelayParts,
    /// The bytes to come, if the upstream told their number.
    left: Option<u64>,
    /// The bytes that may still come out of an answer that was compressed, though nobody asked for it.
    unpacked_left: Option<u64>,
    is_event_stream: bool,
    has_content: bool,
    /// The answer may report usage or be charged.
    is_served: bool,
    /// The upstream has sent all of it.
    is_over: bool,
    /// The tokens when the journal was told last.
    told_tokens: u64,
    last_heard: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Complete,
    Torn(&'static str),
    Left,
}

impl RelayedBody {
    /// A body that is there.
    pub(super) fn whole(body: Bytes) -> Self {
        Self { state: if body.is_empty() { State::Over } else { State::Whole(body) } }
    }

    /// The body of an answer with this status and these headers.
    pub(super) fn new(
        call: SentCall,
        (status, headers): (u16, &HeaderMap),
        upstream: UpstreamBody,
        parts: RelayParts,
    ) -> Self {
        let starts = |name, start: &[u8]| {
            headers.get(name).is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(start))
        };
        let is_decoded = headers.contains_key(CONTENT_ENCODING);
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let is_empty = !has_body(&parts.method, status) || length == Some(0) && !is_decoded;
        let mut relay = Box::new(Relay {
            call,
            upstream,
            left: length.filter(|_| !is_decoded),
            unpacked_left: is_decoded.then_some(MAX_ANSWER_BYTES as u64),
            is_event_stream: starts(CONTENT_TYPE, b"text/event-stream"),
            has_content: false,
            is_served: (200..300).contains(&status),
            is_over: false,
            told_tokens: 0,
            last_heard: clock::now(),
            timer: None,
            parts,
        });
        if is_empty {
            relay.end(Ending::Complete);
            return Self { state: State::Over };
        }
        Self { state: State::Relaying(relay) }
    }

    /// The time by which the answer must end.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        match &self.state {
            State::Relaying(relay) => Some(relay.due()),
            State::Whole(_) | State::Torn(_) | State::Over => None,
        }
    }

    /// Whether there is nothing more to give.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The bytes of a body that is there.
    #[must_use]
    pub fn known_bytes(&self) -> Option<u64> {
        match &self.state {
            State::Whole(body) => Some(body.len() as u64),
            State::Over => Some(0),
            State::Relaying(relay) => relay.left(),
            State::Torn(_) => None,
        }
    }

    /// The next piece; None at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornAnswer>>> {
        match &mut self.state {
            State::Over => Poll::Ready(None),
            State::Whole(body) => {
                let body = std::mem::take(body);
                self.state = State::Over;
                Poll::Ready(Some(Ok(body)))
            }
            State::Torn(torn) => {
                let torn = *torn;
                self.state = State::Over;
                Poll::Ready(Some(Err(torn)))
            }
            State::Relaying(relay) => {
                let polled = relay.poll_piece(cx);
                let is_last = match &polled {
                    Poll::Pending => false,
                    Poll::Ready(Some(Ok(_))) => relay.left() == Some(0),
                    Poll::Ready(None | Some(Err(_))) => true,
                };
                match &polled {
                    // The connection writes the head and the pieces before when it finds that there is no further one yet.
                    Poll::Ready(Some(Err(torn))) => {
                        self.state = State::Torn(*torn);
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(Some(Ok(_))) if is_last => relay.complete(),
                    _ => {}
                }
                if is_last {
                    self.state = State::Over;
                }
                polled
            }
        }
    }
}

impl Relay {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornAnswer>>> {
        while !self.is_over {
            let polled = ready!(self.poll_upstream(cx));
            let Some(mask) = &mut self.parts.mask else { return Poll::Ready(polled) };
            let passed = match polled {
                Some(Ok(piece)) => {
                    let passed = mask.pass(piece);
                    // The connection asks no further once it has the whole length.
                    let held = if self.left == Some(0) { mask.take_held() } else { Bytes::new() };
                    if held.is_empty() { passed } else { [passed, held].concat().into() }
                }
                Some(Err(torn)) => return Poll::Ready(Some(Err(torn))),
                None => {
                    self.is_over = true;
                    mask.take_held()
                }
            };
            if !passed.is_empty() {
                return Poll::Ready(Some(Ok(passed)));
            }
        }
        Poll::Ready(None)
    }

    /// The next piece as the upstream sent it.
    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornAnswer>>> {
        if self.parts.cut.is_cut() {
            return self.tear(GATEWAY_SHUTDOWN);
        }
        match self.upstream.poll_chunk(cx) {
            Poll::Ready(Some(Ok(piece))) => {
                if clock::now() >= self.parts.due {
                    return self.tear(Kind::UpstreamTimeout.code());
                }
                if let Some(left) = &mut self.unpacked_left {
                    match left.checked_sub(piece.len() as u64) {
                        Some(less) => *left = less,
                        None => return self.tear(Kind::UpstreamInvalidResponse.code()),
                    }
                }
                self.note(&piece);
                Poll::Ready(Some(Ok(piece)))
            }
            Poll::Ready(None) => {
                self.end(Ending::Complete);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(_))) => self.tear(Kind::UpstreamStreamError.code()),
            Poll::Pending => self.poll_clocks(cx),
        }
    }

    fn tear(&mut self, code: &'static str) -> Poll<Option<Result<Bytes, TornAnswer>>> {
        self.end(Ending::Torn(code));
        Poll::Ready(Some(Err(TornAnswer { code })))
    }

    /// Notes a piece that passes.
    fn note(&mut self, piece: &[u8]) {
        self.last_heard = clock::now();
        self.left = self.left.map(|left| left.saturating_sub(piece.len() as u64));
        if let Some(scanner) = &mut self.parts.scanner {
            scanner.feed(piece);
        }
        if self.is_event_stream && !self.has_content {
            self.has_content = true;
            self.call.note_first_content(self.parts.accepted);
        }
        self.tell_progress();
    }

    /// Tells the journal about reported tokens now and then, for a process that dies.
    fn tell_progress(&mut self) {
        let Some(every) = self.call.progress_tokens().filter(|_| self.is_event_stream) else {
            return;
        };
        let answer = self.facts(false);
        let tokens = answer
            .reported
            .map_or(0, |usage| usage.total())
            .saturating_add(answer.text_bytes.div_ceil(BYTES_PER_TOKEN));
        if tokens >= self.told_tokens.saturating_add(every) {
            self.told_tokens = tokens;
            self.call.note_progress(&answer);
        }
    }

    /// The facts about the answer.
    fn facts(&self, is_complete: bool) -> AnswerFacts {
        let scanner = self.parts.scanner.as_ref();
        let (reported, text_bytes) = scanner.map_or((None, 0), |it| (it.usage(), it.text_bytes()));
        let (has_texts, is_stream) = (text_bytes > 0, scanner.is_some_and(UsageScanner::is_stream));
        AnswerFacts {
            reported,
            text_bytes,
            may_lack_usage: !is_complete || has_texts && is_stream,
            // A document without texts and without usage is a list, or a file.
            may_be_generated: self.parts.method == Method::POST && (has_texts || is_stream),
        }
    }

    /// Ends the answer if a timeout is over, and has the task woken for the next one.
    fn poll_clocks(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornAnswer>>> {
        loop {
            let due = (self.last_heard + self.parts.idle).min(self.parts.due);
            if clock::now() >= due {
                return self.tear(Kind::UpstreamTimeout.code());
            }
            let is_first = self.timer.is_none();
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due.into())));
            if is_first {
                self.parts.cut.watch(cx);
                if self.parts.cut.is_cut() {
                    return self.tear(GATEWAY_SHUTDOWN);
                }
            }
            // A timer that fires too early is set again then, which saves a reset for each piece.
            if timer.deadline().into_std() > due {
                timer.as_mut().reset(due.into());
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            timer.as_mut().reset(due.into());
        }
    }

    fn end(&mut self, ending: Ending) {
        if self.is_served {
            let answer = self.facts(ending == Ending::Complete);
            self.call.charge(&answer);
        }
        let interrupted = |status| (AttemptOutcome::Interrupted, status);
        let (attempt, status) = match ending {
            Ending::Complete => (AttemptOutcome::Served, OK),
            Ending::Torn(code) => interrupted(code),
            Ending::Left => interrupted(Kind::ClientClosedRequest.code()),
        };
        self.call.end(attempt, status, None);
        let outcome = match ending {
            Ending::Complete => Outcome::Served,
            Ending::Torn(_) | Ending::Left => Outcome::Interrupted(status),
        };
        self.call.settlement.finish(&outcome);
    }
}

impl Drop for Relay {
    /// The client left.
    fn drop(&mut self) {
        self.end(Ending::Left);
    }
}
