//! The URLs below `/admin/v1/config/`: turns an HTTP request into a request about the configuration.

use gw_admin::{AdminMethod, ConfigurationAction, ConfigurationParameters, ConfigurationRequest};
use gw_engine::error::{Error, Kind, Result};
use http::header::{CACHE_CONTROL, ETAG, IF_MATCH};
use http::{HeaderValue, StatusCode};

use crate::management_call::{ManagementCall, ManagementFuture};
use crate::response::{GatewayReply, HttpReply, JSON};

const TOML: HeaderValue = HeaderValue::from_static("application/toml; charset=utf-8");
/// The largest body.
const MAX_BODY_BYTES: usize = 1 << 20;

/// `GET /admin/v1/config/history`.
pub(crate) fn history(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(answer(call, "history", |service, request| service.history(request)))
}

/// `GET /admin/v1/config/export`.
pub(crate) fn export(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(answer(call, "export", |service, request| service.export(request)))
}

/// `POST /admin/v1/config/undo`.
pub(crate) fn undo(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(answer(call, "undo", |service, request| service.undo(request)))
}

/// `/admin/v1/config/{id}` and `/admin/v1/config/{id}/{id}`: a section or an entry.
pub(crate) fn entry(call: ManagementCall<'_>) -> ManagementFuture<'_> {
    Box::pin(async move {
        let message = "Nothing has this name: it is not valid percent-encoded UTF-8.";
        let path = call.id.ok_or_else(|| Error::new(Kind::NotFound, message))?;
        let action: ConfigurationAction = match call.method() {
            AdminMethod::Get => |service, request| service.show(request),
            AdminMethod::Put | AdminMethod::Patch | AdminMethod::Delete | AdminMethod::Post => {
                |service, request| service.change(request)
            }
        };
        answer(call, path, action).await
    })
}

/// Answers a request. `path` is the decoded path below `/admin/v1/config/`.
async fn answer(
    mut call: ManagementCall<'_>,
    path: &str,
    action: ConfigurationAction,
) -> Result<GatewayReply> {
    let body = call.read_body_up_to(MAX_BODY_BYTES).await?;
    let if_match = call.parts.headers.get(IF_MATCH).map(|value| value.to_str().map(str::to_owned));
    let request = ConfigurationRequest {
        method: call.method(),
        path: path.to_owned(),
        parameters: ConfigurationParameters::parse(call.query())?,
        if_match: if_match.transpose().map_err(|_| {
            Error::new(Kind::VersionMismatch, "The header If-Match does not hold the version of an entry.")
        })?,
        record: call.requester.record("config.change", path),
        body,
    };
    let document = call.state.management.configure(action, request).await?;
    let status = if document.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut reply = HttpReply::full(status, if document.is_toml { TOML } else { JSON }, document.body);
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(etag) =
        document.version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok())
    {
        reply.headers.insert(ETAG, etag);
    }
    Ok(reply)
}
