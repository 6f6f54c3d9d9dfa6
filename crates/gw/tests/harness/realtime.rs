//! An upstream of realtime sessions in tests: it accepts WebSockets, and the test speaks for it.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use gw_testkit::certificate::Certificate;
use gw_testkit::wait::within;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::socket::{Refusal, SocketClient, open_at};
use super::{KEY, Setup, World};

/// A connection, perhaps inside TLS.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

/// The upstream.
pub(crate) struct RealtimeUpstream {
    listener: TcpListener,
    certificate: Option<Certificate>,
}

/// One session of the upstream.
pub(crate) struct UpstreamSession {
    /// The head of the handshake.
    pub(crate) request: Request,
    inner: WebSocketStream<Box<dyn Connection>>,
}

impl RealtimeUpstream {
    pub(crate) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"), certificate: None }
    }

    /// As [`RealtimeUpstream::start`], over TLS with this certificate.
    pub(crate) async fn start_tls(certificate: Certificate) -> Self {
        Self { certificate: Some(certificate), ..Self::start().await }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.listener.local_addr().expect("an address")
    }

    /// Accepts the next session.
    pub(crate) async fn session(&self) -> UpstreamSession {
        let (socket, _) = within("the gateway connects", self.listener.accept()).await.expect("a connection");
        socket.set_nodelay(true).expect("an option of the socket");
        let connection: Box<dyn Connection> = match &self.certificate {
            None => Box::new(socket),
            Some(certificate) => {
                let accepting = certificate.acceptor().accept(socket);
                Box::new(within("the TLS handshake", accepting).await.expect("TLS"))
            }
        };
        let mut head = None;
        #[expect(clippy::result_large_err, reason = "the type of the handshake's library")]
        let keep = |request: &Request, response: Response| {
            head = Some(request.clone());
            Ok(response)
        };
        let inner = within("the handshake", accept_hdr_async(connection, keep)).await.expect("a handshake");
        UpstreamSession { request: head.expect("a head"), inner }
    }

    /// Waits for a connection whose TLS handshake the gateway breaks off.
    pub(crate) async fn refused_handshake(&self) {
        let (socket, _) = within("the gateway connects", self.listener.accept()).await.expect("a connection");
        let certificate = self.certificate.as_ref().expect("TLS");
        let accepted = within("the TLS handshake", certificate.acceptor().accept(socket)).await;
        if let Ok(mut accepted) = accepted {
            // The client's refusal may come after the server's part of the handshake.
            let mut read = [0];
            assert!(matches!(accepted.read(&mut read).await, Ok(0) | Err(_)), "the gateway sends nothing");
        }
    }

    /// Refuses the next session with this answer.
    pub(crate) async fn refuse(&self, status: &str, body: &str) {
        let (mut socket, _) =
            within("the gateway connects", self.listener.accept()).await.expect("a connection");
        let mut read = vec![0; 4096];
        let _ = within("a head", socket.read(&mut read)).await;
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
        let _ = within("the gateway closes", socket.read(&mut read)).await;
    }
}

impl UpstreamSession {
    pub(crate) async fn send(&mut self, event: &Value) {
        self.send_text(&event.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        within("send an event", self.inner.send(Message::text(text))).await.expect("the gateway reads");
    }

    /// Sends a text again and again, at most so many times. Returns how often the gateway took it before it was gone.
    pub(crate) async fn flood(&mut self, text: &str, most: usize) -> usize {
        for sent in 0..most {
            if within("send a text", self.inner.send(Message::text(text))).await.is_err() {
                return sent;
            }
        }
        most
    }

    /// The next text of the gateway. None: it closed.
    pub(crate) async fn text(&mut self) -> Option<String> {
        loop {
            match within("a message", self.inner.next()).await {
                Some(Ok(Message::Text(text))) => return Some(text.to_string()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    }

    /// The next event of the gateway.
    pub(crate) async fn event(&mut self) -> Value {
        let text = self.text().await.expect("the session goes on");
        serde_json::from_str(&text).expect("an event is JSON")
    }

    pub(crate) async fn close(&mut self, code: u16, reason: &str) {
        let frame = CloseFrame { code: code.into(), reason: reason.to_owned().into() };
        let _ = self.inner.close(Some(frame)).await;
    }

    /// Waits until the gateway has closed.
    pub(crate) async fn until_closed(&mut self) {
        while self.text().await.is_some() {}
    }

    /// Answers a response with this usage. Returns after its end is sent.
    pub(crate) async fn respond(&mut self, id: &str, usage: &Value) {
        self.send(&created(id)).await;
        self.send(&done(id, "completed", usage)).await;
    }
}

/// The event that begins a response.
pub(crate) fn created(id: &str) -> Value {
    json!({"type": "response.created", "event_id": "event_1", "response": {"id": id, "status": "in_progress", "usage": null}})
}

/// The event that ends a response.
pub(crate) fn done(id: &str, status: &str, usage: &Value) -> Value {
    json!({"type": "response.done", "event_id": "event_2", "response": {"id": id, "status": status, "output": [], "usage": usage}})
}

/// A usage with all kinds of tokens. It costs 0.0068536 USD.
pub(crate) fn full_usage() -> Value {
    json!({
        "total_tokens": 253, "input_tokens": 132, "output_tokens": 121,
        "input_token_details": {
            "text_tokens": 119, "audio_tokens": 13, "image_tokens": 0, "cached_tokens": 64,
            "cached_tokens_details": {"text_tokens": 60, "audio_tokens": 4, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": 30, "audio_tokens": 91},
    })
}

/// A gateway whose provider `rt` is this upstream. Its model `rt/voice` has all prices.
pub(crate) async fn world_with(upstream: &RealtimeUpstream, setup: Setup) -> World {
    let addr = upstream.addr();
    let provider = format!(
        r#"
[[providers]]
name = "rt"
api = "openai"
base_url = "http://{addr}/v1"
api_key = "<upstream_key>"

[[models]]
id = "rt/voice"
upstream_model = "voice-2026"
category = ["realtime"]
context_length = 32000
max_output_tokens = 4096
pricing = {{ official_input_per_m = 4.0, official_output_per_m = 16.0, cached_input_per_m = 0.4, official_audio_input_per_m = 32.0, official_audio_output_per_m = 64.0, currency = "USD" }}

[[models]]
id = "rt/free"
category = ["realtime"]

[[models]]
id = "rt/scribe"
category = ["transcription"]
pricing = {{ official_input_per_m = 2.5, official_output_per_m = 10.0, official_audio_input_per_m = 6.0, currency = "USD" }}
"#
    );
    Setup { extra: provider + &setup.extra, ..setup }.start().await
}

/// Opens a session of `rt/voice` with this key, at both ends.
pub(crate) async fn session_of(
    upstream: &RealtimeUpstream,
    world: &World,
    key: &str,
) -> (SocketClient, UpstreamSession) {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];
    let opening = open_at(world.gateway.addr, "/v1/realtime?model=rt/voice", &headers);
    let (opened, session) = tokio::join!(opening, upstream.session());
    (opened.unwrap_or_else(|refusal| panic!("refused: {refusal:?}")), session)
}

/// Opens a session at this path, at both ends, or gives the answer that refuses it.
pub(crate) async fn open_session(
    upstream: &RealtimeUpstream,
    world: &World,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(SocketClient, UpstreamSession), Refusal> {
    let mut opening = std::pin::pin!(open_at(world.gateway.addr, path, headers));
    tokio::select! {
        opened = &mut opening => Err(opened.expect_err("a session without its upstream")),
        session = upstream.session() => Ok((opening.await?, session)),
    }
}

/// As [`session_of`], with the usual key.
pub(crate) async fn session(upstream: &RealtimeUpstream, world: &World) -> (SocketClient, UpstreamSession) {
    session_of(upstream, world, KEY).await
}

/// The status and the code of a refused handshake.
pub(crate) fn refused(refusal: &Refusal) -> (u16, String) {
    let body: Value =
        serde_json::from_slice(refusal.body().as_deref().unwrap_or_default()).unwrap_or_default();
    (refusal.status().as_u16(), body["error"]["code"].as_str().unwrap_or_default().to_owned())
}
