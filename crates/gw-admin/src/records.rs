//! The records that answers are made of: the store, and the keys of the configuration beside the store's keys.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use gw_engine::Engine;
use gw_engine::auth::configured_id;
use gw_engine::settings::KeySettings;
use gw_store::ledger::Filter;
use gw_store::{Store, StoredKey, Team};

use crate::error::{AdminError, not_found};
use crate::ids::{is_key_id, is_team_id};

/// The store and the keys of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// Keys, teams and the ledger.
    pub(crate) store: Store,
    /// The running engine. None: a command asks on the store.
    pub(crate) engine: Option<Arc<Engine>>,
    /// The keys of the configuration.
    configured_keys: Arc<ArcSwap<Vec<KeySettings>>>,
}

impl Records {
    pub(crate) fn new(store: Store, configured_keys: &[KeySettings]) -> Self {
        Self {
            store,
            engine: None,
            configured_keys: Arc::new(ArcSwap::from_pointee(configured_keys.to_vec())),
        }
    }

    /// Adds the running engine.
    pub(crate) fn with_engine(self, engine: Arc<Engine>) -> Self {
        Self { engine: Some(engine), ..self }
    }

    /// The keys of the configuration.
    pub(crate) fn configured_keys(&self) -> Arc<Vec<KeySettings>> {
        self.configured_keys.load_full()
    }

    /// Replaces the keys of the configuration.
    pub(crate) fn set_configured_keys(&self, keys: &[KeySettings]) {
        self.configured_keys.store(Arc::new(keys.to_vec()));
    }

    /// The key of the configuration with this id.
    pub(crate) fn configured_key(&self, id: &str) -> Option<KeySettings> {
        self.configured_keys().iter().find(|key| configured_id(&key.name) == id).cloned()
    }

    /// The store's key with this id.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn stored_key(&self, id: &str) -> Result<StoredKey, AdminError> {
        let found = if is_key_id(id) { self.store.key(id).await? } else { None };
        found.ok_or_else(|| not_found("key", id).into())
    }

    /// The team with this id.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn team(&self, id: &str) -> Result<Team, AdminError> {
        let found = if is_team_id(id) { self.store.team(id).await? } else { None };
        found.ok_or_else(|| not_found("team", id).into())
    }

    /// The current names of all keys, by id.
    pub(crate) async fn key_names(&self) -> Result<HashMap<String, String>, AdminError> {
        let stored = self.store.keys().await?.into_iter().map(|key| (key.id, key.name));
        let configured = self.configured_keys();
        let configured = configured.iter().map(|key| (configured_id(&key.name), key.name.clone()));
        Ok(stored.chain(configured).collect())
    }

    /// Checks that the key and the team of a filter exist or have usage. An id that names nothing is probably a mistake,
    /// and an empty report would hide it.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn check_filter(&self, filter: &Filter) -> Result<(), AdminError> {
        if let Some(id) = &filter.key_id
            && self.configured_key(id).is_none()
            && self.store.key(id).await?.is_none()
            && !self.has_usage(Filter { key_id: Some(id.clone()), ..Filter::default() }).await?
        {
            return Err(not_found("key", id).into());
        }
        if let Some(id) = &filter.team
            && self.store.team(id).await?.is_none()
            && !self.has_usage(Filter { team: Some(id.clone()), ..Filter::default() }).await?
        {
            return Err(not_found("team", id).into());
        }
        Ok(())
    }

    async fn has_usage(&self, filter: Filter) -> Result<bool, AdminError> {
        Ok(self.store.total(&filter).await?.requests > 0)
    }
}
