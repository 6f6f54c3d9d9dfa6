//! The answers of refusals: the 503 of an overloaded gateway, and the one of a full listener, which is rendered once in each
//! dialect and needs only the request id.

use std::io;

use gw_engine::error::Error;
use gw_wire::dialects::ClientDialect;
use http::HeaderValue;
use http::header::{CONNECTION, X_CONTENT_TYPE_OPTIONS};
use memchr::memmem;
use rustix::net::SendFlags;
use tokio::net::TcpStream;

use crate::cors::Cors;
use crate::response::{Content, HttpReply, MESSAGES_REQUEST_ID, PROCESSING_MS, REQUEST_ID};
use crate::security_headers::harden;
use crate::upload::overloaded;

/// The 503 of an overloaded gateway.
pub(crate) fn overloaded_error() -> Error {
    overloaded("The gateway has more requests than it can answer.")
}

/// The 503 of a connection beyond `server.max_connections`.
pub(crate) fn connections_error() -> Error {
    overloaded("The gateway has as many connections as it serves.")
}

/// A rendered answer that lacks only the request id.
#[derive(Debug)]
struct PreparedAnswer {
    /// The pieces between which the request id stands.
    pieces: Vec<Vec<u8>>,
}

/// A rendered 503 in the shape of each dialect.
#[derive(Debug)]
pub(crate) struct PreparedRefusal {
    openai: PreparedAnswer,
    responses: PreparedAnswer,
    messages: PreparedAnswer,
    gemini: PreparedAnswer,
}

/// Stands for the request id while an answer is rendered. It has the id's length, which `content-length` counts.
const PLACEHOLDER: &str = "req_00000000000000000000000000";

impl PreparedAnswer {
    fn new(error: &Error, cors: &Cors, dialect: ClientDialect) -> Option<Self> {
        let reply = HttpReply::<()>::error_in(dialect, error, PLACEHOLDER);
        let Content::Full(body) = &reply.content else { return None };
        let mut headers = reply.headers;
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        harden(&mut headers, false);
        headers.insert(PROCESSING_MS, HeaderValue::from_static("0"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        headers.insert(REQUEST_ID, HeaderValue::from_static(PLACEHOLDER));
        if dialect == ClientDialect::Messages {
            headers.insert(MESSAGES_REQUEST_ID, HeaderValue::from_static(PLACEHOLDER));
        }
        headers.extend(cors.of_unread());
        let reason = reply.status.canonical_reason().unwrap_or("Overloaded");
        let mut text = format!("HTTP/1.1 {} {reason}\r\n", reply.status.as_u16()).into_bytes();
        for (name, value) in &headers {
            text.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        text.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        text.extend_from_slice(body);
        let mut pieces = Vec::new();
        let mut from = 0;
        for at in memmem::find_iter(&text, PLACEHOLDER) {
            pieces.push(text.get(from..at)?.to_vec());
            from = at + PLACEHOLDER.len();
        }
        pieces.push(text.get(from..)?.to_vec());
        Some(Self { pieces })
    }

    fn with_id(&self, request_id: &str) -> Vec<u8> {
        self.pieces.join(request_id.as_bytes())
    }
}

impl PreparedRefusal {
    /// Renders the answers to connections beyond `server.max_connections`. Their requests are not read.
    pub(crate) fn of_connections(cors: &Cors) -> Option<Self> {
        Self::of(&connections_error(), cors)
    }

    fn of(error: &Error, cors: &Cors) -> Option<Self> {
        Some(Self {
            openai: PreparedAnswer::new(error, cors, ClientDialect::OpenAi)?,
            responses: PreparedAnswer::new(error, cors, ClientDialect::Responses)?,
            messages: PreparedAnswer::new(error, cors, ClientDialect::Messages)?,
            gemini: PreparedAnswer::new(error, cors, ClientDialect::Gemini)?,
        })
    }

    fn with_id(&self, dialect: ClientDialect, request_id: &str) -> Vec<u8> {
        match dialect {
            ClientDialect::OpenAi => self.openai.with_id(request_id),
            ClientDialect::Responses => self.responses.with_id(request_id),
            ClientDialect::Messages => self.messages.with_id(request_id),
            ClientDialect::Gemini => self.gemini.with_id(request_id),
        }
    }

    /// Writes the answer without waiting. Nothing was written to the socket before, so its send buffer has room. The answer
    /// and the end of the connection leave in one segment.
    pub(crate) fn write_now(
        &self,
        socket: &TcpStream,
        dialect: ClientDialect,
        request_id: &str,
    ) -> io::Result<()> {
        let answer = self.with_id(dialect, request_id);
        rustix::net::send(socket, &answer, SendFlags::MORE | SendFlags::NOSIGNAL)?;
        Ok(rustix::net::shutdown(socket, rustix::net::Shutdown::Write)?)
    }
}

#[cfg(test)]
mod tests {
    use gw_engine::request_id;
    use serde_json::Value;

    use super::*;

    /// The status line, the value of a header and the body of an answer.
    fn parts<'a>(answer: &'a str, header: &str) -> (&'a str, Option<&'a str>, &'a str) {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let value = head.lines().find_map(|line| line.strip_prefix(header)?.strip_prefix(": "));
        (head.lines().next().unwrap(), value, body)
    }

    #[test]
    fn each_dialect_has_its_own_shape_and_the_id_of_the_request() {
        let refusal = PreparedRefusal::of_connections(&Cors::Any).unwrap();
        let id = request_id::generate();
        let written = |dialect| String::from_utf8(refusal.with_id(dialect, &id)).unwrap();
        for (dialect, status, id_header) in [
            (ClientDialect::OpenAi, "HTTP/1.1 503 Service Unavailable", "x-request-id"),
            (ClientDialect::Responses, "HTTP/1.1 503 Service Unavailable", "x-request-id"),
            (ClientDialect::Messages, "HTTP/1.1 529 Overloaded", "request-id"),
            (ClientDialect::Gemini, "HTTP/1.1 503 Service Unavailable", "x-request-id"),
        ] {
            let answer = written(dialect);
            let (line, found, body) = parts(&answer, id_header);
            assert_eq!((line, found), (status, Some(&*id)), "{answer}");
            let length = body.len().to_string();
            assert_eq!(parts(&answer, "content-length").1, Some(&*length), "{answer}");
        }
        let body = |dialect| serde_json::from_str::<Value>(parts(&written(dialect), "x").2).unwrap();
        let messages = body(ClientDialect::Messages);
        assert_eq!(
            (&messages["error"]["type"], &messages["request_id"]),
            (&"overloaded_error".into(), &(*id).into())
        );
        assert_eq!(body(ClientDialect::Gemini)["error"]["status"], "UNAVAILABLE");
        assert_eq!(body(ClientDialect::Responses)["error"]["param"], "");
        assert_eq!(body(ClientDialect::OpenAi)["error"].as_object().unwrap().len(), 3);
    }
}
