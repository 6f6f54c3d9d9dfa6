//! The requests before and after a request in its session.

use std::borrow::Cow;
use std::sync::Arc;

use gw_store::Store;
use gw_store::ledger::{Entry, Filter};
use serde::Serialize;

use super::search::cursor;
use crate::error::AdminError;
use crate::json::Usd;
use crate::time::format_millis;

/// The most neighbours on each side.
const MAX_NEIGHBOURS: usize = 10;
/// The time after a request in which its successors are searched for, in milliseconds.
const LATER_MS: i64 = 24 * 3_600_000;
/// The most later rows of a session that are read. A session with more of them shows no successors.
const MAX_LATER: u32 = 1_000;

/// A request of the same session.
#[derive(Serialize)]
pub(super) struct Neighbour {
    request_id: Arc<str>,
    at: String,
    model: Arc<str>,
    status: Cow<'static, str>,
    /// Null if a price is unknown.
    cost_usd: Option<Usd>,
    latency_ms: u64,
    is_this: bool,
}

impl Neighbour {
    fn new(entry: &Entry, is_this: bool) -> Self {
        Self {
            request_id: Arc::clone(&entry.request_id),
            at: format_millis(entry.at),
            model: Arc::clone(&entry.model),
            status: entry.status.clone(),
            cost_usd: entry.known_cost().map(Usd),
            latency_ms: entry.latency_ms,
            is_this,
        }
    }
}

/// The neighbours of a request and the request itself in the order of time. None: it has no session.
pub(super) async fn neighbours(store: &Store, entry: &Entry) -> Result<Option<Vec<Neighbour>>, AdminError> {
    if entry.session.is_none() {
        return Ok(None);
    }
    let filter = Filter { session: entry.session.clone(), ..Filter::default() };
    let here = cursor(entry);
    let most = u32::try_from(MAX_NEIGHBOURS).unwrap_or(u32::MAX);
    let mut before = store.requests(&filter, Some(&here), most).await?;
    before.reverse();
    let later = Filter { since: Some(entry.at), until: Some(entry.at.saturating_add(LATER_MS)), ..filter };
    let mut after = store.requests(&later, None, MAX_LATER).await?;
    let is_cut = after.len() >= MAX_LATER as usize;
    after.retain(|other| (other.at, &other.request_id) > (here.at, &here.request_id));
    after.reverse();
    after.truncate(if is_cut { 0 } else { MAX_NEIGHBOURS });
    let this = std::iter::once(Neighbour::new(entry, true));
    let before = before.iter().map(|other| Neighbour::new(other, false));
    let after = after.iter().map(|other| Neighbour::new(other, false));
    Ok(Some(before.chain(this).chain(after).collect()))
}
