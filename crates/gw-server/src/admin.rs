//! The functions of the management API: each answers one URL under `/admin/v1`, or all URLs of the same kind.
#![expect(clippy::needless_pass_by_value, reason = "the functions of the route table have one type")]

use std::sync::Arc;

use bytes::Bytes;
use gw_admin::{
    AdminEndpoint, AdminRequest, AdminResponse, CachePurge, DrillRequest, ProbeRequest, show_cache,
};
use gw_engine::cpu_pool::offload;
use gw_engine::error::Result;
use gw_engine::{Caller, RequestMarks};
use http::header::{ACCEPT, CACHE_CONTROL};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::Value;

use crate::attribution::names_of;
use crate::management_call::{ManagementCall, ManagementFuture};
use crate::ops;
use crate::response::{GatewayReply, HttpReply, JSON};
use crate::state::ServerState;
use crate::url_hint::unknown_url;

const CSV: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8");

/// Answers a request about keys, teams, usage or logged requests with the endpoint of its method.
pub(crate) async fn answer(
    mut call: ManagementCall<'_>,
    endpoints: &[AdminEndpoint],
) -> Result<GatewayReply> {
    let method = call.method();
    let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.method == method) else {
        return Err(unknown_url(call.parts));
    };
    let body = call.read_body().await?;
    let id = if endpoint.path.contains("{id}") { call.id()?.to_owned() } else { String::new() };
    let request = AdminRequest {
        endpoint: *endpoint,
        id,
        query: call.query().to_owned(),
        body,
        is_csv_preferred: wants_csv(&call.parts.headers),
    };
    Ok(reply(call.state.management.answer(request, call.requester).await?))
}

/// `GET /v1/me`.
pub(crate) async fn me(state: &ServerState, parts: &Parts, caller: &Caller) -> Result<GatewayReply> {
    let names = names_of(&parts.headers, b"", caller.trusts_attribution());
    state.management.me(caller, names.attribution).await.map(reply)
}

fn reply(document: AdminResponse) -> GatewayReply {
    let status = if document.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut reply = HttpReply::full(status, if document.is_csv { CSV } else { JSON }, document.body);
    // Some of these answers hold the secret of a new key, others the usage of a team: no cache may keep them.
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

fn json(document: &Value) -> GatewayReply {
    HttpReply::json(Bytes::from(document.to_string()))
}

/// `GET /metrics`: the metrics, in the format that the reader asks for.
pub(crate) fn metrics(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move { ops::metrics(call.state, &call.parts.headers) })
}

/// `GET /admin/v1/providers`.
pub(crate) fn providers(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move { Ok(HttpReply::json(gw_admin::list_providers(&call.state.engine))) })
}

/// `GET /admin/v1/config`.
pub(crate) fn loaded_configuration(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move { Ok(HttpReply::json(call.state.configuration.show())) })
}

/// `GET /admin/v1/budgets`.
pub(crate) fn budgets(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move { call.state.management.budgets().await.map(reply) })
}

/// `POST /admin/v1/reload`.
pub(crate) fn reload(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move {
        call.state.management.record(&call.requester, "config.reload", "configuration").await?;
        Ok(HttpReply::json(call.state.configuration.reload().await?))
    })
}

/// `POST /admin/v1/routing/drill`.
pub(crate) fn drill(mut call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move {
        let drill = DrillRequest::read(&call.read_body().await?)?;
        call.state.management.record(&call.requester, "routing.drill", &drill.object()).await?;
        Ok(json(&call.state.diagnostics.drill(drill).await?))
    })
}

/// `POST /admin/v1/providers/{id}/probe`.
pub(crate) fn probe(mut call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move {
        let body = call.read_body().await?;
        let probe = ProbeRequest::read(call.id()?.to_owned(), &body)?;
        // The plan of a probe calls nothing.
        if !probe.is_dry_run {
            call.state.management.record(&call.requester, "provider.probe", &probe.provider).await?;
        }
        Ok(json(&call.state.diagnostics.probe(probe).await?))
    })
}

/// `GET /admin/v1/alerts`.
pub(crate) fn alerts(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move { Ok(json(&call.state.management.list_alerts().await?)) })
}

/// `POST /admin/v1/alerts/{id}/test`. No body is read.
pub(crate) fn test_alert(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move {
        let name = call.id()?;
        call.state.management.record(&call.requester, "alert.test", name).await?;
        Ok(json(&call.state.management.test_alert(name.to_owned()).await?))
    })
}

/// `POST /admin/v1/routing/explain`: the body is the request whose route is explained.
pub(crate) fn explain(mut call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move {
        let body = call.read_body_up_to(call.state.uploads.max_bytes).await?;
        let (engine, caller) = (Arc::clone(&call.state.engine), call.caller.clone());
        let query = call.query().to_owned();
        let cpu = engine.cpu_of(&caller);
        let headers = call.parts.headers.clone();
        let explaining = move || {
            let marks = |caller: &Caller| RequestMarks {
                headers: engine.matched_headers(&headers),
                attribution: names_of(&headers, b"", caller.trusts_attribution()).attribution,
            };
            gw_admin::explain_route(&engine, &caller, &query, body, marks)
        };
        let explained = cpu.host(offload(explaining)).await?;
        Ok(HttpReply::json(explained.with_rules(&call.state.engine).await))
    })
}

/// `/admin/v1/cache`: `GET` reports the cache's figures, `DELETE` purges it.
pub(crate) fn cache(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move {
        let engine = &call.state.engine;
        if call.parts.method != Method::DELETE {
            return Ok(HttpReply::json(show_cache(engine)));
        }
        let purge = CachePurge::parse(engine, call.query())?;
        call.state.management.record(&call.requester, "cache.purge", &purge.object).await?;
        Ok(HttpReply::json(purge.run(engine).await?))
    })
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
