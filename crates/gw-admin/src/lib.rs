//! What operators ask for under `/admin/v1`, and on the command line: keys, teams, usage, the request log.
//!
//! [`Books`] answers an [`Ask`] from a store, wherever it is asked; [`Management`] does so for a running gateway, whose
//! engine hears of every change before whoever made it does.

mod body;
pub mod cache;
pub mod configuration;
mod keys;
pub mod providers;
mod query;
mod requests;
pub mod routing;
mod teams;
mod usage;
mod write;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gw_engine::Engine;
use gw_engine::error::{Error, Kind};
use gw_engine::settings::KeySettings;
use gw_store::Store;
use gw_wire::request::Invalid;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

pub use self::query::moment;
pub use self::write::time_of_millis;

/// A store that takes longer than this for an answer is away. Longer than SQLite waits for another program's lock.
const PATIENCE: Duration = Duration::from_secs(8);

/// A question or an order. Ids are as they were given, bodies and query strings too: what is wrong with them is the
/// answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `POST /admin/v1/keys`.
    CreateKey(Bytes),
    /// `GET /admin/v1/keys` with its query.
    Keys(String),
    /// `GET /admin/v1/keys/{id}`.
    Key(String),
    /// `PATCH /admin/v1/keys/{id}`.
    ChangeKey(String, Bytes),
    /// `DELETE /admin/v1/keys/{id}`.
    RevokeKey(String),
    /// `POST /admin/v1/keys/{id}/rotate`.
    RotateKey(String, Bytes),
    /// `GET /admin/v1/teams`.
    Teams,
    /// `GET /admin/v1/teams/{id}`.
    Team(String),
    /// `PUT /admin/v1/teams/{id}`.
    PutTeam(String, Bytes),
    /// `DELETE /admin/v1/teams/{id}`.
    DeleteTeam(String),
    /// `GET /admin/v1/usage`.
    Usage {
        /// Its query.
        query: String,
        /// CSV is wanted unless the query says otherwise.
        csv: bool,
    },
    /// `GET /admin/v1/requests` with its query.
    Requests(String),
    /// `GET /admin/v1/requests/{request_id}`.
    Request(String),
    /// `DELETE /admin/v1/requests/{request_id}/payload`.
    ForgetPayload(String),
}

impl Ask {
    /// Whether it changes a key or a team.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::CreateKey(_)
            | Self::ChangeKey(..)
            | Self::RevokeKey(_)
            | Self::RotateKey(..)
            | Self::PutTeam(..)
            | Self::DeleteTeam(_) => true,
            Self::Keys(_)
            | Self::Key(_)
            | Self::Teams
            | Self::Team(_)
            | Self::Usage { .. }
            | Self::Requests(_)
            | Self::Request(_)
            | Self::ForgetPayload(_) => false,
        }
    }
}

/// An answer. Prints itself without its text: a key that was just made may be in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// Something new was made: 201 instead of 200.
    pub is_new: bool,
    /// CSV instead of JSON.
    pub is_csv: bool,
    /// Its text.
    pub body: Bytes,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("is_new", &self.is_new).field("bytes", &self.body.len()).finish()
    }
}

impl Document {
    fn json(body: Vec<u8>) -> Self {
        Self { is_new: false, is_csv: false, body: body.into() }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Fault {
    /// What was asked for cannot be.
    Refused(Error),
    /// The store failed; its words are for operators, not for clients.
    Store(gw_store::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Invalid> for Fault {
    fn from(invalid: Invalid) -> Self {
        Self::Refused(refused(invalid))
    }
}

impl From<gw_store::Error> for Fault {
    fn from(error: gw_store::Error) -> Self {
        Self::Store(error)
    }
}

type Answer = Result<Document, Fault>;

fn refused(invalid: Invalid) -> Error {
    Error { code: Some(invalid.code.into()), ..Error::new(Kind::Invalid, invalid.message) }
}

/// A store and the keys of a configuration beside it.
#[derive(Clone, Debug)]
pub struct Books {
    store: Store,
    configured: Arc<[KeySettings]>,
}

impl Books {
    /// The keys of the configuration are shown with the store's, and are never changed.
    #[must_use]
    pub fn new(store: Store, configured: &[KeySettings]) -> Self {
        Self { store, configured: configured.into() }
    }

    /// Answers, at the time of the system's clock.
    ///
    /// # Errors
    /// What is wrong with the question, or with the store.
    pub async fn answer(&self, ask: Ask) -> Result<Document, Fault> {
        let now = unix_seconds();
        match ask {
            Ask::CreateKey(body) => self.create_key(&body, now).await,
            Ask::Keys(query) => self.list_keys(&query, now).await,
            Ask::Key(id) => self.show_key(&id, now).await,
            Ask::ChangeKey(id, body) => self.change_key(&id, &body, now).await,
            Ask::RevokeKey(id) => self.revoke_key(&id, now).await,
            Ask::RotateKey(id, body) => self.rotate_key(&id, &body, now).await,
            Ask::Teams => self.list_teams(now).await,
            Ask::Team(id) => self.show_team(&id, now).await,
            Ask::PutTeam(id, body) => self.put_team(&id, &body, now).await,
            Ask::DeleteTeam(id) => self.delete_team(&id).await,
            Ask::Usage { query, csv } => self.usage(&query, csv, now).await,
            Ask::Requests(query) => self.list_requests(&query, now).await,
            Ask::Request(id) => self.show_request(&id).await,
            Ask::ForgetPayload(id) => self.forget_payload(&id).await,
        }
    }
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The books of a running gateway.
#[derive(Debug)]
pub struct Management {
    books: Books,
    engine: Arc<Engine>,
    /// Where the store's connections live; requests come in on other threads.
    runtime: Handle,
    /// One change at a time: what a change was checked against must still hold when it is made.
    changing: Mutex<()>,
    /// The revision of the keys that the engine has. Held while they are read, so that an older reading never takes the
    /// place of a newer one.
    loaded: Mutex<Option<i64>>,
}

impl Management {
    /// For this engine, its configuration's keys and this store; `runtime` is the one that the store was opened on.
    #[must_use]
    pub fn new(store: Store, engine: Arc<Engine>, runtime: Handle) -> Arc<Self> {
        let books = Books::new(store, engine.configured_keys());
        Arc::new(Self { books, engine, runtime, changing: Mutex::default(), loaded: Mutex::default() })
    }

    /// Answers in bounded time. A change is in force in this process when its answer is there, and is finished when
    /// nobody waits for the answer any more.
    ///
    /// # Errors
    /// What is wrong with the question; `store_unavailable`.
    pub async fn answer(self: &Arc<Self>, ask: Ask) -> gw_engine::Result<Document> {
        let this = Arc::clone(self);
        let answering = self.runtime.spawn(async move {
            tokio::time::timeout(PATIENCE, async move {
                if ask.changes() { this.change(ask).await } else { this.books.answer(ask).await }
            })
            .await
        });
        match answering.await {
            Ok(Ok(answer)) => answer.map_err(|fault| match fault {
                Fault::Refused(error) => error,
                Fault::Store(error) => away(&error),
            }),
            Ok(Err(_)) => Err(away(&"it did not answer in time")),
            Err(_) => {
                Err(Error::new(Kind::InternalError, "The gateway failed while answering this request."))
            }
        }
    }

    async fn change(&self, ask: Ask) -> Answer {
        let _changing = self.changing.lock().await;
        let answer = self.books.answer(ask).await?;
        if let Err(error) = self.refresh().await {
            tracing::warn!(%error, "a change was made that is not in force yet: the keys cannot be read");
        }
        Ok(answer)
    }

    /// Looks at the store, and gives its keys to the engine if they are other ones than those that it has.
    ///
    /// # Errors
    /// When the store cannot be read; the engine keeps what it has.
    pub async fn refresh(&self) -> gw_store::Result<()> {
        let mut loaded = self.loaded.lock().await;
        let store = &self.books.store;
        // Read first: a change that comes in between is seen at the next look.
        let revision = store.revision().await?;
        if *loaded != Some(revision) {
            let (keys, teams) = (store.keys().await?, store.teams().await?);
            self.engine.set_keys(&keys, &teams);
            *loaded = Some(revision);
        }
        self.engine.keys_are_fresh();
        Ok(())
    }

    /// Resolves when the store may have changed, by whichever program.
    pub async fn store_changed(&self) {
        self.books.store.changed().await;
    }
}

fn away(reason: &dyn fmt::Display) -> Error {
    tracing::error!(%reason, "the store is away: a request of the management API cannot be answered");
    Error::new(Kind::StoreUnavailable, "The store is not reachable; nothing is known to have changed.")
}

#[cfg(test)]
mod tests;
