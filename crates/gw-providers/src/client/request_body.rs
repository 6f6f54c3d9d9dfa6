//! The body of a request: bytes that are there, or pieces that come while the request is sent.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The pieces of a body that comes while it is sent.
pub trait UploadSource: Send + Sync {
    /// The next piece, never empty; None: the body is complete. After an error it never will be.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornUpload>>>;
}

/// A body broke off before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body of the request broke off")]
pub struct TornUpload;

/// A body that comes while it is sent.
pub struct StreamedBody {
    /// The pieces.
    pub source: Box<dyn UploadSource>,
    /// The sum of their bytes, if it is known.
    pub length: Option<u64>,
}

impl fmt::Debug for StreamedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedBody").field("length", &self.length).finish_non_exhaustive()
    }
}

/// The body of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    /// The whole body; empty if it is streamed.
    pub(crate) bytes: Bytes,
    /// The body, if it is streamed. Boxed, because few are, and a request is moved often.
    pub(crate) streamed: Option<Box<StreamedBody>>,
}

impl RequestBody {
    /// The number of bytes; None: it is not known.
    pub(crate) fn length(&self) -> Option<u64> {
        match &self.streamed {
            None => Some(self.bytes.len() as u64),
            Some(streamed) => streamed.length,
        }
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, streamed: None }
    }
}

impl From<StreamedBody> for RequestBody {
    fn from(streamed: StreamedBody) -> Self {
        Self { bytes: Bytes::new(), streamed: Some(Box::new(streamed)) }
    }
}

impl From<TornUpload> for io::Error {
    fn from(torn: TornUpload) -> Self {
        Self::other(torn)
    }
}

/// The body as HTTP/2 sends it.
impl Body for RequestBody {
    type Data = Bytes;
    type Error = TornUpload;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TornUpload>>> {
        let Some(streamed) = &mut self.streamed else {
            let bytes = std::mem::take(&mut self.bytes);
            return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))));
        };
        let piece = ready!(streamed.source.poll_piece(cx));
        if piece.is_none() {
            self.streamed = None;
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.streamed.is_none() && self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map(SizeHint::with_exact).unwrap_or_default()
    }
}
