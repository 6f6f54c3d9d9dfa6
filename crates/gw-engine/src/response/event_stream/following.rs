//! A stream of events that are made elsewhere: a stored response in pieces, or a response in the background.

use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use http_body::Frame;

use crate::clock;
use crate::read_memory::ReadPermit;
use crate::response::event_stream::EventStream;
use crate::response::event_stream::state::{BackgroundEvents, Polled, StreamState};
use crate::shutdown::CutoffWatch;

/// The time in which a client must read a stored response, or the events of a running one so far.
pub(crate) const READING_TIME: Duration = Duration::from_secs(600);

impl EventStream {
    /// A stream of the events of a response that is made in the background. A client that has not taken all events for
    /// [`READING_TIME`] is disconnected. `permit` counts the client until then.
    pub(crate) fn background(
        events: BackgroundEvents,
        permit: ReadPermit,
        keepalive: Option<Duration>,
        cut: CutoffWatch,
    ) -> Self {
        let events: BackgroundEvents = Box::pin(events.map(move |event| {
            let _held = &permit;
            event
        }));
        let mut stream = Self::new(StreamState::Background(events), keepalive, cut, None);
        stream.reading_time = Some(READING_TIME);
        stream.due_by(clock::now() + READING_TIME)
    }

    pub(super) fn poll_background(&mut self, cx: &mut TaskContext<'_>) -> Option<Polled> {
        let StreamState::Background(events) = &mut self.state else { return None };
        match events.as_mut().poll_next(cx) {
            Poll::Ready(Some(bytes)) => {
                self.last_sent = clock::now();
                Some(Poll::Ready(Some(Ok(Frame::data(bytes)))))
            }
            Poll::Ready(None) => {
                self.state = StreamState::Over;
                None
            }
            Poll::Pending => {
                // The client has taken all events. Its time begins again.
                if let Some(time) = self.reading_time {
                    self.due = Some(clock::now() + time);
                }
                self.poll_clocks(cx)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::sync::Arc;

    use bytes::Bytes;
    use futures_util::stream;
    use http_body::Body;

    use super::*;
    use crate::read_memory::{READER_BYTES, ReadMemory};

    fn follower(events: BackgroundEvents, memory: &ReadMemory) -> EventStream {
        let permit = memory.hold("key", READER_BYTES).unwrap();
        EventStream::background(events, permit, None, CutoffWatch::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_behind_has_its_time_once_and_one_that_waits_has_it_anew() {
        let memory = ReadMemory::default();
        let events = stream::repeat(Bytes::from_static(b"event")).take(3).chain(stream::pending());
        let mut stream = follower(Box::pin(events), &memory);
        let begun = clock::now();
        assert_eq!(memory.gauge().get(), 128 << 10);
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(100)).await;
            poll_fn(|cx| Pin::new(&mut stream).poll_frame(cx)).await.unwrap().unwrap();
            assert_eq!(stream.due(), Some(begun + READING_TIME), "it is behind");
        }
        let waiting = poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_frame(cx).is_pending())).await;
        assert!(waiting);
        assert_eq!(stream.due(), Some(clock::now() + READING_TIME), "it waits for the next event");
        // A long silence of the model does not end it, because it is polled again before its time is over.
        let polls = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let seen = Arc::clone(&polls);
        let silence = async {
            poll_fn(|cx| {
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                assert!(stream.due().is_some_and(|due| due > clock::now()));
                Pin::new(&mut stream).poll_frame(cx)
            })
            .await
        };
        assert!(tokio::time::timeout(Duration::from_secs(3600), silence).await.is_err());
        drop(stream);
        assert_eq!(memory.gauge().get(), 0);
    }
}
