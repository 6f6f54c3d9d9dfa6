//! Answers operators' requests for a running gateway, whose engine follows every change.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gw_engine::error::{Error, Kind};
use gw_engine::rules::RuleObject;
use gw_engine::{Caller, Engine};
use gw_store::Store;
use gw_store::audit::AuditRecord;
use gw_store::journal::Journal;
use gw_wire::attribution::Attribution;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore};

use crate::admin_request::AdminRequest;
use crate::alerts::{AlertFuture, AlertService};
use crate::configuration_requests::{
    ConfigurationAction, ConfigurationRequest, ConfigurationResponse, ConfigurationService,
};
use crate::error::AdminError;
use crate::live_requests::{LiveRequests, MAX_READERS};
use crate::me::show_me;
use crate::requester::Requester;
use crate::response::AdminResponse;
use crate::service::AdminService;

/// How long the store may take for an answer. It is longer than the time that SQLite waits for another program's lock.
const STORE_TIMEOUT: Duration = Duration::from_secs(8);

/// The answer about all rules.
#[derive(serde::Serialize)]
struct RuleList {
    object: &'static str,
    data: Vec<RuleObject>,
}

/// The [`AdminService`] of a running gateway. Its engine uses a changed key or team before the operator gets the answer.
#[derive(Debug)]
pub struct LiveAdminService {
    service: AdminService,
    engine: Arc<Engine>,
    /// The runtime that owns the store's connections; requests arrive on other threads.
    runtime: Handle,
    /// Allows one change at a time, because a change is checked against the keys that exist before it.
    change_lock: Mutex<()>,
    /// The revision of the keys that the engine has. The lock is held while the keys are read, so that an older reading
    /// never replaces a newer one.
    loaded_revision: Mutex<Option<i64>>,
    /// Answers the requests about the configuration. It is set once, after the start.
    configuration: OnceLock<Arc<dyn ConfigurationService>>,
    /// Answers the requests about alerts. It is set once, after the start.
    alerts: OnceLock<Arc<dyn AlertService>>,
    /// Tells the outcomes of requests. It is set once, after the start.
    journal: OnceLock<Arc<Journal>>,
    /// The readers of new requests.
    readers: Arc<Semaphore>,
}

impl LiveAdminService {
    /// Creates the service of this engine and this store. `runtime` must be the runtime that opened the store.
    #[must_use]
    pub fn new(store: Store, engine: Arc<Engine>, runtime: Handle) -> Arc<Self> {
        let service = AdminService::of_engine(store, &engine);
        let (change_lock, loaded_revision) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            service,
            engine,
            runtime,
            change_lock,
            loaded_revision,
            configuration: OnceLock::new(),
            alerts: OnceLock::new(),
            journal: OnceLock::new(),
            readers: Arc::new(Semaphore::new(MAX_READERS)),
        })
    }

    /// Sets the journal whose outcomes readers follow. The first one stays.
    pub fn set_journal(&self, journal: Arc<Journal>) {
        let _ = self.journal.set(journal);
    }

    /// Reads new rows of the request log from now on. `query` has the filters of the log.
    ///
    /// # Errors
    /// A filter is wrong; `store_unavailable` if too many readers follow already.
    pub fn follow_requests(&self, query: &str) -> gw_engine::Result<LiveRequests> {
        let journal = self
            .journal
            .get()
            .ok_or_else(|| Error::new(Kind::NotFound, "This gateway has no request log."))?;
        LiveRequests::new(journal.follow(), query, &self.readers)
    }

    /// Sets the service that answers the requests about the configuration. The first one stays.
    pub fn set_configuration(&self, service: Arc<dyn ConfigurationService>) {
        let _ = self.configuration.set(service);
    }

    /// Sets the service that answers the requests about alerts. The first one stays.
    pub fn set_alerts(&self, service: Arc<dyn AlertService>) {
        let _ = self.alerts.set(service);
    }

    /// Lists the alerts.
    ///
    /// # Errors
    /// `not_found`; `store_unavailable`.
    pub async fn list_alerts(&self) -> gw_engine::Result<Value> {
        self.ask_alerts(|service| service.list()).await
    }

    /// Sends a test of the alert with this name.
    ///
    /// # Errors
    /// `not_found`; `store_unavailable`.
    pub async fn test_alert(&self, name: String) -> gw_engine::Result<Value> {
        self.ask_alerts(|service| service.test(name)).await
    }

    async fn ask_alerts(
        &self,
        begin: impl FnOnce(&dyn AlertService) -> AlertFuture,
    ) -> gw_engine::Result<Value> {
        let Some(service) = self.alerts.get() else {
            return Err(Error::new(Kind::NotFound, "This gateway has no alerts."));
        };
        let answer = self.runtime.spawn(begin(&**service));
        answer.await.unwrap_or_else(|_| Err(Error::internal()))
    }

    /// Answers a request about the configuration in bounded time. A change is completed even if the caller drops the future.
    ///
    /// # Errors
    /// The reason why the request is wrong; `store_unavailable`.
    pub async fn configure(
        &self,
        action: ConfigurationAction,
        request: ConfigurationRequest,
    ) -> gw_engine::Result<ConfigurationResponse> {
        let Some(service) = self.configuration.get().cloned() else {
            return Err(Error::new(Kind::NotFound, "This gateway has no configuration that can be changed."));
        };
        let answer = self
            .runtime
            .spawn(async move { tokio::time::timeout(STORE_TIMEOUT, action(&*service, request)).await });
        match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(store_unavailable(&"it did not answer in time")),
            Err(_) => Err(Error::internal()),
        }
    }

    /// Answers a request in bounded time. A change is in force in this process before the answer is returned, and is
    /// completed even if the caller drops the future.
    ///
    /// # Errors
    /// The reason why the request is wrong; `store_unavailable`.
    pub async fn answer(
        self: &Arc<Self>,
        request: AdminRequest,
        requester: Requester,
    ) -> gw_engine::Result<AdminResponse> {
        let this = Arc::clone(self);
        self.in_bounded_time(async move {
            if request.endpoint.is_key_change {
                this.change_keys(&request, &requester).await
            } else {
                this.service.answer(&request, &requester).await
            }
        })
        .await
    }

    /// `GET /admin/v1/budgets`: all rules with their counters.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn budgets(self: &Arc<Self>) -> gw_engine::Result<AdminResponse> {
        let this = Arc::clone(self);
        self.in_bounded_time(async move {
            AdminResponse::json(&RuleList { object: "list", data: this.engine.all_rules().await })
        })
        .await
    }

    /// `GET /v1/me`: the caller's own limits, spending, models and errors, in bounded time.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn me(
        self: &Arc<Self>,
        caller: &Caller,
        attribution: Option<Arc<Attribution>>,
    ) -> gw_engine::Result<AdminResponse> {
        let (this, caller) = (Arc::clone(self), caller.clone());
        self.in_bounded_time(async move {
            show_me(this.service.store(), &this.engine, &caller, attribution.as_deref()).await
        })
        .await
    }

    /// Appends a change that is not one of the store's to the audit log. The change is made after this succeeded, so that there
    /// is no change without a record.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn record(
        self: &Arc<Self>,
        requester: &Requester,
        action: &'static str,
        object: &str,
    ) -> gw_engine::Result<()> {
        self.append(requester.record(action, object)).await
    }

    async fn append(self: &Arc<Self>, record: AuditRecord) -> gw_engine::Result<()> {
        let this = Arc::clone(self);
        self.in_bounded_time(async move { Ok(this.service.store().record_change(&record).await?) }).await
    }

    /// Runs a question on the runtime of the store, for at most [`STORE_TIMEOUT`].
    pub(crate) async fn in_bounded_time<T: Send + 'static>(
        &self,
        question: impl Future<Output = Result<T, AdminError>> + Send + 'static,
    ) -> gw_engine::Result<T> {
        let answer = self.runtime.spawn(tokio::time::timeout(STORE_TIMEOUT, question));
        match answer.await {
            Ok(Ok(answer)) => answer.map_err(|error| match error {
                AdminError::Rejected(error) => error,
                AdminError::Store(error @ gw_store::Error::TooSlow { .. }) => too_slow(&error),
                AdminError::Store(error) => store_unavailable(&error),
            }),
            Ok(Err(_)) => Err(store_unavailable(&"it did not answer in time")),
            Err(_) => Err(Error::internal()),
        }
    }

    async fn change_keys(
        &self,
        request: &AdminRequest,
        requester: &Requester,
    ) -> Result<AdminResponse, AdminError> {
        let _guard = self.change_lock.lock().await;
        let answer = self.service.answer(request, requester).await?;
        if let Err(error) = self.refresh().await {
            tracing::warn!(%error, "a change is stored but not in force yet: the keys cannot be read from the store");
        }
        Ok(answer)
    }

    /// Gives the engine the store's keys and teams if they have changed since the engine last got them.
    ///
    /// # Errors
    /// The store cannot be read; the engine keeps the keys that it has.
    pub async fn refresh(&self) -> gw_store::Result<()> {
        let mut loaded = self.loaded_revision.lock().await;
        let store = self.service.store();
        // The revision is read before the keys, so the next refresh notices a change between the two reads.
        let revision = store.revision().await?;
        if *loaded != Some(revision) {
            let (keys, teams) = (store.keys().await?, store.teams().await?);
            self.engine.set_keys(&keys, &teams);
            *loaded = Some(revision);
        }
        self.engine.keys_are_fresh();
        Ok(())
    }

    /// Notes that the engine has another configuration: lists show its keys, and the next [`LiveAdminService::refresh`] reads
    /// all stored keys.
    pub async fn configuration_changed(&self) {
        self.service.set_configured_keys(&self.engine.configured().settings.keys);
        *self.loaded_revision.lock().await = None;
    }

    /// Waits until the store may have changed, in this process or in another one.
    pub async fn store_changed(&self) {
        self.service.store().changed().await;
    }
}

fn too_slow(reason: &dyn fmt::Display) -> Error {
    tracing::warn!(%reason, "a search of the management API was ended");
    Error::new(
        Kind::StoreUnavailable,
        "The search takes too long. Ask for a shorter time with 'since' and 'until', or for fewer entries with 'limit'.",
    )
}

fn store_unavailable(reason: &dyn fmt::Display) -> Error {
    tracing::error!(%reason, "the store is not reachable: a request of the management API gets no answer");
    Error::new(
        Kind::StoreUnavailable,
        "The store is not reachable. If you asked for a change, check whether it was made.",
    )
}

#[cfg(test)]
mod tests;
