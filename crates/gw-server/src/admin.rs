//! The management API: turns a request under `/admin/v1` into a request to the engine, and its answer into a reply.

use std::sync::Arc;

use bytes::Bytes;
use gw_admin::{
    AdminRequest, AdminResponse, AlertRequest, CachePurge, DiagnosticsRequest, Requester, show_cache,
};
use gw_engine::cpu_pool::{CpuPool, offload};
use gw_engine::error::{Error, Kind, Result};
use gw_engine::{Caller, RequestMarks};
use http::header::{ACCEPT, CACHE_CONTROL};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Body;

use crate::attribution::names_of;
use crate::response::{GatewayReply, HttpReply, JSON};
use crate::state::ServerState;
use crate::upload::{self, BodySender, BoxError, UploadLimits};

const CSV: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8");
/// The largest body of a management request.
const MAX_BODY_BYTES: usize = 64 << 10;

/// A management request whose method fits its URL.
#[derive(Debug)]
pub(crate) struct AdminCall {
    method: Method,
    /// The decoded `{id}`. None: the URL has no id, or its id is not valid percent-encoded UTF-8.
    id: Option<String>,
    /// The query string without its `?`.
    query: String,
    wants_csv: bool,
    body: Bytes,
}

impl AdminCall {
    fn id(&mut self) -> Result<String> {
        let message = "Nothing has this id: it is not valid percent-encoded UTF-8.";
        self.id.take().ok_or_else(|| Error::new(Kind::NotFound, message))
    }

    fn is(&self, method: &Method) -> bool {
        self.method == *method
    }
}

/// `/admin/v1/keys`.
pub(crate) fn keys(call: AdminCall) -> Result<AdminRequest> {
    Ok(if call.is(&Method::POST) {
        AdminRequest::CreateKey(call.body)
    } else {
        AdminRequest::ListKeys(call.query)
    })
}

/// `/admin/v1/keys/{id}`.
pub(crate) fn key(mut call: AdminCall) -> Result<AdminRequest> {
    let id = call.id()?;
    Ok(if call.is(&Method::PATCH) {
        AdminRequest::UpdateKey(id, call.body)
    } else if call.is(&Method::DELETE) {
        AdminRequest::RevokeKey(id)
    } else {
        AdminRequest::ShowKey(id)
    })
}

/// `/admin/v1/keys/{id}/rotate`.
pub(crate) fn rotate_key(mut call: AdminCall) -> Result<AdminRequest> {
    Ok(AdminRequest::RotateKey(call.id()?, call.body))
}

/// `/admin/v1/teams`.
pub(crate) fn teams(_: AdminCall) -> Result<AdminRequest> {
    Ok(AdminRequest::ListTeams)
}

/// `/admin/v1/teams/{id}`.
pub(crate) fn team(mut call: AdminCall) -> Result<AdminRequest> {
    let id = call.id()?;
    Ok(if call.is(&Method::PUT) {
        AdminRequest::PutTeam(id, call.body)
    } else if call.is(&Method::DELETE) {
        AdminRequest::DeleteTeam(id)
    } else {
        AdminRequest::ShowTeam(id)
    })
}

/// `/admin/v1/usage`.
pub(crate) fn usage(call: AdminCall) -> Result<AdminRequest> {
    Ok(AdminRequest::ReportUsage { query: call.query, is_csv_preferred: call.wants_csv })
}

/// `/admin/v1/overview`.
pub(crate) fn overview(call: AdminCall) -> Result<AdminRequest> {
    Ok(AdminRequest::ShowOverview(call.query))
}

/// `/admin/v1/requests`.
pub(crate) fn requests(call: AdminCall) -> Result<AdminRequest> {
    Ok(AdminRequest::ListRequests(call.query))
}

/// `/admin/v1/requests/{id}`.
pub(crate) fn request(mut call: AdminCall) -> Result<AdminRequest> {
    call.id().map(AdminRequest::ShowRequest)
}

/// `/admin/v1/requests/{id}/payload`.
pub(crate) fn forget_payload(mut call: AdminCall) -> Result<AdminRequest> {
    call.id().map(AdminRequest::DeletePayload)
}

/// `/admin/v1/audit`.
pub(crate) fn audit(call: AdminCall) -> Result<AdminRequest> {
    Ok(AdminRequest::ListAudit { query: call.query, is_csv_preferred: call.wants_csv })
}

/// `/admin/v1/alerts`.
pub(crate) fn alerts(_: AdminCall) -> Result<AlertRequest> {
    Ok(AlertRequest::List)
}

/// `/admin/v1/alerts/{id}/test`.
pub(crate) fn test_alert(mut call: AdminCall) -> Result<AlertRequest> {
    call.id().map(AlertRequest::Test)
}

/// `/admin/v1/routing/drill`.
pub(crate) fn drill(call: AdminCall) -> Result<DiagnosticsRequest> {
    let AdminCall { body, .. } = call;
    DiagnosticsRequest::drill(&body)
}

/// `/admin/v1/providers/{id}/probe`.
pub(crate) fn probe(mut call: AdminCall) -> Result<DiagnosticsRequest> {
    DiagnosticsRequest::probe(call.id()?, &call.body)
}

/// Answers a request of an operator. `build` is the endpoint of the route.
pub(crate) async fn answer<B>(
    state: &ServerState,
    parts: &Parts,
    id: Option<String>,
    build: fn(AdminCall) -> Result<AdminRequest>,
    requester: Requester,
    body: &mut B,
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let call = read_call(state, parts, id, body).await?;
    Ok(reply(state.management.answer(build(call)?, requester).await?))
}

/// Runs a drill or a probe. `build` is the endpoint of the route.
pub(crate) async fn examine<B>(
    state: &ServerState,
    parts: &Parts,
    id: Option<String>,
    build: fn(AdminCall) -> Result<DiagnosticsRequest>,
    requester: &Requester,
    body: &mut B,
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let request = build(read_call(state, parts, id, body).await?)?;
    if let Some((action, object)) = request.audited() {
        state.management.record(requester, action, &object).await?;
    }
    let report = state.diagnostics.run(request).await?;
    Ok(HttpReply::json(Bytes::from(report.to_string())))
}

/// Lists the alerts, or tests one. `build` is the endpoint of the route. No body is read.
pub(crate) async fn alert(
    state: &ServerState,
    parts: &Parts,
    id: Option<String>,
    build: fn(AdminCall) -> Result<AlertRequest>,
    requester: &Requester,
) -> Result<GatewayReply> {
    let (method, query) = (parts.method.clone(), String::new());
    let request = build(AdminCall { method, id, query, wants_csv: false, body: Bytes::new() })?;
    if let Some((action, object)) = request.audited() {
        state.management.record(requester, action, &object).await?;
    }
    Ok(HttpReply::json(Bytes::from(state.management.alerts(request).await?.to_string())))
}

async fn read_call<B>(
    state: &ServerState,
    parts: &Parts,
    id: Option<String>,
    body: &mut B,
) -> Result<AdminCall>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let has_body = [Method::POST, Method::PATCH, Method::PUT].contains(&parts.method);
    let body = if has_body { read(state, &parts.headers, body, MAX_BODY_BYTES).await? } else { Bytes::new() };
    Ok(AdminCall {
        method: parts.method.clone(),
        id,
        query: parts.uri.query().unwrap_or("").to_owned(),
        wants_csv: wants_csv(&parts.headers),
        body,
    })
}

/// `GET /v1/me`.
pub(crate) async fn me(state: &ServerState, parts: &Parts, caller: &Caller) -> Result<GatewayReply> {
    let names = names_of(&parts.headers, b"", caller.trusts_attribution());
    state.management.me(caller, names.attribution).await.map(reply)
}

/// `GET /admin/v1/budgets`.
pub(crate) async fn budgets(state: &ServerState) -> Result<GatewayReply> {
    state.management.budgets().await.map(reply)
}

fn reply(document: AdminResponse) -> GatewayReply {
    let status = if document.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut reply = HttpReply::full(status, if document.is_csv { CSV } else { JSON }, document.body);
    // Some of these answers hold the secret of a new key, others the usage of a team: no cache may keep them.
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// `POST /admin/v1/routing/explain`: the body is the request whose route is explained.
pub(crate) async fn explain<B>(
    state: &ServerState,
    parts: &Parts,
    caller: &Caller,
    body: &mut B,
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let body = read(state, &parts.headers, body, state.uploads.max_bytes).await?;
    let (engine, caller) = (Arc::clone(&state.engine), caller.clone());
    let query = parts.uri.query().unwrap_or("").to_owned();
    let cpu = engine.cpu_of(&caller);
    let headers = parts.headers.clone();
    let explaining = move || {
        let marks = |caller: &Caller| RequestMarks {
            headers: engine.matched_headers(&headers),
            attribution: names_of(&headers, b"", caller.trusts_attribution()).attribution,
        };
        gw_admin::explain_route(&engine, &caller, &query, body, marks)
    };
    let explained = cpu.host(offload(explaining)).await?;
    Ok(HttpReply::json(explained.with_rules(&state.engine).await))
}

/// `/admin/v1/cache`: `GET` reports the cache's figures, `DELETE` purges it.
pub(crate) async fn cache(state: &ServerState, parts: &Parts, requester: &Requester) -> Result<GatewayReply> {
    let engine = &state.engine;
    if parts.method != Method::DELETE {
        return Ok(HttpReply::json(show_cache(engine)));
    }
    let purge = CachePurge::parse(engine, parts.uri.query().unwrap_or(""))?;
    state.management.record(requester, "cache.purge", &purge.object).await?;
    Ok(HttpReply::json(purge.run(engine).await?))
}

/// `POST /admin/v1/reload`.
pub(crate) async fn reload(state: &ServerState, requester: &Requester) -> Result<GatewayReply> {
    state.management.record(requester, "config.reload", "configuration").await?;
    Ok(HttpReply::json(state.configuration.reload().await?))
}

pub(crate) async fn read<B>(
    state: &ServerState,
    headers: &HeaderMap,
    body: &mut B,
    max_bytes: usize,
) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let encoding = upload::check_media(headers)?;
    let limits = UploadLimits { max_bytes, ..state.uploads.clone() };
    // All operators together have the share of one key.
    let sender = BodySender { key_id: &Arc::from("operators"), cpu: &CpuPool::default() };
    // The permit ends here already: a management request keeps its body only for a moment.
    let (bytes, _permit) = upload::read(headers, encoding, body, &limits, sender).await?;
    Ok(bytes)
}

/// Whether `Accept` names CSV before JSON and does not refuse it.
fn wants_csv(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(',')).map(|part| {
        let mut parts = part.split(';').map(str::trim);
        let name = parts.next().unwrap_or("").to_ascii_lowercase();
        (name, parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0")))
    });
    let first = types.find(|(name, refused)| !refused && (name == "text/csv" || name == "application/json"));
    first.is_some_and(|(name, _)| name == "text/csv")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_sent_when_it_is_named_before_json() {
        for (accept, csv) in [
            ("text/csv", true),
            ("Text/CSV; charset=utf-8", true),
            ("text/html, text/csv;q=0.9, */*", true),
            ("application/json, text/csv", false),
            ("text/csv;q=0, application/json", false),
            ("*/*", false),
            ("", false),
        ] {
            let headers: HeaderMap = [(ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
            assert_eq!(wants_csv(&headers), csv, "{accept}");
        }
        assert!(!wants_csv(&HeaderMap::new()));
    }
}
