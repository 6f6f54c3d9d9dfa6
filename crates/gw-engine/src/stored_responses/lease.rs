//! The lease of a response in the background. While a process renews it, other processes know that the response still runs.

use std::sync::Arc;
use std::time::Duration;

use super::table::ResponseTable;
use crate::clock::unix_seconds;

/// How long a response counts as running after its process last reported that it runs.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// The time between two reports. A lease outlives three reports that do not arrive.
const RENEW_EVERY: Duration = Duration::from_secs(15);

/// The claim of this process to make a response.
#[derive(Debug)]
pub(crate) struct Lease {
    table: Arc<dyn ResponseTable>,
    owner: String,
    id: String,
}

impl Lease {
    pub(super) fn new(table: Arc<dyn ResponseTable>, owner: &str, id: &str) -> Self {
        Self { table, owner: owner.to_owned(), id: id.to_owned() }
    }

    /// Reports at intervals that the response runs. Returns when another replica has cancelled or deleted the response.
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
