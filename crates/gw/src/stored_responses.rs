//! The store of responses in the database: rows are sealed with the gateway's encryption key.

use std::sync::Arc;

use bytes::Bytes;
use gw_engine::stored_responses::{ResponseTable, StoredResponse, TableError, TableFuture};
use gw_providers::seal::{SealOrigin, Sealer};
use gw_store::Store;
use gw_store::stored_responses::SealedResponse;
use serde::{Deserialize, Serialize};

use crate::clock::TrustedClock;
use crate::first_start;

/// The most rows that one statement purges.
const PURGE_BATCH: u32 = 200;

/// Responses in the database.
#[derive(Debug)]
pub struct DatabaseResponses {
    store: Store,
    sealer: Sealer,
}

/// The content of a row. Each text is a JSON document.
#[derive(Serialize, Deserialize)]
struct RowContent {
    document: String,
    input: Vec<String>,
    history: Vec<String>,
}

impl DatabaseResponses {
    /// The responses of this store. It purges the ended ones regularly.
    #[must_use]
    pub fn start(store: Store, sealer: Sealer, clock: &Arc<TrustedClock>) -> Arc<Self> {
        let purged = store.clone();
        let purge = move |now_ms: i64| {
            let store = purged.clone();
            async move { purge(&store, now_ms.div_euclid(1000)).await }
        };
        tokio::spawn(Arc::clone(clock).purge_regularly("responses", purge));
        Arc::new(Self { store, sealer })
    }

    /// The row of a response.
    fn row(&self, owner: &str, id: &str, response: &StoredResponse) -> Result<SealedResponse, TableError> {
        let too_large = || TableError("the response cannot be sealed".to_owned());
        let seconds = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        Ok(SealedResponse {
            owner: owner.to_owned(),
            id: id.to_owned(),
            expires_at: seconds(response.expires_at),
            runs_for: response.running_until.map(|until| seconds(until).saturating_sub(first_start::now())),
            sealed: self.seal(owner, id, response).ok_or_else(too_large)?,
        })
    }

    fn seal(&self, owner: &str, id: &str, response: &StoredResponse) -> Option<String> {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).ok();
        let content = RowContent {
            document: text(&response.document)?,
            input: response.input.clone(),
            history: response.history.iter().filter_map(text).collect(),
        };
        let json = serde_json::to_vec(&content).ok()?;
        let pieces: Vec<String> = (0_u32..)
            .zip(json.chunks(PIECE_BYTES))
            .map(|(number, piece)| self.sealer.seal(&origin(owner, id, number), piece))
            .collect::<Option<_>>()?;
        Some(pieces.join(" "))
    }

    fn open(&self, row: &SealedResponse) -> Option<StoredResponse> {
        let mut json = Vec::new();
        for (number, piece) in (0_u32..).zip(row.sealed.split(' ')) {
            let (found, content) = self.sealer.open(piece)?;
            if found != origin(&row.owner, &row.id, number) {
                return None;
            }
            json.extend(content);
        }
        let content: RowContent = serde_json::from_slice(&json).ok()?;
        Some(StoredResponse {
            document: content.document.into(),
            input: content.input,
            history: content.history.into_iter().map(Bytes::from).collect(),
            expires_at: u64::try_from(row.expires_at).ok()?,
            // The database has measured the rest of the time. Here it counts from now on.
            running_until: row
                .runs_for
                .map(|left| u64::try_from(first_start::now().saturating_add(left)).unwrap_or_default()),
        })
    }
}

/// The bytes of a response that are sealed at once.
const PIECE_BYTES: usize = 4 << 20;

/// The origin in the seal of a row. A row that is copied to another key, id or place cannot be opened.
fn origin(owner: &str, id: &str, number: u32) -> SealOrigin {
    SealOrigin {
        provider: format!("response {owner} {id} {number}"),
        model: String::new(),
        account: Default::default(),
    }
}

async fn purge(store: &Store, now: i64) -> gw_store::Result<u64> {
    let mut purged = 0;
    loop {
        let count = store.purge_responses(now, PURGE_BATCH).await?;
        purged += count;
        if count < u64::from(PURGE_BATCH) {
            return Ok(purged);
        }
    }
}

fn failed(error: &gw_store::Error) -> TableError {
    TableError(error.to_string())
}

impl ResponseTable for DatabaseResponses {
    fn load<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, Option<StoredResponse>> {
        Box::pin(async move {
            let row =
                self.store.response(owner, id, first_start::now()).await.map_err(|error| failed(&error))?;
            Ok(row.and_then(|row| self.open(&row)))
        })
    }

    fn save<'a>(&'a self, owner: &'a str, id: &'a str, response: &'a StoredResponse) -> TableFuture<'a, ()> {
        Box::pin(async move {
            let row = self.row(owner, id, response)?;
            self.store.keep_response(&row).await.map_err(|error| failed(&error))
        })
    }

    fn renew<'a>(&'a self, owner: &'a str, id: &'a str, until: u64) -> TableFuture<'a, bool> {
        let until = i64::try_from(until).unwrap_or(i64::MAX);
        Box::pin(async move {
            let runs_for = until.saturating_sub(first_start::now());
            self.store.renew_response(owner, id, runs_for, until).await.map_err(|error| failed(&error))
        })
    }

    fn finish<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
        response: &'a StoredResponse,
    ) -> TableFuture<'a, bool> {
        Box::pin(async move {
            let row = self.row(owner, id, response)?;
            self.store.finish_response(&row).await.map_err(|error| failed(&error))
        })
    }

    fn delete<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, bool> {
        Box::pin(async move {
            self.store.delete_response(owner, id, first_start::now()).await.map_err(|error| failed(&error))
        })
    }
}
