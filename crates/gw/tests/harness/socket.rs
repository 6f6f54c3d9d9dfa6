//! A WebSocket client of tests. It speaks through tungstenite, and can also send any bytes.

use std::cell::Cell;
use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use gw_testkit::wait::within;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderName, HeaderValue, Response};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// The answer to a handshake that is refused.
pub(crate) type Refusal = Box<Response<Option<Vec<u8>>>>;

/// An open socket.
#[derive(Debug)]
pub(crate) struct SocketClient {
    inner: WebSocketStream<TcpStream>,
    /// The headers of the 101.
    pub(crate) headers: HeaderMap,
}

/// Opens a socket at `/v1/responses`, or gives the answer that refuses it.
pub(crate) async fn open(addr: SocketAddr, headers: &[(&str, &str)]) -> Result<SocketClient, Refusal> {
    open_at(addr, "/v1/responses", headers).await
}

/// Opens a socket at this path, or gives the answer that refuses it.
pub(crate) async fn open_at(
    addr: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<SocketClient, Refusal> {
    let mut request = format!("ws://{addr}{path}").into_client_request().expect("a request");
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header");
        request.headers_mut().append(name, HeaderValue::from_str(value).expect("a value"));
    }
    let socket = within("connect", TcpStream::connect(addr)).await.expect("the gateway accepts");
    socket.set_nodelay(true).expect("an option of the socket");
    match within("a handshake", client_async(request, socket)).await {
        Ok((inner, response)) => Ok(SocketClient { inner, headers: response.headers().clone() }),
        Err(Error::Http(refusal)) => Err(refusal),
        Err(error) => panic!("the handshake failed: {error}"),
    }
}

/// Opens a socket with this key.
pub(crate) async fn with_key(addr: SocketAddr, key: &str) -> SocketClient {
    match open(addr, &[("authorization", &format!("Bearer {key}"))]).await {
        Ok(socket) => socket,
        Err(refusal) => panic!("refused: {refusal:?}"),
    }
}

impl SocketClient {
    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_message(Message::text(message.to_string())).await;
    }

    pub(crate) async fn send_message(&mut self, message: Message) {
        within("send a message", self.inner.send(message)).await.expect("the gateway reads");
    }

    /// Sends bytes that need not be frames.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        within("send bytes", self.inner.get_mut().write_all(bytes)).await.expect("the gateway reads");
    }

    /// The next message that is no sign of life. None: the connection is gone.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        loop {
            match within("a message", self.inner.next()).await {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The next event.
    pub(crate) async fn event(&mut self) -> Value {
        match self.message().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).expect("an event is JSON"),
            other => panic!("no event: {other:?}"),
        }
    }

    /// The events up to the end of a turn.
    pub(crate) async fn turn(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            let kind = event["type"].as_str().unwrap_or_default();
            // An error without a status stands before `response.failed`.
            let is_refusal = kind == "error" && event["status"].is_number();
            let is_last = is_refusal
                || ["response.completed", "response.incomplete", "response.failed"].contains(&kind);
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// Sends a request and gives the last event of its turn.
    pub(crate) async fn ask(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.turn().await.pop().expect("a turn has an event")
    }

    /// Sends a text again and again, at most so many times, while it reads. Returns how often the gateway took it before its close frame,
    /// and the last message.
    ///
    /// After its close frame the gateway reads for a moment, so that the frame arrives. What it reads then does not count.
    pub(crate) async fn flood(self, text: &str, most: usize) -> (usize, Option<Message>) {
        let (mut sink, mut stream) = self.inner.split();
        let sent = Cell::new(0);
        let sending = async {
            while sent.get() < most && sink.send(Message::text(text)).await.is_ok() {
                sent.set(sent.get() + 1);
            }
        };
        let reading = async {
            let mut closed = None;
            while let Some(Ok(message)) = stream.next().await {
                if !matches!(message, Message::Ping(_) | Message::Pong(_)) {
                    closed = Some((sent.get(), message));
                }
            }
            closed
        };
        // The reader looks first: where the gateway reads again, its close frame is already there.
        let (closed, ()) = within("the gateway closes", futures_util::future::join(reading, sending)).await;
        closed.map_or((sent.get(), None), |(taken, last)| (taken, Some(last)))
    }

    /// The code and the reason with which the gateway closes.
    pub(crate) async fn closing(&mut self) -> Option<(u16, String)> {
        loop {
            if let Message::Close(frame) = self.message().await? {
                return frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
            }
        }
    }

    /// The code with which the gateway closes.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        loop {
            match self.message().await {
                Some(Message::Close(frame)) => return frame.map(|frame| frame.code.into()),
                Some(_) => {}
                None => return None,
            }
        }
    }
}
