//! The body of a request that is sent upstream while the client sends it. At most two pieces wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use gw_providers::client::{StreamedBody, TornUpload, UploadSource};
use tokio::sync::mpsc;

/// The pieces that wait for the upstream.
const WAITING_PIECES: usize = 2;

/// Gives the pieces of a body.
#[derive(Debug)]
pub struct UploadSender {
    pieces: mpsc::Sender<Bytes>,
    is_complete: Arc<AtomicBool>,
}

/// A body that comes piece by piece.
#[derive(Debug)]
pub struct Upload {
    pieces: mpsc::Receiver<Bytes>,
    length: Option<u64>,
    /// The most bytes that it can have.
    most_bytes: u64,
    /// The client has sent all of it.
    is_complete: Arc<AtomicBool>,
    /// The upstream has got all of it.
    is_sent: Arc<AtomicBool>,
}

/// Whether the upstream has got a whole body.
#[derive(Clone, Debug)]
pub(super) struct UploadEnd(Option<Arc<AtomicBool>>);

/// A body with so many bytes. None: their number is not known, and there are at most `limit`.
#[must_use]
pub fn upload(length: Option<u64>, limit: u64) -> (UploadSender, Upload) {
    let (sender, pieces) = mpsc::channel(WAITING_PIECES);
    let (is_complete, is_sent) = (Arc::<AtomicBool>::default(), Arc::default());
    let most_bytes = length.unwrap_or(limit);
    let upload = Upload { pieces, length, most_bytes, is_complete: Arc::clone(&is_complete), is_sent };
    (UploadSender { pieces: sender, is_complete }, upload)
}

impl UploadSender {
    /// Gives the next piece, when the upstream has taken others. False: no upstream takes more.
    pub async fn send(&self, piece: Bytes) -> bool {
        piece.is_empty() || self.pieces.send(piece).await.is_ok()
    }

    /// The body is complete. A sender that is dropped without this tears it.
    pub fn finish(self) {
        self.is_complete.store(true, Ordering::Release);
    }
}

impl Upload {
    /// The most bytes that it can have.
    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// The body for the upstream, and whether the upstream has got all of it.
    pub(super) fn streamed(self) -> (StreamedBody, UploadEnd) {
        let end = UploadEnd(Some(Arc::clone(&self.is_sent)));
        (StreamedBody { length: self.length, source: Box::new(self) }, end)
    }
}

impl UploadSource for Upload {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornUpload>>> {
        self.pieces.poll_recv(cx).map(|piece| match piece {
            Some(piece) => Some(Ok(piece)),
            None if self.is_complete.load(Ordering::Acquire) => {
                self.is_sent.store(true, Ordering::Release);
                None
            }
            None => Some(Err(TornUpload)),
        })
    }
}

impl UploadEnd {
    /// The end of a body that was there at once.
    pub(super) const WHOLE: Self = Self(None);

    pub(super) fn is_reached(&self) -> bool {
        self.0.as_ref().is_none_or(|sent| sent.load(Ordering::Acquire))
    }
}
