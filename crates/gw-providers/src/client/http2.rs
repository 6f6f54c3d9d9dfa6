//! HTTP/2 over TLS: one shared connection per provider, driven by a task.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gw_wire::failure::Failure;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::Instant;

use super::clock::Clock;
use super::failures;
use super::http1::SendError;
use super::request_body::RequestBody;
use super::socket::Socket;

/// The most concurrent requests on one connection. The next request opens another connection.
const MAX_STREAMS: usize = 100;
/// The most bytes that an upstream may send ahead of the reader.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Bounds of a response head, equal to those of HTTP/1.1.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
const MAX_HEADERS: usize = 100;
/// A connection with open streams that does not answer a ping within this time is dead.
const PING: Duration = Duration::from_secs(20);

/// A handle to a shared connection.
#[derive(Clone)]
pub(crate) struct Http2 {
    sender: http2::SendRequest<RequestBody>,
    /// Its clones count the streams: the pool holds one, and each stream holds one.
    streams: Arc<()>,
}

/// Counts a stream while its body is read.
pub(crate) struct Http2Stream(#[expect(dead_code, reason = "held for its count")] Arc<()>);

impl Http2 {
    /// Starts HTTP/2 on a connected socket that agreed to `h2`.
    ///
    /// # Errors
    /// The connection preface could not be sent.
    pub(crate) async fn new(socket: Socket) -> Result<Self, Failure> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADER_BYTES)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .handshake(TokioIo::new(socket))
            .await
            .map_err(|error| failures::unreachable(failures::chain(&error)))?;
        tokio::spawn(async move {
            // The streams of a broken connection get the error themselves.
            let _ended = connection.await;
        });
        Ok(Self { sender, streams: Arc::new(()) })
    }

    /// Whether another request may be sent.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_closed() && Arc::strong_count(&self.streams) <= MAX_STREAMS
    }

    /// Whether the connection has ended or is about to.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request with an absolute URI, and waits at most `wait` for the response head.
    ///
    /// # Errors
    /// [`SendError`], with the request if it was never written.
    pub(crate) async fn exchange(
        mut self,
        request: Box<Request<RequestBody>>,
        wait: Duration,
    ) -> Result<(Http2Stream, Response<Incoming>), SendError> {
        let mut clock = Clock::default();
        // The client decides how fast a streamed body comes, so the deadline of the whole request bounds it.
        if request.body().streamed.is_none() {
            clock.arm(Instant::now() + wait);
        }
        // A body that is there can be sent again.
        let kept = request.body().bytes.clone();
        let mut response = pin!(self.sender.try_send_request(*request));
        let outcome = std::future::poll_fn(|cx| match response.as_mut().poll(cx) {
            std::task::Poll::Ready(outcome) => std::task::Poll::Ready(Some(outcome)),
            std::task::Poll::Pending => clock.poll(cx).map(|()| None),
        })
        .await;
        match outcome {
            Some(Ok(response)) if is_over_limit(response.headers()) => {
                Err(SendError { unsent: None, failure: failures::invalid("too many headers") })
            }
            Some(Ok(response)) => Ok((Http2Stream(self.streams), response)),
            Some(Err(mut error)) => {
                let mut unsent = error.take_message();
                if let Some(unsent) = &mut unsent {
                    unsent.body_mut().bytes = kept;
                }
                Err(SendError { unsent: unsent.map(Box::new), failure: failures::before_head(error.error()) })
            }
            None => Err(SendError { unsent: None, failure: failures::head_timeout() }),
        }
    }
}

fn is_over_limit(headers: &HeaderMap) -> bool {
    headers.len() > MAX_HEADERS
}
