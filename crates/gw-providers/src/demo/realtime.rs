//! The model `realtime`: a session over a WebSocket inside the process. It repeats the last text, as text or as a tone with its
//! transcript, and counts words and pieces of sound as tokens.

mod session;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::duplex;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use self::session::DemoSession;
use crate::client::{SocketLimits, UpstreamSocket, socket_over};

/// The bytes that wait between the two ends.
const PIPE_BYTES: usize = 64 << 10;

/// Opens a session. Its task ends when the socket is dropped.
pub(super) async fn open(limits: SocketLimits) -> UpstreamSocket {
    let (near, far) = duplex(PIPE_BYTES);
    let server = socket_over(Box::new(far), Role::Server, limits).await;
    tokio::spawn(serve(server));
    socket_over(Box::new(near), Role::Client, limits).await
}

async fn serve(mut socket: UpstreamSocket) {
    let mut session = DemoSession::new();
    let mut events = vec![session.created()];
    loop {
        for event in events.drain(..) {
            if socket.send(Message::text(event.to_string())).await.is_err() {
                return;
            }
        }
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                let event: Value = serde_json::from_str(&text).unwrap_or_default();
                events = session.answer(&event);
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            _ => return,
        }
    }
}
