//! The engine: the services that calls share, and the entry points of the edge.

mod callers;
mod configuration;
mod model_lists;
mod occurrences;
mod passthrough;
mod presets;
mod prices;
mod realtime;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use gw_identity::Issuers;
use gw_limits::{AdmissionPermit, LimitStates, Limiter, Refused, SubjectUse};
use gw_providers::adapter::ListedModel;
use gw_providers::seal::Sealer;
use gw_routing::health::BreakerSettings;
use gw_store::Team;
use gw_store::journal::Journal;
use gw_store::keys::StoredKey;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

pub use self::configuration::{Configured, Deployed};
pub use self::presets::PresetsInForce;
use gw_wire::operation::PlainOperation;

use crate::auth::{Caller, KeyRing};
use crate::catalog::{Discovered, Model, Visible};
use crate::clock;
use crate::cpu_pool::CpuPool;
use crate::error::{Error, Result};
use crate::explain::{self, Explanation};
use crate::ledger_spending::NothingSpent;
use crate::limit_use::NamedUse;
use crate::metrics::Metrics;
use crate::payloads::{Capture, Payloads};
use crate::plan::snapshot::Snapshot;
use crate::request::context::{RequestContext, RequestMarks};
use crate::request::uploads::{FormKind, UploadedForm};
use crate::response::disconnect::DrainPlaces;
use crate::response::reply::Reply;
use crate::response_cache::caching::ResponseCache;
use crate::services::Services;
use crate::settings::EngineSettings;
use crate::shared_pool::SharedPool;
use crate::stored_responses::{BackgroundResponses, StoredResponses};
use crate::{compaction, count_tokens, gemini, limit_error, messages, pipeline};

/// The stored state and the services that the engine starts with.
#[derive(Debug)]
pub struct Stored {
    /// The stored keys.
    pub keys: Vec<StoredKey>,
    /// The stored teams.
    pub teams: Vec<Team>,
    /// The journal of the request log; None = requests are not recorded.
    pub journal: Option<Arc<Journal>>,
    /// Stores the prompts and answers of keys with payload logging; None = they are not stored.
    pub payloads: Option<Arc<Payloads>>,
    /// Limits and budgets.
    pub limiter: Limiter,
    /// The response cache; None = requests cannot use one.
    pub caching: Option<Arc<ResponseCache>>,
    /// The responses that clients can retrieve.
    pub responses: StoredResponses,
    /// Seals the summaries of compacted conversations.
    pub sealer: Sealer,
    /// Runs the steps of requests that compute for long.
    pub cpu: CpuPool,
    /// The issuers whose tokens identify callers.
    pub issuers: Option<Issuers>,
}

impl Default for Stored {
    /// No keys, no ledger, and limits with nothing used.
    fn default() -> Self {
        let limiter = Limiter::in_process(Arc::new(NothingSpent));
        Self {
            keys: Vec::new(),
            teams: Vec::new(),
            journal: None,
            payloads: None,
            limiter,
            caching: None,
            responses: StoredResponses::default(),
            sealer: Sealer::random(),
            cpu: CpuPool::default(),
            issuers: None,
        }
    }
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    services: Services,
    keys: KeyRing,
    payloads: Option<Arc<Payloads>>,
    configured: ArcSwap<Configured>,
    /// The models that providers list. Held while a snapshot is built, so that an older one never replaces a newer one.
    discovered: Mutex<Vec<Discovered>>,
}

impl Engine {
    /// Builds the engine. `shipped` are catalogue documents in the order of their entries.
    ///
    /// # Errors
    /// Every problem of the catalogue at once.
    pub fn new(
        settings: EngineSettings,
        deployed: Vec<Deployed>,
        shipped: Vec<Arc<str>>,
        stored: Stored,
        registry: &mut Registry,
    ) -> std::result::Result<Arc<Self>, Vec<String>> {
        let configured = Configured { settings, deployed, documents: shipped };
        let snapshot = configuration::snapshot(None, &configured, &[])?;
        snapshot.state.register(registry);
        let background_responses = BackgroundResponses::default();
        registry.register(
            "gateway_background_responses",
            "Responses that are made in the background",
            background_responses.gauge(),
        );
        registry.register(
            "gateway_stored_response_read_bytes",
            "Bytes held to read stored responses: opened copies, readers, and conversations that requests continue",
            stored.responses.reading.gauge(),
        );
        stored.cpu.register(registry);
        Ok(Arc::new(Self {
            keys: KeyRing::new(
                &configured.settings.keys,
                &stored.keys,
                &stored.teams,
                stored.limiter.clone(),
                stored.issuers,
            ),
            services: Services {
                snapshot: ArcSwap::from_pointee(snapshot),
                metrics: Arc::new(Metrics::new(registry)),
                journal: stored.journal,
                limiter: stored.limiter,
                response_cache: ArcSwapOption::new(stored.caching),
                stored_responses: Arc::new(stored.responses),
                background_responses,
                sealer: stored.sealer,
                cpu_pool: stored.cpu,
                drain_places: DrainPlaces::default(),
                stream_cutoff: Arc::default(),
                draining: AtomicBool::new(false),
            },
            payloads: stored.payloads,
            configured: ArcSwap::from_pointee(configured),
            discovered: Mutex::default(),
        }))
    }

    /// The memory of large answers until their clients have taken them.
    #[must_use]
    pub fn answer_memory(&self) -> Arc<SharedPool> {
        Arc::clone(self.services.snapshot.load().state.document_memory.pool())
    }

    /// Counts the images that the gateway fetches as request bodies of at most `max_bytes` bytes.
    pub fn share_body_memory(&self, pool: &Arc<SharedPool>, max_bytes: usize) {
        self.services.snapshot.load().state.images.share_memory(pool, max_bytes);
    }

    /// Replaces the models that a provider lists itself.
    ///
    /// # Errors
    /// Every problem of the new catalogue; the old one stays.
    pub fn set_discovered(
        &self,
        provider: &str,
        models: Vec<ListedModel>,
    ) -> std::result::Result<(), Vec<String>> {
        let mut kept = self.discovered.lock();
        let mut discovered = kept.clone();
        discovered.retain(|(known, _)| known != provider);
        discovered.push((provider.to_owned(), models));
        let now = self.services.snapshot.load();
        let catalog =
            configuration::catalog((&now.catalog, &|_| true), &self.configured.load(), &discovered)?;
        self.services
            .snapshot
            .store(Arc::new(Snapshot { catalog: Arc::new(catalog), ..Snapshot::clone(&now) }));
        *kept = discovered;
        Ok(())
    }

    /// Replaces the configuration. Running calls keep theirs. Limits and usage of keys stay; measurements and circuits stay
    /// for the models of each provider that `next` has as the same [`Arc`].
    ///
    /// # Errors
    /// Every problem of the new catalogue; the old configuration stays.
    pub fn reconfigure(
        &self,
        next: Configured,
        response_cache: Option<Arc<ResponseCache>>,
    ) -> std::result::Result<(), Vec<String>> {
        let mut discovered = self.discovered.lock();
        let kept: Vec<_> = discovered.iter().filter(|(name, _)| next.discovers(name)).cloned().collect();
        let snapshot = configuration::snapshot(Some(&self.services.snapshot.load()), &next, &kept)?;
        for deployed in &next.deployed {
            deployed.provider.forget_learned();
        }
        self.services.snapshot.store(Arc::new(snapshot));
        self.services.response_cache.store(response_cache);
        self.keys.configure(&next.settings.keys);
        self.configured.store(Arc::new(next));
        *discovered = kept;
        Ok(())
    }

    /// Whether the catalogue has a model with exactly this id now.
    #[must_use]
    pub fn has_model(&self, id: &str) -> bool {
        self.services.snapshot.load().catalog.get(id).is_some()
    }

    /// Replaces the stored keys and teams. Keys of the configuration stay.
    pub fn set_keys(&self, stored: &[StoredKey], teams: &[Team]) {
        self.keys.set(stored, teams);
    }

    /// Notes that the keys agree with the store now. From the first note on, keys grow stale: 5 seconds after the last
    /// note, unknown keys get 503; 60 seconds after it, stored keys do, too.
    pub fn keys_are_fresh(&self) {
        self.keys.seen();
    }

    /// The configuration in force.
    #[must_use]
    pub fn configured(&self) -> Arc<Configured> {
        self.configured.load_full()
    }

    /// Admits a generation request before its body is read: the request limits of its key and its team.
    ///
    /// # Errors
    /// `rate_limit_exceeded`, `insufficient_quota` or `budget_store_unavailable`, with the limits as they stand.
    pub async fn admit(
        &self,
        caller: &Caller,
        request_id: &str,
    ) -> std::result::Result<AdmissionPermit, Box<(LimitStates, Error)>> {
        if caller.subjects().is_empty() {
            return Ok(AdmissionPermit::default());
        }
        let entering = self.services.limiter.admit(request_id, caller.subjects()).await;
        entering.map_err(|refused| {
            let Refused { limits, refusal } = *refused;
            self.services.metrics.occurrences.tell_refusal(caller, &refusal);
            Box::new((limits, limit_error::error(&refusal)))
        })
    }

    /// Begins to store the prompt and the answer of a request; None unless its key has payload logging. The edge hands
    /// over each piece of the answer, and drops the capture at its end.
    #[must_use]
    pub fn capture(&self, caller: &Caller, request_id: &Arc<str>, body: &Bytes) -> Option<Box<Capture>> {
        if !caller.logs_payloads() {
            return None;
        }
        self.payloads.as_ref().map(|payloads| payloads.hear(caller.key_id(), request_id, body))
    }

    /// Whether no key is known.
    #[must_use]
    pub fn has_no_keys(&self) -> bool {
        self.keys.is_empty()
    }

    /// `POST /v1/chat/completions`.
    ///
    /// # Errors
    /// The refusal of the request, or the failure of its last attempt.
    pub async fn chat(&self, context: Box<RequestContext>, body: Bytes) -> Result<Reply> {
        self.generate(PlainOperation::Chat, context, body).await
    }

    /// `POST /v1/messages`.
    ///
    /// # Errors
    /// As [`Engine::chat`].
    pub async fn messages(&self, context: Box<RequestContext>, body: Bytes) -> Result<Reply> {
        messages::create(&self.services, context, body).await
    }

    /// The methods of a model in the Gemini API, but for `countTokens`.
    ///
    /// # Errors
    /// As [`Engine::chat`].
    pub async fn gemini(&self, context: Box<RequestContext>, body: Bytes) -> Result<Reply> {
        gemini::create(&self.services, context, body).await
    }

    /// `POST /v1/messages/count_tokens`, `POST /v1/responses/input_tokens` and `countTokens` of the Gemini API.
    ///
    /// # Errors
    /// The refusals that the request itself would get before any upstream is called.
    pub async fn count_tokens(&self, context: Box<RequestContext>, body: Bytes) -> Result<Reply> {
        count_tokens::count_tokens(&self.services, context, body).await
    }

    /// `POST /v1/responses/compact`.
    ///
    /// # Errors
    /// As [`Engine::responses`].
    pub async fn compact(&self, context: Box<RequestContext>, body: Bytes) -> Result<Reply> {
        compaction::compact(&self.services, context, body).await
    }

    /// An operation whose body needs no translation.
    ///
    /// # Errors
    /// As [`Engine::chat`].
    pub async fn generate(
        &self,
        operation: PlainOperation,
        context: Box<RequestContext>,
        body: Bytes,
    ) -> Result<Reply> {
        pipeline::run(&self.services, operation, context, body).await
    }

    /// An operation whose request is a form with files. `body` has the fields of the form. A form that cannot be read is refused with its
    /// error, as a body that is no JSON is.
    ///
    /// # Errors
    /// As [`Engine::chat`].
    pub async fn generate_from_form(
        &self,
        kind: FormKind,
        context: Box<RequestContext>,
        body: Bytes,
        form: Result<UploadedForm>,
    ) -> Result<Reply> {
        pipeline::run_form(&self.services, kind, context, body, form).await
    }

    /// Exchanges open circuits with the other replicas. False if there is no shared store.
    pub async fn share_circuits(&self) -> bool {
        let snapshot = self.snapshot();
        let now = clock::now();
        let open = |model: &Arc<Model>| Some((model.id.to_string(), model.health.open_remaining(now)?));
        let open: Vec<_> = snapshot.catalog.models().iter().filter_map(open).collect();
        let Some(heard) = self.services.limiter.exchange_circuits(&open).await else { return false };
        let now = clock::now();
        for (id, left) in heard {
            if let Some(model) = snapshot.catalog.get(&id) {
                model.health.adopt_open_circuit(now + left, now);
            }
        }
        true
    }

    /// How far the limits of the caller and its team are used up. None while they cannot be read.
    pub async fn limit_use(&self, caller: &Caller) -> Option<Vec<SubjectUse>> {
        self.services.limiter.inspect(caller.subjects()).await
    }

    /// How far the limits of the keys of the configuration and of the teams are used up, at most `most` of each. Stored keys are left out:
    /// there may be thousands. None while the figures cannot be read.
    pub async fn limits_in_use(&self, most: usize) -> Option<Vec<NamedUse>> {
        let limited = self.keys.limited(most);
        if limited.is_empty() {
            return Some(Vec::new());
        }
        let (names, subjects): (Vec<_>, Vec<_>) =
            limited.into_iter().map(|found| (found.name, found.subject)).unzip();
        let uses = self.services.limiter.inspect(&subjects).await?;
        Some(names.into_iter().zip(uses).map(|(name, used)| NamedUse { name, used }).collect())
    }

    /// The names of the models and aliases that the caller may use, in catalogue order.
    #[must_use]
    pub fn model_names(&self, caller: &Caller) -> Vec<String> {
        self.snapshot().catalog.names(visible(caller, &|model| caller.may_use(model)))
    }

    /// The caller that the key of this id identifies.
    #[must_use]
    pub fn find_key(&self, id: &str) -> Option<Caller> {
        self.keys.find(id)
    }

    /// Plans a request as if it were to be served, and sends nothing.
    ///
    /// # Errors
    /// The error that the request itself would get.
    pub fn explain(&self, caller: &Caller, marks: &RequestMarks, body: Bytes) -> Result<Explanation> {
        explain::explain(&self.services, caller, marks, body)
    }

    /// The models that a provider has at the moment, in catalogue order.
    #[must_use]
    pub fn models_of(&self, provider: &str) -> Vec<Arc<Model>> {
        let snapshot = self.snapshot();
        snapshot.catalog.models().iter().filter(|model| *model.provider == *provider).cloned().collect()
    }

    /// The rules by which circuits open and close.
    #[must_use]
    pub fn breaker_settings(&self) -> BreakerSettings {
        self.snapshot().routing.breaker
    }

    /// Refuses new generation requests from now on.
    pub fn start_draining(&self) {
        self.services.draining.store(true, Ordering::Release);
    }

    /// Whether the gateway is shutting down.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.services.is_draining()
    }

    /// Ends each open stream with an error event, because the grace period of the shutdown is over.
    pub fn cut_streams(&self) {
        self.services.stream_cutoff.trigger();
    }

    /// Waits until no response is made in the background any more.
    pub async fn background_ended(&self) {
        self.services.background_responses.ended().await;
    }

    /// The number of responses that are made in the background.
    #[must_use]
    pub fn background_count(&self) -> usize {
        self.services.background_responses.count()
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.services.snapshot()
    }

    /// The CPU pool as this caller uses it. The requests of a key share one turn.
    #[must_use]
    pub fn cpu_of(&self, caller: &Caller) -> CpuPool {
        self.services.cpu_of(caller)
    }

    /// The response cache; `None` if it is switched off.
    #[must_use]
    pub fn response_cache(&self) -> Option<Arc<ResponseCache>> {
        self.services.response_cache.load_full()
    }
}

/// The models that a caller may see: all, or those of its key's model list.
fn visible<'a>(caller: &Caller, allowed: &'a dyn Fn(&Model) -> bool) -> Visible<'a> {
    caller.is_limited().then_some(allowed)
}
