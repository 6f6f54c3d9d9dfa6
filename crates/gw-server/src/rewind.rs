//! An IO object whose first bytes were read by the protocol detection and are read again from here.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use crate::forward::forward_writes;

/// Reads `prefix` first, then `inner`.
#[derive(Debug)]
pub(crate) struct Rewind<T> {
    prefix: Bytes,
    inner: T,
}

impl<T> Rewind<T> {
    pub(crate) fn new(prefix: Bytes, inner: T) -> Self {
        Self { prefix, inner }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Rewind<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        let count = self.prefix.len().min(buf.remaining());
        buf.put_slice(self.prefix.get(..count).unwrap_or_default());
        self.prefix.advance(count);
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        // The bytes after the prefix are read in the same call. A reader that gets the prefix alone doubles its buffer for them.
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
        }
    }
}

forward_writes!(Rewind);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn the_prefix_is_read_first_by_a_buffer_of_any_size() {
        let mut io = Rewind::new(Bytes::from_static(b"abc"), &b"def"[..]);
        let mut two = [0; 2];
        io.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"ab");
        let mut rest = String::new();
        io.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "cdef");
    }
}
