//! `GET /v1/responses` as a WebSocket: the Responses API for clients that keep one connection for many turns.
//!
//! Each turn is a `POST /v1/responses` that the handler answers as if it had come over HTTP, so every check, limit, count and
//! record is that of any request. A socket adds the framing, the order of its turns and the memory of turns that are not stored.

mod closing;
mod earlier_turns;
mod error_event;
mod handshake;
mod message_meter;
pub(crate) mod realtime;
mod sending;
mod socket;
mod turn;
mod turn_request;
mod warm_up;

use std::sync::Arc;

use gw_engine::Caller;
use gw_engine::error::{Error, Result};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

pub(crate) use self::handshake::is_complete;
use self::socket::Socket;
use crate::admission::Admission;
use crate::origin::{Origin, Respond};
use crate::request_record::RequestRecord;
use crate::response::GatewayReply;
use crate::sign_in::API_KEY;
use crate::state::ServerState;
use crate::timed_io::Activity;
use crate::upload::overloaded;
use crate::wishes::refuse_dry_run;

/// Answers a complete handshake: a 101, after which the connection is a socket.
///
/// # Errors
/// The refusal of the key, or of one more socket.
pub(crate) fn open(
    parts: &Parts,
    record: &mut RequestRecord,
    admission: &Arc<Admission>,
    respond: Respond,
) -> Result<GatewayReply> {
    let state = Arc::clone(&record.state);
    let protocols = handshake::protocols(&parts.headers);
    let headers = turn_headers(&parts.headers, protocols.key.as_deref());
    let caller = caller_of(&headers, record)?;
    let place = state.sockets.take_place(caller.key_id())?;
    let Some(guard) = &record.guard else { return Err(Error::internal()) };
    let reply = handshake::switch(&parts.headers, &protocols);
    let origin = Origin {
        state: Arc::clone(&state),
        listener: record.listener,
        client: record.client,
        // The connection's own deadlines are not those of the turns.
        activity: Arc::new(Activity::default()),
        admission: Arc::clone(admission),
    };
    let socket = Socket {
        origin,
        respond,
        headers,
        key_id: Arc::clone(caller.key_id()),
        cpu: state.engine.cpu_of(&caller),
    };
    guard.leave_takeover(Box::new(move |io, drain| {
        Box::pin(async move {
            let _place = place;
            Box::pin(socket.serve(io, drain)).await;
        })
    }));
    Ok(reply)
}

/// The holder of the key of a handshake.
fn caller_of(headers: &HeaderMap, record: &mut RequestRecord) -> Result<Caller> {
    let state = &record.state;
    // A cookie is no key here, because browsers send it with the handshakes of foreign pages.
    let caller = identify(state, headers).map_err(|error| state.count_bad_key(error, record.client.ip()))?;
    record.key = Some(Arc::clone(caller.key_name()));
    ServerState::check_may_generate(&caller)?;
    refuse_dry_run(headers)?;
    if record.state.is_draining() {
        return Err(overloaded("The gateway is shutting down."));
    }
    Ok(caller)
}

/// The holder of a key.
fn identify(state: &ServerState, headers: &HeaderMap) -> Result<Caller> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    state.engine.identify(values(AUTHORIZATION), values(API_KEY))
}

/// The headers of every turn: those of the handshake, without the ones of the connection and of its one request.
fn turn_headers(headers: &HeaderMap, key: Option<&str>) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.len() + 2);
    for (name, value) in headers {
        if !handshake::is_of_connection(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    // Two keys that differ are both there, so that the gateway refuses them.
    if let Some(key) = key
        && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {key}"))
        && !kept.get_all(AUTHORIZATION).iter().any(|known| *known == value)
    {
        value.set_sensitive(true);
        kept.append(AUTHORIZATION, value);
    }
    kept.insert(http::header::CONTENT_TYPE, crate::response::JSON);
    kept
}
