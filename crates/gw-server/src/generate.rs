//! Generation requests: the checks that only they have, then the engine's call.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_engine::cpu_pool::{is_heavy, offload};
use gw_engine::error::{Error, Result};
use gw_engine::payloads::ContentCapture;
use gw_engine::{AdmissionPermit, CallLog, Caller, ClientSurface, LimitStates, ReplyBody, RequestContext};
use gw_wire::dialects::ClientDialect;
use http::header::{CACHE_CONTROL, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body::Body;

use crate::admission::Admission;
use crate::client_dialect;
use crate::cut::until_cut;
use crate::refusal::overloaded_error;
use crate::request_record::RequestRecord;
use crate::response::{ExtraHeaders, GatewayReply, HttpReply, spell_reset};
use crate::router::Operation;
use crate::session::session_of;
use crate::upload::{self, BodySender, BoxError};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
const LIMIT_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-limit-tokens");
const REMAINING_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-remaining-tokens");
const RESET_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-reset-tokens");

/// `true` leaves the gateway's own members out of the answer, for clients that refuse unknown members.
const PLAIN: HeaderName = HeaderName::from_static("x-gateway-plain");

/// A heavy request is refused while a step of its key has waited longer than this for the CPU pool.
const MAX_CPU_POOL_WAIT: Duration = Duration::from_secs(1);

/// The largest body in which a worker itself looks for the session.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// Checks limits, media type and body, then calls the engine.
pub(crate) async fn generate<B>(
    parts: &Parts,
    operation: Operation,
    body: &mut B,
    record: &mut RequestRecord,
    caller: Caller,
    (admission, extra): (&Admission, &mut ExtraHeaders),
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let state = Arc::clone(&record.state);
    record.admission_permit = Some(admitted(state.engine.admit(&caller, &record.request_id).await, extra)?);
    let encoding = upload::check_media(&parts.headers)?;
    let (cpu, key_id) = (state.engine.cpu_of(&caller), Arc::clone(caller.key_id()));
    let is_late = || cpu.lateness() > MAX_CPU_POOL_WAIT;
    if upload::may_be_heavy(&parts.headers) && is_late() {
        return Err(overloaded_error());
    }
    let sender = BodySender { key_id: &key_id, cpu: &cpu };
    let started = admission.moment();
    let (bytes, permit) = upload::read(&parts.headers, encoding, body, &state.uploads, sender).await?;
    // A body that came later than the start is work that the start did not count.
    if admission.moment() != started && !admission.is_free(std::time::Instant::now()) {
        Box::pin(admission.wait_again(&key_id)).await;
    }
    // Many other bodies may have arrived while this one was read.
    if is_late() && is_heavy(&bytes) {
        return Err(overloaded_error());
    }
    record.body_permit = Some(permit);
    if let Some((trace, most)) = record.trace.as_ref().zip(state.tracer.as_ref().and_then(|it| it.content()))
        && trace.is_recorded()
    {
        record.trace_content = Some(Box::new(ContentCapture::new(bytes.clone(), most)));
    }
    record.capture = state.engine.capture(&caller, &record.request_id, &bytes);
    let session = if bytes.len() <= MAX_INLINE_BYTES {
        session_of(&parts.headers, &bytes)
    } else {
        let (headers, body) = (parts.headers.clone(), bytes.clone());
        cpu.host(offload(move || session_of(&headers, &body))).await
    };
    let log = Arc::new(CallLog::default());
    record.call = Some(Arc::clone(&log));
    let context = RequestContext {
        request_id: Arc::clone(&record.request_id),
        caller,
        accepted: record.accepted,
        log: Arc::clone(&log),
        client: Some(record.client.ip()),
        session,
        cache_control: cache_control(&parts.headers),
        keepalive: state.settings.keepalive,
        surface: ClientSurface {
            dialect: client_dialect::of(parts),
            is_plain: parts.headers.get(PLAIN).is_some_and(|value| value == "true"),
            forwarded: match operation {
                // No upstream gets the own body of these requests.
                Operation::Chat | Operation::Completion | Operation::Embeddings => Vec::new(),
                _ => forwarded_headers(&parts.headers, client_dialect::of(parts)),
            },
        },
        trace: record.trace.clone(),
    };
    let engine = Arc::clone(&state.engine);
    // `host` boxes the future of the call. It is large, and every layer above would otherwise copy it.
    let calling = pin!(async {
        match operation {
            Operation::Chat => cpu.host(async move { engine.chat(context, bytes).await }).await,
            Operation::Completion => cpu.host(async move { engine.completion(context, bytes).await }).await,
            Operation::Embeddings => cpu.host(async move { engine.embeddings(context, bytes).await }).await,
            Operation::Messages => cpu.host(async move { engine.messages(context, bytes).await }).await,
            Operation::Responses => cpu.host(async move { engine.responses(context, bytes).await }).await,
            Operation::CountTokens => {
                cpu.host(async move { engine.count_tokens(context, bytes).await }).await
            }
            Operation::Compact => cpu.host(async move { engine.compact(context, bytes).await }).await,
        }
    });
    let reply = until_cut(&state, Some(&log), calling).await?;
    extra.extend(reply.headers);
    Ok(answered(reply.body, record))
}

/// The answer to a client. A call in the background takes the record of its request along.
fn answered(body: ReplyBody, record: &mut RequestRecord) -> GatewayReply {
    match body {
        ReplyBody::Full(body) => HttpReply::json(body),
        ReplyBody::Stream(stream) => HttpReply::events(stream),
        ReplyBody::Background(first) => {
            first.hand_over.give(Box::new(record.hand_on()));
            match first.body {
                ReplyBody::Stream(stream) => HttpReply::events(stream),
                ReplyBody::Full(body) => HttpReply::json(body),
                // A first word has no first word of its own.
                ReplyBody::Background(_) => HttpReply::no_content(),
            }
        }
    }
}

/// The permit of a request that its key's limits admit. The answer gets the headers of the limits either way.
pub(crate) fn admitted(
    permit: std::result::Result<AdmissionPermit, Box<(LimitStates, Error)>>,
    extra: &mut ExtraHeaders,
) -> Result<AdmissionPermit> {
    let (limits, permit) = match permit {
        Ok(permit) => (permit.limits, Ok(permit)),
        Err(refused) => (refused.0, Err(refused.1)),
    };
    add_limit_headers(&limits, extra);
    permit
}

/// Adds the `x-ratelimit-*` headers of the limits that the key or its team has. Their values share one piece of memory.
fn add_limit_headers(limits: &LimitStates, extra: &mut ExtraHeaders) {
    let requests = limits.requests.as_ref().map(|window| {
        ([LIMIT, REMAINING, RESET], u64::from(window.limit), u64::from(window.remaining), window.reset)
    });
    let tokens = limits.tokens.as_ref().map(|window| {
        ([LIMIT_TOKENS, REMAINING_TOKENS, RESET_TOKENS], window.limit, window.remaining, window.reset)
    });
    let windows = [requests, tokens];
    if windows.iter().all(Option::is_none) {
        return;
    }
    let mut text = Vec::with_capacity(64);
    let windows = windows.map(|window| {
        window.map(|(names, limit, remaining, reset)| {
            let begin = text.len();
            let ends = [0, 1, 2].map(|part| {
                match part {
                    0 => text.extend_from_slice(itoa::Buffer::new().format(limit).as_bytes()),
                    1 => text.extend_from_slice(itoa::Buffer::new().format(remaining).as_bytes()),
                    _ => spell_reset(&mut text, reset),
                }
                text.len()
            });
            (names, begin, ends)
        })
    });
    let text = Bytes::from(text);
    extra.reserve(8);
    for (names, mut begin, ends) in windows.into_iter().flatten() {
        for (name, end) in names.into_iter().zip(ends) {
            let value = HeaderValue::from_maybe_shared(text.slice(begin..end));
            extra.extend(value.ok().map(|value| (name, value)));
            begin = end;
        }
    }
}

/// All `Cache-Control` lines, joined to one.
fn cache_control(headers: &HeaderMap) -> Option<Box<[u8]>> {
    let mut lines = headers.get_all(CACHE_CONTROL).iter().map(HeaderValue::as_bytes);
    let mut all = lines.next()?.to_vec();
    for line in lines {
        all.push(b',');
        all.extend_from_slice(line);
    }
    Some(all.into())
}

/// The `anthropic-*` headers, for an upstream that speaks the Messages API. A Responses request has `openai-*` headers
/// instead, which no upstream gets.
fn forwarded_headers(headers: &HeaderMap, dialect: ClientDialect) -> Vec<(HeaderName, HeaderValue)> {
    let start = if dialect == ClientDialect::Responses { "openai-" } else { "anthropic-" };
    let named = headers.iter().filter(|(name, _)| name.as_str().starts_with(start));
    named.map(|(name, value)| (name.clone(), value.clone())).collect()
}
