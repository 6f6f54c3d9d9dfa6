//! Refuses connections that begin with a generation request while the worker is overloaded. The first bytes of the
//! connection decide, so the request's head is never read.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use gw_engine::request_id;
use gw_wire::dialects::ClientDialect;
use http::{Method, StatusCode};
use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::admission::Admission;
use crate::client_dialect::{self, OVERLOADED};
use crate::discard::MAX_DISCARDED_BYTES;
use crate::lingering::LINGER;
use crate::listener::Listener;
use crate::metrics::RouteLabel;
use crate::refusal::PreparedRefusal;
use crate::router;
use crate::state::ServerState;

/// The size of the buffer for discarded bytes.
const DISCARD_BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    /// Takes the bytes that are discarded. All connections of a worker share it.
    static DISCARDED: RefCell<Box<[u8]>> = RefCell::new(vec![0; DISCARD_BUFFER_BYTES].into());
}

/// The first bytes of a request line that tell the generation URLs apart.
const MIN_LINE_BYTES: usize = "POST /v1/embeddings".len();
/// The first bytes of a request line that are looked at.
const MAX_LINE_BYTES: usize = "POST /v1/chat/completions HTTP/1.1".len();

/// Decides by the first bytes of a connection whether it is refused.
#[derive(Clone, Debug)]
pub(crate) struct OverloadFilter {
    pub(crate) state: Arc<ServerState>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) listener: Listener,
    pub(crate) is_tls: bool,
}

impl OverloadFilter {
    /// Answers a connection that was accepted a moment ago, if the worker is overloaded and the connection's first bytes are
    /// there and begin a generation request. Returns true when the connection was answered; its client may still be sending.
    /// No buffer, timer or task exists for the connection yet.
    pub(crate) fn refuse_now(&self, socket: &TcpStream) -> bool {
        let is_overloaded = !self.is_tls && self.admission.is_overloaded();
        let Some(refusal) = self.state.refusal.as_ref().filter(|_| is_overloaded) else { return false };
        let Some(route) = self.first_route(socket) else { return false };
        let dialect = client_dialect::of_path(route.pattern);
        self.count(route, dialect);
        // A client that has left needs no answer.
        let _ = refusal.write_now(socket, dialect, &request_id::generate());
        true
    }

    /// Answers a connection for which there is no place, before its request is read. Returns false when it was not answered: over
    /// TLS an answer would need a handshake.
    pub(crate) fn refuse_connection(&self, socket: &TcpStream) -> bool {
        let Some(refusal) = self.state.connection_refusal.as_ref().filter(|_| !self.is_tls) else {
            return false;
        };
        let dialect = self
            .first_route(socket)
            .map_or(ClientDialect::OpenAi, |route| client_dialect::of_path(route.pattern));
        refusal.write_now(socket, dialect, &request_id::generate()).is_ok()
    }

    /// The route of a connection whose first bytes are there and begin a generation request.
    fn first_route(&self, socket: &TcpStream) -> Option<RouteLabel> {
        let mut first_bytes = [0; MAX_LINE_BYTES];
        let (_, length) = rustix::net::recv(socket, &mut first_bytes[..], RecvFlags::PEEK).ok()?;
        generation_route(first_bytes.get(..length).unwrap_or_default(), self.listener)
    }

    /// Counts a refusal. It is counted before the answer is written, because a client that has read its answer may look at
    /// the metrics at once.
    fn count(&self, route: RouteLabel, dialect: ClientDialect) {
        self.admission.count_refusal();
        let status = match dialect {
            ClientDialect::Messages => OVERLOADED,
            ClientDialect::OpenAi | ClientDialect::Responses => StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        };
        self.state.metrics.count_request(route, &Method::POST, status, Duration::ZERO, None);
    }

    /// Answers a connection that begins with a generation request, if the worker is overloaded. Otherwise gives the
    /// connection back.
    pub(crate) async fn refuse<T>(&self, first_bytes: &[u8], io: T) -> Option<T>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let Some(refusal) = self.state.refusal.as_ref().filter(|_| self.admission.is_overloaded()) else {
            return Some(io);
        };
        let Some(route) = generation_route(first_bytes, self.listener) else { return Some(io) };
        // Boxed, so that the rare refusal does not enlarge the future of every connection.
        let _ = timeout(LINGER, Box::pin(self.answer(refusal, route, io))).await;
        None
    }

    async fn answer<T>(&self, refusal: &PreparedRefusal, route: RouteLabel, mut io: T) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let dialect = client_dialect::of_path(route.pattern);
        self.count(route, dialect);
        refusal.write(&mut io, dialect, &request_id::generate()).await?;
        discard(&mut io).await
    }
}

/// Reads the rest of a request until its client closes. Closing earlier would send a reset, which could overtake the answer.
async fn discard<T: AsyncRead + Unpin>(io: &mut T) -> io::Result<()> {
    let mut total = 0;
    poll_fn(|cx| {
        DISCARDED.with_borrow_mut(|buffer| {
            while total < MAX_DISCARDED_BYTES {
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

/// The route of a generation request that begins with these bytes.
fn generation_route(first_bytes: &[u8], listener: Listener) -> Option<RouteLabel> {
    if first_bytes.len() < MIN_LINE_BYTES || listener == Listener::Admin {
        return None;
    }
    let path = first_bytes.strip_prefix(b"POST ")?;
    let is_meant = |url: &str| match path.strip_prefix(url.as_bytes()) {
        Some(rest) => rest.first().is_none_or(|next| matches!(next, b' ' | b'?')),
        None => url.as_bytes().starts_with(path),
    };
    router::generation_routes().find(|route| is_meant(route.pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_each_generation_url_from_the_others() {
        for route in router::generation_routes() {
            let line = format!("POST {} HTTP/1.1\r\n", route.pattern);
            for length in MIN_LINE_BYTES..=MAX_LINE_BYTES.min(line.len()) {
                let found = generation_route(&line.as_bytes()[..length], Listener::Single);
                assert_eq!(found, Some(route), "{}", &line[..length]);
            }
            assert_eq!(generation_route(line.as_bytes(), Listener::Admin), None);
        }
        for other in [
            "GET /v1/chat/completions HTTP/1.1",
            "POST /admin/v1/keys HTTP/1.1",
            "POST /v1/emb",
            "POST /v1/messages/count_tokens HTTP/1.1",
            "POST /v1/responses/resp_1/cancel",
        ] {
            assert_eq!(generation_route(other.as_bytes(), Listener::Single), None, "{other}");
        }
    }
}
