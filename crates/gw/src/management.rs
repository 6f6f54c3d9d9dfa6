//! The start of the management API.

use std::sync::Arc;

use gw_admin::LiveAdminService;
use gw_command::CommandError;
use gw_config::stored_configuration::StoredConfiguration;
use gw_engine::Engine;
use gw_store::Store;
use gw_store::journal::Journal;

use crate::watch;

/// Starts the management API, and the task that keeps its keys up to date.
///
/// # Errors
/// Exit code 1 when the keys cannot be read.
pub async fn start(
    store: &Store,
    engine: &Arc<Engine>,
    journal: Arc<Journal>,
    configured: &Arc<StoredConfiguration>,
) -> Result<Arc<LiveAdminService>, CommandError> {
    let runtime = tokio::runtime::Handle::current();
    let management = LiveAdminService::new(store.clone(), Arc::clone(engine), runtime);
    management.set_journal(journal);
    management.set_configuration(Arc::clone(configured) as _);
    management.refresh().await.map_err(CommandError::runtime)?;
    tokio::spawn(watch::keep_keys_up_to_date(Arc::clone(&management)));
    Ok(management)
}
