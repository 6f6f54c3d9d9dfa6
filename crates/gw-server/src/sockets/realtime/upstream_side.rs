//! From the upstream to the client: events pass as they are, and the responses that they begin and end are charged.

use std::pin::pin;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use gw_engine::error::{Error, Kind};
use gw_engine::realtime::UpstreamSocket;
use gw_wire::json::ObjectWriter;
use gw_wire::realtime::{UpstreamEvent, read_upstream};
use http::StatusCode;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep_until};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use super::relay::{ClientSocket, Relay, SessionEnd, order};
use crate::outgoing::BodyObserver;
use crate::sockets::closing::Ending;
use crate::sockets::error_event::of_realtime;
use crate::sockets::message_meter::MessageMeter;
use crate::sockets::sending::send_message;

/// The time between two pings, to the client and to the upstream.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(30);
const MAX_REASON_BYTES: usize = 123;
/// The event that ends a response.
const DONE: &str = "response.done";
/// The event with the transcript of what a client said.
const TRANSCRIPT: &str = "conversation.item.input_audio_transcription.completed";

/// The upstream's stream, the client's sink, and the memory of the upstream's messages.
type UpstreamSideEnds<'s> =
    (SplitStream<&'s mut UpstreamSocket>, SplitSink<&'s mut ClientSocket, Message>, &'s MessageMeter);

/// The answers of the gateway to an event, and the end of the session if the event causes it.
#[derive(Default)]
struct Consequences {
    /// An event for the client.
    notice: Option<String>,
    /// An event for the upstream.
    order: Option<String>,
    end: Option<SessionEnd>,
}

/// Relays until the session ends. `notices` are events of the gateway for the client, `orders` take messages for the upstream.
pub(super) async fn run(
    relay: &Relay,
    (mut upstream, mut client, meter): UpstreamSideEnds<'_>,
    (mut notices, orders): (mpsc::Receiver<String>, mpsc::Sender<Message>),
    drain: &CancellationToken,
) -> SessionEnd {
    let mut cut = pin!(relay.origin.state.engine.streams_cut());
    let mut lost = pin!(relay.upstream_lost());
    let mut next_ping = Instant::now() + PING_INTERVAL;
    loop {
        let (is_leaving, is_busy) = relay.progress();
        if is_leaving && !is_busy {
            return SessionEnd::Own(Ending::GoingAway);
        }
        let wake = next_ping.min(relay.next_deadline());
        let message = tokio::select! {
            message = upstream.next() => message,
            Some(notice) = notices.recv() => {
                if client.send(Message::text(notice)).await.is_err() {
                    return SessionEnd::Own(Ending::Left);
                }
                continue;
            }
            () = drain.cancelled(), if !is_leaving => {
                relay.live().is_leaving = true;
                continue;
            }
            () = &mut cut => return SessionEnd::Own(Ending::GoingAway),
            () = &mut lost => return gone(&mut client).await,
            () = sleep_until(wake) => {
                if let Some(end) = relay.overdue() {
                    return if matches!(end, Ending::UpstreamGone) { gone(&mut client).await } else { SessionEnd::Own(end) };
                }
                if Instant::now() >= next_ping {
                    next_ping = Instant::now() + PING_INTERVAL;
                    if client.send(Message::Ping(Bytes::new())).await.is_err() {
                        return SessionEnd::Own(Ending::Left);
                    }
                }
                continue;
            }
        };
        relay.live().last_upstream = Instant::now();
        let (message, consequences) = match message {
            Some(Err(_)) if meter.is_refused() => return SessionEnd::Own(Ending::NoMemory),
            None | Some(Err(_)) => return gone(&mut client).await,
            Some(Ok(Message::Close(frame))) => {
                let censored = |mut frame: CloseFrame| {
                    let mut reason = frame.reason.to_string();
                    relay.session.censor(&mut reason);
                    // The protocol has no longer reasons.
                    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
                    frame.reason = reason.into();
                    frame
                };
                return SessionEnd::Upstream(frame.map(censored));
            }
            Some(Ok(Message::Text(text))) => {
                let (text, consequences) = observe(relay, text).await;
                (Message::Text(text), consequences)
            }
            Some(Ok(message @ Message::Binary(_))) => (message, Consequences::default()),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
        };
        let holding = meter.take(relay.origin.state.sockets.holding(&relay.key_id));
        let notice = consequences.notice.map(Message::text);
        for message in std::iter::once(message).chain(notice) {
            // The client takes it before the next one is read, so a slow client slows its upstream down.
            if send_message(&mut client, message).await.is_err() {
                return SessionEnd::Own(Ending::Left);
            }
        }
        drop(holding);
        // An upstream that has not taken so many orders takes nothing.
        if let Some(text) = consequences.order
            && orders.try_send(order(text)).is_err()
        {
            return gone(&mut client).await;
        }
        if let Some(end) = consequences.end {
            return end;
        }
    }
}

/// Tells the client that the upstream is gone.
async fn gone(client: &mut SplitSink<&mut ClientSocket, Message>) -> SessionEnd {
    let message = "The connection to the upstream provider broke off.";
    let error = Error::new(Kind::UpstreamStreamError, message);
    let _ = client.send(Message::text(of_realtime(&error, None))).await;
    SessionEnd::Own(Ending::UpstreamGone)
}

/// Notes what an event means for the responses of the session. Returns the text for the client.
async fn observe(relay: &Relay, text: Utf8Bytes) -> (Utf8Bytes, Consequences) {
    let event = read_upstream(&text);
    let consequences = consequences_of(relay, &text, &event).await;
    // Providers repeat the key that they refuse.
    let is_incomplete = event.kind == DONE && event.status.as_deref() != Some("completed");
    let is_failure = event.kind == "error" || event.kind.ends_with(".failed") || is_incomplete;
    if !is_failure {
        return (text, consequences);
    }
    let mut censored = text.to_string();
    relay.session.censor(&mut censored);
    (censored.into(), consequences)
}

async fn consequences_of(relay: &Relay, text: &str, event: &UpstreamEvent<'_>) -> Consequences {
    let whole = || Bytes::copy_from_slice(text.as_bytes());
    relay.live().last_event = Instant::now();
    if let Some(transcriber) = &event.transcriber {
        let mut live = relay.live();
        live.transcriber = transcriber.as_deref().map(str::to_owned);
        live.context_size.bound(event.max_answer.flatten());
    }
    match (&*event.kind, &event.response_id) {
        ("response.created", Some(id)) => return begun(relay, id, &whole()).await,
        (DONE, Some(id)) => {
            let open = relay.live().take(id);
            let is_first = relay.live().note_end(id);
            if open.is_none() && !is_first {
                return Consequences::default();
            }
            if open.is_none() {
                // A response whose begin nobody saw is charged all the same.
                relay.adopt(id, &whole()).await;
            }
            let open = open.or_else(|| relay.live().take(id));
            let status = event.status.as_deref().unwrap_or_default();
            let usage = open.and_then(|open| open.done(status, event.usage, &whole()));
            if let Some(usage) = usage {
                relay.live().context_size.learn(&usage);
            }
        }
        (TRANSCRIPT, _) => transcribed(relay, event, &whole()),
        ("error", _) => {
            let refused = relay.live().take_asked(event.error_event_id.as_deref());
            if let Some(open) = refused {
                open.refused(event.error_code.as_deref().unwrap_or("upstream_error"));
            }
        }
        (_, Some(id)) if event.delta > 0 => {
            let (text, audio) = if event.is_sound() { (0, event.delta) } else { (event.delta, 0) };
            relay.live().note_output(id, text, audio);
        }
        _ => {}
    }
    Consequences::default()
}

/// Notes that the upstream has begun a response: one that the client has asked for, or one of its own.
async fn begun(relay: &Relay, id: &str, event: &Bytes) -> Consequences {
    if relay.live().begun(id) {
        return Consequences::default();
    }
    let refusal = relay.adopt(id, event).await;
    refusal.map(|error| stopping(id, &error)).unwrap_or_default()
}

/// Stops a response that the upstream began by itself and that is refused.
fn stopping(id: &str, error: &Error) -> Consequences {
    let mut out = Vec::with_capacity(80);
    let mut cancel = ObjectWriter::begin_typed(&mut out, "response.cancel");
    cancel.string("response_id", id);
    cancel.finish();
    let is_key = error.kind == Kind::InvalidApiKey;
    Consequences {
        notice: Some(of_realtime(error, None)),
        order: String::from_utf8(out).ok().filter(|_| !is_key),
        end: is_key.then_some(SessionEnd::Own(Ending::KeyRefused)),
    }
}

/// Charges the transcript of what the client said.
fn transcribed(relay: &Relay, event: &UpstreamEvent<'_>, whole: &Bytes) {
    let Some(usage) = event.usage else { return };
    let name = relay.live().transcriber.clone().unwrap_or_else(|| "transcription".to_owned());
    let caller = relay.refreshed_caller().unwrap_or_else(|_| relay.last_caller());
    let (mut record, context) = relay.request(caller, &Bytes::new());
    relay.origin.state.engine.charge_transcript(&relay.session, context, &name, usage);
    record.sent(whole);
    record.status = Some(StatusCode::OK);
    record.is_complete = true;
}
