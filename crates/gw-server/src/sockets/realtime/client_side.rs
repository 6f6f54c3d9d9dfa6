//! From the client to the upstream: each event is inspected, and one that asks for a response is reserved first.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{SplitSink, SplitStream};
use gw_engine::cpu_pool::{is_heavy, offload_if};
use gw_engine::error::{Error, Kind};
use gw_engine::realtime::UpstreamSocket;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::inspect::{Inspected, inspect};
use super::relay::{ClientSocket, Relay, SessionEnd};
use super::upstream_side::PING_INTERVAL;
use crate::sockets::closing::Ending;
use crate::sockets::error_event::of_realtime;
use crate::sockets::message_meter::MessageMeter;
use crate::sockets::sending::send_message;

/// The time in which the other direction may find the upstream's reason for closing.
const REASON_TIME: Duration = Duration::from_secs(1);

/// The client's stream, the upstream's sink, and the memory of the client's messages.
type ClientSideEnds<'s> =
    (SplitStream<&'s mut ClientSocket>, SplitSink<&'s mut UpstreamSocket, Message>, &'s MessageMeter);

/// Relays until the session ends. `orders` are messages of the gateway for the upstream, `notices` events for the client.
pub(super) async fn run(
    relay: &Arc<Relay>,
    (mut client, mut upstream, meter): ClientSideEnds<'_>,
    mut orders: mpsc::Receiver<Message>,
    notices: mpsc::Sender<String>,
) -> SessionEnd {
    let mut next_ping = Instant::now() + PING_INTERVAL;
    loop {
        let message = tokio::select! {
            message = client.next() => message,
            Some(order) = orders.recv() => {
                send(relay, &mut upstream, order).await;
                continue;
            }
            () = sleep_until(next_ping) => {
                next_ping = Instant::now() + PING_INTERVAL;
                send(relay, &mut upstream, Message::Ping(Bytes::new())).await;
                continue;
            }
        };
        let message = match message {
            None => return SessionEnd::Own(Ending::Left),
            Some(Err(error)) => return SessionEnd::Own(Ending::of(&error, meter.is_refused())),
            Some(Ok(message)) => message,
        };
        relay.live().last_client = Instant::now();
        match message {
            Message::Text(text) => {
                let holding = meter.take(relay.origin.state.sockets.holding(&relay.key_id));
                match admit(relay, text).await {
                    Ok(text) => send(relay, &mut upstream, Message::Text(text)).await,
                    Err(notice) => {
                        // The other direction has ended, and the session with it, if nobody takes it.
                        let _ = notices.send(notice).await;
                    }
                }
                drop(holding);
            }
            Message::Binary(_) => return SessionEnd::Own(Ending::NotText),
            Message::Close(frame) => return SessionEnd::Client(frame),
            // The pong is written with the next read.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

/// Sends a message to the upstream. The upstream takes it before the next one is read, so a slow upstream slows its client down.
async fn send(relay: &Relay, upstream: &mut SplitSink<&mut UpstreamSocket, Message>, message: Message) {
    let sent = timeout(relay.origin.state.settings.send_timeout, send_message(upstream, message)).await;
    if !matches!(sent, Ok(Ok(()))) {
        // The other direction ends the session: it knows the frame with which the upstream closed.
        sleep(REASON_TIME).await;
        relay.lose_upstream();
    }
}

/// Decides about an event. Returns the text for the upstream.
///
/// # Errors
/// The event for the client, if the upstream gets nothing.
async fn admit(relay: &Arc<Relay>, text: Utf8Bytes) -> Result<Utf8Bytes, String> {
    let bytes = Bytes::from(text.clone());
    let inspected = if is_heavy(&bytes) {
        let (relay, text) = (Arc::clone(relay), text.clone());
        let cpu = relay.cpu.clone();
        cpu.host(async move { offload_if(true, || inspect(&relay.session, &text)).await }).await
    } else {
        inspect(&relay.session, &text)
    };
    let refused = |(error, id): (Error, Option<String>)| of_realtime(&error, id.as_deref());
    let Inspected { event_id, is_create, max_answer, transcribers, is_commit, audio_chars, rewritten } =
        inspected.map_err(refused)?;
    let refused = |error: Error| of_realtime(&error, event_id.as_deref());
    for name in &transcribers {
        relay.check_transcriber(name).map_err(refused)?;
    }
    if (is_commit || audio_chars > 0) && relay.live().transcriber.is_some() {
        relay.check_transcripts(is_commit).await.map_err(refused)?;
    }
    let text_bytes = if audio_chars > 0 { 0 } else { text.len() as u64 };
    let size = {
        let mut live = relay.live();
        live.last_event = Instant::now();
        live.context_size.add(text_bytes, audio_chars);
        live.context_size.size(max_answer)
    };
    if is_create {
        relay.ask(&bytes, size, event_id.clone()).await.map_err(refused)?;
    } else if relay.progress().0 {
        let error = Error::new(Kind::NoAvailableProvider, "The gateway is shutting down.");
        return Err(of_realtime(&error, event_id.as_deref()));
    }
    Ok(rewritten.map_or(text, Utf8Bytes::from))
}
