//! The request log: newest first, page by page, and one request with its upstream calls.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use gw_engine::catalog::query::{invalid, shown};
use gw_engine::error::{Error, Kind};
use gw_store::ledger::{Attempt, Cursor, Entry};
use gw_store::payloads::Payload;
use serde::Serialize;

use super::query::Params;
use super::write::{self, Deleted, List, Usd, time_of_millis};
use super::{Answer, Books};

/// Requests of a page when no number is asked for.
const USUAL_PAGE: usize = 50;
const PARAMETERS: [&str; 9] =
    ["key", "team", "model", "provider", "status", "since", "until", "limit", "after"];

#[derive(Serialize)]
struct RequestObject<'a> {
    object: &'static str,
    request_id: &'a str,
    at: String,
    key: &'a str,
    key_name: &'a str,
    team: Option<&'a str>,
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
    reasoning_tokens: u64,
    /// The tokens are the gateway's own estimate.
    estimated: bool,
    cost_usd: Usd,
    saved_usd: Usd,
    ttft_ms: Option<u64>,
    latency_ms: u64,
    user: Option<&'a str>,
    client: Option<&'a str>,
    /// Only where one request is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptObject<'a>>>,
    /// Only where one request is shown; null when nothing of it was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Option<PayloadObject>>,
}

/// One upstream call.
#[derive(Serialize)]
struct AttemptObject<'a> {
    provider: &'a str,
    model: &'a str,
    status: &'a str,
    latency_ms: u64,
    cost_usd: Usd,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> AttemptObject<'a> {
    fn new(attempt: &'a Attempt) -> Self {
        let Attempt { provider, model, status, latency_ms, cost, reason } = attempt;
        Self {
            provider,
            model,
            status,
            latency_ms: *latency_ms,
            cost_usd: Usd(*cost),
            reason: reason.as_deref(),
        }
    }
}

/// What the request and its answer said. As texts: they may be cut, and need not be JSON.
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
            at: time_of_millis(at),
            request: request.text,
            request_truncated: request.is_cut,
            response: response.text,
            response_truncated: response.is_cut,
        }
    }
}

impl<'a> RequestObject<'a> {
    fn new(entry: &'a Entry) -> Self {
        let some = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let tokens = entry.tokens;
        Self {
            object: "request",
            request_id: &entry.request_id,
            at: time_of_millis(entry.at),
            key: &entry.key_id,
            key_name: &entry.key_name,
            team: entry.team.as_deref(),
            operation: &entry.operation,
            requested_model: &entry.requested_model,
            model: some(&entry.model),
            provider: some(&entry.provider),
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
            reasoning_tokens: tokens.reasoning,
            estimated: entry.estimated,
            cost_usd: Usd(entry.cost),
            saved_usd: Usd(entry.saved),
            ttft_ms: entry.ttft_ms,
            latency_ms: entry.latency_ms,
            user: entry.end_user.as_deref(),
            client: entry.client.as_deref(),
            attempts: None,
            payload: None,
        }
    }
}

impl Books {
    pub(super) async fn list_requests(&self, query: &str, now: i64) -> Answer {
        let params = Params::read(query, &PARAMETERS)?;
        let mut filter = params.filter(now)?;
        filter.status = params.text("status")?;
        let limit = params.limit(USUAL_PAGE)?;
        let after = params.text("after")?.map(|text| read_cursor(&text)).transpose()?;
        // One more than asked for tells whether there is another page.
        let most = u32::try_from(limit + 1).unwrap_or(u32::MAX);
        let mut found = self.store.requests(&filter, after.as_ref(), most).await?;
        if found.is_empty() {
            self.check_names(&filter).await?;
        }
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(write_cursor);
        write::document(&List::new(found.iter().map(RequestObject::new).collect(), next))
    }

    pub(super) async fn show_request(&self, id: &str) -> Answer {
        let found = if is_plain(id) { self.store.request(id).await? } else { None };
        let Some(entry) = found else { return Err(nothing("request", id).into()) };
        let attempts = Some(entry.attempts.iter().map(AttemptObject::new).collect());
        let payload = Some(self.store.payload(&entry.request_id).await?.map(PayloadObject::from));
        write::document(&RequestObject { attempts, payload, ..RequestObject::new(&entry) })
    }

    pub(super) async fn forget_payload(&self, id: &str) -> Answer {
        if !is_plain(id) || !self.store.delete_payload(id).await? {
            return Err(nothing("payload of a request", id).into());
        }
        write::document(&Deleted { object: "payload", id, deleted: true })
    }
}

/// What cannot be an id needs no store to be unknown.
fn is_plain(id: &str) -> bool {
    id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn nothing(what: &str, id: &str) -> Error {
    Error::new(Kind::NotFound, format!("There is no {what} '{}'.", shown(id)))
}

fn write_cursor(entry: &Entry) -> String {
    BASE64.encode(format!("{} {}", entry.at, entry.request_id))
}

fn read_cursor(text: &str) -> Result<Cursor, Error> {
    let read = || {
        let plain = String::from_utf8(BASE64.decode(text).ok()?).ok()?;
        let (at, request_id) = plain.split_once(' ')?;
        Some(Cursor { at: at.parse().ok()?, request_id: request_id.to_owned() })
    };
    read().ok_or_else(|| invalid("invalid_value", "Invalid 'after': expected the 'next' of another page."))
}
