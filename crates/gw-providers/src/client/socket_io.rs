//! The connection under a WebSocket to an upstream: the bytes that it reads are counted, and large frames are divided.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gw_wire::websocket_frames::FrameDivider;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf};

/// A connection that waits needs no larger buffer.
const BUFFER_BYTES: usize = 1 << 10;
/// The end of the head of an answer.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A connection to an upstream, perhaps inside TLS.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Connection for T {}

/// Counts the bytes that an upstream sends.
pub trait ReadMeter: Send + fmt::Debug {
    /// Counts these bytes.
    ///
    /// # Errors
    /// The socket must be read no further.
    fn add(&self, bytes: usize) -> io::Result<()>;
}

/// The connection under a WebSocket.
#[derive(Debug)]
pub struct SocketIo {
    /// Its buffer keeps the frames that come with the head of the answer apart from the head.
    connection: BufReader<Box<dyn Connection>>,
    /// The bytes of [`HEAD_END`] that came last. None: the head is over.
    head_end: Option<usize>,
    frames: FrameDivider,
    meter: Option<Box<dyn ReadMeter>>,
}

impl SocketIo {
    /// A connection on which the answer to the handshake is to come.
    pub(crate) fn before_handshake(connection: Box<dyn Connection>, most_bytes: usize) -> Self {
        Self { head_end: Some(0), ..Self::after_handshake(connection, most_bytes) }
    }

    /// A connection on which frames come.
    pub(crate) fn after_handshake(connection: Box<dyn Connection>, most_bytes: usize) -> Self {
        Self {
            connection: BufReader::with_capacity(BUFFER_BYTES, connection),
            head_end: None,
            frames: FrameDivider::new(most_bytes),
            meter: None,
        }
    }

    /// Counts the bytes that come from now on.
    pub fn count_reads(&mut self, meter: Box<dyn ReadMeter>) {
        self.meter = Some(meter);
    }

    /// Reads the head of the answer, and nothing behind it.
    fn poll_head(
        &mut self,
        matched: usize,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let available = ready!(Pin::new(&mut self.connection).poll_fill_buf(cx))?;
        let mut matched = matched;
        let mut taken = 0;
        for byte in available.iter().take(buf.remaining()) {
            matched = match HEAD_END.get(matched) {
                Some(expected) if expected == byte => matched + 1,
                _ => usize::from(HEAD_END.first() == Some(byte)),
            };
            taken += 1;
            if matched == HEAD_END.len() {
                break;
            }
        }
        buf.put_slice(available.get(..taken).unwrap_or_default());
        Pin::new(&mut self.connection).consume(taken);
        self.head_end = Some(matched).filter(|matched| *matched < HEAD_END.len());
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for SocketIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(matched) = this.head_end {
            return this.poll_head(matched, cx, buf);
        }
        let before = buf.filled().len();
        ready!(poll_divided(&mut this.frames, Pin::new(&mut this.connection), cx, buf))?;
        if let Some(meter) = &this.meter {
            meter.add(buf.filled().len() - before)?;
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads frames of a connection, of which large ones come in fragments.
///
/// # Errors
/// The connection's own.
pub fn poll_divided<T: AsyncRead>(
    frames: &mut FrameDivider,
    mut connection: Pin<&mut T>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let waiting = frames.waiting();
    if !waiting.is_empty() {
        let count = waiting.len().min(buf.remaining());
        buf.put_slice(waiting.get(..count).unwrap_or_default());
        frames.delivered(count);
        return Poll::Ready(Ok(()));
    }
    loop {
        let held = frames.held().len();
        let limit = frames.read_limit().saturating_add(held).min(buf.remaining());
        let space = buf.initialize_unfilled_to(limit);
        let Some((begin, rest)) = space.split_at_mut_checked(held).filter(|(_, rest)| !rest.is_empty())
        else {
            return Poll::Ready(Err(io::ErrorKind::InvalidInput.into()));
        };
        begin.copy_from_slice(frames.held());
        let mut part = ReadBuf::new(rest);
        ready!(connection.as_mut().poll_read(cx, &mut part))?;
        let read = part.filled().len();
        if read == 0 {
            return Poll::Ready(Ok(()));
        }
        let delivered = frames.divide(space.get_mut(..held + read).unwrap_or_default());
        buf.advance(delivered);
        if delivered > 0 {
            return Poll::Ready(Ok(()));
        }
    }
}

impl AsyncWrite for SocketIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn the_head_comes_alone_and_the_frames_behind_it_are_divided() {
        let (near, mut far) = duplex(1 << 20);
        let head = b"HTTP/1.1 101 X\r\na: b\r\r\n\r\n";
        let payload = vec![5; 70_000];
        let mut frame = vec![0x81, 127];
        frame.extend(70_000_u64.to_be_bytes());
        far.write_all(&[&head[..], &frame, &payload].concat()).await.unwrap();
        drop(far);
        let mut io = SocketIo::before_handshake(Box::new(near), 1 << 20);
        let mut read = vec![0; 4096];
        assert_eq!(io.read(&mut read).await.unwrap(), head.len());
        let mut frames = Vec::new();
        io.read_to_end(&mut frames).await.unwrap();
        assert_eq!(frames.len(), 10 + 70_000 + 4);
        assert_eq!(&frames[..10], [0x01, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(&frames[10 + 65_536..][..4], [0x80, 126, 0x11, 0x70]);
    }
}
