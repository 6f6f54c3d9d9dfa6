//! Responses that clients of the Responses API can retrieve, continue and delete. Each belongs to the key that made it.

mod background;
pub(crate) mod conversation;
mod keeping;
mod kept_input;
mod key_bytes;
mod lease;
mod memory;
mod opened;
mod opened_turns;
mod refusals;
mod settings;
mod stored_conversation;
pub(crate) mod stored_response;
mod table;

use std::sync::Arc;

use gw_wire::dialects::responses::states;

use self::key_bytes::KeyBytes;
use self::lease::{LEASE, Lease};
use self::memory::MemoryResponses;
use self::opened::OpenedResponses;
use self::opened_turns::OpenedTurns;
use self::refusals::{no_room, over_share, unavailable};
use crate::clock::unix_seconds;
use crate::error::Result;
use crate::read_memory::ReadMemory;

pub use self::settings::{ResponsePlace, StoredResponseSettings};
pub use self::stored_response::{
    ConversationSize, Kept, ResponseFacts, ResponseWrite, StoredResponse, TurnFacts,
};
pub use self::table::{ResponseTable, TableError, TableFuture};

pub(crate) use self::background::{BackgroundResponses, BackgroundTask};
pub(crate) use self::kept_input::KeptInput;
pub(crate) use self::stored_conversation::StoredConversation;

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

    /// The failed form of a response whose process no longer renews its lease.
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
        match self.put(owner, id, response, before, ResponseWrite::Begin).await? {
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
        self.put(owner, id, response, before, ResponseWrite::Finish).await
    }

    /// Stores the end of a cancelled response. Returns false if the response had already ended.
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
            Backend::Database(table) => Some(Lease::new(Arc::clone(table), owner, id)),
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
        self.put(owner, id, response, before, ResponseWrite::Save).await
    }

    /// Deletes a response. Returns whether the response existed.
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

/// The error of a response whose process died.
const ABANDONED: &str = "The gateway process that made this response ended. Send the request again.";

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

        fn write<'a>(
            &'a self,
            _: &'a str,
            _: &'a str,
            write: ResponseWrite,
            _: &'a StoredResponse,
            _: &'a [String],
        ) -> TableFuture<'a, Kept> {
            Box::pin(
                async move { Ok(if write == ResponseWrite::Finish { Kept::Ended } else { Kept::Stored }) },
            )
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
