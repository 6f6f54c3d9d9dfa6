//! A body of server-sent events that is no answer of the engine.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::Stream;

/// The events of a body.
pub(crate) struct EventSource(Pin<Box<dyn Stream<Item = Bytes> + Send>>);

impl fmt::Debug for EventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSource").finish_non_exhaustive()
    }
}

impl EventSource {
    pub(crate) fn new(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Box::pin(events))
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.as_mut().poll_next(cx)
    }
}
