//! The request log: a list with the newest request first, and a single request with its upstream calls and its payload.

mod cost;
mod decision;
mod neighbours;
mod search;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use gw_engine::catalog::query::invalid;
use gw_engine::error::Error;
use gw_store::Role;
use gw_store::ledger::{Attempt, Cursor, Entry};
use gw_store::payloads::Payload;
use gw_wire::attribution::Dimension;
use gw_wire::prompt_cache::PromptCacheUse;
use serde::Serialize;
use serde_json::value::RawValue;

use self::cost::CostObject;
use self::decision::RouteObject;
use self::neighbours::Neighbour;
pub(crate) use self::search::{RequestSearch, filters};
use crate::error::not_found;
use crate::ids::is_request_id;
use crate::json::{Count, DeletedObject, ListObject, Usd};
use crate::query::QueryParams;
use crate::records::Records;
use crate::requester::Requester;
use crate::response::{AdminResponse, AdminResult};
use crate::time::format_millis;

/// Requests of a page if the query has no `limit`.
const DEFAULT_PAGE_REQUESTS: usize = 50;
/// The parameters of the list beside the filters.
const PAGE_PARAMETERS: [&str; 4] = ["since", "until", "limit", "after"];

#[derive(Serialize)]
struct RequestObject<'a> {
    object: &'static str,
    request_id: &'a str,
    at: String,
    key: &'a str,
    key_name: &'a str,
    team: Option<&'a str>,
    session: Option<&'a str>,
    /// The API through which the request came.
    surface: &'a str,
    operation: &'a str,
    requested_model: &'a str,
    model: Option<&'a str>,
    provider: Option<&'a str>,
    status: &'a str,
    strategy: &'a str,
    stream: bool,
    cache_hit: bool,
    fallback_used: bool,
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    cached_tokens: u64,
    cache_write_tokens: u64,
    /// The part of `cache_write_tokens` that the provider's cache keeps for an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_1h_tokens: Option<u64>,
    reasoning_tokens: u64,
    /// Units other than tokens, by their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<BTreeMap<&'static str, Count>>,
    /// Whether the gateway estimated the tokens.
    estimated: bool,
    /// Null if a price is unknown.
    cost_usd: Option<Usd>,
    /// Only if a price is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unpriced: bool,
    /// The cost that the answers of upstreams stated; null if none stated one.
    provider_cost_usd: Option<Usd>,
    /// Null if the answer in the cache was made at an unknown price.
    saved_usd: Option<Usd>,
    ttft_ms: Option<u64>,
    latency_ms: u64,
    user: Option<&'a str>,
    end_user: Option<&'a str>,
    tags: Vec<&'a str>,
    repository: Option<&'a str>,
    branch: Option<&'a str>,
    pull_request: Option<&'a str>,
    client: Option<&'a str>,
    /// Only if the provider's prompt cache played a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache: Option<Box<RawValue>>,
    /// Only in the answer for one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptObject<'a>>>,
    /// Only in the answer for one request: the words of `gateway.warnings`.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<&'a str>>,
    /// Only in the answer for one request; null if there was one candidate and no other model was considered.
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<Option<RouteObject<'a>>>,
    /// Only in the answer for one request; null if none is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Option<PayloadObject>>,
    /// Only in the answer for one request; null if it cannot be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Option<CostObject>>,
    /// Only in the answer for one request; null without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    neighbours: Option<Option<Vec<Neighbour>>>,
}

/// An upstream call.
#[derive(Serialize)]
struct AttemptObject<'a> {
    provider: &'a str,
    model: &'a str,
    status: &'a str,
    /// Milliseconds after the acceptance of the request; null in rows of older versions.
    started_ms: Option<u64>,
    latency_ms: u64,
    /// Only if the gateway fetched images of the request before the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_fetch_ms: Option<u64>,
    /// Null if a price is unknown.
    cost_usd: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> AttemptObject<'a> {
    fn new((place, attempt): (usize, &'a Attempt)) -> Self {
        let Attempt { provider, model, status, latency_ms, started_ms, image_fetch_ms, .. } = attempt;
        let Attempt { cost, known_part: _, reason, .. } = attempt;
        Self {
            provider,
            model,
            status,
            // The first attempt mostly begins within the first millisecond. A later one with 0 is of an older version.
            started_ms: Some(*started_ms).filter(|started| place == 0 || *started > 0),
            latency_ms: *latency_ms,
            image_fetch_ms: Some(*image_fetch_ms).filter(|millis| *millis > 0),
            cost_usd: cost.map(Usd),
            reason: reason.as_deref(),
        }
    }
}

/// The logged bodies of a request and its response. They are texts, because they may be cut and need not be JSON.
#[derive(Serialize)]
struct PayloadObject {
    at: String,
    request: String,
    request_truncated: bool,
    response: String,
    response_truncated: bool,
}

impl From<Payload> for PayloadObject {
    fn from(Payload { at, request, response, .. }: Payload) -> Self {
        Self {
            at: format_millis(at),
            request: request.text,
            request_truncated: request.is_cut,
            response: response.text,
            response_truncated: response.is_cut,
        }
    }
}

impl<'a> RequestObject<'a> {
    fn new(entry: &'a Entry) -> Self {
        let non_empty = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let tokens = entry.tokens;
        let attribution = entry.attribution.as_deref();
        let name = |dimension| attribution.and_then(|names| names.name(dimension));
        Self {
            object: "request",
            request_id: &entry.request_id,
            at: format_millis(entry.at),
            key: &entry.key_id,
            key_name: &entry.key_name,
            team: entry.team.as_deref(),
            session: entry.session.as_deref(),
            surface: entry.surface(),
            operation: &entry.operation,
            requested_model: &entry.requested_model,
            model: non_empty(&entry.model),
            provider: non_empty(&entry.provider),
            status: &entry.status,
            strategy: &entry.strategy,
            stream: entry.stream,
            cache_hit: entry.cache_hit,
            fallback_used: entry.fallback,
            prompt_tokens: tokens.prompt,
            completion_tokens: tokens.completion,
            total_tokens: tokens.prompt.saturating_add(tokens.completion),
            cached_tokens: tokens.cached,
            cache_write_tokens: tokens.cache_write,
            cache_write_1h_tokens: Some(entry.cache_write_1h).filter(|tokens| *tokens > 0),
            reasoning_tokens: tokens.reasoning,
            units: entry.units.get().map(|(unit, count)| BTreeMap::from([(unit.name(), Count(count))])),
            estimated: entry.estimated,
            cost_usd: entry.known_cost().map(Usd),
            unpriced: entry.unpriced,
            provider_cost_usd: entry.provider_cost.map(Usd),
            saved_usd: entry.known_saved().map(Usd),
            ttft_ms: entry.ttft_ms,
            latency_ms: entry.latency_ms,
            user: entry.user.as_deref(),
            end_user: name(Dimension::EndUser),
            tags: attribution.iter().flat_map(|names| &names.tags).map(|tag| &**tag).collect(),
            repository: name(Dimension::Repository),
            branch: name(Dimension::Branch),
            pull_request: name(Dimension::PullRequest),
            client: entry.client.as_deref(),
            prompt_cache: entry.prompt_cache.as_deref().and_then(prompt_cache_object),
            attempts: None,
            warnings: None,
            route: None,
            payload: None,
            cost: None,
            neighbours: None,
        }
    }
}

/// The object of `gateway.prompt_cache`.
fn prompt_cache_object(used: &PromptCacheUse) -> Option<Box<RawValue>> {
    let mut out = Vec::new();
    used.write(&mut out);
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

/// `GET /admin/v1/requests` at the time `now` (unix seconds).
pub(crate) async fn list_requests(records: &Records, query: &str, now: i64) -> AdminResult {
    let params = QueryParams::parse(query, &[&filters()[..], &PAGE_PARAMETERS].concat())?;
    let search = RequestSearch::parse(&params, now)?;
    let limit = params.page_size(DEFAULT_PAGE_REQUESTS)?;
    let after = params.text("after")?.map(|text| decode_cursor(&text)).transpose()?;
    let found = search.run(&records.store, after, limit).await?;
    if found.entries.is_empty() {
        records.check_filter(&search.filter).await?;
    }
    let next = found.next.as_ref().map(encode_cursor);
    let page = ListObject::new(found.entries.iter().map(RequestObject::new).collect(), next);
    AdminResponse::json(&RequestPage { page, searched: found.compared })
}

/// A page of the log.
#[derive(Serialize)]
struct RequestPage<'a> {
    #[serde(flatten)]
    page: ListObject<RequestObject<'a>>,
    /// The rows that were compared one by one, if the search needs that.
    #[serde(skip_serializing_if = "Option::is_none")]
    searched: Option<usize>,
}

/// A row of the list as JSON.
pub(crate) fn request_json(entry: &Entry) -> Vec<u8> {
    serde_json::to_vec(&RequestObject::new(entry)).unwrap_or_default()
}

/// `GET /admin/v1/requests/{request_id}`.
/// A viewer does not see the payload.
pub(crate) async fn show_request(records: &Records, requester: &Requester, id: &str) -> AdminResult {
    let found = if is_request_id(id) { records.store.request(id).await? } else { None };
    let entry = found.ok_or_else(|| not_found("request", id))?;
    let attempts = Some(entry.attempts.iter().enumerate().map(AttemptObject::new).collect());
    let payload = if requester.role.includes(Role::Operator) {
        Some(records.store.payload(&entry.request_id).await?.map(PayloadObject::from))
    } else {
        None
    };
    let cost = Some(records.engine.as_ref().and_then(|engine| cost::cost(engine, &entry)));
    let neighbours = Some(neighbours::neighbours(&records.store, &entry).await?);
    let (warnings, route) = (Some(decision::warnings(&entry)), Some(RouteObject::of(&entry)));
    let object = RequestObject::new(&entry);
    AdminResponse::json(&RequestObject { attempts, warnings, route, payload, cost, neighbours, ..object })
}

/// `DELETE /admin/v1/requests/{request_id}/payload`.
pub(crate) async fn delete_payload(records: &Records, requester: &Requester, id: &str) -> AdminResult {
    let record = requester.record("payload.delete", id);
    if !is_request_id(id) || !records.store.delete_payload_recorded(id, &record).await? {
        return Err(not_found("stored payload of a request", id).into());
    }
    AdminResponse::json(&DeletedObject::new("payload", id))
}

/// Encodes the position of a request in the log as a value of the parameter `after`.
fn encode_cursor(cursor: &Cursor) -> String {
    BASE64.encode(format!("{} {}", cursor.at, cursor.request_id))
}

fn decode_cursor(text: &str) -> Result<Cursor, Error> {
    let cursor = || {
        let plain = String::from_utf8(BASE64.decode(text).ok()?).ok()?;
        let (at, request_id) = plain.split_once(' ')?;
        Some(Cursor { at: at.parse().ok()?, request_id: request_id.into() })
    };
    cursor().ok_or_else(|| {
        invalid("invalid_value", "Invalid 'after': expected the value of 'next' in the previous page.")
    })
}
