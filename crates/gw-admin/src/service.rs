//! Answers operators' requests from a store: each request and the function that answers it.

use std::sync::Arc;

use gw_engine::Engine;
use gw_engine::settings::KeySettings;
use gw_store::Store;

use crate::admin_request::AdminRequest;
use crate::error::AdminError;
use crate::records::Records;
use crate::requester::Requester;
use crate::response::AdminResponse;
use crate::time::unix_millis;
use crate::{audit, keys, overview, request_log, teams, usage};

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
        request: AdminRequest,
        requester: &Requester,
    ) -> Result<AdminResponse, AdminError> {
        let (records, now) = (&self.records, unix_millis().div_euclid(1000));
        match request {
            AdminRequest::CreateKey(body) => keys::create_key(records, requester, &body, now).await,
            AdminRequest::ListKeys(query) => keys::list_keys(records, &query, now).await,
            AdminRequest::ShowKey(id) => keys::show_key(records, &id, now).await,
            AdminRequest::UpdateKey(id, body) => keys::update_key(records, requester, &id, &body, now).await,
            AdminRequest::RevokeKey(id) => keys::revoke_key(records, requester, &id, now).await,
            AdminRequest::RotateKey(id, body) => keys::rotate_key(records, requester, &id, &body, now).await,
            AdminRequest::ListTeams => teams::list_teams(records, now).await,
            AdminRequest::ShowTeam(id) => teams::show_team(records, &id, now).await,
            AdminRequest::PutTeam(id, body) => teams::put_team(records, requester, &id, &body, now).await,
            AdminRequest::DeleteTeam(id) => teams::delete_team(records, requester, &id, now).await,
            AdminRequest::ReportUsage { query, is_csv_preferred } => {
                usage::report_usage(records, &query, is_csv_preferred, now).await
            }
            AdminRequest::ShowOverview(query) => overview::show_overview(records, &query, now).await,
            AdminRequest::ListRequests(query) => request_log::list_requests(records, &query, now).await,
            AdminRequest::ShowRequest(id) => request_log::show_request(records, requester, &id).await,
            AdminRequest::DeletePayload(id) => request_log::delete_payload(records, requester, &id).await,
            AdminRequest::ListAudit { query, is_csv_preferred } => {
                audit::list_audit(records, &query, is_csv_preferred, now).await
            }
        }
    }

    /// The store that the service reads and writes.
    pub(crate) fn store(&self) -> &Store {
        &self.records.store
    }
}
