//! One HTTP/1.1 connection, driven by the task that waits for its response.
//!
//! It reads as much as the upstream has sent, so that a stream whose upstream writes several events at once is read in
//! one piece. It has no task and no channel: the socket wakes the task itself.

mod framing;
mod head;
#[cfg(test)]
mod property;

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use gw_wire::failure::Failure;
use http::{HeaderValue, Method, Request};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::task::coop;
use tokio::time::Instant;

use self::framing::BodyFraming;
pub(crate) use self::head::ResponseHead;
use super::clock::Clock;
use super::failures;
use super::pool::Pool;
use super::request_body::{RequestBody, StreamedBody};
use super::socket::Socket;

/// The bound of a response head, and of the buffer of a connection.
const MAX_BUFFER: usize = 64 * 1024;
/// The bytes of the first read of a response, unless the last one was larger. A read that fills the buffer doubles it.
const FIRST_READ: usize = 16 * 1024;
/// The room for the head in the first read of a response that is as large as the last one.
const HEAD_ROOM: usize = 2 * 1024;
/// The least room that a read is worth.
const MIN_ROOM: usize = 1024;
/// The most room that is kept for the heads of requests.
const KEPT_HEAD_BYTES: usize = 4 * 1024;

/// A request that did not get a response head.
pub(crate) struct SendError {
    /// The request, if no byte of it was written, so it can be sent again.
    pub(crate) unsent: Option<Box<Request<RequestBody>>>,
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
    socket: Socket,
    /// The bytes that were read and are not used yet.
    buffer: BytesMut,
    /// The bytes of the next read.
    read_size: usize,
    /// The bytes of the first read of the next response. An answer of embeddings is as large as the one before, and is read
    /// in one piece, which is not copied.
    first_read: usize,
    outgoing: OutgoingRequest,
    pub(crate) clock: Clock,
}

/// The part of a request that is not written yet.
#[derive(Default)]
struct OutgoingRequest {
    head: Vec<u8>,
    /// The written bytes of the head.
    written: usize,
    body: Bytes,
    /// The rest of a body that comes while it is sent.
    rest: Option<Box<StreamedBody>>,
    /// The pieces of the rest so far.
    pieces: u64,
    /// The socket has taken everything.
    is_sent: bool,
}

impl OutgoingRequest {
    fn begin(&mut self, request: Box<Request<RequestBody>>, host: &HeaderValue) {
        self.head.clear();
        head::write(&request, request.body().length(), host, &mut self.head);
        let RequestBody { bytes, streamed } = request.into_body();
        (self.written, self.body, self.rest, self.pieces) = (0, bytes, streamed, 0);
        self.is_sent = false;
    }

    /// Takes the next piece of the rest, with its frame if the body is sent in chunks.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(Ok(())) };
        let piece = ready!(rest.source.poll_piece(cx)).transpose()?;
        let is_chunked = rest.length.is_none();
        self.head.clear();
        self.written = 0;
        if is_chunked {
            // The line end of the chunk before.
            let line_end = if self.pieces > 0 { "\r\n" } else { "" };
            let size = piece.as_ref().map_or(0, Bytes::len);
            let end = if size == 0 { "\r\n\r\n" } else { "\r\n" };
            self.head.extend_from_slice(format!("{line_end}{size:x}{end}").as_bytes());
        }
        self.pieces += 1;
        match piece {
            Some(piece) => self.body = piece,
            None => self.rest = None,
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_sent {
            let head = self.head.get(self.written..).unwrap_or_default();
            if head.is_empty() && self.body.is_empty() && self.rest.is_some() {
                if self.poll_rest(cx)?.is_pending() {
                    // The upstream gets what is there while the client sends the next piece.
                    ready!(Pin::new(&mut *socket).poll_flush(cx))?;
                    return Poll::Pending;
                }
                continue;
            }
            if head.is_empty() && self.body.is_empty() {
                ready!(Pin::new(&mut *socket).poll_flush(cx))?;
                self.is_sent = true;
                self.body = Bytes::new();
                if self.head.capacity() > KEPT_HEAD_BYTES {
                    self.head = Vec::new();
                }
                break;
            }
            let parts = [IoSlice::new(head), IoSlice::new(&self.body)];
            let written = ready!(Pin::new(&mut *socket).poll_write_vectored(cx, &parts))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(head.len());
            self.written += of_head;
            self.body.advance(written - of_head);
        }
        Poll::Ready(Ok(()))
    }
}

impl Http1 {
    /// Wraps a connected socket.
    pub(crate) fn new(socket: Socket) -> Box<Self> {
        Box::new(Self {
            socket,
            buffer: BytesMut::new(),
            read_size: FIRST_READ,
            first_read: FIRST_READ,
            outgoing: OutgoingRequest { is_sent: true, ..OutgoingRequest::default() },
            clock: Clock::default(),
        })
    }

    /// Sends a request to a host, and waits at most `wait` for the response head. After an error the connection is gone. The request is
    /// boxed, because each layer between its adapter and its connection would copy it.
    ///
    /// # Errors
    /// [`SendError`], with the request if it was never written.
    pub(crate) async fn exchange(
        mut self: Box<Self>,
        request: Box<Request<RequestBody>>,
        host: &HeaderValue,
        wait: Duration,
    ) -> Result<(Box<Self>, ResponseHead), SendError> {
        let is_open = poll_fn(|cx| Poll::Ready(self.is_silent(cx))).await;
        if !is_open {
            let failure = failures::unreachable("the connection was closed before the request");
            return Err(SendError { unsent: Some(request), failure });
        }
        self.clock.arm(Instant::now() + wait);
        self.read_size = self.first_read;
        let method = request.method().clone();
        self.outgoing.begin(request, host);
        let outcome = poll_fn(|cx| {
            let pieces = self.outgoing.pieces;
            match self.poll_head(cx, &method) {
                Poll::Pending => {
                    // The client decides how fast a body comes. The upstream has its time after each piece.
                    if self.outgoing.pieces != pieces {
                        self.clock.arm(Instant::now() + wait);
                    }
                    self.clock.poll(cx).map(|()| Err(failures::head_timeout()))
                }
                outcome @ Poll::Ready(_) => outcome,
            }
        });
        match outcome.await {
            Ok(head) => Ok((self, head)),
            Err(failure) => Err(SendError { unsent: None, failure }),
        }
    }

    /// Writes the request and reads the head of its response. An answer may come before the whole request is written.
    fn poll_head(&mut self, cx: &mut Context<'_>, method: &Method) -> Poll<Result<ResponseHead, Failure>> {
        // A peer that refuses a request may close its side first. Its answer counts more than the failed write.
        let refused = match self.outgoing.poll_write(&mut self.socket, cx) {
            Poll::Ready(Err(error)) => Some(error),
            _ => None,
        };
        loop {
            let known = self.buffer.len();
            match ready!(self.poll_read(cx, self.read_size)) {
                Ok(0) => {
                    let closed = || io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Poll::Ready(Err(failures::unreachable(refused.unwrap_or_else(closed))));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(failures::unreachable(refused.unwrap_or(error)))),
            }
            // A head that comes in many small pieces is read again for each of its lines only.
            let has_line = self.buffer.get(known..).is_some_and(|new| memchr::memchr(b'\n', new).is_some());
            let head = if known == 0 || has_line { head::read(&mut self.buffer, method) } else { Ok(None) };
            match head {
                Ok(Some(head)) => {
                    self.note_size(&head.framing);
                    return Poll::Ready(Ok(head));
                }
                Ok(None) if self.buffer.len() >= MAX_BUFFER => {
                    return Poll::Ready(Err(failures::invalid("the response head is too large")));
                }
                Ok(None) => {}
                Err(reason) => {
                    return Poll::Ready(Err(failures::invalid(format_args!("response head: {reason}"))));
                }
            }
        }
    }

    /// Notes the size of a response for the next one. A response without a length is read as a small one.
    fn note_size(&mut self, framing: &BodyFraming) {
        let body = match framing {
            BodyFraming::Length(bytes) => usize::try_from(*bytes).unwrap_or(usize::MAX),
            BodyFraming::Chunked(_) | BodyFraming::UntilClose => 0,
        };
        self.first_read = body.saturating_add(HEAD_ROOM).clamp(FIRST_READ, MAX_BUFFER);
        self.read_size = FIRST_READ;
    }

    /// Reads at most `room` bytes into the buffer; 0 = the peer has closed its side.
    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        ready!(self.socket.poll_readable(cx))?;
        if self.buffer.capacity() - self.buffer.len() < MIN_ROOM.min(room) {
            self.buffer.reserve(room);
        }
        let polled = pin!(self.socket.read_buf(&mut self.buffer)).poll(cx);
        // A connection that waits keeps no empty buffer.
        if polled.is_pending() && self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        polled
    }

    /// Whether nothing came on a connection that waits for no response: its peer has neither closed it nor sent data
    /// unasked. A task that has used up its cooperative budget would find every socket silent, so the budget does not count.
    fn is_silent(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.buffer.is_empty() {
            return false;
        }
        let reading = coop::unconstrained(poll_fn(|cx| self.poll_read(cx, MIN_ROOM)));
        pin!(reading).poll(cx).is_pending()
    }

    /// Whether an idle connection is still open.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.is_silent(&mut Context::from_waker(Waker::noop()))
    }
}

/// A response body with its connection.
pub(crate) struct Exchange {
    /// None after the connection went back to the pool or was closed.
    connection: Option<Box<Http1>>,
    framing: BodyFraming,
    /// The peer keeps the connection open after the body.
    stays_open: bool,
    /// A piece has the data of one chunk at most.
    by_chunk: bool,
    pool: Arc<Pool>,
}

impl Exchange {
    pub(crate) fn new(
        connection: Box<Http1>,
        framing: BodyFraming,
        stays_open: bool,
        pool: Arc<Pool>,
    ) -> Self {
        let mut exchange = Self { connection: Some(connection), framing, stays_open, by_chunk: false, pool };
        exchange.release_if_over();
        exchange
    }

    /// Has each piece hold the data of one chunk at most.
    pub(crate) fn read_by_chunk(&mut self) {
        self.by_chunk = true;
    }

    /// The next piece of the body: everything that has arrived.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            if let Some(piece) = self.decode() {
                return Poll::Ready(Some(piece));
            }
            let Some(open) = &mut self.connection else { return Poll::Ready(None) };
            // A request whose answer came early is still written, because its upstream may wait for it.
            if let Poll::Ready(Err(_)) = open.outgoing.poll_write(&mut open.socket, cx) {
                self.stays_open = false;
            }
            let room = match &self.framing {
                BodyFraming::Length(left) => {
                    usize::try_from(*left).unwrap_or(MAX_BUFFER).clamp(1, MAX_BUFFER)
                }
                BodyFraming::Chunked(_) | BodyFraming::UntilClose => open.read_size,
            };
            match ready!(open.poll_read(cx, room)) {
                Ok(0) => {
                    self.connection = None;
                    return Poll::Ready(match self.framing {
                        BodyFraming::UntilClose => None,
                        _ => Some(Err(failures::broken("the connection was closed before the body ended"))),
                    });
                }
                Ok(read) if read >= open.read_size => {
                    open.read_size = open.read_size.saturating_mul(2).min(MAX_BUFFER);
                }
                Ok(_) => {}
                Err(error) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(failures::broken(error))));
                }
            }
        }
    }

    /// The data in the buffer. None = there is none.
    fn decode(&mut self) -> Option<Result<Bytes, Failure>> {
        let buffer = &mut self.connection.as_mut()?.buffer;
        if buffer.is_empty() {
            return None;
        }
        let decoded = match self.framing.decode(buffer, self.by_chunk) {
            Ok(decoded) => decoded,
            Err(fault) => {
                self.connection = None;
                return Some(Err(failures::broken(fault)));
            }
        };
        // A piece that is the whole buffer takes it along, which saves counting its readers.
        let mut piece =
            if decoded.used == buffer.len() { std::mem::take(buffer) } else { buffer.split_to(decoded.used) };
        piece.truncate(decoded.data);
        self.release_if_over();
        (!piece.is_empty()).then(|| Ok(piece.freeze()))
    }

    /// The connection's timer, if the connection is still there.
    pub(crate) fn clock(&mut self) -> Option<&mut Clock> {
        self.connection.as_mut().map(|connection| &mut connection.clock)
    }

    /// After the body the connection returns to the pool, if it can serve another request.
    fn release_if_over(&mut self) {
        if self.framing.is_over()
            && let Some(connection) = self.connection.take()
            && self.stays_open
            && connection.outgoing.is_sent
            && connection.buffer.is_empty()
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
