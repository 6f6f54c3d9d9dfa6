//! Requests on pass-through routes: the checks of the edge, the headers and the path that go upstream, the answer.

mod answer;
mod headers;
mod key;
mod path;
mod upload;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use gw_engine::error::Result;
use gw_engine::passthrough::{PassthroughBody, PassthroughReply, PassthroughRequest};
use gw_engine::passthrough_routes::{PassthroughMatch, PassthroughRoute};
use gw_engine::payloads::ContentCapture;
use gw_engine::{CallLog, Caller, ClientSurface, RequestContext};
use http::request::Parts;
use http_body::Body;

pub(crate) use self::key::caller;
use self::path::passed_path;
use self::upload::pump;
use crate::attribution::names_of;
use crate::cut::until_cut;
use crate::generate::{admitted, count_own_tokens};
use crate::listener::Listener;
use crate::request_record::RequestRecord;
use crate::response::{ExtraHeaders, GatewayReply, HttpReply};
use crate::router::RouteMatch;
use crate::session::session_of;
use crate::state::ServerState;
use crate::upload::{BodySender, BoxError, Encoding, content_length, is_json_or_missing, read, too_large};
use crate::wishes;

/// The pass-through route of a URL that is none of the gateway's own.
pub(crate) fn find(
    state: &ServerState,
    found: &RouteMatch<'_>,
    parts: &Parts,
    listener: Listener,
) -> Option<Box<PassthroughMatch>> {
    if !found.is_unknown() || listener == Listener::Admin {
        return None;
    }
    let routes = state.engine.passthrough_routes()?;
    routes.find(parts.uri.path(), &parts.method).map(Box::new)
}

/// The answer to a method that the route does not have.
pub(crate) fn method_error(matched: &PassthroughMatch) -> Option<GatewayReply> {
    matched.refused_methods.as_deref().map(HttpReply::method_not_allowed_of)
}

/// Checks and sends a request, and answers with what comes back.
pub(crate) async fn forward<B>(
    parts: &Parts,
    route: &Arc<PassthroughRoute>,
    body: &mut B,
    record: &mut RequestRecord,
    caller: Caller,
    extra: &mut ExtraHeaders,
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let state = Arc::clone(&record.state);
    record.in_flight = Some(state.begin_generation(&caller)?);
    wishes::refuse(&parts.headers)?;
    let has_key = !route.injects() || !key::keeps_key_of_query(&state, parts, route);
    let path = passed_path(&parts.uri, route, has_key, &headers::gateway_keys(&parts.headers, route))?;
    record.admission_permit = Some(admitted(state.engine.admit(&caller, &record.request_id).await, extra)?);
    let whole = is_read(parts, route, &caller, body);
    let limit = if is_json_or_missing(&parts.headers) {
        state.uploads.max_bytes
    } else {
        state.settings.upload_limit
    };
    if content_length(&parts.headers).is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    let (body_bytes, upload) = if whole {
        let (cpu, key_id) = (state.engine.cpu_of(&caller), Arc::clone(caller.key_id()));
        let sender = BodySender { key_id: &key_id, cpu: &cpu };
        // The upstream gets the body as it came, also if it is compressed.
        let (bytes, permit) = read(&parts.headers, Encoding::Identity, body, &state.uploads, sender).await?;
        record.body_permit = Some(permit);
        (bytes, None)
    } else {
        (
            Bytes::new(),
            Some(gw_engine::passthrough::upload(
                content_length(&parts.headers),
                state.settings.upload_limit as u64,
            )),
        )
    };
    capture(record, &state, &caller, &body_bytes);
    let log = Arc::new(CallLog::default());
    record.call = Some(Arc::clone(&log));
    let context = context(parts, record, caller, &log, &body_bytes);
    let (sender, passed) = match upload {
        Some((sender, upload)) => (Some(sender), PassthroughBody::Streamed(upload)),
        None => (None, PassthroughBody::Whole(body_bytes)),
    };
    let request = PassthroughRequest {
        route: Arc::clone(route),
        method: parts.method.clone(),
        path,
        headers: headers::passed(&parts.headers, route),
        body: passed,
    };
    let cpu = state.engine.cpu_of(&context.caller);
    let calling = pin!(cpu.host(state.engine.pass(context, request)));
    let reply = match sender {
        None => until_cut(&state, Some(&log), calling).await?,
        Some(sender) => {
            let pumping = pin!(pump(body, sender, &state, limit));
            let both = pin!(beside(calling, pumping, &log));
            until_cut(&state, Some(&log), both).await?
        }
    };
    count_own_tokens(record, &log, extra);
    Ok(answer::reply(reply, route.injects()))
}

/// Whether the body of a request is read before it is sent: its model or its signature needs it.
fn is_read<B: Body>(parts: &Parts, route: &PassthroughRoute, caller: &Caller, body: &B) -> bool {
    let reads_json = || {
        is_json_or_missing(&parts.headers)
            && (route.reads_usage() || caller.is_limited() || caller.logs_payloads())
    };
    body.is_end_stream() || route.needs_whole_body() || reads_json()
}

/// Begins to keep the bodies for keys and traces with payloads.
fn capture(record: &mut RequestRecord, state: &ServerState, caller: &Caller, body: &Bytes) {
    if let Some((trace, most)) = record.trace.as_ref().zip(state.tracer.as_ref().and_then(|it| it.content()))
        && trace.is_recorded()
    {
        record.trace_content = Some(Box::new(ContentCapture::new(body.clone(), most)));
    }
    record.capture = state.engine.capture(caller, &record.request_id, body);
}

fn context(
    parts: &Parts,
    record: &RequestRecord,
    caller: Caller,
    log: &Arc<CallLog>,
    body: &Bytes,
) -> Box<RequestContext> {
    // The upstream gets the body as the client wrote it, so the tags stay in it.
    let names = names_of(&parts.headers, body, caller.trusts_attribution());
    Box::new(RequestContext {
        request_id: Arc::clone(&record.request_id),
        caller,
        accepted: record.accepted,
        log: Arc::clone(log),
        client: Some(record.client.ip()),
        session: session_of(&parts.headers, body),
        attribution: names.attribution,
        warnings: names.warnings,
        rules: None,
        max_cost: None,
        preset: None,
        matched_headers: Vec::new(),
        dry_run: None,
        cache_control: None,
        keepalive: None,
        surface: ClientSurface::default(),
        trace: record.trace.clone(),
    })
}

/// Runs a call while its body comes. A body that fails ends the call.
async fn beside(
    mut calling: std::pin::Pin<&mut impl Future<Output = Result<PassthroughReply>>>,
    mut pumping: std::pin::Pin<&mut impl Future<Output = Result<()>>>,
    log: &CallLog,
) -> Result<PassthroughReply> {
    let mut is_pumped = false;
    poll_fn(|cx| {
        if !is_pumped {
            match pumping.as_mut().poll(cx) {
                Poll::Ready(Ok(())) => is_pumped = true,
                Poll::Ready(Err(error)) => {
                    log.ended(error.kind.code());
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {}
            }
        }
        calling.as_mut().poll(cx)
    })
    .await
}
