//! The body of every response: empty, bytes, or a stream of events. Its end or its drop ends the request.
//!
//! hyper drops a body as soon as it has its last frame, also if the client has read nothing. So a large body is given in
//! pieces: hyper takes the next piece when it has written most of the ones before. The permits of the request are held until then.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use gw_engine::EventStream;
use gw_engine::error::{Error, Kind};
use gw_engine::passthrough::{RelayedBody, TornAnswer};
use http_body::{Body, Frame, SizeHint};

use crate::admission::Meter;
use crate::response::Content;
use crate::stall::{BodyPoll, note};

/// A body of more bytes is given in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;
/// hyper keeps fewer bytes of a body than this until they are written. The last bytes of a larger body are copied, so that they do
/// not keep the memory of the whole body.
const WAITING_BYTES: usize = 512 << 10;

/// Observes a response body. It is dropped after the body, so that the engine has settled the call by then.
pub(crate) trait BodyObserver {
    /// The connection took these bytes. A whole body is told once, with its first piece.
    fn sent(&mut self, bytes: &Bytes);
    /// The body ended.
    fn completed(&mut self);
    /// Measures the work on the body, if it is measured.
    fn meter(&mut self) -> Option<&mut Meter> {
        None
    }
    /// The stream panicked.
    fn panicked(&mut self);
    /// The connection took a piece of a body that is no stream of events.
    fn sent_piece(&mut self, bytes: &Bytes);
    /// The response must end by `deadline`, whether its client reads or not.
    fn deadline(&mut self, deadline: Instant);
}

/// A stream that may have a deadline.
pub(crate) trait StreamDeadline {
    /// The time by which the stream must end. It may change until an upstream has answered.
    fn deadline(&self) -> Option<Instant>;

    /// The stream is over, and its client must not take it for a complete one.
    fn torn(&self) -> Option<TornAnswer> {
        None
    }
}

impl StreamDeadline for Box<EventStream> {
    fn torn(&self) -> Option<TornAnswer> {
        EventStream::torn(self).map(|code| TornAnswer { code })
    }

    fn deadline(&self) -> Option<Instant> {
        EventStream::due(self)
    }
}

/// A response body and its observer.
#[derive(Debug)]
pub(crate) struct Outgoing<S, W> {
    content: Content<S>,
    deadline: Option<Instant>,
    /// The bytes of a whole body at its first piece; 0 before.
    whole_bytes: usize,
    /// The client is about to learn that the answer broke off.
    is_tearing: bool,
    /// In a box, because hyper moves a response several times.
    observer: Box<W>,
}

impl<S: StreamDeadline, W: BodyObserver> Outgoing<S, W> {
    /// The client must have taken a whole body by `deadline`. A stream has its own deadline.
    pub(crate) fn new(content: Content<S>, deadline: Instant, mut observer: Box<W>) -> Self {
        let deadline = match &content {
            Content::Empty => {
                observer.completed();
                None
            }
            // The connection asks for no piece of a body that has none.
            Content::Relay(body) if body.is_over() => {
                observer.completed();
                None
            }
            Content::Full(_) => Some(deadline),
            Content::Stream(stream) => stream.deadline(),
            Content::Relay(body) => body.due(),
            Content::Live(_) => None,
        };
        if let Some(deadline) = deadline {
            observer.deadline(deadline);
            // The first byte of the body waits for the client already.
            note(BodyPoll::Gave);
        }
        Self { content, deadline, whole_bytes: 0, is_tearing: false, observer }
    }
}

impl<S, W: BodyObserver> Outgoing<S, W> {
    /// Breaks a stream off, when the connection has written what came: it does so when there is no further piece yet.
    fn tear(
        &mut self,
        torn: TornAnswer,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TornAnswer>>> {
        if !std::mem::replace(&mut self.is_tearing, true) {
            note(BodyPoll::Waits);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.end_torn(torn)
    }

    fn end_torn(&mut self, torn: TornAnswer) -> Poll<Option<Result<Frame<Bytes>, TornAnswer>>> {
        self.content = Content::Empty;
        self.observer.completed();
        Poll::Ready(Some(Err(torn)))
    }
}

impl<S, W> Body for Outgoing<S, W>
where
    S: Body<Data = Bytes, Error = Infallible> + StreamDeadline + Unpin,
    W: BodyObserver,
{
    type Data = Bytes;
    type Error = TornAnswer;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TornAnswer>>> {
        let this = &mut *self;
        let frame = match &mut this.content {
            Content::Empty => None,
            Content::Full(bytes) => {
                if this.whole_bytes == 0 {
                    this.whole_bytes = bytes.len();
                    this.observer.sent(bytes);
                }
                if bytes.len() > PIECE_BYTES {
                    let piece = bytes.split_to(PIECE_BYTES);
                    if bytes.len() <= WAITING_BYTES && this.whole_bytes > 2 * WAITING_BYTES {
                        *bytes = Bytes::copy_from_slice(bytes);
                        // Not again for the pieces of the copy.
                        this.whole_bytes = bytes.len();
                    }
                    note(BodyPoll::Gave);
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                Some(std::mem::take(bytes))
            }
            Content::Live(events) => match events.poll_next(cx) {
                Poll::Pending => {
                    note(BodyPoll::Waits);
                    return Poll::Pending;
                }
                Poll::Ready(Some(bytes)) => {
                    note(BodyPoll::Gave);
                    this.observer.sent(&bytes);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Poll::Ready(None) => None,
            },
            Content::Relay(body) => match std::task::ready!(poll_relay(body, &mut *this.observer, cx)) {
                Some(Ok(piece)) if !body.is_over() => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Some(Err(torn)) => return this.end_torn(torn),
                last => last.and_then(Result::ok),
            },
            // A panic in a stream of the engine must end this stream alone.
            Content::Stream(stream) => {
                let poll = AssertUnwindSafe(|| Pin::new(&mut *stream).poll_frame(cx));
                let polled = match this.observer.meter() {
                    None => catch_unwind(poll),
                    Some(meter) => meter.measure(|| catch_unwind(poll)),
                };
                let deadline = stream.deadline();
                if deadline != this.deadline
                    && let Some(at) = deadline
                {
                    this.deadline = deadline;
                    this.observer.deadline(at);
                }
                match polled {
                    Ok(Poll::Pending) => {
                        note(BodyPoll::Waits);
                        return Poll::Pending;
                    }
                    Ok(Poll::Ready(Some(Ok(frame)))) => {
                        note(BodyPoll::Gave);
                        if let Some(bytes) = frame.data_ref() {
                            this.observer.sent(bytes);
                        }
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    Ok(Poll::Ready(None)) => match stream.torn() {
                        None => None,
                        Some(torn) => return this.tear(torn, cx),
                    },
                    Err(_) => {
                        this.observer.panicked();
                        let events = panic_events();
                        this.observer.sent(&events);
                        Some(events)
                    }
                }
            }
        };
        let finished = std::mem::replace(&mut this.content, Content::Empty);
        // A stream that panicked may panic again when it is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(finished)));
        this.observer.completed();
        note(if frame.is_some() { BodyPoll::Gave } else { BodyPoll::Waits });
        Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Relay(body) => body.is_over(),
            Content::Full(_) | Content::Stream(_) | Content::Live(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Full(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Content::Relay(body) => body.known_bytes().map(SizeHint::with_exact).unwrap_or_default(),
            Content::Stream(_) | Content::Live(_) => SizeHint::default(),
        }
    }
}

/// The next piece of an answer that passes through.
fn poll_relay(
    body: &mut RelayedBody,
    observer: &mut impl BodyObserver,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, TornAnswer>>> {
    let polled = body.poll_piece(cx);
    note(if polled.is_pending() { BodyPoll::Waits } else { BodyPoll::Gave });
    if let Poll::Ready(Some(Ok(piece))) = &polled {
        observer.sent_piece(piece);
    }
    polled
}

/// The last events of a stream that panicked.
fn panic_events() -> Bytes {
    let error = Error::new(Kind::InternalError, "The gateway failed while streaming this answer.").body();
    [b"data: ".as_slice(), &error, b"\n\ndata: [DONE]\n\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, StreamBody};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Seen {
        bytes: AtomicUsize,
        completed: AtomicUsize,
        panicked: AtomicUsize,
    }

    impl BodyObserver for Arc<Seen> {
        fn sent(&mut self, bytes: &Bytes) {
            self.bytes.fetch_add(bytes.len(), Ordering::AcqRel);
        }
        fn completed(&mut self) {
            self.completed.fetch_add(1, Ordering::AcqRel);
        }
        fn panicked(&mut self) {
            self.panicked.fetch_add(1, Ordering::AcqRel);
        }
        fn sent_piece(&mut self, bytes: &Bytes) {
            self.sent(bytes);
        }
        fn deadline(&mut self, _deadline: Instant) {}
    }

    impl<T> StreamDeadline for StreamBody<T> {
        fn deadline(&self) -> Option<Instant> {
            None
        }
    }

    type NoFrames = futures_util::stream::Empty<Result<Frame<Bytes>, Infallible>>;

    #[tokio::test]
    async fn a_full_body_is_complete_once_it_is_taken() {
        let seen = Arc::new(Seen::default());
        let content = Content::<StreamBody<NoFrames>>::Full(Bytes::from_static(b"{}"));
        let mut body = Outgoing::new(content, Instant::now(), Box::new(Arc::clone(&seen)));
        assert_eq!(body.size_hint().exact(), Some(2));
        assert_eq!(seen.completed.load(Ordering::Acquire), 0);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "{}");
        assert!(body.is_end_stream());
        assert_eq!((seen.completed.load(Ordering::Acquire), seen.bytes.load(Ordering::Acquire)), (1, 2));
    }

    #[tokio::test]
    async fn a_large_body_is_complete_when_its_last_piece_is_taken_and_frees_its_memory_before() {
        struct Owner(Vec<u8>, Arc<AtomicUsize>);
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        impl Drop for Owner {
            fn drop(&mut self) {
                self.1.fetch_add(1, Ordering::AcqRel);
            }
        }
        let (seen, freed) = (Arc::new(Seen::default()), Arc::new(AtomicUsize::new(0)));
        let text: Vec<u8> = (0..3 << 20).map(|at: usize| at.to_le_bytes()[1]).collect();
        let owned = Bytes::from_owner(Owner(text.clone(), Arc::clone(&freed)));
        let content = Content::<StreamBody<NoFrames>>::Full(owned);
        let mut body = Outgoing::new(content, Instant::now(), Box::new(Arc::clone(&seen)));
        assert_eq!(body.size_hint().exact(), Some(3 << 20));
        let mut taken = Vec::new();
        while taken.len() < text.len() {
            assert_eq!(seen.completed.load(Ordering::Acquire), 0, "at {}", taken.len());
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            taken.extend_from_slice(&piece);
            assert_eq!(body.size_hint().exact(), Some((text.len() - taken.len()) as u64));
            drop(piece);
            let is_freed = text.len() - taken.len() <= WAITING_BYTES;
            assert_eq!(freed.load(Ordering::Acquire), usize::from(is_freed), "at {}", taken.len());
        }
        assert!(taken == text && body.is_end_stream());
        assert_eq!(
            (seen.completed.load(Ordering::Acquire), seen.bytes.load(Ordering::Acquire)),
            (1, 3 << 20)
        );
    }

    #[tokio::test]
    async fn a_panic_inside_a_stream_becomes_its_error_event() {
        let seen = Arc::new(Seen::default());
        let mut polls = 0;
        let stream = futures_util::stream::poll_fn(move |_| {
            polls += 1;
            assert!(polls < 2, "broken on purpose");
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"data: 1\n\n")))))
        });
        let body = Outgoing::new(
            Content::Stream(StreamBody::new(stream)),
            Instant::now(),
            Box::new(Arc::clone(&seen)),
        );
        let text = body.collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&text).unwrap();
        assert!(text.starts_with("data: 1\n\ndata: {\"error\":{"), "{text}");
        assert!(text.contains("\"internal_error\"") && text.ends_with("\n\ndata: [DONE]\n\n"), "{text}");
        assert_eq!(seen.panicked.load(Ordering::Acquire), 1);
    }

    #[test]
    fn a_dropped_stream_is_never_complete() {
        let seen = Arc::new(Seen::default());
        let stream = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>());
        drop(Outgoing::new(Content::Stream(stream), Instant::now(), Box::new(Arc::clone(&seen))));
        assert_eq!(seen.completed.load(Ordering::Acquire), 0);
    }
}
