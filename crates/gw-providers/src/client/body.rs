//! A response body from an upstream, decoded, whatever it arrives on.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gw_wire::failure::{Failure, FailureKind};
use hyper::body::Incoming;
use tokio::task::coop;
use tokio::time::Instant;

use super::clock::Clock;
use super::failures;
use super::gunzip::Gunzip;
use super::http1::{Exchange, Http1, poll_data};
use super::http2::Http2Stream;
use super::pool::Pool;
use crate::demo::DemoBody;

/// Bytes that a document which has begun must bring in the time of a pause: what drips more slowly stands still.
const MIN_PROGRESS_BYTES: usize = 512;

/// Bytes that count as one step of the work that a task may do before it yields. A piece of any size counts as one at least.
const STEP_BYTES: usize = 4 * 1024;

/// What may still come after the end of an answer that [`UpstreamBody::finish`] waits for.
const FINISH_BYTES: usize = 64 * 1024;
/// How long it waits.
const FINISH_TIME: Duration = Duration::from_secs(2);

/// What is said of a body that takes longer than its call may.
const LATE_BODY: &str = "the body was not over in time";

/// The next piece of a body; None = it ended as its framing says.
pub type BodyChunk = Option<Result<Bytes, Failure>>;

/// A response body. It owns its connection: dropping it before the end closes the upstream request at once (HTTP/1.1:
/// the socket; HTTP/2: `RST_STREAM`).
pub struct UpstreamBody {
    source: BodySource,
    gunzip: Option<Box<Gunzip>>,
}

enum BodySource {
    /// Over, or never there.
    Empty,
    Http1(Exchange),
    Http2 {
        incoming: Incoming,
        clock: Clock,
        _stream: Http2Stream,
    },
    Demo(DemoBody),
}

impl UpstreamBody {
    pub(crate) fn empty() -> Self {
        Self { source: BodySource::Empty, gunzip: None }
    }

    pub(crate) fn http1(connection: Box<Http1>, incoming: Incoming, pool: &Arc<Pool>) -> Self {
        Self {
            source: BodySource::Http1(Exchange::new(connection, incoming, Arc::clone(pool))),
            gunzip: None,
        }
    }

    pub(crate) fn http2(incoming: Incoming, stream: Http2Stream) -> Self {
        let source = BodySource::Http2 { incoming, clock: Clock::default(), _stream: stream };
        Self { source, gunzip: None }
    }

    pub(crate) fn demo(body: DemoBody) -> Self {
        Self { source: BodySource::Demo(body), gunzip: None }
    }

    /// The body is gzip.
    pub(crate) fn decode_gzip(&mut self) {
        self.gunzip = Some(Box::new(Gunzip::new()));
    }

    /// The next piece, never empty; None = the body ended as its framing says.
    ///
    /// Pieces use up the budget of the task (128 pieces, or 512 KiB): an upstream that sends without a pause cannot keep the
    /// thread from its other connections. The task is woken again at once.
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

    /// The whole body: at most `cap` bytes, no pause longer than `idle`, over by `deadline`; once it has begun, at least 512 bytes
    /// in every `idle`.
    ///
    /// # Errors
    /// `InvalidResponse` when it is longer than `cap`, cut short or undecodable; `Timeout`.
    pub async fn collect(mut self, cap: usize, idle: Duration, deadline: Instant) -> Result<Bytes, Failure> {
        let mut whole = CollectedBody::default();
        let mut own_clock = Clock::default();
        let mut waiting_since: Option<Instant> = None;
        // Blanks before a document are how some upstreams say that they are at work; behind them an answer comes at once.
        let mut begun = false;
        let mut lately = 0;
        poll_fn(|cx| {
            loop {
                match self.poll_chunk(cx) {
                    Poll::Ready(Some(Ok(piece))) => {
                        // A body that comes without a pause has its deadline, too.
                        if Instant::now() >= deadline {
                            return Poll::Ready(Err(failures::body_timeout(LATE_BODY)));
                        }
                        if whole.len() + piece.len() > cap {
                            return Poll::Ready(Err(failures::invalid("the body is over its limit")));
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
                return Poll::Ready(Err(failures::body_timeout(LATE_BODY)));
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

    /// The answer is complete although the body may not have ended yet (`data: [DONE]` came, its last chunk did not):
    /// waits a moment for the end on a task, so that the connection can be used again.
    pub fn finish(mut self) {
        let mut nobody = Context::from_waker(std::task::Waker::noop());
        if !matches!(self.poll_raw(&mut nobody), Poll::Pending) {
            // Over, or something came that does not belong there: dropping it does what is left to do.
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
        let polled = match &mut self.source {
            BodySource::Empty => return Poll::Ready(None),
            BodySource::Http1(exchange) => exchange.poll_chunk(cx),
            BodySource::Http2 { incoming, .. } => poll_data(incoming, cx),
            BodySource::Demo(body) => return body.poll_chunk(cx),
        };
        polled.map(|item| item.map(|chunk| chunk.map_err(|error| failures::broken(failures::chain(&error)))))
    }

    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<BodyChunk> {
        loop {
            let Some(gunzip) = &mut self.gunzip else { return Poll::Ready(None) };
            match gunzip.next() {
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(self.undecodable(&error)))),
            }
            // Input that decodes to nothing uses up the budget as well.
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

    /// Nothing after a decoding error can be trusted, the connection's framing included.
    fn undecodable(&mut self, error: &io::Error) -> Failure {
        self.source = BodySource::Empty;
        self.gunzip = None;
        failures::invalid(format_args!("gzip: {error}"))
    }

    fn clock(&mut self) -> Option<&mut Clock> {
        match &mut self.source {
            BodySource::Empty | BodySource::Demo(_) => None,
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

/// Takes so many more steps off the budget of the task.
fn spend(steps: usize, cx: &mut Context<'_>) {
    for _ in 0..steps {
        let Poll::Ready(step) = coop::poll_proceed(cx) else { return };
        step.made_progress();
    }
}

/// A whole answer that broke off is an answer that cannot be read.
fn of_whole(mut failure: Failure) -> Failure {
    if failure.kind == FailureKind::StreamBroken {
        failure.kind = FailureKind::InvalidResponse;
    }
    failure
}

/// Collected pieces; a body of one piece is not copied.
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
