//! The configuration of the API at a start and at a reload.

use std::collections::BTreeSet;
use std::sync::Arc;

use gw_providers::seal::{EncryptionKey, SecretSealer};
use gw_store::Store;

use super::StoredConfiguration;
use super::merge::{self, FileState};
use super::overlay::{self, Overlay, OverlayError};
use crate::encryption_key;
use crate::setup::Setup;
use gw_command::{CommandError, first_lines};

/// The reason why the configuration of the API cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The store fails, or an entry is damaged.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// The file and the entries do not fit together.
    #[error("the file and the configuration that was made over the API do not fit together:\n{}", listed(.0))]
    Problems(Vec<String>),
}

fn listed(problems: &[String]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
    first_lines(&lines).trim_end().to_owned()
}

/// Opens the configuration of the API at a start, and adds it to `setup`. Seals its secrets again after a rotation of the
/// encryption key.
///
/// # Errors
/// Exit code 2 when the file and the entries do not fit together, 1 when the store or a secret cannot be read.
pub async fn open(
    setup: &mut Setup,
    store: &Store,
    key: &EncryptionKey,
) -> Result<Arc<StoredConfiguration>, CommandError> {
    let sealer = encryption_key::secret_sealer(key)?;
    let resealed = overlay::reseal(store, &sealer).await.map_err(CommandError::runtime)?;
    if resealed > 0 {
        tracing::info!("{resealed} stored secrets are sealed with the new encryption key");
    }
    let overlay = overlay::load(store, &sealer).await.map_err(CommandError::runtime)?;
    let made = provider_names(&overlay);
    if let Some(merged) = merged(setup, &overlay).map_err(|error| CommandError::Usage(error.to_string()))? {
        *setup = merged;
    }
    Ok(StoredConfiguration::new(store.clone(), sealer, setup.path.clone(), made))
}

/// Whether a start can use the entries of the API beside the file of `setup`. Changes nothing. Returns how many entries there are.
///
/// # Errors
/// The store fails, an entry is damaged or does not open, or both do not fit together.
pub async fn check(setup: &Setup, store: &Store, sealer: &SecretSealer) -> Result<usize, MergeError> {
    let overlay = overlay::load(store, sealer).await?;
    merged(setup, &overlay)?;
    Ok(overlay.entries.len())
}

impl StoredConfiguration {
    /// Adds the entries of this moment to the configuration of the file.
    ///
    /// # Errors
    /// The store fails, an entry is damaged, or both do not fit together.
    pub async fn merge(&self, setup: Setup) -> Result<Setup, MergeError> {
        let overlay = overlay::load(&self.store, &self.sealer).await?;
        Ok(merged(&setup, &overlay)?.unwrap_or(setup))
    }

    /// Whether the API had made a provider of this name at the start.
    #[must_use]
    pub fn had_provider(&self, name: &str) -> bool {
        self.made_at_start.contains(name)
    }

    /// Waits until the store may have changed; returns the number of the last change.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn next_version(&self) -> Result<i64, gw_store::Error> {
        self.store.changed().await;
        self.store.configuration_version().await
    }
}

/// The configuration of the file with these entries. None: there are no entries.
fn merged(setup: &Setup, overlay: &Overlay) -> Result<Option<Setup>, MergeError> {
    if overlay.entries.is_empty() {
        return Ok(None);
    }
    let file = FileState::read(setup.path.clone())
        .map_err(|problem| MergeError::Problems(vec![problem.to_string()]))?;
    let verdict = merge::check(&file, overlay, overlay.accepted_members());
    let Some(mut merged) = verdict.setup else { return Err(MergeError::Problems(verdict.problems)) };
    merged.config.server.listen.clone_from(&setup.config.server.listen);
    merged.config.is_blank = setup.config.is_blank;
    if setup.path.is_none() {
        // Without a file, the providers of the environment and of this machine stand beside those of the API.
        let made = provider_names(overlay);
        let found = setup.config.providers.iter().filter(|known| !made.contains(&known.name));
        let providers = &mut merged.config.providers;
        providers.retain(|provider| made.contains(&provider.name));
        providers.extend(found.cloned());
    }
    Ok(Some(merged))
}

fn provider_names(overlay: &Overlay) -> BTreeSet<String> {
    let providers = overlay.entries.iter().filter(|entry| entry.section == "providers");
    providers.map(|entry| entry.name.clone()).collect()
}
