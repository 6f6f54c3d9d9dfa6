//! The answer to request heads that are not valid HTTP/1.1.
//!
//! hyper answers such a head itself, with a status and no body, and then ends the connection with an error.
//! [`HyperErrorFilter`] keeps that answer from the socket, and [`answer`] gives it the JSON error body of every other answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use gw_engine::error::{Error, Kind};
use gw_engine::request_id;
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::response::{SHOULD_RETRY, should_retry};
use crate::security_headers::harden;

/// The end of every head.
const END: &[u8] = b"\r\n\r\n";
/// hyper's own answer is shorter than this. It holds a status line, `connection`, `content-length: 0` and `date`.
const MAX_HYPER_ANSWER_BYTES: usize = 192;
/// The beginnings of hyper's own answers, each with the kind of error that replaces it.
const STARTS: [(&[u8], Kind); 3] = [
    (b"HTTP/1.1 400 ", Kind::Invalid),
    (b"HTTP/1.1 414 ", Kind::UriTooLong),
    (b"HTTP/1.1 431 ", Kind::HeadersTooLarge),
];

/// An IO object that holds back hyper's own answers.
///
/// hyper's answer is always the last of a connection. Bytes that only look like one are written when more bytes follow
/// them, and when the connection ends without an error.
#[derive(Debug)]
pub(crate) struct HyperErrorFilter<T> {
    inner: T,
    held: Vec<u8>,
    /// The number of held bytes that were written after all.
    released: usize,
}

impl<T> HyperErrorFilter<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, held: Vec::new(), released: 0 }
    }

    /// Gives back the socket and the answer that was held back.
    pub(crate) fn into_parts(mut self) -> (T, Vec<u8>) {
        self.held.drain(..self.released.min(self.held.len()));
        (self.inner, self.held)
    }
}

/// The answer that replaces `held`, which hyper made because of `error`.
pub(crate) fn answer(held: &[u8], error: &hyper::Error, cors: &HeaderMap) -> Vec<u8> {
    let kind =
        STARTS.iter().find(|(start, _)| held.starts_with(start)).map_or(Kind::Invalid, |(_, kind)| *kind);
    let error = match kind {
        Kind::UriTooLong => Error::new(kind, "The URL of the request is too long."),
        Kind::HeadersTooLarge => headers_too_large(),
        _ => Error::new(kind, format!("The head of the request is not valid HTTP/1.1: {error}.")),
    };
    let body = error.body();
    let id = request_id::generate();
    tracing::debug!(request_id = %id, code = error.code(), "the head of a request is not valid HTTP/1.1");
    let mut answer = Vec::with_capacity(held.len() + body.len() + 192);
    let head = held.strip_suffix(END).unwrap_or(held);
    for line in head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if !line.starts_with(b"content-length:") && !line.starts_with(b"connection:") {
            answer.extend_from_slice(line);
            answer.extend_from_slice(b"\r\n");
        }
    }
    let mut headers = cors.clone();
    harden(&mut headers, false);
    for (name, value) in &headers {
        answer.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    let more = format!(
        "content-type: application/json\r\ncontent-length: {}\r\nx-content-type-options: nosniff\r\n\
         {SHOULD_RETRY}: {}\r\nx-request-id: {id}\r\nconnection: close\r\n\r\n",
        body.len(),
        should_retry(&error)
    );
    answer.extend_from_slice(more.as_bytes());
    answer.extend_from_slice(&body);
    answer
}

/// The 431 of HTTP/1 and HTTP/2.
pub(crate) fn headers_too_large() -> Error {
    Error::new(Kind::HeadersTooLarge, "The headers of the request are too large or too many.")
}

/// The position in `bytes` at which hyper's own answer begins, if they end with one.
fn hyper_answer(bytes: &[u8]) -> Option<usize> {
    if !bytes.ends_with(END) {
        return None;
    }
    let window = bytes.len().saturating_sub(MAX_HYPER_ANSWER_BYTES);
    let tail = bytes.get(window..)?;
    let start = tail.windows(b"HTTP/1.1 ".len()).rposition(|window| window == b"HTTP/1.1 ")?;
    let answer = tail.get(start..)?;
    let is_hypers = STARTS.iter().any(|(start, _)| answer.starts_with(start))
        && answer.windows(END.len()).position(|window| window == END)? + END.len() == answer.len()
        && answer.split(|byte| *byte == b'\n').skip(1).map(<[u8]>::trim_ascii).all(|line| {
            line.is_empty()
                || line == b"content-length: 0"
                || line.starts_with(b"connection:")
                || line.starts_with(b"date:")
        });
    is_hypers.then_some(window + start)
}

impl<T: AsyncWrite + Unpin> HyperErrorFilter<T> {
    /// Writes the held bytes, which turned out to be an ordinary answer.
    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.held.get(self.released..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut self.inner).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.released += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.held = Vec::new();
        self.released = 0;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for HyperErrorFilter<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for HyperErrorFilter<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if !self.held.is_empty() && self.poll_release(cx)?.is_pending() {
            return Poll::Pending;
        }
        match hyper_answer(buf).map(|start| buf.split_at(start)) {
            None => Pin::new(&mut self.inner).poll_write(cx, buf),
            Some(([], held)) => {
                self.held = held.to_vec();
                Poll::Ready(Ok(buf.len()))
            }
            Some((before, _)) => Pin::new(&mut self.inner).poll_write(cx, before),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // hyper writes a head in one piece, and its own answer is a head alone.
        let mut pieces = bufs.iter().filter(|piece| !piece.is_empty());
        if let (Some(only), None) = (pieces.next(), pieces.next()) {
            return self.poll_write(cx, only);
        }
        if !self.held.is_empty() && self.poll_release(cx)?.is_pending() {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }
}

#[cfg(test)]
mod tests;
