//! Opens the store of the configuration.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gw_command::CommandError;
use gw_config::paths::{self, DataDirError};
use gw_config::setup::Setup;
use gw_store::Store;
use gw_store::inspection::sqlite_file;
use secrecy::{ExposeSecret, SecretString};

/// The first and the longest pause between two attempts to reach the store.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// The place of the configured store.
#[derive(Clone, Debug)]
pub(crate) enum StoreLocation {
    /// This SQLite file.
    File(PathBuf),
    /// The PostgreSQL server of this URL.
    Server(SecretString),
    /// The memory of the process.
    Memory,
}

/// The place of the configured store.
///
/// # Errors
/// No data directory is known.
pub(crate) fn location(setup: &Setup) -> Result<StoreLocation, DataDirError> {
    let Some(url) = &setup.config.store.url else {
        let data = paths::find_data_dir(setup.config.data_dir.as_deref()).ok_or(DataDirError::Unknown)?;
        return Ok(StoreLocation::File(data.join("gateway.db")));
    };
    if !url.expose_secret().starts_with("sqlite:") {
        return Ok(StoreLocation::Server(url.clone()));
    }
    Ok(sqlite_file(url.expose_secret()).map_or(StoreLocation::Memory, StoreLocation::File))
}

/// Opens the store, and creates a SQLite file that is missing. Waits for a server that cannot be reached, up to
/// `store.start_timeout_seconds`.
///
/// # Errors
/// Exit code 1 with the reason.
pub async fn open(setup: &Setup) -> Result<Store, CommandError> {
    let settings = &setup.config.store;
    let Some(url) = &settings.url else {
        let directory = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
        return Store::open(&directory.join("gateway.db")).await.map_err(CommandError::runtime);
    };
    let (start, mut pause) = (Instant::now(), PAUSES.0);
    loop {
        let error = match Store::open_url(url.expose_secret()).await {
            Err(error @ gw_store::Error::Unreachable { .. }) => error,
            done => return done.map_err(CommandError::runtime),
        };
        let left = settings.start_timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(CommandError::runtime(error));
        }
        tracing::warn!("{error}; trying again, for {} s more", left.as_secs());
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Opens the store for a command beside a gateway, which must be able to share it.
///
/// # Errors
/// Exit code 2 for a store in memory, 1 for a store that cannot be opened.
pub async fn open_shared(setup: &Setup) -> Result<Store, CommandError> {
    if setup.config.store.url.as_ref().is_some_and(|url| url.expose_secret().contains(":memory:")) {
        return Err(CommandError::Usage(
            "the configured store is in the memory of the running gateway, and no other program can open it; to ask the \
             gateway itself, add --url to keys, usage and explain"
                .to_owned(),
        ));
    }
    open(setup).await
}
