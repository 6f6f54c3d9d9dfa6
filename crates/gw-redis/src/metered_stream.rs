//! A stream that stops reading when the server sends more than its answers can need.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::address::Stream;

/// How many bytes a server may send. A server that sends more is not Redis.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveBudget {
    /// Bytes that the server may send before it is asked anything.
    pub initial_bytes: i64,
    /// Bytes that the server may send for each byte of a request.
    pub bytes_per_request_byte: i64,
    /// The largest budget that requests can add up to, in bytes.
    pub max_bytes: i64,
}

impl Default for ReceiveBudget {
    /// Enough for answers of a few hundred bytes each.
    fn default() -> Self {
        Self { initial_bytes: 1 << 20, bytes_per_request_byte: 16, max_bytes: 4 << 20 }
    }
}

/// A stream that fails its next read when the budget is used up.
pub(crate) struct MeteredStream {
    inner: Box<dyn Stream>,
    budget: ReceiveBudget,
    /// Bytes that the server may still send.
    remaining_bytes: i64,
}

impl MeteredStream {
    pub(crate) fn new(inner: Box<dyn Stream>, budget: ReceiveBudget) -> Self {
        Self { inner, budget, remaining_bytes: budget.initial_bytes }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().len().saturating_sub(before);
        self.remaining_bytes = self.remaining_bytes.saturating_sub(i64::try_from(read).unwrap_or(i64::MAX));
        if self.remaining_bytes < 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "more than Redis would say")));
        }
        polled
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            let written = i64::try_from(written).unwrap_or(i64::MAX);
            let ReceiveBudget { bytes_per_request_byte, max_bytes, .. } = self.budget;
            let earned = written.saturating_mul(bytes_per_request_byte);
            self.remaining_bytes = self.remaining_bytes.saturating_add(earned).min(max_bytes);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_server_that_sends_more_than_its_budget_fails_the_read() {
        let (ours, mut server) = tokio::io::duplex(1024);
        let budget = ReceiveBudget { initial_bytes: 10, bytes_per_request_byte: 2, max_bytes: 20 };
        let mut stream = MeteredStream::new(Box::new(ours), budget);
        let mut answer = [0; 10];
        server.write_all(&[b'x'; 10]).await.unwrap();
        stream.read_exact(&mut answer).await.unwrap();
        // Five bytes of a request allow ten bytes of an answer.
        stream.write_all(b"hello").await.unwrap();
        server.write_all(&[b'x'; 10]).await.unwrap();
        stream.read_exact(&mut answer).await.unwrap();
        server.write_all(b"x").await.unwrap();
        let error = stream.read(&mut answer).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn requests_add_up_to_the_largest_budget_only() {
        let (ours, mut server) = tokio::io::duplex(1024);
        let budget = ReceiveBudget { initial_bytes: 0, bytes_per_request_byte: 100, max_bytes: 20 };
        let mut stream = MeteredStream::new(Box::new(ours), budget);
        stream.write_all(&[b'x'; 50]).await.unwrap();
        server.write_all(&[b'x'; 21]).await.unwrap();
        stream.read(&mut [0; 32]).await.unwrap_err();
    }
}
