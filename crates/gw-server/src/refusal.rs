//! The cheapest 503 under overload: an answer that is rendered once and needs only the request id.

use std::io;

use gw_engine::error::Error;
use http::header::{CONNECTION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue};
use rustix::net::SendFlags;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cors::Cors;
use crate::response::{Content, HttpReply, PROCESSING_MS, REQUEST_ID};
use crate::security_headers::harden;
use crate::upload::overloaded;

/// The 503 of an overloaded gateway.
pub(crate) fn overloaded_error() -> Error {
    overloaded("The gateway has more requests than it can answer.")
}

/// A rendered 503 that lacks only the request id.
#[derive(Debug)]
pub(crate) struct PreparedRefusal {
    before_id: Vec<u8>,
    after_id: Vec<u8>,
}

impl PreparedRefusal {
    /// Renders the answer. None: its CORS headers depend on the `Origin` of the request.
    pub(crate) fn new(cors: &Cors) -> Option<Self> {
        if !matches!(cors, Cors::Any) {
            return None;
        }
        let reply = HttpReply::<()>::error(&overloaded_error());
        let Content::Full(body) = &reply.content else { return None };
        let mut headers = reply.headers;
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        harden(&mut headers, false);
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

    /// Writes the answer and ends the sending half of the connection.
    pub(crate) async fn write<T: AsyncWrite + Unpin>(&self, io: &mut T, request_id: &str) -> io::Result<()> {
        io.write_all(&self.with_id(request_id)).await?;
        io.shutdown().await
    }

    /// Writes the answer without waiting. Nothing was written to the socket before, so its send buffer has room. The answer
    /// and the end of the connection leave in one segment.
    pub(crate) fn write_now(&self, socket: &TcpStream, request_id: &str) -> io::Result<()> {
        rustix::net::send(socket, &self.with_id(request_id), SendFlags::MORE | SendFlags::NOSIGNAL)?;
        Ok(rustix::net::shutdown(socket, rustix::net::Shutdown::Write)?)
    }
}
