//! The life of a request at the edge: the checks of CONTRACT 1.0 in their order, then the engine, then the headers.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use gw_engine::cpu_pool::is_heavy;
use gw_engine::error::{Error, GATEWAY_SHUTDOWN, Kind, Result};
use gw_engine::{CallLog, Caller, EventStream, LimitStates, ReplyBody, RequestContext, request_id};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;

use crate::access_log::sanitise;
use crate::admission::Gate;
use crate::discard::{DISCARD_PATIENCE, OVERLOADED_PATIENCE, settle_body};
use crate::edge::Edge;
use crate::guarded::Activity;
use crate::manage;
use crate::nearby;
use crate::ops;
use crate::outgoing::Outgoing;
use crate::refusal::too_busy;
use crate::response::{Answer, Content, spell_reset};
use crate::router::{self, Audience, Door, Guard, Target};
use crate::ticket::Ticket;
use crate::upload::{self, BoxError, SLOWEST_BYTES_PER_SECOND, overloaded};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const PROCESSING_MS: HeaderName = HeaderName::from_static("openai-processing-ms");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
const LIMIT_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-limit-tokens");
const REMAINING_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-remaining-tokens");
const RESET_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-reset-tokens");

/// A heavy request is refused while a step of its key has waited longer than this for the CPU pool.
const LATEST_STEP: Duration = Duration::from_secs(1);

type Reply = Answer<Box<EventStream>>;
/// Headers that an answer gets whatever it is.
type Extra = Vec<(HeaderName, HeaderValue)>;

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) edge: Arc<Edge>,
    pub(crate) door: Door,
    pub(crate) client: SocketAddr,
    pub(crate) activity: Arc<Activity>,
    pub(crate) gate: Arc<Gate>,
}

/// Answers one request, whatever happens.
pub(crate) async fn respond<B>(
    origin: Origin,
    request: Request<B>,
) -> Response<Outgoing<Box<EventStream>, Ticket>>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let busy = origin.activity.begin();
    let accepted = Instant::now();
    let (parts, mut body) = request.into_parts();
    let target = router::find(parts.uri.path(), origin.door);
    let mut ticket = Ticket {
        edge: Arc::clone(&origin.edge),
        accepted,
        request_id: request_id::generate(),
        client_request_id: parts.headers.get(CLIENT_REQUEST_ID).and_then(|value| sanitise(value.as_bytes())),
        method: parts.method.clone(),
        uri: parts.uri.clone(),
        route: target.name(),
        client: origin.client,
        door: origin.door,
        key: None,
        call: None,
        status: None,
        code: None,
        bytes_out: 0,
        is_complete: false,
        place: None,
        entered: None,
        share: None,
        capture: None,
        busy,
    };
    let mut extra = Extra::new();
    let answered = {
        let answering = pin!(answer(&parts, &target, &mut body, &mut ticket, &origin.gate, &mut extra));
        AssertUnwindSafe(until_cut(&origin.edge, None, answering)).catch_unwind().await
    };
    let mut reply = match answered {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => Answer::error(&error),
        Err(_) => {
            origin.edge.metrics.panics.inc();
            tracing::error!(request_id = %ticket.request_id, route = ticket.route.1, "a request's handler panicked");
            Answer::error(&Error::new(
                Kind::InternalError,
                "The gateway failed while answering this request.",
            ))
        }
    };
    reply.headers.extend(extra);
    let is_http1 = parts.version <= Version::HTTP_11;
    // Over HTTP/2 a body that is dropped unread resets its stream, and the answer with it.
    let is_refused_at_the_door = reply.status == StatusCode::SERVICE_UNAVAILABLE && ticket.call.is_none();
    let patience = if is_http1 && is_refused_at_the_door { OVERLOADED_PATIENCE } else { DISCARD_PATIENCE };
    let settled = settle_body(&parts.headers, &mut body, patience).await
        && upload::check_transfer_encoding(&parts.headers).is_ok();
    if is_http1 && !settled {
        // The rest of the body must never be read as a request, and the client must be able to read the answer.
        origin.activity.leave_unread();
        reply.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    } else if is_http1 && origin.edge.is_leaving() {
        reply.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    finish(reply, &parts, target.audience(), ticket)
}

/// At the end of a shutdown's grace the connection polls its request once more, and gets an answer instead of silence. The log of a
/// call that ends so names the shutdown.
/// `answering` is pinned by its caller: to move these futures would be to copy them.
async fn until_cut<T>(
    edge: &Edge,
    log: Option<&CallLog>,
    mut answering: Pin<&mut impl Future<Output = Result<T>>>,
) -> Result<T> {
    std::future::poll_fn(|cx| match answering.as_mut().poll(cx) {
        Poll::Pending if edge.is_cut() => {
            log.inspect(|log| log.ended(GATEWAY_SHUTDOWN));
            Poll::Ready(Err(overloaded("The gateway is shutting down.")))
        }
        polled => polled,
    })
    .await
}

/// The headers of every response.
fn finish(
    mut reply: Reply,
    parts: &Parts,
    audience: Audience,
    mut ticket: Ticket,
) -> Response<Outgoing<Box<EventStream>, Ticket>> {
    if let Ok(id) = HeaderValue::from_str(&ticket.request_id) {
        reply.headers.insert(REQUEST_ID, id);
    }
    if !matches!(reply.content, Content::Stream(_)) {
        let millis = u64::try_from(ticket.accepted.elapsed().as_millis()).unwrap_or(u64::MAX);
        reply.headers.insert(PROCESSING_MS, HeaderValue::from(millis));
    }
    reply.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !ticket.route.1.starts_with("/v1") {
        ops::harden(&mut reply.headers);
    }
    ticket.edge.cors.of(audience).allow(&parts.headers).apply(&mut reply.headers);
    if parts.method == Method::HEAD {
        reply = reply.without_body();
    }
    ticket.status = Some(reply.status);
    ticket.code = reply.code;
    if let (Some(capture), Content::Stream(_)) = (&mut ticket.capture, &reply.content) {
        capture.streams();
    }
    let due = taken_by(&reply.content, ticket.edge.settings.write_stall);
    let mut response = Response::new(Outgoing::new(reply.content, due, ticket));
    // 499 is a word of the log. Whoever sent half a body and still reads hears that the request was bad.
    let closed = reply.status.as_u16() == Kind::ClientClosedRequest.row().0;
    *response.status_mut() = if closed { StatusCode::BAD_REQUEST } else { reply.status };
    *response.headers_mut() = reply.headers;
    response
}

/// When a client must have taken an answer: after the time that it may take nothing, at the least rate.
fn taken_by<S>(content: &Content<S>, patience: Duration) -> Instant {
    let bytes = if let Content::Full(bytes) = content { bytes.len() as u64 } else { 0 };
    Instant::now() + patience + Duration::from_secs(bytes / SLOWEST_BYTES_PER_SECOND)
}

/// The checks in their order; the first failure wins.
async fn answer<B>(
    parts: &Parts,
    target: &Target<'_>,
    body: &mut B,
    ticket: &mut Ticket,
    gate: &Gate,
    extra: &mut Extra,
) -> Result<Reply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    upload::check_transfer_encoding(&parts.headers)?;
    if parts.version == Version::HTTP_2 {
        upload::check_header_list(&parts.headers, &parts.uri)?;
    }
    if parts.method == Method::OPTIONS {
        let mut answer = Answer::no_content();
        let methods = target.preflight_methods();
        ticket.edge.cors.of(target.audience()).preflight(&parts.headers, methods, &mut answer.headers);
        return Ok(answer);
    }
    let edge = Arc::clone(&ticket.edge);
    let caller = match target.guard() {
        Guard::Open => None,
        Guard::Key | Guard::AdminKey => {
            let values = |name| parts.headers.get_all(name).iter().map(HeaderValue::as_bytes);
            let caller = edge.engine.identify(values(AUTHORIZATION), values(API_KEY))?;
            ticket.key = Some(Arc::clone(caller.key_name()));
            Some(caller)
        }
    };
    if target.guard() == Guard::AdminKey && !caller.as_ref().is_some_and(Caller::is_admin) {
        return Err(Error::new(Kind::AdminRequired, "This needs an API key of role admin."));
    }
    if let Some(allow) = target.refuses(&parts.method) {
        return Ok(Answer::method_not_allowed(allow));
    }
    let query = parts.uri.query().unwrap_or("");
    let Some(caller) = caller else { return open(&edge, ticket.door, target, parts) };
    match target {
        Target::Metrics => return ops::metrics(&edge),
        Target::Providers => return Ok(Answer::json(gw_admin::list_providers(&edge.engine))),
        Target::Config => return Ok(Answer::json(gw_admin::show_configuration(&edge.engine))),
        Target::Cache => return manage::response_cache(&edge, parts).await,
        Target::Explain => return manage::explain(&edge, parts, &caller, body).await,
        Target::Admin | Target::UnknownApi => return Err(unknown_url(parts)),
        Target::Keys
        | Target::Key(_)
        | Target::RotateKey(_)
        | Target::Teams
        | Target::Team(_)
        | Target::Usage
        | Target::RequestLog
        | Target::LoggedRequest(_)
        | Target::LoggedPayload(_) => return Box::pin(manage::answer(&edge, parts, target, body)).await,
        _ => ticket.place = Some(edge.enter()?),
    }
    match target {
        Target::Models => edge.engine.list_models(&caller, query).map(Answer::json),
        Target::Compare => edge.engine.compare(&caller, query).map(Answer::json),
        Target::Model(Some(id)) => edge.engine.model(&caller, id).map(Answer::json),
        Target::Model(None) => Err(Error::new(
            Kind::ModelNotFound,
            "The model does not exist: its id is not valid percent-encoded UTF-8.",
        )),
        _ => {
            if edge.is_draining() {
                return Err(overloaded("The gateway is shutting down."));
            }
            gate.enter().await.map_err(|_| too_busy())?;
            generate(parts, target, body, ticket, caller, extra).await
        }
    }
}

/// What needs no key.
fn open(edge: &Edge, door: Door, target: &Target<'_>, parts: &Parts) -> Result<Reply> {
    match target {
        Target::Root => Ok(ops::links(door)),
        Target::Healthz => Ok(ops::healthz()),
        Target::Readyz => Ok(ops::readyz(edge)),
        Target::OpenApi => Ok(ops::openapi()),
        Target::Docs => Ok(ops::docs()),
        _ => Err(unknown_url(parts)),
    }
}

fn unknown_url(parts: &Parts) -> Error {
    let path: String = parts.uri.path().chars().take(200).collect();
    let hint = nearby::hint(parts.uri.path()).unwrap_or_default();
    Error::new(Kind::UnknownUrl, format!("Unknown request URL: {} {path}.{hint}", parts.method))
}

/// The three endpoints that call upstreams: steps 3 to 6, then the engine.
async fn generate<B>(
    parts: &Parts,
    target: &Target<'_>,
    body: &mut B,
    ticket: &mut Ticket,
    caller: Caller,
    extra: &mut Extra,
) -> Result<Reply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let edge = Arc::clone(&ticket.edge);
    match edge.engine.enter(&caller, &ticket.request_id).await {
        Ok(permit) => {
            tell_limits(&permit.limits, extra);
            ticket.entered = Some(permit);
        }
        Err(refused) => {
            let (limits, error) = *refused;
            tell_limits(&limits, extra);
            return Err(error);
        }
    }
    let encoding = upload::check_media(&parts.headers)?;
    let cpu = edge.engine.cpu_of(&caller);
    let is_late = || cpu.lateness() > LATEST_STEP;
    if upload::may_be_heavy(&parts.headers) && is_late() {
        return Err(too_busy());
    }
    let (bytes, share) = upload::read(&parts.headers, encoding, body, &edge.uploads, &cpu).await?;
    // Many bodies may have come meanwhile.
    if is_late() && is_heavy(&bytes) {
        return Err(too_busy());
    }
    ticket.share = Some(share);
    ticket.capture = edge.engine.capture(&caller, &ticket.request_id, &bytes);
    let log = Arc::new(CallLog::default());
    ticket.call = Some(Arc::clone(&log));
    let context = RequestContext {
        request_id: Arc::clone(&ticket.request_id),
        caller,
        accepted: ticket.accepted,
        log: Arc::clone(&log),
        client: Some(ticket.client.ip()),
        cache_control: cache_control(&parts.headers),
        keepalive: edge.settings.keepalive,
    };
    let engine = Arc::clone(&edge.engine);
    // The host boxes the call's future: it is large, and every layer of this one would move it.
    let calling = pin!(async {
        match target {
            Target::ChatCompletions => cpu.host(async move { engine.chat(context, bytes).await }).await,
            Target::Completions => cpu.host(async move { engine.completion(context, bytes).await }).await,
            _ => cpu.host(async move { engine.embeddings(context, bytes).await }).await,
        }
    });
    let reply = until_cut(&edge, Some(&log), calling).await?;
    extra.extend(reply.headers);
    Ok(match reply.body {
        ReplyBody::Full(body) => Answer::json(body),
        ReplyBody::Stream(stream) => Answer::events(stream),
    })
}

fn tell_limits(limits: &LimitStates, extra: &mut Extra) {
    let mut tell = |names: [HeaderName; 3], limit: u64, remaining: u64, reset| {
        let [name, left, back] = names;
        extra.push((name, HeaderValue::from(limit)));
        extra.push((left, HeaderValue::from(remaining)));
        extra.extend(HeaderValue::from_str(&spell_reset(reset)).ok().map(|reset| (back, reset)));
    };
    if let Some(state) = &limits.requests {
        tell([LIMIT, REMAINING, RESET], state.limit.into(), state.remaining.into(), state.reset);
    }
    if let Some(state) = &limits.tokens {
        tell([LIMIT_TOKENS, REMAINING_TOKENS, RESET_TOKENS], state.limit, state.remaining, state.reset);
    }
}

/// The lines of `Cache-Control`, as one.
fn cache_control(headers: &HeaderMap) -> Option<Box<[u8]>> {
    let mut lines = headers.get_all(CACHE_CONTROL).iter().map(HeaderValue::as_bytes);
    let mut all = lines.next()?.to_vec();
    for line in lines {
        all.push(b',');
        all.extend_from_slice(line);
    }
    Some(all.into())
}
