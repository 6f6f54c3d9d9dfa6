//! `/admin/v1/keys`, `teams`, `usage`, `requests`: turns an HTTP request into the request that gw-admin answers.

use std::sync::Arc;

use bytes::Bytes;
use gw_admin::{AdminRequest, purge_cache, show_cache};
use gw_engine::cpu_pool::{CpuPool, offload};
use gw_engine::error::{Error, Kind, Result};
use gw_engine::{Caller, EventStream};
use http::header::{ACCEPT, CACHE_CONTROL};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Body;

use crate::edge::Edge;
use crate::response::Answer;
use crate::router::{Id, Target};
use crate::upload::{self, BoxError, UploadLimits};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const CSV: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8");
/// Bytes of a body.
const LARGEST: usize = 64 << 10;

/// Answers a request of an admin whose method fits its target.
pub(crate) async fn answer<B>(
    edge: &Edge,
    parts: &Parts,
    target: &Target<'_>,
    body: &mut B,
) -> Result<Answer<Box<EventStream>>>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let has_body = [Method::POST, Method::PATCH, Method::PUT].contains(&parts.method);
    let body = if has_body { read(edge, &parts.headers, body, LARGEST).await? } else { Bytes::new() };
    let document = edge.management.answer(ask(parts, target, body)?).await?;
    let status = if document.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = Answer::full(status, if document.is_csv { CSV } else { JSON }, document.body);
    // A key that was just made is in some of them, and who used what in the others.
    answer.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// `POST /admin/v1/routing/explain`: the body is the request that is asked about.
pub(crate) async fn explain<B>(
    edge: &Edge,
    parts: &Parts,
    caller: &Caller,
    body: &mut B,
) -> Result<Answer<Box<EventStream>>>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let body = read(edge, &parts.headers, body, edge.uploads.bytes).await?;
    let (engine, caller) = (Arc::clone(&edge.engine), caller.clone());
    let query = parts.uri.query().unwrap_or("").to_owned();
    let cpu = engine.cpu_of(&caller);
    cpu.host(offload(move || gw_admin::explain_route(&engine, &caller, &query, body))).await.map(Answer::json)
}

/// `/admin/v1/cache`: its figures, or a purge.
pub(crate) async fn response_cache(edge: &Edge, parts: &Parts) -> Result<Answer<Box<EventStream>>> {
    let query = parts.uri.query().unwrap_or("");
    let purges = parts.method == Method::DELETE;
    let engine = &edge.engine;
    let answer = if purges { purge_cache(engine, query).await? } else { show_cache(engine) };
    Ok(Answer::json(answer))
}

fn ask(parts: &Parts, target: &Target<'_>, body: Bytes) -> Result<AdminRequest> {
    let query = || parts.uri.query().unwrap_or("").to_owned();
    let method = &parts.method;
    Ok(match target {
        Target::Keys if method == Method::POST => AdminRequest::CreateKey(body),
        Target::Keys => AdminRequest::ListKeys(query()),
        Target::Key(id) if method == Method::PATCH => AdminRequest::UpdateKey(owned(id)?, body),
        Target::Key(id) if method == Method::DELETE => AdminRequest::RevokeKey(owned(id)?),
        Target::Key(id) => AdminRequest::ShowKey(owned(id)?),
        Target::RotateKey(id) => AdminRequest::RotateKey(owned(id)?, body),
        Target::Team(id) if method == Method::PUT => AdminRequest::PutTeam(owned(id)?, body),
        Target::Team(id) if method == Method::DELETE => AdminRequest::DeleteTeam(owned(id)?),
        Target::Team(id) => AdminRequest::ShowTeam(owned(id)?),
        Target::Teams => AdminRequest::ListTeams,
        Target::Usage => {
            AdminRequest::ReportUsage { query: query(), is_csv_preferred: wants_csv(&parts.headers) }
        }
        Target::LoggedRequest(id) => AdminRequest::ShowRequest(owned(id)?),
        Target::LoggedPayload(id) => AdminRequest::DeletePayload(owned(id)?),
        _ => AdminRequest::ListRequests(query()),
    })
}

fn owned(id: &Id<'_>) -> Result<String> {
    let message = "There is nothing of this id: it is not valid percent-encoded UTF-8.";
    id.as_deref().map(str::to_owned).ok_or_else(|| Error::new(Kind::NotFound, message))
}

async fn read<B>(edge: &Edge, headers: &HeaderMap, body: &mut B, most: usize) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let encoding = upload::check_media(headers)?;
    let limits = UploadLimits { bytes: most, ..edge.uploads.clone() };
    // Held for the moment of an answer only: no share of the memory for large bodies is kept.
    let (bytes, _share) = upload::read(headers, encoding, body, &limits, &CpuPool::default()).await?;
    Ok(bytes)
}

/// Whether CSV is named before JSON, and not refused.
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
    fn csv_is_given_to_whoever_names_it_first() {
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
