//! Refuses connections beyond `server.max_connections`, in the dialect that their first bytes ask for.

use std::sync::Arc;

use gw_engine::request_id;
use gw_wire::dialects::ClientDialect;
use rustix::net::RecvFlags;
use tokio::net::TcpStream;

use crate::client_dialect;
use crate::listener::Listener;
use crate::metrics::RouteLabel;
use crate::router;
use crate::state::ServerState;

/// The first bytes of a request line that tell the generation URLs apart.
const MIN_LINE_BYTES: usize = "POST /v1/audio/transl".len();
/// The first bytes of a request line that are looked at.
const MAX_LINE_BYTES: usize = "POST /v1/chat/completions HTTP/1.1".len();

/// Refuses connections of a listener.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRefusal {
    pub(crate) state: Arc<ServerState>,
    pub(crate) listener: Listener,
    pub(crate) is_tls: bool,
}

impl ConnectionRefusal {
    /// Answers a connection for which there is no place, before its request is read. Returns false when it was not answered: over
    /// TLS an answer would need a handshake.
    pub(crate) fn refuse(&self, socket: &TcpStream) -> bool {
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
}

/// The route of a generation request that begins with these bytes.
fn generation_route(first_bytes: &[u8], listener: Listener) -> Option<RouteLabel> {
    if first_bytes.len() < MIN_LINE_BYTES || listener == Listener::Admin {
        return None;
    }
    let path = first_bytes.strip_prefix(b"POST ")?;
    let is_meant = |url: &str| match path.strip_prefix(url.as_bytes()) {
        // The first bytes need not have the whole name of a model.
        None if url.contains('{') => {
            let start = url.split('{').next().unwrap_or(url).as_bytes();
            path.starts_with(start) || start.starts_with(path)
        }
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
                if route.pattern.contains('{') {
                    // The methods of a model have one beginning, and one dialect.
                    let dialect = found.map(|found| client_dialect::of_path(found.pattern));
                    assert_eq!(dialect, Some(client_dialect::of_path(route.pattern)), "{}", &line[..length]);
                    continue;
                }
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
