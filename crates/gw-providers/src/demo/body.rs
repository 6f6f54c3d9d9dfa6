//! A response body that follows a script of pieces, pauses, a break or silence.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use tokio::time::Sleep;

use crate::client::BodyChunk;
use crate::in_process::InProcessBody;

/// Pieces of a body that are made one by one.
pub(super) type Pieces = Box<dyn Iterator<Item = Bytes> + Send + Sync>;

/// A step of a body.
pub(super) enum BodyStep {
    /// Bytes.
    Chunk(Bytes),
    /// Pieces that are made as they are read. None is empty.
    Pieces(Pieces),
    /// A pause.
    Pause(Duration),
    /// The connection breaks.
    Break,
    /// Silence without end.
    Silence,
}

/// The body of a demo response.
#[derive(Default)]
pub struct DemoBody {
    steps: VecDeque<BodyStep>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl DemoBody {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self::script([BodyStep::Chunk(bytes)])
    }

    pub(super) fn script(steps: impl IntoIterator<Item = BodyStep>) -> Self {
        Self { steps: steps.into_iter().collect(), pause: None }
    }

    /// Whether the body stays silent for ever.
    #[cfg(test)]
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.steps.front(), Some(BodyStep::Silence))
    }
}

impl InProcessBody for DemoBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<BodyChunk> {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            match self.steps.pop_front() {
                None => return Poll::Ready(None),
                Some(BodyStep::Chunk(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Some(BodyStep::Pieces(mut pieces)) => {
                    if let Some(piece) = pieces.next() {
                        self.steps.push_front(BodyStep::Pieces(pieces));
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
                Some(BodyStep::Pause(time)) => self.pause = Some(Box::pin(tokio::time::sleep(time))),
                Some(BodyStep::Break) => {
                    self.steps.clear();
                    let message = "The connection to the upstream provider broke.";
                    return Poll::Ready(Some(Err(Failure::new(FailureKind::StreamBroken, message))));
                }
                Some(BodyStep::Silence) => {
                    // The step stays for the next poll. It wakes no task, because every reader has a timeout.
                    self.steps.push_front(BodyStep::Silence);
                    return Poll::Pending;
                }
            }
        }
    }
}

impl fmt::Debug for DemoBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DemoBody").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}
