//! The cheapest 503: written before the request's head is read, for connections that begin with a generation request
//! while the worker is overloaded.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use gw_engine::request_id;
use http::header::{CONNECTION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::admission::Gate;
use crate::cors::Cors;
use crate::discard::LARGEST_DISCARDED;
use crate::edge::Edge;
use crate::handler::{PROCESSING_MS, REQUEST_ID};
use crate::lingering::LINGER;
use crate::response::{Answer, Content};
use crate::router::{self, Door, Name};
use crate::upload::overloaded;

/// It is read in pieces of this size.
const PIECE: usize = 64 << 10;

thread_local! {
    /// Takes what is thrown away: one for all connections of a worker.
    static THROWN_AWAY: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into());
}

/// A request line of which these bytes are there names a URL.
const SHORTEST_LINE: usize = "POST /v1/embeddings".len();
/// No generation request needs more to be told from others.
const LONGEST_LINE: usize = "POST /v1/chat/completions HTTP/1.1".len();

/// The 503 of a gateway that has more to do than it can.
pub(crate) fn too_busy() -> gw_engine::error::Error {
    overloaded("The gateway has more requests than it can answer.")
}

/// An answer that is ready but for the request's id.
#[derive(Debug)]
pub(crate) struct Refusal {
    before_id: Vec<u8>,
    after_id: Vec<u8>,
}

impl Refusal {
    /// None: the answer depends on the request's `Origin`.
    pub(crate) fn new(cors: &Cors) -> Option<Self> {
        if !matches!(cors, Cors::Any) {
            return None;
        }
        let answer = Answer::<()>::error(&too_busy());
        let Content::Full(body) = &answer.content else { return None };
        let mut headers = answer.headers;
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(PROCESSING_MS, HeaderValue::from_static("0"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        cors.allow(&HeaderMap::new()).apply(&mut headers);
        let mut before_id = b"HTTP/1.1 503 Service Unavailable\r\n".to_vec();
        for (name, value) in &headers {
            before_id
                .extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        before_id.extend_from_slice(format!("content-length: {}\r\n{REQUEST_ID}: ", body.len()).as_bytes());
        let after_id = [b"\r\n\r\n", body.as_ref()].concat();
        Some(Self { before_id, after_id })
    }

    fn with_id(&self, request_id: &str) -> Vec<u8> {
        [self.before_id.as_slice(), request_id.as_bytes(), &self.after_id].concat()
    }

    /// Writes it whole.
    async fn write<T: AsyncWrite + Unpin>(&self, io: &mut T, request_id: &str) -> io::Result<()> {
        io.write_all(&self.with_id(request_id)).await?;
        io.shutdown().await
    }

    /// Writes it to a socket that nothing was written to: there is room for all of it. It leaves with the end of the connection, in one
    /// segment.
    fn write_now(&self, socket: &TcpStream, request_id: &str) -> io::Result<()> {
        rustix::net::send(socket, &self.with_id(request_id), SendFlags::MORE | SendFlags::NOSIGNAL)?;
        Ok(rustix::net::shutdown(socket, rustix::net::Shutdown::Write)?)
    }
}

/// Reads what is left of a request until its client closes, so that no reset overtakes the answer.
async fn discard<T: AsyncRead + Unpin>(io: &mut T) -> io::Result<()> {
    let mut total = 0;
    poll_fn(|cx| {
        THROWN_AWAY.with_borrow_mut(|buffer| {
            while total < LARGEST_DISCARDED {
                let mut rest = ReadBuf::new(buffer);
                ready!(Pin::new(&mut *io).poll_read(cx, &mut rest))?;
                match rest.filled().len() {
                    0 => break,
                    more => total += more,
                }
            }
            Poll::Ready(Ok(()))
        })
    })
    .await
}

/// Refuses connections by their first bytes.
#[derive(Clone, Debug)]
pub(crate) struct Porter {
    pub(crate) edge: Arc<Edge>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) door: Door,
    pub(crate) is_tls: bool,
}

impl Porter {
    /// Answers a connection that has just been accepted, whose first bytes are there already, and begin a generation request, if the worker is
    /// overloaded. True: it was answered, and its client may still send. Nothing has been made for the connection until now.
    pub(crate) fn refuse_now(&self, socket: &TcpStream) -> bool {
        let overloaded = !self.is_tls && self.gate.is_overloaded();
        let Some(refusal) = self.edge.refusal.as_ref().filter(|_| overloaded) else { return false };
        let mut first_bytes = [0; LONGEST_LINE];
        let Ok((_, length)) = rustix::net::recv(socket, &mut first_bytes[..], RecvFlags::PEEK) else {
            return false;
        };
        let Some(route) = generation(first_bytes.get(..length).unwrap_or_default(), self.door) else {
            return false;
        };
        self.count(route);
        // A client that has left meanwhile needs no answer.
        let _ = refusal.write_now(socket, &request_id::generate());
        true
    }

    /// Counts a refusal. Before it is written: whoever has read it may ask for the counters at once.
    fn count(&self, route: Name) {
        self.gate.count_refusal();
        let status = StatusCode::SERVICE_UNAVAILABLE.as_u16();
        self.edge.metrics.finished(route, &Method::POST, status, Duration::ZERO);
    }

    /// Answers a connection that begins with a generation request, if the worker is overloaded; else gives it back.
    pub(crate) async fn refuse<T>(&self, first_bytes: &[u8], io: T) -> Option<T>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let Some(refusal) = self.edge.refusal.as_ref().filter(|_| self.gate.is_overloaded()) else {
            return Some(io);
        };
        let Some(route) = generation(first_bytes, self.door) else { return Some(io) };
        // Boxed: the future of a connection is made for its requests, and this is the rare case.
        let _ = timeout(LINGER, Box::pin(self.say(refusal, route, io))).await;
        None
    }

    async fn say<T>(&self, refusal: &Refusal, route: Name, mut io: T) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.count(route);
        refusal.write(&mut io, &request_id::generate()).await?;
        discard(&mut io).await
    }
}

/// The route of a generation request that begins with these bytes.
fn generation(first_bytes: &[u8], door: Door) -> Option<Name> {
    if first_bytes.len() < SHORTEST_LINE || door == Door::Admin {
        return None;
    }
    let path = first_bytes.strip_prefix(b"POST ")?;
    let named = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
        .into_iter()
        .find(|known| known.as_bytes().starts_with(path) || path.starts_with(known.as_bytes()))?;
    Some(router::find(named, door).name())
}
