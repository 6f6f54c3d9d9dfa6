//! The URLs below `/admin/v1/config/`: turns an HTTP request into a request about the configuration.

use bytes::Bytes;
use gw_admin::{ConfigurationMethod, ConfigurationParameters, ConfigurationRequest, Requester};
use gw_engine::error::{Error, Kind, Result};
use http::header::{CACHE_CONTROL, ETAG, IF_MATCH};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use http_body::Body;

use crate::admin;
use crate::response::{GatewayReply, HttpReply, JSON};
use crate::state::ServerState;
use crate::upload::BoxError;

const TOML: HeaderValue = HeaderValue::from_static("application/toml; charset=utf-8");
/// The largest body.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Answers a request. `path` is the decoded path below `/admin/v1/config/`. None: it is not valid percent-encoded UTF-8.
pub(crate) async fn answer<B>(
    state: &ServerState,
    parts: &Parts,
    requester: &Requester,
    path: Option<&str>,
    body: &mut B,
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let Some(path) = path else {
        return Err(Error::new(
            Kind::NotFound,
            "Nothing has this name: it is not valid percent-encoded UTF-8.",
        ));
    };
    let method = match parts.method {
        Method::PUT => ConfigurationMethod::Put,
        Method::PATCH => ConfigurationMethod::Patch,
        Method::DELETE => ConfigurationMethod::Delete,
        Method::POST => ConfigurationMethod::Post,
        _ => ConfigurationMethod::Get,
    };
    let has_body = !matches!(method, ConfigurationMethod::Get | ConfigurationMethod::Delete);
    let body = match has_body {
        true => admin::read(state, &parts.headers, body, MAX_BODY_BYTES).await?,
        false => Bytes::new(),
    };
    let if_match = parts.headers.get(IF_MATCH).map(|value| value.to_str().map(str::to_owned));
    let request = ConfigurationRequest {
        method,
        path: path.to_owned(),
        parameters: ConfigurationParameters::parse(parts.uri.query().unwrap_or(""))?,
        if_match: if_match.transpose().map_err(|_| {
            Error::new(Kind::VersionMismatch, "The header If-Match does not hold the version of an entry.")
        })?,
        record: requester.record("config.change", path),
        body,
    };
    let document = state.management.configure(request).await?;
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
