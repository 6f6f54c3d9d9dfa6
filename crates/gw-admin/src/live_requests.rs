//! New rows of the request log, as they are settled.

use std::sync::Arc;

use gw_engine::error::{Error, Kind, Result};
use gw_store::journal::{Followed, RequestFollower};

use crate::query::QueryParams;
use crate::request_log::{RequestSearch, filters, request_json};

/// The most readers at the same time.
pub(crate) const MAX_READERS: usize = 32;

/// A reader of new rows.
#[derive(Debug)]
pub struct LiveRequests {
    follower: RequestFollower,
    search: RequestSearch,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

/// Something that a reader is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveRequest {
    /// A new row as JSON.
    Row(Vec<u8>),
    /// So many rows were left out, because the reader was too slow.
    Dropped(u64),
}

impl LiveRequests {
    pub(crate) fn new(
        follower: RequestFollower,
        query: &str,
        readers: &Arc<tokio::sync::Semaphore>,
    ) -> Result<Self> {
        let params = QueryParams::parse(query, &filters())?;
        let search = RequestSearch::parse(&params, gw_wire::calendar::unix_seconds())?;
        let permit = Arc::clone(readers).try_acquire_owned().map_err(|_| {
            let message = format!("{MAX_READERS} others read new requests already.");
            Error::new(Kind::StoreUnavailable, message)
        })?;
        Ok(Self { follower, search, _permit: permit })
    }

    /// Waits for the next row that matches the search. None: the gateway ends.
    pub async fn next(&mut self) -> Option<LiveRequest> {
        loop {
            match self.follower.next().await? {
                Followed::Row(entry) if self.search.matches(&entry) => {
                    return Some(LiveRequest::Row(request_json(&entry)));
                }
                Followed::Row(_) => {}
                Followed::Missed(count) => return Some(LiveRequest::Dropped(count)),
            }
        }
    }
}
