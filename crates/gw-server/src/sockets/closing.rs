//! The end of a socket: its close frame, and the time in which the client may read it.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// The longest time for the client's own close frame.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// The most bytes that are read, before the close, from a client that still sends.
const LINGER_BYTES: u64 = 64 << 10;

/// The reason for which the gateway closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The client closed, or is gone.
    Left,
    /// The process ends, or another one serves its clients.
    GoingAway,
    /// No message came for too long.
    Idle,
    /// The client broke the protocol.
    Protocol,
    /// The client sent a message that is not text.
    NotText,
    /// A text was not UTF-8.
    BadText,
    /// A message was larger than a body may be.
    TooLarge,
    /// There is no memory for the message.
    NoMemory,
    /// The socket has been open for as long as one may be.
    Expired,
    /// The key is no longer one.
    KeyRefused,
    /// The upstream's connection broke off.
    UpstreamGone,
}

impl Ending {
    /// The ending for an error of the framing.
    pub(super) fn of(error: &Error, is_memory_refused: bool) -> Self {
        match error {
            _ if is_memory_refused => Self::NoMemory,
            Error::Protocol(_) => Self::Protocol,
            Error::Utf8(_) => Self::BadText,
            Error::Capacity(CapacityError::MessageTooLong { .. }) => Self::TooLarge,
            _ => Self::Left,
        }
    }

    /// The frame that tells the client.
    pub(super) fn frame(self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            Self::Left => return None,
            Self::GoingAway => (CloseCode::Away, "the gateway is going away"),
            Self::Idle => (CloseCode::Away, "no message for too long"),
            Self::Protocol => (CloseCode::Protocol, "a frame breaks the protocol"),
            Self::NotText => (CloseCode::Unsupported, "messages are JSON text"),
            Self::BadText => (CloseCode::Invalid, "a text is not UTF-8"),
            Self::TooLarge => (CloseCode::Size, "the message is too large"),
            Self::NoMemory => (CloseCode::Again, "no memory for the message"),
            Self::Expired => (CloseCode::Away, "the session has reached its longest time"),
            Self::KeyRefused => (CloseCode::Policy, "the API key is not valid any more"),
            Self::UpstreamGone => (CloseCode::Error, "the connection to the upstream broke off"),
        };
        Some(CloseFrame { code, reason: reason.into() })
    }
}

/// Ends a socket. A client that still sends gets the time to read the close frame.
pub(super) async fn close<T>(socket: &mut WebSocketStream<T>, ending: Ending)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    close_with(socket, ending.frame()).await;
}

/// As [`close`], with this frame. None: the peer has closed, or is gone.
pub(super) async fn close_with<T>(socket: &mut WebSocketStream<T>, frame: Option<CloseFrame>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let closing = async {
        if let Some(frame) = frame {
            let _ = socket.close(Some(frame)).await;
        }
        // Reading also writes the answer to the client's close frame.
        while let Some(Ok(_)) = socket.next().await {}
        let io = socket.get_mut();
        if io.shutdown().await.is_ok() {
            let _ = tokio::io::copy(&mut io.take(LINGER_BYTES), &mut tokio::io::sink()).await;
        }
    };
    let _ = timeout(CLOSE_GRACE, closing).await;
}
