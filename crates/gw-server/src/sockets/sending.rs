//! The sending of messages: a large one goes in fragments, because a socket keeps a buffer as large as its largest frame.

use futures_util::{Sink, SinkExt};
use gw_wire::websocket_frames::FRAGMENT_BYTES;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

/// Sends a message. The peer has taken it when the future is over.
///
/// # Errors
/// The socket's own.
pub(super) async fn send_message<S>(sink: &mut S, message: Message) -> Result<(), Error>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    let most = usize::try_from(FRAGMENT_BYTES).unwrap_or(usize::MAX);
    let (mut rest, mut kind) = match message {
        Message::Text(text) if text.len() > most => (Bytes::from(text), Data::Text),
        Message::Binary(bytes) if bytes.len() > most => (bytes, Data::Binary),
        small => return sink.send(small).await,
    };
    while !rest.is_empty() {
        let fragment = rest.split_to(most.min(rest.len()));
        let frame = Frame::message(fragment, OpCode::Data(kind), rest.is_empty());
        sink.send(Message::Frame(frame)).await?;
        kind = Data::Continue;
    }
    Ok(())
}
