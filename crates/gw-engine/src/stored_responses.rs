//! Responses that clients of the Responses API can retrieve, continue and delete. Each belongs to the key that made it.

mod background;
mod memory;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_wire::dialects::responses::states;

use crate::clock::unix_seconds;
use crate::error::{Error, Kind, Result};
use crate::stored_responses::memory::MemoryResponses;

pub(crate) use background::{BackgroundResponses, BackgroundTask};

/// `[responses]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredResponseSettings {
    /// The place of the responses.
    pub place: ResponsePlace,
    /// How long a response is kept.
    pub ttl: Duration,
}

/// The place of stored responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponsePlace {
    /// Nothing is stored.
    Off,
    /// The memory of this process, up to this many bytes.
    Memory {
        /// The largest size of all responses.
        max_bytes: u64,
    },
    /// The database of the gateway.
    Database,
}

impl Default for StoredResponseSettings {
    fn default() -> Self {
        Self { place: ResponsePlace::Memory { max_bytes: 64 << 20 }, ttl: Duration::from_secs(3600) }
    }
}

/// A stored response. Debug output omits the texts, which must not reach a log.
#[derive(Clone)]
pub struct StoredResponse {
    /// The response object, as the client got it.
    pub document: Bytes,
    /// The items of the request's `input`, each with an id.
    pub input: Vec<String>,
    /// The items of the conversation before the request.
    pub history: Vec<Bytes>,
    /// Unix seconds.
    pub expires_at: u64,
    /// The response is made in the background, as its process reported until this moment (unix seconds). None = it has
    /// ended.
    pub running_until: Option<u64>,
}

impl std::fmt::Debug for StoredResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredResponse").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl StoredResponse {
    /// The bytes of all texts. Texts that several responses of a conversation share count for each of them.
    fn bytes(&self) -> usize {
        let input: usize = self.input.iter().map(|item| item.len() + size_of::<String>()).sum();
        let history: usize = self.history.iter().map(|item| item.len() + size_of::<Bytes>()).sum();
        self.document.len() + input + history
    }
}

/// A store of responses outside this process.
pub trait ResponseTable: Send + Sync + std::fmt::Debug {
    /// The response of this id that this key made, unless it is expired.
    fn load<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, Option<StoredResponse>>;
    /// Inserts or replaces a response.
    fn save<'a>(&'a self, owner: &'a str, id: &'a str, response: &'a StoredResponse) -> TableFuture<'a, ()>;
    /// Notes that a response runs until this moment (unix seconds); gives false if it does not run any more.
    fn renew<'a>(&'a self, owner: &'a str, id: &'a str, until: u64) -> TableFuture<'a, bool>;
    /// Replaces a response that runs by its end; gives false, and changes nothing, if it does not run any more.
    fn finish<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
        response: &'a StoredResponse,
    ) -> TableFuture<'a, bool>;
    /// Deletes a response; gives whether it existed.
    fn delete<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, bool>;
}

/// The result of a [`ResponseTable`]. An error is the store's: it cannot be reached.
pub type TableFuture<'a, T> = Pin<Box<dyn Future<Output = std::result::Result<T, TableError>> + Send + 'a>>;

/// The store of responses failed. The reason is for the log.
#[derive(Debug)]
pub struct TableError(pub String);

/// The stored responses of all keys.
#[derive(Debug)]
pub struct StoredResponses {
    place: Backend,
    ttl: Duration,
    pub(crate) background: BackgroundResponses,
}

#[derive(Debug)]
enum Backend {
    Off,
    Memory(MemoryResponses),
    Database(Arc<dyn ResponseTable>),
}

impl Default for StoredResponses {
    fn default() -> Self {
        Self::new(StoredResponseSettings::default(), None)
    }
}

impl StoredResponses {
    /// A store as the settings ask for. Without a table, [`ResponsePlace::Database`] stores nothing.
    #[must_use]
    pub fn new(settings: StoredResponseSettings, table: Option<Arc<dyn ResponseTable>>) -> Self {
        let place = match (settings.place, table) {
            (ResponsePlace::Memory { max_bytes }, _) => Backend::Memory(MemoryResponses::new(max_bytes)),
            (ResponsePlace::Database, Some(table)) => Backend::Database(table),
            (ResponsePlace::Database | ResponsePlace::Off, _) => Backend::Off,
        };
        Self { place, ttl: settings.ttl, background: BackgroundResponses::default() }
    }

    /// Whether responses are stored at all.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.place, Backend::Off)
    }

    /// The moment at which a response that is stored now expires, in unix seconds.
    pub(crate) fn expiry(&self) -> u64 {
        unix_seconds().saturating_add(self.ttl.as_secs())
    }

    /// The response of this id that this key made.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn load(&self, owner: &str, id: &str) -> Result<Option<Arc<StoredResponse>>> {
        match &self.place {
            Backend::Off => Ok(None),
            Backend::Memory(memory) => Ok(memory.get(owner, id)),
            Backend::Database(table) => {
                let load = || async { table.load(owner, id).await.map_err(|error| unavailable(&error)) };
                let Some(found) = load().await? else { return Ok(None) };
                if found.running_until.is_none_or(|until| until > unix_seconds()) {
                    return Ok(Some(Arc::new(found)));
                }
                let failed = Self::abandoned(found);
                let is_first = table.finish(owner, id, &failed).await.map_err(|error| unavailable(&error))?;
                if is_first { Ok(Some(Arc::new(failed))) } else { Ok(load().await?.map(Arc::new)) }
            }
        }
    }

    /// A response whose process reports nothing any more.
    fn abandoned(response: StoredResponse) -> StoredResponse {
        let text = std::str::from_utf8(&response.document).unwrap_or("null");
        let document = states::failed(text, "server_error", ABANDONED).into();
        StoredResponse { document, running_until: None, ..response }
    }

    /// Stores a response that begins to run in the background.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn begin(&self, owner: &str, id: &str, response: StoredResponse) -> Result<()> {
        let running_until = match &self.place {
            Backend::Database(_) => Some(unix_seconds().saturating_add(LEASE.as_secs())),
            // It is kept until its end, and only its end may take its place.
            Backend::Memory(_) => Some(u64::MAX),
            Backend::Off => None,
        };
        let expires_at = response.expires_at.max(running_until.unwrap_or_default());
        self.save(owner, id, StoredResponse { running_until, expires_at, ..response }).await
    }

    /// Stores the end of a response that runs in the background; gives false if it has ended already.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn finish(&self, owner: &str, id: &str, response: StoredResponse) -> Result<bool> {
        // While it ran, it was kept for longer.
        let expires_at = response.expires_at.min(self.expiry());
        let response = StoredResponse { running_until: None, expires_at, ..response };
        match &self.place {
            Backend::Database(table) => {
                table.finish(owner, id, &response).await.map_err(|error| unavailable(&error))
            }
            Backend::Memory(memory) => Ok(memory.finish(owner, id, Arc::new(response))),
            Backend::Off => Ok(false),
        }
    }

    /// Ends a response that runs in the background with an error. A response that has ended stays as it is.
    ///
    /// # Errors
    /// `store_unavailable`.
    async fn fail(&self, owner: &str, id: &str, message: &str) -> Result<()> {
        let Some(found) = self.load(owner, id).await? else { return Ok(()) };
        let text = std::str::from_utf8(&found.document).unwrap_or("null");
        let document = states::failed(text, "server_error", message).into();
        self.finish(owner, id, StoredResponse { document, ..StoredResponse::clone(&found) }).await.map(drop)
    }

    /// The lease of a response that runs in this process; None = no other process sees the response.
    pub(crate) fn lease(&self, owner: &str, id: &str) -> Option<Lease> {
        match &self.place {
            Backend::Database(table) => {
                Some(Lease { table: Arc::clone(table), owner: owner.to_owned(), id: id.to_owned() })
            }
            Backend::Memory(_) | Backend::Off => None,
        }
    }

    /// Stores a response.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn save(&self, owner: &str, id: &str, response: StoredResponse) -> Result<()> {
        match &self.place {
            Backend::Off => Ok(()),
            Backend::Memory(memory) => {
                memory.put(owner, id, Arc::new(response));
                Ok(())
            }
            Backend::Database(table) => {
                table.save(owner, id, &response).await.map_err(|error| unavailable(&error))
            }
        }
    }

    /// Deletes a response; gives whether it existed.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn delete(&self, owner: &str, id: &str) -> Result<bool> {
        match &self.place {
            Backend::Off => Ok(false),
            Backend::Memory(memory) => Ok(memory.remove(owner, id)),
            Backend::Database(table) => table.delete(owner, id).await.map_err(|error| unavailable(&error)),
        }
    }
}

/// How long a response counts as running after its process last reported that it runs.
const LEASE: Duration = Duration::from_secs(60);
/// The time between two reports. A lease outlives three reports that do not arrive.
const RENEW_EVERY: Duration = Duration::from_secs(15);
/// The error of a response whose process died.
const ABANDONED: &str = "The gateway process that made this response ended. Send the request again.";

/// The claim of this process to make a response.
#[derive(Debug)]
pub(crate) struct Lease {
    table: Arc<dyn ResponseTable>,
    owner: String,
    id: String,
}

impl Lease {
    /// Reports that the response runs, until somebody else has ended it: another replica cancelled or deleted it.
    pub(crate) async fn hold(self) {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            let until = unix_seconds().saturating_add(LEASE.as_secs());
            match self.table.renew(&self.owner, &self.id, until).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(error = %error.0, "the store of responses cannot be told that a response runs");
                }
            }
        }
    }
}

/// The name of a key's response in the tables of this process. A key's id has no line break, so no other key reaches the
/// entry, whatever id it asks for.
fn entry_name(owner: &str, id: &str) -> String {
    format!("{owner}\n{id}")
}

fn unavailable(error: &TableError) -> Error {
    tracing::warn!(error = %error.0, "the store of responses cannot be used");
    let message = "The store of responses is unavailable. Try again, or send store: false.";
    Error::new(Kind::StoreUnavailable, message).retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A table that counts reports and lets the third one find that the response has ended.
    #[derive(Debug, Default)]
    struct EndedTable {
        reports: AtomicUsize,
    }

    impl ResponseTable for EndedTable {
        fn load<'a>(&'a self, _: &'a str, _: &'a str) -> TableFuture<'a, Option<StoredResponse>> {
            Box::pin(async { Ok(None) })
        }

        fn save<'a>(&'a self, _: &'a str, _: &'a str, _: &'a StoredResponse) -> TableFuture<'a, ()> {
            Box::pin(async { Ok(()) })
        }

        fn renew<'a>(&'a self, _: &'a str, _: &'a str, until: u64) -> TableFuture<'a, bool> {
            assert!(until > unix_seconds());
            let report = self.reports.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                match report {
                    0 => Ok(true),
                    1 => Err(TableError("away".to_owned())),
                    _ => Ok(false),
                }
            })
        }

        fn finish<'a>(&'a self, _: &'a str, _: &'a str, _: &'a StoredResponse) -> TableFuture<'a, bool> {
            Box::pin(async { Ok(false) })
        }

        fn delete<'a>(&'a self, _: &'a str, _: &'a str) -> TableFuture<'a, bool> {
            Box::pin(async { Ok(false) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_when_the_response_has_ended_elsewhere_and_outlives_a_lost_report() {
        let table = Arc::new(EndedTable::default());
        let settings = StoredResponseSettings { place: ResponsePlace::Database, ..Default::default() };
        let stored = StoredResponses::new(settings, Some(Arc::clone(&table) as Arc<dyn ResponseTable>));
        stored.lease("key", "resp_1").unwrap().hold().await;
        assert_eq!(table.reports.load(Ordering::Relaxed), 3);
        assert!(StoredResponses::default().lease("key", "resp_1").is_none());
    }

    fn response(status: &str) -> StoredResponse {
        let document = format!("{{\"status\":\"{status}\",\"error\":null}}").into();
        let expires_at = unix_seconds() + 60;
        StoredResponse { document, input: Vec::new(), history: Vec::new(), expires_at, running_until: None }
    }

    #[tokio::test]
    async fn a_response_in_memory_ends_once_and_never_comes_back() {
        let stored = StoredResponses::default();
        let status = async |id: &str| {
            let found = stored.load("key", id).await.unwrap();
            found.map(|found| states::status(std::str::from_utf8(&found.document).unwrap()))
        };
        stored.begin("key", "resp_1", response("in_progress")).await.unwrap();
        assert!(stored.finish("key", "resp_1", response("cancelled")).await.unwrap());
        assert!(!stored.finish("key", "resp_1", response("completed")).await.unwrap());
        assert_eq!(status("resp_1").await.as_deref(), Some("cancelled"));
        stored.begin("key", "resp_2", response("in_progress")).await.unwrap();
        assert!(!stored.finish("other", "resp_2", response("completed")).await.unwrap());
        assert!(stored.delete("key", "resp_2").await.unwrap());
        assert!(!stored.finish("key", "resp_2", response("completed")).await.unwrap());
        assert_eq!(status("resp_2").await, None);
        // It outlives its time while it runs, and not afterwards.
        let long_ago = StoredResponse { expires_at: 1, ..response("in_progress") };
        stored.begin("key", "resp_3", long_ago).await.unwrap();
        stored.fail("key", "resp_3", "Gone.").await.unwrap();
        assert_eq!(status("resp_3").await.as_deref(), Some("failed"));
        let ended = stored.load("key", "resp_3").await.unwrap().unwrap();
        assert!(ended.expires_at <= stored.expiry() && ended.running_until.is_none());
    }
}
