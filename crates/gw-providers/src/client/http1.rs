//! One HTTP/1.1 connection, driven by the task that waits for its response.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use gw_wire::failure::Failure;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::clock::Clock;
use super::failures;
use super::inline::{Relay, Socket};
use super::pool::Pool;

/// The bound of a response head and of the buffer of a connection.
const MAX_BUFFER: usize = 64 * 1024;

static BUILDER: LazyLock<http1::Builder> = LazyLock::new(|| {
    let mut builder = http1::Builder::new();
    // hyper's own bound of 100 header fields applies. Setting it explicitly would cost an allocation per response.
    builder.max_buf_size(MAX_BUFFER);
    builder
});

/// hyper's side of a connection.
type Running = http1::Connection<TokioIo<Socket>, Full<Bytes>>;

/// A request that did not get a response head.
pub(crate) struct SendError {
    /// The request, if no byte of it was written, so it can be sent again.
    pub(crate) unsent: Option<Request<Full<Bytes>>>,
    /// The cause.
    pub(crate) failure: Failure,
}

impl SendError {
    /// The failure, marked if the request was written.
    pub(crate) fn into_failure(self) -> Failure {
        if self.unsent.is_some() { self.failure } else { self.failure.after_sending() }
    }
}

/// An open connection.
pub(crate) struct Http1 {
    /// None after the connection ended.
    connection: Option<Running>,
    sender: http1::SendRequest<Full<Bytes>>,
    relay: Arc<Relay>,
    waker: Waker,
    pub(crate) clock: Clock,
}

impl Http1 {
    /// Wraps a connected socket.
    ///
    /// # Errors
    /// hyper's handshake failed, which sends nothing.
    pub(crate) async fn new(socket: Socket) -> Result<Box<Self>, Failure> {
        let relay = Relay::new();
        let (sender, connection) = BUILDER
            .handshake(TokioIo::new(socket))
            .await
            .map_err(|error| failures::unreachable(failures::chain(&error)))?;
        let waker = Waker::from(Arc::clone(&relay));
        Ok(Box::new(Self { connection: Some(connection), sender, relay, waker, clock: Clock::default() }))
    }

    /// Sends a request and waits for the response head. After an error the connection is gone.
    ///
    /// # Errors
    /// [`SendError`], with the request if it was never written.
    pub(crate) async fn exchange(
        mut self: Box<Self>,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<(Box<Self>, Response<Incoming>), SendError> {
        self.clock.arm(deadline);
        self.relay.enter();
        let mut response = pin!(self.sender.try_send_request(request));
        let outcome = std::future::poll_fn(|cx| {
            let Self { connection, relay, waker, clock, .. } = &mut *self;
            let polled = relay.drive(waker, cx, |cx| {
                drive(connection, cx);
                response.as_mut().poll(cx)
            });
            match polled {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending => clock.poll(cx).map(|()| None),
            }
        })
        .await;
        match outcome {
            Some(Ok(response)) => Ok((self, response)),
            Some(Err(mut error)) => {
                Err(SendError { unsent: error.take_message(), failure: failures::before_head(error.error()) })
            }
            None => Err(SendError { unsent: None, failure: failures::head_timeout() }),
        }
    }

    /// Whether the last exchange ended on both sides, so that another can begin.
    fn is_reusable(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Whether an idle connection is still open. One poll notices a peer that closed it or sent data unasked.
    pub(crate) fn is_alive(&mut self) -> bool {
        let Self { connection, relay, waker, .. } = self;
        let mut nobody = Context::from_waker(Waker::noop());
        let _pending = relay.drive(waker, &mut nobody, |cx| {
            drive(connection, cx);
            Poll::<()>::Pending
        });
        self.is_reusable()
    }
}

/// Polls the connection. When it ends it is dropped, which passes its error to the response or the body.
fn drive(connection: &mut Option<Running>, cx: &mut Context<'_>) {
    if let Some(running) = connection
        && Pin::new(running).poll(cx).is_ready()
    {
        *connection = None;
    }
}

/// A response body with its connection.
pub(crate) struct Exchange {
    /// None after the connection went back to the pool or was closed.
    connection: Option<Box<Http1>>,
    incoming: Incoming,
    pool: Arc<Pool>,
}

impl Exchange {
    pub(crate) fn new(connection: Box<Http1>, incoming: Incoming, pool: Arc<Pool>) -> Self {
        let mut exchange = Self { connection: Some(connection), incoming, pool };
        exchange.release_if_over();
        exchange
    }

    /// The next piece of the body.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        let Self { connection, incoming, .. } = self;
        let Some(open) = connection else { return Poll::Ready(None) };
        let Http1 { connection: running, relay, waker, .. } = &mut **open;
        let polled = relay.drive(waker, cx, |cx| {
            // A chunk that came with the head is already in the channel.
            match poll_data(incoming, cx) {
                Poll::Pending => {
                    drive(running, cx);
                    poll_data(incoming, cx)
                }
                chunk @ Poll::Ready(_) => chunk,
            }
        });
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.release_if_over(),
            Poll::Ready(None) => self.release(),
            // After an error the framing is lost, so the connection is closed.
            Poll::Ready(Some(Err(_))) => self.connection = None,
            Poll::Pending => {}
        }
        polled
    }

    /// The connection's timer, if the connection is still there.
    pub(crate) fn clock(&mut self) -> Option<&mut Clock> {
        self.connection.as_mut().map(|connection| &mut connection.clock)
    }

    fn release_if_over(&mut self) {
        if self.incoming.is_end_stream() {
            self.release();
        }
    }

    /// Returns the connection to the pool, if the exchange is complete.
    fn release(&mut self) {
        if let Some(connection) = self.connection.take()
            && connection.is_reusable()
        {
            self.pool.put(connection);
        }
    }
}

impl Drop for Exchange {
    /// If the end of the body is already in the buffer, the connection goes back to the pool. Otherwise it is closed.
    fn drop(&mut self) {
        if self.connection.is_some() {
            let _gives_back_at_the_end = self.poll_chunk(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// The next data frame; trailers are dropped.
pub(crate) fn poll_data(incoming: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
    loop {
        match std::task::ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                _ => {}
            },
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        }
    }
}
