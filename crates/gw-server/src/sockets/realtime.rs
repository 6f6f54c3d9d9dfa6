//! `GET /v1/realtime`: a session of speech and text, relayed to an upstream of OpenAI's dialect.
//!
//! The handshake is a request like any other, whose answer is a socket. Events pass as they are. Each response of the session is
//! reserved before it begins, and charged and recorded when it is over.

mod client_side;
mod context_size;
mod inspect;
mod relay;
mod requests;
mod upstream_side;

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::realtime::RealtimeConnection;
use gw_engine::{CallLog, Caller, RequestContext};
use gw_wire::json::ObjectWriter;
use gw_wire::operation::PlainOperation;
use gw_wire::percent::decode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use self::relay::Relay;
use self::requests::SessionFacts;
use super::{caller_of, handshake, turn_headers};
use crate::admission::Admission;
use crate::cut::until_cut;
use crate::generate::admitted;
use crate::origin::Origin;
use crate::preset::{self, PresetTarget};
use crate::request_record::RequestRecord;
use crate::response::{ExtraHeaders, GatewayReply, HttpReply};
use crate::sign_in::API_KEY;
use crate::timed_io::Activity;
use crate::wishes::Wishes;

/// The header in which clients of Azure send their key.
const AZURE_KEY: HeaderName = HeaderName::from_static("api-key");
const OPENAI_BETA: HeaderName = HeaderName::from_static("openai-beta");
/// The member of `openai-beta`, and the subprotocol, of the protocol before the general one.
const BETA: &str = "realtime=v1";
const BETA_PROTOCOL: &str = "openai-beta.realtime-v1";

/// Answers a complete handshake: a 101, after which the connection is a session.
///
/// # Errors
/// The refusal of the key, of the request, or of every upstream.
pub(crate) async fn open(
    parts: &Parts,
    record: &mut RequestRecord,
    admission: &Arc<Admission>,
    extra: &mut ExtraHeaders,
) -> Result<GatewayReply> {
    let state = Arc::clone(&record.state);
    let protocols = handshake::protocols(&parts.headers);
    let headers = session_headers(&parts.headers, protocols.key.as_deref());
    let caller = caller_of(&headers, record)?;
    record.in_flight = Some(state.admit_in_flight()?);
    let wishes = Wishes::read(&headers)?;
    let is_beta = protocols.offers(BETA_PROTOCOL) || names_beta(&parts.headers);
    let body = members_of(parts.uri.query().unwrap_or_default(), is_beta)?;
    let place = state.sockets.take_place(caller.key_id())?;
    let permit = match wishes.dry_run {
        None => Some(admitted(state.engine.admit(&caller, &record.request_id).await, extra)?),
        Some(_) => None,
    };
    let log = Arc::new(CallLog::default());
    let facts = SessionFacts { max_cost: wishes.max_cost, ..SessionFacts::default() };
    let mut context = requests::context(record, &headers, caller.clone(), &log, &facts);
    context.dry_run = wishes.dry_run.clone();
    let body = with_preset(&mut context, &caller, record, &headers, body).await?;
    let facts = SessionFacts { preset: context.preset.clone(), ..facts };
    if wishes.dry_run.is_none() {
        record.call = Some(Arc::clone(&log));
    }
    let cpu = state.engine.cpu_of(&caller);
    let engine = Arc::clone(&state.engine);
    let opening = pin!(cpu.host(async move { engine.open_realtime(context, body).await }));
    let opened = until_cut(&state, Some(&log), opening).await;
    if let Some(report) = wishes.dry_run.and_then(|dry_run| dry_run.take()) {
        return Ok(HttpReply::json(report));
    }
    let RealtimeConnection { session, socket } = opened?;
    let Some(guard) = &record.guard else { return Err(Error::internal()) };
    let origin = Origin {
        state: Arc::clone(&state),
        listener: record.listener,
        client: record.client,
        activity: Arc::new(Activity::default()),
        admission: Arc::clone(admission),
    };
    let relay = Relay::new(origin, record.route, (headers, caller), (session, facts));
    guard.leave_takeover(Box::new(move |io, drain| {
        Box::pin(async move {
            let _held = (place, permit);
            Box::pin(relay.serve(io, *socket, drain)).await;
        })
    }));
    Ok(handshake::switch(&parts.headers, &protocols))
}

/// The headers that count for the whole session, with the key in the place where the gateway looks for it. Two keys that differ are
/// both there, so that the gateway refuses them.
fn session_headers(headers: &HeaderMap, of_protocol: Option<&str>) -> HeaderMap {
    let mut kept = turn_headers(headers, of_protocol);
    if let Some(mut key) = kept.remove(AZURE_KEY)
        && !kept.get_all(API_KEY).iter().any(|known| *known == key)
    {
        key.set_sensitive(true);
        kept.append(API_KEY, key);
    }
    kept
}

fn names_beta(headers: &HeaderMap) -> bool {
    let values = headers.get_all(OPENAI_BETA).iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim() == BETA)
}

/// The members of the request, from its URL.
///
/// # Errors
/// A kind of session that the gateway does not relay.
fn members_of(query: &str, is_beta: bool) -> Result<Bytes> {
    let mut out = Vec::new();
    let mut body = ObjectWriter::begin(&mut out);
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut is_named = false;
    for (name, value) in pairs {
        let Some(value) = decode(value) else { continue };
        match name {
            "model" if is_named => {
                let message = "Invalid 'model': the URL names it twice.";
                return Err(Error::new(Kind::Invalid, message));
            }
            "model" => {
                is_named = true;
                body.string("model", &value);
            }
            "intent" if value == "transcription" => {
                let message = "Invalid 'intent': the gateway relays conversations only. Use POST /v1/audio/transcriptions.";
                return Err(Error::new(Kind::UnsupportedValue, message));
            }
            "call_id" => {
                let message = "Unsupported parameter: 'call_id'. The gateway opens sessions of its own only.";
                return Err(Error::new(Kind::UnsupportedParameter, message));
            }
            _ => {}
        }
    }
    body.boolean("is_beta", is_beta);
    body.finish();
    Ok(out.into())
}

/// The members with those of the preset that the model names.
async fn with_preset(
    context: &mut RequestContext,
    caller: &Caller,
    record: &RequestRecord,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Bytes> {
    let engine = &record.state.engine;
    let Some(presets) = engine.presets(&body, true) else { return Ok(body) };
    context.matched_headers = engine.matched_headers(headers);
    let target = PresetTarget { operation: Some(PlainOperation::Realtime), is_generation: true };
    let cpu = engine.cpu_of(caller);
    let (body, preset) =
        Box::pin(preset::apply(presets, &cpu, caller, (target, &mut context.surface), body)).await?;
    context.preset = preset;
    Ok(body)
}
