//! The hand-over of a connection from HTTP to another protocol, after its 101.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// The socket of a connection, perhaps inside TLS.
pub(crate) trait RawIo: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> RawIo for T {}

/// Serves a connection to its end, once its 101 is written. The token is cancelled when the connection should end.
pub(crate) type Takeover =
    Box<dyn FnOnce(Box<dyn RawIo>, CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The place where a request leaves its takeover for the connection.
#[derive(Default)]
pub(crate) struct TakeoverSlot(Mutex<Option<Takeover>>);

impl TakeoverSlot {
    pub(crate) fn leave(&self, takeover: Takeover) {
        *self.0.lock() = Some(takeover);
    }

    pub(crate) fn take(&self) -> Option<Takeover> {
        self.0.lock().take()
    }
}

impl fmt::Debug for TakeoverSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeoverSlot").finish_non_exhaustive()
    }
}
