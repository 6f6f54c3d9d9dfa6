//! Generation requests: the checks that only they have, then the engine's call.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_engine::cpu_pool::{CpuPool, is_heavy, offload};
use gw_engine::error::{Error, Result};
use gw_engine::payloads::ContentCapture;
use gw_engine::{
    AdmissionPermit, CallLog, Caller, ClientSurface, Engine, LimitStates, Reply, ReplyBody, RequestContext,
};
use gw_wire::dialects::ClientDialect;
use gw_wire::operation::Operation;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body::Body;

use crate::admission::Admission;
use crate::attribution::{RequestNames, names_of};
use crate::cut::until_cut;
use crate::gemini_url;
use crate::preset::{self, PresetTarget};
use crate::refusal::overloaded_error;
use crate::request_record::RequestRecord;
use crate::response::{Content, ExtraHeaders, GatewayReply, HttpReply, JSON, spell_reset};
use crate::session::session_of;
use crate::upload::{self, BodySender, BoxError};
use crate::wishes::Wishes;

/// The headers of the limits of requests and of tokens: the limit, the remaining number, the time until all of it is back.
static LIMIT_NAMES: [[HeaderName; 3]; 2] = [
    [
        HeaderName::from_static("x-ratelimit-limit-requests"),
        HeaderName::from_static("x-ratelimit-remaining-requests"),
        HeaderName::from_static("x-ratelimit-reset-requests"),
    ],
    [
        HeaderName::from_static("x-ratelimit-limit-tokens"),
        HeaderName::from_static("x-ratelimit-remaining-tokens"),
        HeaderName::from_static("x-ratelimit-reset-tokens"),
    ],
];

/// Nearly all values of the headers of limits fit into this many bytes.
const LIMIT_TEXT_BYTES: usize = 96;
/// Nearly all answers have at most this many headers.
const MOST_HEADERS: usize = 20;

/// A heavy request is refused while a step of its key has waited longer than this for the CPU pool.
const MAX_CPU_POOL_WAIT: Duration = Duration::from_secs(1);

/// The largest body in which a worker itself looks for the session and the tags.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// The kinds of generation requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// An answer.
    Answer(Operation),
    /// `POST /v1/messages/count_tokens`, `POST /v1/responses/input_tokens` and `countTokens` of the Gemini API.
    CountTokens,
    /// `POST /v1/responses/compact`.
    Compact,
}

/// Checks limits, media type and body, then calls the engine.
pub(crate) async fn generate<B>(
    parts: &Parts,
    generation: Generation,
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
    let wishes = wishes_of(&parts.headers, generation)?;
    // A dry run uses up no limit.
    if wishes.dry_run.is_none() {
        record.admission_permit =
            Some(admitted(state.engine.admit(&caller, &record.request_id).await, extra)?);
    }
    let encoding = upload::check_media(&parts.headers)?;
    let (cpu, key_id) = (state.engine.cpu_of(&caller), Arc::clone(caller.key_id()));
    let is_late = || cpu.lateness() > MAX_CPU_POOL_WAIT;
    if is_late() && upload::may_be_heavy(&parts.headers) {
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
    if wishes.dry_run.is_none() {
        record.capture = state.engine.capture(&caller, &record.request_id, &bytes);
    }
    let is_trusted = caller.trusts_attribution();
    let (session, names) = read_names(&cpu, &parts.headers, &bytes, is_trusted).await;
    // No upstream gets the tags.
    let mut bytes = names.body.unwrap_or(bytes);
    let mut surface = surface_of(parts, record.dialect, generation, wishes.is_plain);
    let (mut preset, mut matched_headers) = (None, Vec::new());
    // The reader of Google's API does not look at the member.
    let is_certain = surface.gemini.is_some();
    if let Some(presets) = state.engine.presets(&bytes, is_certain) {
        matched_headers = state.engine.matched_headers(&parts.headers);
        let to = (preset_target(generation), &mut surface);
        (bytes, preset) = Box::pin(preset::apply(presets, &cpu, &caller, to, bytes)).await?;
    }
    let log = Arc::new(CallLog::default());
    if wishes.dry_run.is_none() {
        record.call = Some(Arc::clone(&log));
    }
    // Boxed, because the call and every layer of it hand it on.
    let context = Box::new(RequestContext {
        request_id: Arc::clone(&record.request_id),
        caller,
        accepted: record.accepted,
        log: Arc::clone(&log),
        client: Some(record.client.ip()),
        session,
        attribution: names.attribution,
        preset,
        matched_headers,
        warnings: names.warnings,
        rules: None,
        max_cost: wishes.max_cost.map(Box::new),
        dry_run: wishes.dry_run.clone(),
        cache_control: cache_control(&parts.headers),
        keepalive: state.settings.keepalive,
        surface,
        trace: record.trace.clone(),
    });
    let is_array = context.surface.gemini.as_ref().is_some_and(|url| url.is_array);
    let calling = pin!(call(Arc::clone(&state.engine), &cpu, generation, context, bytes));
    let reply = until_cut(&state, Some(&log), calling).await;
    if let Some(report) = wishes.dry_run.and_then(|dry_run| dry_run.take()) {
        return Ok(HttpReply::json(report));
    }
    count_own_tokens(record, &log, extra);
    let reply = reply?;
    extra.extend(reply.headers);
    let answer = answered(reply.body, record, extra);
    if is_array {
        extra.iter_mut().filter(|(name, _)| *name == CONTENT_TYPE).for_each(|(_, value)| *value = JSON);
    }
    Ok(answer)
}

/// The facts that differ between the APIs of clients.
fn surface_of(
    parts: &Parts,
    dialect: ClientDialect,
    generation: Generation,
    is_plain: bool,
) -> ClientSurface {
    let is_gemini = dialect == ClientDialect::Gemini;
    ClientSurface {
        dialect,
        is_plain,
        forwarded: if is_gemini {
            Vec::new()
        } else {
            forwarded_headers(&parts.headers, dialect, generation)
        },
        gemini: if is_gemini { gemini_url::read(parts).map(Arc::new) } else { None },
        own_body: None,
    }
}

fn preset_target(generation: Generation) -> PresetTarget {
    let operation = match generation {
        Generation::Answer(Operation::Plain(operation)) => Some(operation),
        Generation::Answer(_) | Generation::CountTokens | Generation::Compact => None,
    };
    PresetTarget { operation, is_generation: matches!(generation, Generation::Answer(_)) }
}

/// The names of a request, and the session that it belongs to. A large body is read on the CPU pool.
async fn read_names(
    cpu: &CpuPool,
    headers: &HeaderMap,
    bytes: &Bytes,
    is_trusted: bool,
) -> (Option<Arc<str>>, RequestNames) {
    if bytes.len() <= MAX_INLINE_BYTES {
        return (session_of(headers, bytes), names_of(headers, bytes, is_trusted));
    }
    let (headers, body) = (headers.clone(), bytes.clone());
    cpu.host(offload(move || (session_of(&headers, &body), names_of(&headers, &body, is_trusted)))).await
}

/// The wishes that the headers name. A count of tokens generates nothing, so it has no dry run.
fn wishes_of(headers: &HeaderMap, generation: Generation) -> Result<Wishes> {
    let mut wishes = Wishes::read(headers)?;
    if matches!(generation, Generation::CountTokens) {
        wishes.dry_run = None;
    }
    Ok(wishes)
}

/// Has the engine answer a request. `host` boxes the future of the call. It is large, and every layer above would otherwise copy it.
async fn call(
    engine: Arc<Engine>,
    cpu: &CpuPool,
    generation: Generation,
    context: Box<RequestContext>,
    bytes: Bytes,
) -> Result<Reply> {
    match generation {
        Generation::Answer(Operation::Plain(operation)) => {
            cpu.host(async move { engine.generate(operation, context, bytes).await }).await
        }
        Generation::Answer(Operation::Messages) => {
            cpu.host(async move { engine.messages(context, bytes).await }).await
        }
        Generation::Answer(Operation::Responses) => {
            cpu.host(async move { engine.responses(context, bytes).await }).await
        }
        Generation::Answer(Operation::Gemini) => {
            cpu.host(async move { engine.gemini(context, bytes).await }).await
        }
        // The routes of the configuration have an endpoint of their own.
        Generation::Answer(Operation::Passthrough) => Err(Error::internal()),
        Generation::CountTokens => cpu.host(async move { engine.count_tokens(context, bytes).await }).await,
        Generation::Compact => cpu.host(async move { engine.compact(context, bytes).await }).await,
    }
}

/// The answer to a client. A call in the background takes the record of its request along.
pub(crate) fn answered(
    body: ReplyBody,
    record: &mut RequestRecord,
    extra: &mut ExtraHeaders,
) -> GatewayReply {
    let content = match body {
        ReplyBody::Full(body) => Content::Full(body),
        ReplyBody::Stream(stream) => Content::Stream(stream),
        ReplyBody::Background(first) => {
            first.hand_over.give(Box::new(record.hand_on()));
            match first.body {
                ReplyBody::Stream(stream) => Content::Stream(stream),
                ReplyBody::Full(body) => Content::Full(body),
                // A first word has no first word of its own.
                ReplyBody::Background(_) => return HttpReply::no_content(),
            }
        }
    };
    HttpReply::generated(content, extra)
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
    let requests = limits.requests.as_ref();
    let requests = requests.map(|it| (u64::from(it.limit), u64::from(it.remaining), it.reset));
    let tokens = limits.tokens.as_ref().map(|it| (it.limit, it.remaining, it.reset));
    if requests.is_none() && tokens.is_none() {
        return;
    }
    let mut text = Vec::with_capacity(LIMIT_TEXT_BYTES);
    let ends = [requests, tokens].map(|window| window.map(|window| spell_window(&mut text, window)));
    let (text, mut begin) = (Bytes::from(text), 0);
    // These headers, and all others of the answer.
    if extra.capacity() == 0 {
        *extra = Vec::with_capacity(MOST_HEADERS);
    }
    for (names, ends) in LIMIT_NAMES.iter().zip(ends) {
        for (name, end) in names.iter().zip(ends.into_iter().flatten()) {
            if let Ok(value) = HeaderValue::from_maybe_shared(text.slice(begin..end)) {
                extra.push((name.clone(), value));
            }
            begin = end;
        }
    }
}

/// Counts a request in the headers of its limit of tokens: the tokens that it has used, or those that are set aside for a stream. The headers
/// of a request that took none, such as a hit of the cache, stay as they are.
pub(crate) fn count_own_tokens(record: &RequestRecord, call: &CallLog, extra: &mut ExtraHeaders) {
    let tokens = call.counted_tokens();
    let seen = record.admission_permit.as_ref().and_then(|permit| permit.limits.tokens);
    let Some(seen) = seen.filter(|_| tokens > 0) else { return };
    let state = seen.after(record.accepted.elapsed(), tokens);
    let [_, [limit, ..]] = &LIMIT_NAMES;
    let Some(limit_at) = extra.iter().position(|(name, _)| name == limit) else { return };
    let mut text = Vec::with_capacity(LIMIT_TEXT_BYTES);
    let end = spell_rest(&mut text, state.remaining, state.reset);
    let text = Bytes::from(text);
    // The two headers that change follow the limit itself.
    let changed = [text.slice(..end), text.slice(end..)].map(HeaderValue::from_maybe_shared);
    for ((_, header), value) in extra.iter_mut().skip(limit_at + 1).zip(changed) {
        if let Ok(value) = value {
            *header = value;
        }
    }
}

/// Appends the values of a limit's headers, and returns the end of each.
fn spell_window(text: &mut Vec<u8>, (limit, remaining, reset): (u64, u64, Duration)) -> [usize; 3] {
    text.extend_from_slice(itoa::Buffer::new().format(limit).as_bytes());
    let limit_end = text.len();
    let remaining_end = spell_rest(text, remaining, reset);
    [limit_end, remaining_end, text.len()]
}

/// Appends the rest of a limit and the time until all of it is back. Returns the end of the first.
fn spell_rest(text: &mut Vec<u8>, remaining: u64, reset: Duration) -> usize {
    text.extend_from_slice(itoa::Buffer::new().format(remaining).as_bytes());
    let end = text.len();
    spell_reset(text, reset);
    end
}

/// The value of a header that few requests have: to hash its name costs more than to look at their few names.
pub(crate) fn rare_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    headers.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
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
fn forwarded_headers(
    headers: &HeaderMap,
    dialect: ClientDialect,
    generation: Generation,
) -> Vec<(HeaderName, HeaderValue)> {
    if matches!(generation, Generation::Answer(Operation::Plain(_) | Operation::Passthrough)) {
        // No upstream gets the own body of these requests.
        return Vec::new();
    }
    let start = if dialect == ClientDialect::Responses { "openai-" } else { "anthropic-" };
    let named = headers.iter().filter(|(name, _)| name.as_str().starts_with(start));
    named.map(|(name, value)| (name.clone(), value.clone())).collect()
}
