//! The response body of an upstream, decoded, over any transport.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gw_wire::failure::{Failure, FailureKind};
use http_body::Body;
use hyper::body::Incoming;
use tokio::task::coop;
use tokio::time::Instant;

use super::clock::Clock;
use super::failures;
use super::gunzip::Gunzip;
use super::http1::Exchange;
use super::http2::Http2Stream;
use crate::in_process::InProcessBody;

/// The fewest bytes of a started body per idle timeout. A slower body counts as stalled.
const MIN_PROGRESS_BYTES: usize = 512;

/// Bytes that cost one step of a task's budget. A piece costs at least one step.
const STEP_BYTES: usize = 4 * 1024;

/// The most bytes that [`UpstreamBody::finish`] reads after the end of an answer.
const FINISH_BYTES: usize = 64 * 1024;
/// The longest time that [`UpstreamBody::finish`] waits.
const FINISH_TIME: Duration = Duration::from_secs(2);

/// The failure detail of a body that exceeds the call's deadline.
const LATE_BODY: &str = "the body did not end in time";

/// The next piece of a body; None at the regular end.
pub type BodyChunk = Option<Result<Bytes, Failure>>;

/// The memory for a complete body.
pub trait BodyRoom {
    /// Takes memory for a body of which `bytes` bytes have arrived. While it is pending, the body is not read.
    ///
    /// # Errors (in the poll)
    /// There will be no room: the body is not read further.
    fn poll_grow(&mut self, bytes: usize, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// The failure of a body that has waited for memory and is not complete at its deadline. The upstream did not cause it.
    fn late(&self) -> Failure;
}

/// Room for every body that `cap` allows.
struct UnboundedRoom;

impl BodyRoom for UnboundedRoom {
    fn poll_grow(&mut self, _bytes: usize, _cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn late(&self) -> Failure {
        failures::body_timeout(LATE_BODY)
    }
}

/// A response body with its connection. Dropping it before the end closes the upstream request at once (HTTP/1.1: the
/// socket; HTTP/2: `RST_STREAM`).
pub struct UpstreamBody {
    source: BodySource,
    gunzip: Option<Box<Gunzip>>,
}

enum BodySource {
    /// The body has ended, or never existed.
    Empty,
    Http1(Exchange),
    Http2 {
        incoming: Incoming,
        clock: Clock,
        _stream: Http2Stream,
    },
    InProcess(Box<dyn InProcessBody>),
}

impl UpstreamBody {
    pub(crate) fn empty() -> Self {
        Self { source: BodySource::Empty, gunzip: None }
    }

    pub(crate) fn http1(exchange: Exchange) -> Self {
        Self { source: BodySource::Http1(exchange), gunzip: None }
    }

    pub(crate) fn http2(incoming: Incoming, stream: Http2Stream) -> Self {
        let source = BodySource::Http2 { incoming, clock: Clock::default(), _stream: stream };
        Self { source, gunzip: None }
    }

    pub(crate) fn in_process(body: Box<dyn InProcessBody>) -> Self {
        Self { source: BodySource::InProcess(body), gunzip: None }
    }

    /// Has each piece hold the data of one HTTP/1.1 chunk at most. Otherwise a piece is everything that has arrived.
    pub fn read_by_chunk(&mut self) {
        if let BodySource::Http1(exchange) = &mut self.source {
            exchange.read_by_chunk();
        }
    }

    /// Marks the body as gzip.
    pub(crate) fn decode_gzip(&mut self) {
        self.gunzip = Some(Box::new(Gunzip::new()));
    }

    /// The next piece, never empty; None at the regular end.
    ///
    /// Pieces use up the task's budget (128 pieces, or 512 KiB), so an upstream that sends without a pause cannot keep
    /// the thread from its other connections. The task is woken again at once.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<BodyChunk> {
        let step = ready!(coop::poll_proceed(cx));
        let chunk = ready!(if self.gunzip.is_some() { self.poll_decoded(cx) } else { self.poll_raw(cx) });
        step.made_progress();
        if let Some(Ok(piece)) = &chunk {
            spend(piece.len() / STEP_BYTES, cx);
        }
        Poll::Ready(chunk)
    }

    /// [`UpstreamBody::poll_chunk`] as a future.
    pub async fn chunk(&mut self) -> BodyChunk {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// [`UpstreamBody::collect_in`] without a bound for the memory of all bodies.
    ///
    /// # Errors
    /// As [`UpstreamBody::collect_in`].
    pub async fn collect(self, cap: usize, idle: Duration, deadline: Instant) -> Result<Bytes, Failure> {
        self.collect_in(&mut UnboundedRoom, cap, idle, deadline).await
    }

    /// The complete body: at most `cap` bytes, no pause longer than `idle`, complete by `deadline`. Once the body has
    /// begun, it must bring at least 512 bytes in every `idle`.
    ///
    /// # Errors
    /// `InvalidResponse` when the body is longer than `cap`, cut short or undecodable; `Timeout`; the failure of the room.
    pub async fn collect_in(
        mut self,
        room: &mut (dyn BodyRoom + Send),
        cap: usize,
        idle: Duration,
        deadline: Instant,
    ) -> Result<Bytes, Failure> {
        let mut whole = CollectedBody::default();
        let mut own_clock = Clock::default();
        let mut waiting_since: Option<Instant> = None;
        // Some upstreams send blanks while they work. The document follows in one go.
        let mut begun = false;
        let mut lately = 0;
        // A piece that waits for room, and whether one has waited.
        let (mut waiting_piece, mut has_waited): (Option<Bytes>, bool) = (None, false);
        poll_fn(|cx| {
            loop {
                let polled = match waiting_piece.take() {
                    Some(piece) => Poll::Ready(Some(Ok(piece))),
                    None => self.poll_chunk(cx),
                };
                match polled {
                    Poll::Ready(Some(Ok(piece))) => {
                        // A body that comes without a pause is also bound by the deadline.
                        if Instant::now() >= deadline {
                            return Poll::Ready(Err(late(room, has_waited)));
                        }
                        if whole.len() + piece.len() > cap {
                            return Poll::Ready(Err(failures::invalid("the body is larger than its limit")));
                        }
                        match room.poll_grow(whole.len() + piece.len(), cx) {
                            Poll::Ready(Ok(())) => {}
                            Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                            Poll::Pending => {
                                // The upstream is not the one that pauses.
                                waiting_since = None;
                                (waiting_piece, has_waited) = (Some(piece), true);
                                break;
                            }
                        }
                        begun |= piece.iter().any(|byte| !byte.is_ascii_whitespace());
                        lately += piece.len();
                        whole.push(piece);
                        if !begun || lately >= MIN_PROGRESS_BYTES {
                            waiting_since = None;
                            lately = 0;
                        }
                    }
                    Poll::Ready(Some(Err(failure))) => return Poll::Ready(Err(of_whole(failure))),
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Pending => break,
                }
            }
            let now = Instant::now();
            let idle_until = *waiting_since.get_or_insert(now) + idle;
            if now >= deadline {
                return Poll::Ready(Err(late(room, has_waited)));
            }
            if now >= idle_until {
                return Poll::Ready(Err(failures::body_timeout("the body stalled")));
            }
            let clock = self.clock().unwrap_or(&mut own_clock);
            clock.arm(idle_until.min(deadline));
            if clock.poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await?;
        Ok(whole.finish())
    }

    /// Ends the use of a body whose answer is complete, for example after `data: [DONE]`. A task waits briefly for the
    /// body's end, so that the connection can be used again.
    pub fn finish(mut self) {
        let mut nobody = Context::from_waker(std::task::Waker::noop());
        if !matches!(self.poll_raw(&mut nobody), Poll::Pending) {
            // The body has ended, or unexpected data came. Dropping the body does the rest.
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let mut left = FINISH_BYTES;
                let drain = async {
                    while let Some(Ok(piece)) = poll_fn(|cx| self.poll_raw(cx)).await {
                        match left.checked_sub(piece.len()) {
                            Some(less) => left = less,
                            None => return,
                        }
                    }
                };
                let _in_time = tokio::time::timeout(FINISH_TIME, drain).await;
            });
        }
    }

    fn poll_raw(&mut self, cx: &mut Context<'_>) -> Poll<BodyChunk> {
        match &mut self.source {
            BodySource::Empty => Poll::Ready(None),
            BodySource::Http1(exchange) => exchange.poll_chunk(cx),
            BodySource::Http2 { incoming, .. } => poll_data(incoming, cx),
            BodySource::InProcess(body) => body.poll_chunk(cx),
        }
    }

    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<BodyChunk> {
        loop {
            let Some(gunzip) = &mut self.gunzip else { return Poll::Ready(None) };
            match gunzip.next() {
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(self.undecodable(&error)))),
            }
            // Input that decodes to nothing also uses the budget.
            let step = ready!(coop::poll_proceed(cx));
            let raw = ready!(self.poll_raw(cx));
            step.made_progress();
            match raw {
                Some(Ok(chunk)) => {
                    spend(chunk.len() / STEP_BYTES, cx);
                    if let Some(gunzip) = &mut self.gunzip {
                        gunzip.push(chunk);
                    }
                }
                Some(Err(failure)) => return Poll::Ready(Some(Err(failure))),
                None => {
                    self.source = BodySource::Empty;
                    let Some(mut gunzip) = self.gunzip.take() else { return Poll::Ready(None) };
                    return Poll::Ready(match gunzip.finish() {
                        Ok(piece) => piece.map(Ok),
                        Err(error) => Some(Err(self.undecodable(&error))),
                    });
                }
            }
        }
    }

    /// After a decoding error neither the body nor the connection's framing can be trusted.
    fn undecodable(&mut self, error: &io::Error) -> Failure {
        self.source = BodySource::Empty;
        self.gunzip = None;
        failures::invalid(format_args!("gzip: {error}"))
    }

    fn clock(&mut self) -> Option<&mut Clock> {
        match &mut self.source {
            BodySource::Empty | BodySource::InProcess(_) => None,
            BodySource::Http1(exchange) => exchange.clock(),
            BodySource::Http2 { clock, .. } => Some(clock),
        }
    }
}

impl std::fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamBody").finish_non_exhaustive()
    }
}

/// The next data frame of an HTTP/2 body; trailers are dropped.
fn poll_data(incoming: &mut Incoming, cx: &mut Context<'_>) -> Poll<BodyChunk> {
    loop {
        match ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                _ => {}
            },
            Some(Err(error)) => return Poll::Ready(Some(Err(failures::broken(failures::chain(&error))))),
            None => return Poll::Ready(None),
        }
    }
}

/// Takes `steps` more steps off the task's budget.
fn spend(steps: usize, cx: &mut Context<'_>) {
    for _ in 0..steps {
        let Poll::Ready(step) = coop::poll_proceed(cx) else { return };
        step.made_progress();
    }
}

/// The failure of a body at its deadline. One that has waited for the gateway's memory did not have its time.
fn late(room: &dyn BodyRoom, has_waited: bool) -> Failure {
    if has_waited { room.late() } else { failures::body_timeout(LATE_BODY) }
}

/// A complete answer that broke off is an invalid response.
fn of_whole(mut failure: Failure) -> Failure {
    if failure.kind == FailureKind::StreamBroken {
        failure.kind = FailureKind::InvalidResponse;
    }
    failure
}

/// Collected pieces. A body of one piece is not copied.
#[derive(Default)]
struct CollectedBody {
    first: Bytes,
    rest: BytesMut,
}

impl CollectedBody {
    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = piece;
            return;
        }
        if self.rest.is_empty() {
            self.rest.reserve((self.first.len() + piece.len()).next_power_of_two());
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&piece);
    }

    fn finish(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}
