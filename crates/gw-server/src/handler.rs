//! The life of a request in the HTTP server: the checks in their order, then the endpoint, then the headers.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use gw_admin::Requester;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::passthrough_routes::PassthroughRoute;
use gw_engine::response::headers::number;
use gw_engine::settings::Role;
use gw_engine::{Caller, request_id};
use gw_wire::dialects::ClientDialect;
use http::header::{AUTHORIZATION, CONNECTION, HeaderName, VARY, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::BodyExt;

use crate::access_log::sanitise;
use crate::admin;
use crate::admission::Admission;
use crate::catalogue::CatalogueCall;
use crate::client_dialect::{self, OVERLOADED};
use crate::cors::Audience;
use crate::cut::until_cut;
use crate::discard::{DISCARD_PATIENCE, OVERLOADED_PATIENCE, settle_body};
use crate::form;
use crate::gemini_url;
use crate::generate::{Generation, generate, rare_header};
use crate::live_tail;
use crate::management_call::ManagementCall;
use crate::masked_keys::masked_keys;
use crate::ops;
use crate::origin::{GatewayResponse, Origin};
use crate::outgoing::Outgoing;
use crate::passthrough;
use crate::refusal::overloaded_error;
use crate::request_record::RequestRecord;
use crate::response::{
    Content, ExtraHeaders, GatewayReply, HttpReply, MESSAGES_REQUEST_ID, PROCESSING_MS, REQUEST_ID,
};
use crate::router::{self, Endpoint, Guard, Route, RouteMatch};
use crate::security_headers::{harden, sandbox};
use crate::sign_in::{self, API_KEY, SignInCall};
use crate::sockets;
use crate::state::ServerState;
use crate::stored_responses;
use crate::upload::{self, BoxError, MIN_BYTES_PER_SECOND, overloaded};
use crate::url_hint::unknown_url;

const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");
/// The messages of a refused list, report or export: for the key that holds its share, and if all keys hold too much.
const UNREAD_BY_KEY: &str =
    "The clients of this key have not read as many large answers as one key may leave unread.";
const UNREAD_BY_ALL: &str = "The gateway is holding as many unread large answers as it can.";
/// Security headers of an answer that is not a generated one.
const HARDENING_HEADERS: usize = 5;

/// Answers one request. Errors and panics become error responses.
pub(crate) async fn respond<B>(origin: Origin, request: Request<B>) -> GatewayResponse
where
    B: Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<BoxError>,
{
    let guard = origin.activity.begin();
    let accepted = Instant::now();
    let (parts, mut body) = request.into_parts();
    let found = route_of(&origin, &parts);
    let dialect = client_dialect::of(&parts);
    let client = origin.state.settings.trusted_proxies.client(origin.client, &parts.headers);
    let mut record = Box::new(RequestRecord {
        state: Arc::clone(&origin.state),
        accepted,
        request_id: request_id::generate(),
        client_request_id: rare_header(&parts.headers, &CLIENT_REQUEST_ID)
            .and_then(|value| sanitise(value.as_bytes()))
            .map(|id| masked_keys(&id).into_owned()),
        method: parts.method.clone(),
        uri: parts.uri.clone(),
        route: found.label(),
        client,
        listener: origin.listener,
        dialect,
        key: None,
        call: None,
        status: None,
        code: None,
        bytes_out: 0,
        is_complete: false,
        in_flight: None,
        admission_permit: None,
        meter: None,
        body_permit: None,
        waiting_answer: None,
        capture: None,
        trace: None,
        trace_content: None,
        pieces: bytes::BytesMut::new(),
        guard: Some(guard),
        is_handed_on: false,
    });
    let mut extra = ExtraHeaders::new();
    if let Some(tracer) = origin.state.tracer.as_ref().filter(|_| found.is_traced()) {
        record.trace = Some(tracer.begin(&parts.headers));
    }
    let answered = {
        let answering = pin!(answer(&parts, &found, &mut body, &mut record, &origin.admission, &mut extra));
        AssertUnwindSafe(until_cut(&origin.state, None, answering)).catch_unwind().await
    };
    // An answer has passed this check.
    let is_framed = matches!(answered, Ok(Ok(_))) || upload::check_transfer_encoding(&parts.headers).is_ok();
    let mut reply = match answered {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => HttpReply::error_in(dialect, &error, &record.request_id),
        Err(_) => {
            origin.state.metrics.panics.inc();
            let route = record.route.pattern;
            tracing::error!(request_id = %record.request_id, route, "a bug: the handler of a request panicked");
            HttpReply::error_in(dialect, &Error::internal(), &record.request_id)
        }
    };
    // The engine counts the answers of upstreams. Others are lists, reports and exports. A client that does not read holds its
    // answer until `send_timeout`.
    if let (Some(key), None, Content::Full(bytes)) = (&record.key, &record.call, &reply.content) {
        match origin.state.answer_memory.hold_large(key, bytes.len()) {
            Ok(holding) => record.waiting_answer = holding,
            Err(refusal) => {
                let error = refusal.error(UNREAD_BY_KEY, UNREAD_BY_ALL);
                reply = HttpReply::error_in(dialect, &error, &record.request_id);
            }
        }
    }
    let is_http1 = parts.version <= Version::HTTP_11;
    // HTTP/2 resets a stream whose body is dropped unread, and the client would lose the answer.
    let is_overload = reply.status == StatusCode::SERVICE_UNAVAILABLE || reply.status.as_u16() == OVERLOADED;
    let is_overload_answer = is_overload && record.call.is_none();
    let patience = if is_http1 && is_overload_answer { OVERLOADED_PATIENCE } else { DISCARD_PATIENCE };
    let is_settled = settle_body(&parts.headers, &mut body, patience).await && is_framed;
    if is_http1 && !is_settled {
        // The rest of the body must never be read as a request, and the client must be able to read the answer.
        origin.activity.leave_unread();
        extra.push((CONNECTION, HeaderValue::from_static("close")));
    } else if is_http1 && origin.state.is_leaving() && reply.status != StatusCode::SWITCHING_PROTOCOLS {
        extra.push((CONNECTION, HeaderValue::from_static("close")));
    }
    finish(reply, extra, &parts, found.route.audience(), record)
}

/// The route of a request: the gateway's own, else one of the configuration.
fn route_of<'p>(origin: &Origin, parts: &'p Parts) -> RouteMatch<'p> {
    let found = router::find(parts.uri.path(), origin.listener);
    match passthrough::find(&origin.state, &found, parts, origin.listener) {
        Some(matched) => RouteMatch::of_passthrough(matched),
        None => found,
    }
}

/// Adds the headers of every response, and the extra ones of this one.
fn finish(
    mut reply: GatewayReply,
    mut extra: ExtraHeaders,
    parts: &Parts,
    audience: Audience,
    mut record: Box<RequestRecord>,
) -> GatewayResponse {
    if let Ok(id) = HeaderValue::from_str(&record.request_id) {
        if record.dialect == ClientDialect::Messages {
            extra.push((MESSAGES_REQUEST_ID, id.clone()));
        }
        extra.push((REQUEST_ID, id));
    }
    if !matches!(reply.content, Content::Stream(_)) {
        let millis = u64::try_from(record.accepted.elapsed().as_millis()).unwrap_or(u64::MAX);
        extra.push((PROCESSING_MS, number(millis)));
    }
    extra.push((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")));
    extra.extend(record.state.cors.of(audience).allow(&parts.headers).headers());
    if reply.headers.is_empty() {
        reply.headers = record.state.usual_headers.map(extra);
    } else {
        // Each growth of the map hashes all names again.
        reply.headers.reserve(extra.len() + HARDENING_HEADERS);
        for (name, value) in extra {
            if name == VARY {
                reply.headers.append(name, value);
            } else {
                reply.headers.insert(name, value);
            }
        }
    }
    let is_relayed = matches!(reply.content, Content::Relay(_));
    if is_relayed {
        sandbox(&mut reply.headers);
    // A generated answer is for programs, and gets no more headers than it needs.
    } else if record.call.is_none() || !reply.status.is_success() {
        harden(&mut reply.headers, record.state.tls.is_some());
    }
    if parts.method == Method::HEAD {
        reply = reply.without_body();
    }
    record.status = Some(reply.status);
    record.code = reply.code;
    if let (Some(capture), Content::Stream(_)) = (&mut record.capture, &reply.content) {
        capture.streams();
    }
    if let (Some(content), Content::Stream(_)) = (&mut record.trace_content, &reply.content) {
        content.streams();
    }
    let deadline = delivery_deadline(&reply.content, record.state.settings.send_timeout);
    let mut response = Response::new(Outgoing::new(reply.content, deadline, record));
    // The gateway's own 499 is a status for the log alone. A client that sent half a body and still reads gets a 400.
    let is_closed = !is_relayed && reply.status.as_u16() == Kind::ClientClosedRequest.row().0;
    *response.status_mut() = if is_closed { StatusCode::BAD_REQUEST } else { reply.status };
    *response.headers_mut() = reply.headers;
    response
}

/// The time by which a client must have taken a whole answer: `send_timeout`, and the time of its bytes at the least rate.
fn delivery_deadline<S>(content: &Content<S>, send_timeout: Duration) -> Instant {
    let bytes = if let Content::Full(bytes) = content { bytes.len() as u64 } else { 0 };
    Instant::now() + send_timeout + Duration::from_secs(bytes / MIN_BYTES_PER_SECOND)
}

/// Runs the checks in their order; the first one that fails is the answer. Then calls the endpoint.
async fn answer<B>(
    parts: &Parts,
    found: &RouteMatch<'_>,
    body: &mut B,
    record: &mut RequestRecord,
    admission: &Arc<Admission>,
    extra: &mut ExtraHeaders,
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<BoxError>,
{
    check_head(parts)?;
    let (state, route) = (Arc::clone(&record.state), found.route);
    if let Some(answered) = before_authentication(parts, route, record, admission) {
        return answered;
    }
    if matches!(route.endpoint(), Endpoint::Realtime) && parts.method == Method::GET {
        return Box::pin(sockets::realtime::open(parts, record, admission, extra)).await;
    }
    let caller = match (route.guard, &found.passthrough) {
        (Guard::Open, _) => None,
        (_, Some(matched)) => Some(passthrough_caller(&state, parts, &matched.route, record)?),
        (_, None) => Some(authenticate(&state, parts, route, record).await?),
    };
    if let Some(refusal) = method_refusal(parts, found, record)? {
        return Ok(refusal);
    }
    match (route.endpoint(), caller) {
        (Endpoint::Passthrough, Some(caller)) => {
            let matched = found.passthrough.as_ref().ok_or_else(|| unknown_url(parts))?;
            Box::pin(passthrough::forward(parts, &matched.route, body, record, caller, extra)).await
        }
        (Endpoint::Probe(page), _) => Ok(page(&state, record.listener)),
        (Endpoint::Page(page), _) => Ok(page(&state, parts)),
        (Endpoint::Root, _) => Ok(ops::root(&state, record.listener, &parts.headers)),
        (Endpoint::Console, _) => state.console.answer(parts),
        (Endpoint::SignIn(action), _) => {
            let (listener, address) = (record.listener, record.client.ip());
            let call = SignInCall { state: &state, parts, listener, address };
            Box::pin(sign_in::answer(call, action, body)).await
        }
        (Endpoint::Me, Some(caller)) => {
            record.in_flight = Some(state.admit_in_flight()?);
            Box::pin(admin::me(&state, parts, &caller)).await
        }
        (Endpoint::Live, Some(_)) => {
            record.in_flight = Some(state.admit_in_flight()?);
            live_tail::open(&state, parts)
        }
        (Endpoint::Records(endpoints), Some(caller)) => {
            let call = management_call(parts, found, body, &caller, record);
            Box::pin(admin::answer(call, endpoints)).await
        }
        (Endpoint::Manage(function), Some(caller)) => {
            function(management_call(parts, found, body, &caller, record)).await
        }
        (Endpoint::StoredResponse(action), Some(caller)) => {
            record.in_flight = Some(state.admit_in_flight()?);
            let id = found.id.as_deref().unwrap_or_default();
            Box::pin(stored_responses::answer(parts, record, caller, action, id, extra)).await
        }
        (Endpoint::Catalogue(ask), Some(caller)) => {
            record.in_flight = Some(state.admit_in_flight()?);
            let query = parts.uri.query().unwrap_or("");
            let dialect = record.dialect;
            ask(&state, CatalogueCall { caller: &caller, query, id: found.id.as_deref(), dialect })
        }
        (Endpoint::Generate(generation), Some(caller)) => {
            record.in_flight = Some(state.take_in_flight());
            ServerState::check_may_generate(&caller)?;
            admitted_generate(parts, generation, body, record, caller, (admission, extra)).await
        }
        (Endpoint::GenerateForm(kind), Some(caller)) => {
            Box::pin(form::generate(parts, kind, body, record, caller, extra)).await
        }
        (Endpoint::Realtime | Endpoint::NotFound, _)
        // The guards of these endpoints let no request through without a caller.
        | (
            Endpoint::Me
            | Endpoint::Live
            | Endpoint::Records(_)
            | Endpoint::Manage(_)
            | Endpoint::Catalogue(_)
            | Endpoint::StoredResponse(_)
            | Endpoint::Passthrough
            | Endpoint::Generate(_)
            | Endpoint::GenerateForm(_),
            None,
        ) => Err(unknown_url(parts)),
    }
}

/// The request of an operator for a function of the management API.
fn management_call<'r, B>(
    parts: &'r Parts,
    found: &'r RouteMatch<'_>,
    body: &'r mut B,
    caller: &'r Caller,
    record: &'r RequestRecord,
) -> ManagementCall<'r>
where
    B: Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<BoxError>,
{
    let requester = Requester::of_caller(caller, record.client.ip().to_canonical().to_string());
    let body = Box::new(body.map_err(Into::into));
    ManagementCall { state: &record.state, parts, caller, requester, id: found.id.as_deref(), body }
}

/// Checks the parts of a head that matter before anything else.
fn check_head(parts: &Parts) -> Result<()> {
    upload::check_transfer_encoding(&parts.headers)?;
    match parts.version {
        Version::HTTP_2 => upload::check_header_list(&parts.headers, &parts.uri),
        _ => Ok(()),
    }
}

/// The 405, if the route does not have the method, and the 404 if the URL names a method that no model has.
fn method_refusal(
    parts: &Parts,
    found: &RouteMatch<'_>,
    record: &RequestRecord,
) -> Result<Option<GatewayReply>> {
    if found.names_unknown_method(parts) {
        return Err(unknown_url(parts));
    }
    let of_configuration = || found.passthrough.as_deref().and_then(passthrough::method_error);
    Ok(of_configuration().or_else(|| {
        let allow = found.route.method_error(&parts.method)?;
        Some(HttpReply::method_not_allowed(allow, record.dialect, &record.request_id))
    }))
}

/// Generates when the worker lets the request start.
async fn admitted_generate<B>(
    parts: &Parts,
    generation: Generation,
    body: &mut B,
    record: &mut RequestRecord,
    caller: Caller,
    (admission, extra): (&Arc<Admission>, &mut ExtraHeaders),
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<BoxError>,
{
    if record.state.is_draining() {
        return Err(overloaded("The gateway is shutting down."));
    }
    let mut meter = None;
    let has_waited = !admission.is_free(record.accepted);
    if has_waited {
        // Boxed, because few requests wait.
        let waiting = Box::pin(admission.wait(caller.key_id(), record.accepted));
        meter = waiting.await.map_err(|_| overloaded_error())?;
    }
    record.state.check_in_flight(record.in_flight.as_ref().filter(|_| !has_waited))?;
    let reply = {
        let mut generating = pin!(generate(parts, generation, body, record, caller, (admission, extra)));
        poll_fn(|cx| match &mut meter {
            None => generating.as_mut().poll(cx),
            Some(meter) => meter.poll(|| generating.as_mut().poll(cx)),
        })
        .await
    };
    record.meter = meter;
    reply
}

/// The answer that is given before the checks of all other requests: to a preflight, and to one for a WebSocket.
fn before_authentication(
    parts: &Parts,
    route: &Route,
    record: &mut RequestRecord,
    admission: &Arc<Admission>,
) -> Option<Result<GatewayReply>> {
    if parts.method == Method::OPTIONS {
        let mut reply = HttpReply::no_content();
        let methods = route.preflight_methods();
        record.state.cors.of(route.audience()).preflight(&parts.headers, methods, &mut reply.headers);
        return Some(Ok(reply));
    }
    if !route.is_socket(&parts.method) {
        return None;
    }
    let is_complete = sockets::is_complete(parts);
    if is_complete && matches!(route.endpoint(), Endpoint::Realtime) {
        return None;
    }
    if is_complete {
        return Some(sockets::open(parts, record, admission, |origin, turn| respond(origin, turn).boxed()));
    }
    let (id, path) = (&record.request_id, route.pattern);
    Some(Ok(HttpReply::upgrade_required(parts.version, record.dialect, id, path)))
}

/// Finds the holder of the request's key or session, and checks its role.
async fn authenticate(
    state: &ServerState,
    parts: &Parts,
    route: &Route,
    record: &mut RequestRecord,
) -> Result<Caller> {
    let google_keys = match record.dialect {
        ClientDialect::Gemini => gemini_url::keys(parts),
        ClientDialect::OpenAi | ClientDialect::Responses | ClientDialect::Messages => Vec::new(),
    };
    let has_key = !google_keys.is_empty()
        || [AUTHORIZATION, API_KEY].iter().any(|name| parts.headers.contains_key(name));
    // A session may use everything that a console shows. Stored responses are for programs.
    let session = if !has_key && !matches!(route.endpoint(), Endpoint::StoredResponse(_)) {
        Box::pin(sign_in::caller_of_session(state, parts, record.client.ip())).await?
    } else {
        None
    };
    let values = |name| parts.headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let api_keys = values(API_KEY).chain(google_keys.iter().map(|key| &**key));
    let identified = match (session, &record.guard) {
        (Some(caller), _) => Ok(caller),
        (None, Some(guard)) => state.engine.identify_on(guard.last_key(), values(AUTHORIZATION), api_keys),
        (None, None) => state.engine.identify(values(AUTHORIZATION), api_keys),
    };
    let caller = identified.map_err(|error| state.count_bad_key(error, record.client.ip()))?;
    record.key = Some(Arc::clone(caller.key_name()));
    check_role(route.guard, &parts.method, caller.role())?;
    Ok(caller)
}

/// Finds the holder of the gateway key of a request on a pass-through route. A session of a browser is not enough.
fn passthrough_caller(
    state: &ServerState,
    parts: &Parts,
    route: &PassthroughRoute,
    record: &mut RequestRecord,
) -> Result<Caller> {
    let caller = passthrough::caller(state, parts, route, record.client.ip())?;
    record.key = Some(Arc::clone(caller.key_name()));
    Ok(caller)
}

/// Checks that a role has the rights that a URL needs for this method.
fn check_role(guard: Guard, method: &Method, role: Role) -> Result<()> {
    let Some(required) = guard.required_role(method).filter(|required| !role.includes(*required)) else {
        return Ok(());
    };
    let kind = if role == Role::Inference { Kind::AdminRequired } else { Kind::RoleNotAllowed };
    let message = format!("This needs the role {}, and your role is {}.", required.or_more(), role.as_str());
    Err(Error::new(kind, message))
}
