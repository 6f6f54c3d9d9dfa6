//! The configuration that is made over the API, beside the file: the service that shows, changes, undoes and exports it.
//!
//! The file wins: what it sets is read-only here. Everything else is an entry in the store with a history. A change is stored
//! only if the merged configuration passes `check` as a whole.

mod answers;
pub mod apply;
mod changes;
pub mod export;
mod input;
pub mod merge;
pub mod overlay;
mod sections;
mod start;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use gw_admin::{ConfigurationFuture, ConfigurationRequest, ConfigurationResponse, ConfigurationService};
use gw_engine::error::{Error, Kind};
use gw_providers::seal::SecretSealer;
use gw_store::Store;
use tokio::sync::Mutex;

use apply::ApplyConfiguration;
use merge::FileState;
use overlay::{Overlay, OverlayError};
pub use start::{MergeError, check, open};

/// Answers the requests below `/admin/v1/config/`.
pub struct StoredConfiguration {
    store: Store,
    sealer: SecretSealer,
    /// The file; None: the gateway runs without one.
    path: Option<PathBuf>,
    /// The providers that the API had made at the start.
    made_at_start: BTreeSet<String>,
    applier: OnceLock<Weak<dyn ApplyConfiguration>>,
    /// Allows one change at a time, because a change is checked against the entries before it.
    changing: Mutex<()>,
}

impl fmt::Debug for StoredConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredConfiguration").field("path", &self.path).finish_non_exhaustive()
    }
}

impl StoredConfiguration {
    /// The configuration of this store beside this file. `made_at_start` are the names of the providers that the API had made.
    #[must_use]
    pub fn new(
        store: Store,
        sealer: SecretSealer,
        path: Option<PathBuf>,
        made_at_start: BTreeSet<String>,
    ) -> Arc<Self> {
        let (applier, changing) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { store, sealer, path, made_at_start, applier, changing })
    }

    /// Applies changes at once. None: no gateway runs, and changes apply at the next start.
    fn applier(&self) -> Option<Arc<dyn ApplyConfiguration>> {
        self.applier.get()?.upgrade()
    }

    /// Sets the part that puts a changed configuration into force. Without it, changes apply at the next start.
    pub fn set_applier(&self, applier: Weak<dyn ApplyConfiguration>) {
        // The applier owns this value. A strong reference would keep the engine and its journal alive for ever.
        let _ = self.applier.set(applier);
    }

    async fn overlay(&self) -> Result<Overlay, Error> {
        overlay::load(&self.store, &self.sealer).await.map_err(|error| match error {
            OverlayError::Store(error) => unavailable(&error),
            damaged => {
                tracing::error!("{damaged}");
                Error::new(Kind::InternalError, damaged.to_string())
            }
        })
    }

    fn file(&self) -> Result<FileState, Error> {
        FileState::read(self.path.clone()).map_err(|problem| {
            Error::new(Kind::InternalError, format!("The configuration file cannot be read: {problem}."))
        })
    }

    async fn read(&self, path: &str) -> gw_engine::Result<ConfigurationResponse> {
        match parse(path)? {
            Target::List(section) => self.list(section).await,
            Target::Table(section) => self.show_table(section).await,
            Target::Entry(section, name) => self.show_entry(section, name).await,
        }
    }

    async fn write(&self, request: &ConfigurationRequest) -> gw_engine::Result<ConfigurationResponse> {
        match parse(&request.path)? {
            Target::Entry(section, name) => self.change_entry(section, name, request).await,
            Target::Table(section) => self.change_entry(section, "", request).await,
            Target::List(section) => Err(Error::new(
                Kind::NotFound,
                format!("Name the entry: /admin/v1/config/{section}/{{name}}."),
            )),
        }
    }
}

impl ConfigurationService for StoredConfiguration {
    fn history(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_> {
        Box::pin(self.list_changes(request.parameters))
    }

    fn export(&self, _: ConfigurationRequest) -> ConfigurationFuture<'_> {
        Box::pin(self.export_document())
    }

    fn undo(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_> {
        Box::pin(async move { self.undo_change(&request).await })
    }

    fn show(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_> {
        Box::pin(async move { self.read(&request.path).await })
    }

    fn change(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_> {
        Box::pin(async move { self.write(&request).await })
    }
}

/// The part of the configuration that a path names.
enum Target<'p> {
    /// All entries of a section.
    List(&'static str),
    /// An entry of a section.
    Entry(&'static str, &'p str),
    /// A section that is one table.
    Table(&'static str),
}

/// Reads a path below `/admin/v1/config/`.
fn parse(path: &str) -> gw_engine::Result<Target<'_>> {
    let (section, name) = path.split_once('/').map_or((path, None), |(section, name)| (section, Some(name)));
    let section = sections::find(section)?;
    match (section.is_list, name) {
        (true, None) => Ok(Target::List(section.name)),
        (true, Some(name)) => Ok(Target::Entry(section.name, name)),
        (false, None) => Ok(Target::Table(section.name)),
        (false, Some(_)) => Err(Error::new(
            Kind::NotFound,
            format!("The section '{}' is one table without entries.", section.name),
        )),
    }
}

/// The error for a store that does not answer. Its reason is for operators alone.
fn unavailable(error: &gw_store::Error) -> Error {
    tracing::error!(%error, "the store is not reachable: a request about the configuration gets no answer");
    Error::new(
        Kind::StoreUnavailable,
        "The store is not reachable. If you asked for a change, check whether it was made.",
    )
}
