//! Responses that clients of the Responses API can retrieve, continue and delete. Each belongs to the key that made it.

mod background;
pub(crate) mod conversation;
mod keeping;
mod kept_input;
mod memory;
mod opened;
mod opened_turns;
mod stored_conversation;
pub(crate) mod stored_response;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gw_wire::dialects::responses::states;

use crate::clock::unix_seconds;
use crate::error::{Error, Kind, Result};
use crate::read_memory::ReadMemory;
use crate::stored_responses::keeping::{KeyBytes, no_room, over_share};
use crate::stored_responses::memory::MemoryResponses;
use crate::stored_responses::opened::OpenedResponses;
use crate::stored_responses::opened_turns::OpenedTurns;
use crate::stored_responses::stored_response::Write;

pub use stored_response::{ConversationSize, Kept, ResponseFacts, StoredResponse, TurnFacts};

pub(crate) use background::{BackgroundResponses, BackgroundTask};
pub(crate) use kept_input::KeptInput;
pub(crate) use stored_conversation::StoredConversation;
pub(crate) use stored_response::entry_name;

/// `[responses]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredResponseSettings {
    /// The place of the responses.
    pub place: ResponsePlace,
    /// How long a response is kept.
    pub ttl: Duration,
    /// The most bytes that one key may store.
    pub max_bytes_per_key: u64,
    /// The most bytes of a request together with the conversation that it continues.
    pub max_conversation_bytes: u64,
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

impl Default for ResponsePlace {
    fn default() -> Self {
        Self::Memory { max_bytes: 64 << 20 }
    }
}

impl Default for StoredResponseSettings {
    fn default() -> Self {
        Self {
            place: ResponsePlace::default(),
            ttl: Duration::from_secs(3600),
            max_bytes_per_key: 1 << 30,
            max_conversation_bytes: 32 << 20,
        }
    }
}

/// A store of responses outside this process.
pub trait ResponseTable: Send + Sync + std::fmt::Debug {
    /// The facts about the response of this id that this key made, unless it is expired.
    fn find<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, Option<ResponseFacts>>;
    /// The facts about a response and the ones that it continues, the newest first. Those may be expired.
    fn chain<'a>(&'a self, owner: &'a str, id: &'a str, most: u32) -> TableFuture<'a, Vec<ResponseFacts>>;
    /// Opens a response, also one that is expired.
    fn open<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, Option<StoredResponse>>;
    /// The ids of the responses that hold these items.
    fn responses_of_items<'a>(&'a self, owner: &'a str, items: &'a [String]) -> TableFuture<'a, Vec<String>>;
    /// The bytes that a key stores. It is asked often, so it adds nothing up.
    fn stored_bytes<'a>(&'a self, owner: &'a str) -> TableFuture<'a, u64>;
    /// Inserts or replaces a response. `items` are the ids by which it is found beside its own.
    fn save<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
        response: &'a StoredResponse,
        items: &'a [String],
    ) -> TableFuture<'a, Kept>;
    /// Notes that a response runs until this moment (unix seconds); gives false if it does not run any more.
    fn renew<'a>(&'a self, owner: &'a str, id: &'a str, until: u64) -> TableFuture<'a, bool>;
    /// Replaces a response that runs by its end, or changes nothing if it does not run any more.
    fn finish<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
        response: &'a StoredResponse,
        items: &'a [String],
    ) -> TableFuture<'a, Kept>;
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
    settings: StoredResponseSettings,
    opened: OpenedResponses,
    opened_turns: OpenedTurns,
    key_bytes: KeyBytes,
    /// The memory in which responses are read.
    pub(crate) reading: ReadMemory,
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
            (ResponsePlace::Memory { max_bytes }, _) => {
                Backend::Memory(MemoryResponses::new(max_bytes, settings.max_bytes_per_key))
            }
            (ResponsePlace::Database, Some(table)) => Backend::Database(table),
            (ResponsePlace::Database | ResponsePlace::Off, _) => Backend::Off,
        };
        Self {
            place,
            settings,
            opened: OpenedResponses::default(),
            opened_turns: OpenedTurns::default(),
            key_bytes: KeyBytes::default(),
            reading: ReadMemory::default(),
            background: BackgroundResponses::default(),
        }
    }

    /// Whether responses are stored at all.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.place, Backend::Off)
    }

    /// Whether responses are stored in the database.
    fn is_in_database(&self) -> bool {
        matches!(self.place, Backend::Database(_))
    }

    /// The moment at which a response that is stored now expires, in unix seconds.
    pub(crate) fn expiry(&self) -> u64 {
        unix_seconds().saturating_add(self.settings.ttl.as_secs())
    }

    /// The response of this id that this key made.
    ///
    /// # Errors
    /// `store_unavailable`, or the memory for reading is full.
    pub(crate) async fn load(&self, owner: &str, id: &str) -> Result<Option<Arc<StoredResponse>>> {
        match &self.place {
            Backend::Off => return Ok(None),
            Backend::Memory(memory) => return Ok(memory.get(owner, id)),
            Backend::Database(_) => {}
        }
        let Some(found) = self.find(owner, id).await? else { return Ok(None) };
        let Some(response) = self.open(owner, &found).await? else { return Ok(None) };
        if !found.facts.is_abandoned() {
            return Ok(Some(response));
        }
        let failed = Self::abandoned(StoredResponse::clone(&response));
        if self.rewrite(owner, id, failed.clone()).await? == Kept::Stored {
            return Ok(Some(Arc::new(failed)));
        }
        match self.find(owner, id).await? {
            Some(found) => self.open(owner, &found).await,
            None => Ok(None),
        }
    }

    /// Whether this response of the key is being made, by any process. Nothing is opened for the answer.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn is_running(&self, owner: &str, id: &str) -> Result<bool> {
        let found = self.find(owner, id).await?;
        Ok(found.is_some_and(|found| found.facts.is_running && !found.facts.is_abandoned()))
    }

    /// A response whose process reports nothing any more.
    fn abandoned(response: StoredResponse) -> StoredResponse {
        let document = states::failed(response.text(), "server_error", ABANDONED).into();
        let turn = TurnFacts { is_running: false, ..response.turn.clone() };
        StoredResponse { document, running_until: None, turn, ..response }
    }

    /// Stores a response that begins to run in the background.
    ///
    /// # Errors
    /// `store_unavailable`, or there is no room for it.
    pub(crate) async fn begin(
        &self,
        owner: &str,
        id: &str,
        response: StoredResponse,
        before: &StoredConversation,
    ) -> Result<()> {
        let running_until = match &self.place {
            Backend::Database(_) => Some(unix_seconds().saturating_add(LEASE.as_secs())),
            // It is kept until its end, and only its end may take its place.
            Backend::Memory(_) => Some(u64::MAX),
            Backend::Off => None,
        };
        let expires_at = response.expires_at.max(running_until.unwrap_or_default());
        let response = StoredResponse { running_until, expires_at, ..response };
        match self.put(owner, id, response, before, Write::Begin).await? {
            Kept::Stored => Ok(()),
            Kept::OverShare => Err(over_share()),
            Kept::Ended | Kept::ParentGone | Kept::TooLarge => Err(no_room()),
        }
    }

    /// Stores the end of a response that runs in the background.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn finish(
        &self,
        owner: &str,
        id: &str,
        response: StoredResponse,
        before: &StoredConversation,
    ) -> Result<Kept> {
        // While it ran, it was kept for longer.
        let expires_at = response.expires_at.min(self.expiry());
        let response = StoredResponse { running_until: None, expires_at, ..response };
        self.put(owner, id, response, before, Write::Finish).await
    }

    /// Stores the end of a response that was cancelled; gives false if it had ended already.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn cancel(&self, owner: &str, id: &str, cancelled: StoredResponse) -> Result<bool> {
        Ok(self.rewrite(owner, id, cancelled).await? == Kept::Stored)
    }

    /// Ends a response that runs in the background with an error. A response that has ended stays as it is.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn fail(&self, owner: &str, id: &str, message: &str) -> Result<()> {
        let Some(found) = self.load(owner, id).await? else { return Ok(()) };
        let document = states::failed(found.text(), "server_error", message).into();
        self.rewrite(owner, id, found.with_document(document)).await.map(drop)
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
    pub(crate) async fn save(
        &self,
        owner: &str,
        id: &str,
        response: StoredResponse,
        before: &StoredConversation,
    ) -> Result<Kept> {
        self.put(owner, id, response, before, Write::Save).await
    }

    /// Deletes a response; gives whether it existed.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn delete(&self, owner: &str, id: &str) -> Result<bool> {
        self.opened_turns.forget(owner, id);
        let deleted = match &self.place {
            Backend::Off => Ok(false),
            Backend::Memory(memory) => Ok(memory.remove(owner, id)),
            Backend::Database(table) => table.delete(owner, id).await.map_err(|error| unavailable(&error)),
        };
        // Another request can keep a copy again until the row is gone.
        self.opened_turns.forget(owner, id);
        if matches!(deleted, Ok(true)) {
            self.key_bytes.forget(owner);
        }
        deleted
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

fn unavailable(error: &TableError) -> Error {
    tracing::warn!(error = %error.0, "the store of responses cannot be used");
    let message = "The store of responses is unavailable. Try again, or send store: false.";
    Error::new(Kind::StoreUnavailable, message).retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;

    use super::*;

    /// A table that counts reports and lets the third one find that the response has ended.
    #[derive(Debug, Default)]
    struct EndedTable {
        reports: AtomicUsize,
        /// The number of questions for the bytes of a key.
        sums: AtomicUsize,
    }

    impl ResponseTable for EndedTable {
        fn find<'a>(&'a self, _: &'a str, _: &'a str) -> TableFuture<'a, Option<ResponseFacts>> {
            Box::pin(async { Ok(None) })
        }

        fn chain<'a>(&'a self, _: &'a str, _: &'a str, _: u32) -> TableFuture<'a, Vec<ResponseFacts>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn open<'a>(&'a self, _: &'a str, _: &'a str) -> TableFuture<'a, Option<StoredResponse>> {
            Box::pin(async { Ok(None) })
        }

        fn responses_of_items<'a>(&'a self, _: &'a str, _: &'a [String]) -> TableFuture<'a, Vec<String>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn stored_bytes<'a>(&'a self, _: &'a str) -> TableFuture<'a, u64> {
            self.sums.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Ok(0) })
        }

        fn save<'a>(
            &'a self,
            _: &'a str,
            _: &'a str,
            _: &'a StoredResponse,
            _: &'a [String],
        ) -> TableFuture<'a, Kept> {
            Box::pin(async { Ok(Kept::Stored) })
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

        fn finish<'a>(
            &'a self,
            _: &'a str,
            _: &'a str,
            _: &'a StoredResponse,
            _: &'a [String],
        ) -> TableFuture<'a, Kept> {
            Box::pin(async { Ok(Kept::Ended) })
        }

        fn delete<'a>(&'a self, _: &'a str, id: &'a str) -> TableFuture<'a, bool> {
            Box::pin(async move { Ok(id == "resp_1") })
        }
    }

    fn in_table(table: &Arc<EndedTable>) -> StoredResponses {
        let settings = StoredResponseSettings { place: ResponsePlace::Database, ..Default::default() };
        StoredResponses::new(settings, Some(Arc::clone(table) as Arc<dyn ResponseTable>))
    }

    #[tokio::test]
    async fn only_a_deletion_that_frees_bytes_has_them_read_again() {
        let table = Arc::new(EndedTable::default());
        let stored = in_table(&table);
        let sums = async || {
            stored.check_room("key", 100, &StoredConversation::default()).await.unwrap();
            table.sums.load(Ordering::Relaxed)
        };
        assert_eq!(sums().await, 1);
        assert!(!stored.delete("key", "resp_unknown").await.unwrap());
        assert_eq!(sums().await, 1);
        assert!(stored.delete("key", "resp_1").await.unwrap());
        assert_eq!(sums().await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_when_the_response_has_ended_elsewhere_and_outlives_a_lost_report() {
        let table = Arc::new(EndedTable::default());
        let stored = in_table(&table);
        stored.lease("key", "resp_1").unwrap().hold().await;
        assert_eq!(table.reports.load(Ordering::Relaxed), 3);
        assert!(StoredResponses::default().lease("key", "resp_1").is_none());
    }

    fn response(status: &str, expires_at: u64) -> StoredResponse {
        let document = format!("{{\"status\":\"{status}\",\"error\":null}}").into();
        StoredResponse::new([document, "[]".into(), Bytes::new()], TurnFacts::default(), expires_at)
    }

    #[tokio::test]
    async fn a_response_in_memory_ends_once_and_never_comes_back() {
        let stored = StoredResponses::default();
        let (before, soon) = (StoredConversation::default(), unix_seconds() + 60);
        let status = async |id: &str| {
            let found = stored.load("key", id).await.unwrap();
            found.map(|found| states::status(found.text()))
        };
        let begin =
            async |id, at| stored.begin("key", id, response("in_progress", at), &before).await.unwrap();
        let finish = async |owner, id, status| {
            stored.finish(owner, id, response(status, soon), &before).await.unwrap()
        };
        begin("resp_1", soon).await;
        assert_eq!(finish("key", "resp_1", "cancelled").await, Kept::Stored);
        assert_eq!(finish("key", "resp_1", "completed").await, Kept::Ended);
        assert_eq!(status("resp_1").await.as_deref(), Some("cancelled"));
        begin("resp_2", soon).await;
        assert_eq!(finish("other", "resp_2", "completed").await, Kept::Ended);
        assert!(stored.delete("key", "resp_2").await.unwrap());
        assert_eq!(finish("key", "resp_2", "completed").await, Kept::Ended);
        assert_eq!(status("resp_2").await, None);
        // It outlives its time while it runs, and not afterwards.
        begin("resp_3", 1).await;
        stored.fail("key", "resp_3", "Gone.").await.unwrap();
        assert_eq!(status("resp_3").await.as_deref(), Some("failed"));
        let ended = stored.load("key", "resp_3").await.unwrap().unwrap();
        assert!(ended.expires_at <= stored.expiry() && ended.running_until.is_none());
    }
}
