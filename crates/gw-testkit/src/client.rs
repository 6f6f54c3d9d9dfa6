//! A small HTTP/1.1 client for tests: one connection per request, nothing retried, nothing hidden.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::Value;

use crate::sse::Stream;
use crate::wire::RawClient;

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Header lines in order, names as sent.
    pub headers: Vec<(String, String)>,
    /// The body without the chunked coding.
    pub body: Vec<u8>,
    /// The connection broke before the body was complete.
    pub broken: bool,
}

impl Response {
    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is UTF-8")
    }

    /// The body as JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => {
                panic!("{error} in the body of a {}: {:?}", self.status, String::from_utf8_lossy(&self.body))
            }
        }
    }

    /// `error.code`, or "" when there is no error. Errors of Google's API have it as the reason of the first detail.
    #[must_use]
    pub fn code(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let error = &body["error"];
        match error["details"][0]["reason"].as_str() {
            Some(reason) => reason.to_ascii_lowercase(),
            None => error["code"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// `error.message`, or "".
    #[must_use]
    pub fn message(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["error"]["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Fails with the whole answer unless it is a 200.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        assert!(!self.broken, "the answer broke off: {}", String::from_utf8_lossy(&self.body));
        self
    }
}

/// Sends requests to one address, with one key.
#[derive(Clone, Debug)]
pub struct Client {
    /// The address of the gateway.
    pub addr: SocketAddr,
    key: Option<String>,
    extra: Vec<(String, String)>,
}

impl Client {
    /// A client without a key.
    #[must_use]
    pub fn new(addr: SocketAddr) -> Self {
        Self { addr, key: None, extra: Vec::new() }
    }

    /// This client with this bearer key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// This client without a key.
    #[must_use]
    pub fn without_key(&self) -> Self {
        Self { key: None, ..self.clone() }
    }

    /// This client with one more request header.
    #[must_use]
    pub fn with_header(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.extra.push((name.to_owned(), value.to_owned()));
        client
    }

    /// The bytes of a request's head, `content-length` last.
    #[must_use]
    pub fn head(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        length: Option<usize>,
    ) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !self.extra.iter().any(|(name, _)| name == "host") {
            let _ = write!(head, "host: {}\r\n", self.addr);
        }
        if let Some(key) = &self.key {
            let _ = write!(head, "authorization: Bearer {key}\r\n");
        }
        if let Some(content_type) = content_type {
            let _ = write!(head, "content-type: {content_type}\r\n");
        }
        for (name, value) in &self.extra {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let Some(length) = length {
            let _ = write!(head, "content-length: {length}\r\n");
        }
        head.push_str("\r\n");
        head
    }

    /// Opens a connection and sends a request on it.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: Option<&[u8]>,
    ) -> RawClient {
        let mut wire = RawClient::connect(self.addr).await;
        wire.send(self.head(method, path, content_type, body.map(<[u8]>::len))).await;
        if let Some(body) = body {
            wire.send(body).await;
        }
        wire
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: Option<&[u8]>,
    ) -> Response {
        let mut wire = self.open(method, path, content_type, body).await;
        let answer = wire.response_to(method == "HEAD").await;
        answer.unwrap_or_else(|| panic!("{method} {path}: the gateway closed without an answer"))
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Response {
        self.send("GET", path, None, None).await
    }

    /// POST of a JSON value.
    pub async fn post_json(&self, path: &str, body: &Value) -> Response {
        self.post_bytes(path, body.to_string().as_bytes()).await
    }

    /// POST of any bytes as application/json.
    pub async fn post_bytes(&self, path: &str, body: &[u8]) -> Response {
        self.send("POST", path, Some("application/json"), Some(body)).await
    }

    /// POST of a JSON value with an event stream as the answer; panics when the answer is no event stream.
    pub async fn stream(&self, path: &str, body: &Value) -> Stream {
        match self.try_stream(path, body).await {
            Ok(stream) => stream,
            Err(answer) => {
                panic!("no stream but {}: {}", answer.status, String::from_utf8_lossy(&answer.body))
            }
        }
    }

    /// As [`Client::stream`], with the whole answer as the error when it is no event stream.
    pub async fn try_stream(&self, path: &str, body: &Value) -> Result<Stream, Response> {
        let mut wire =
            self.open("POST", path, Some("application/json"), Some(body.to_string().as_bytes())).await;
        let head = wire.head().await.expect("the gateway answers");
        wire.expect_body(&head, false);
        if head.header("content-type").is_some_and(|value| value.starts_with("text/event-stream")) {
            return Ok(Stream::new(head, wire));
        }
        let mut body = Vec::new();
        while let Ok(Some(piece)) = wire.body_chunk().await {
            body.extend_from_slice(&piece);
        }
        Err(Response { status: head.status, headers: head.headers, body, broken: false })
    }
}
