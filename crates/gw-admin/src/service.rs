//! Answers operators' requests from a store.

use std::sync::Arc;

use gw_engine::Engine;
use gw_engine::settings::KeySettings;
use gw_store::Store;

use crate::admin_request::AdminRequest;
use crate::endpoints::AdminCall;
use crate::error::AdminError;
use crate::records::Records;
use crate::requester::Requester;
use crate::response::AdminResponse;

/// Answers operators' requests from a store. It needs no running gateway.
#[derive(Clone, Debug)]
pub struct AdminService {
    records: Records,
}

impl AdminService {
    /// Creates a service for this store. Lists show the keys of the configuration beside the store's keys; no request
    /// changes them.
    #[must_use]
    pub fn new(store: Store, configured_keys: &[KeySettings]) -> Self {
        Self { records: Records::new(store, configured_keys) }
    }

    /// Answers with what only a running gateway knows, too: prices in force and the state of limits.
    pub(crate) fn of_engine(store: Store, engine: &Arc<Engine>) -> Self {
        let records = Records::new(store, &engine.configured().settings.keys);
        Self { records: records.with_engine(Arc::clone(engine)) }
    }

    /// Replaces the keys of the configuration.
    pub(crate) fn set_configured_keys(&self, keys: &[KeySettings]) {
        self.records.set_configured_keys(keys);
    }

    /// Answers a request at the time of the system's clock. A change and its record in the audit log are stored together.
    ///
    /// # Errors
    /// [`AdminError::Rejected`] for a wrong request, [`AdminError::Store`] if the store fails.
    pub async fn answer(
        &self,
        request: &AdminRequest,
        requester: &Requester,
    ) -> Result<AdminResponse, AdminError> {
        let call = AdminCall {
            records: &self.records,
            requester,
            id: &request.id,
            query: &request.query,
            body: &request.body,
            is_csv_preferred: request.is_csv_preferred,
            now: gw_wire::calendar::unix_seconds(),
        };
        (request.endpoint.answer)(call).await
    }

    /// The store that the service reads and writes.
    pub(crate) fn store(&self) -> &Store {
        &self.records.store
    }
}
