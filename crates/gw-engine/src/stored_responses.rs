//! Responses that clients of the Responses API can retrieve, continue and delete. Each belongs to the key that made it.

mod background;
mod memory;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::unix_seconds;
use crate::error::{Error, Kind, Result};
use crate::stored_responses::memory::MemoryResponses;

pub(crate) use background::BackgroundResponses;

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
                let found = table.load(owner, id).await.map_err(|error| unavailable(&error))?;
                Ok(found.map(Arc::new))
            }
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
