//! Loads the configuration again while the gateway serves. A configuration is applied whole or not at all: a wrong one leaves
//! the one before in force.

mod discovery;
mod metrics;
mod watch;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use gw_admin::{
    ConfigurationSource, ConfigurationState, LiveAdminService, RefusedReload, ReloadFuture, ReloadReport,
    Requester,
};
use gw_alerts::{Alerts, PreparedAlerts};
use gw_command::Common;
use gw_config::opened_members;
use gw_config::setup::{self, Setup};
use gw_config::stored_configuration::apply::{ApplyConfiguration, ApplyError, ApplyFuture};
use gw_config::stored_configuration::overlay::OverlayError;
use gw_config::stored_configuration::{MergeError, StoredConfiguration};
use gw_config::{Fingerprints, provider_path};
use gw_engine::Engine;
use gw_engine::engine::{Configured, Deployed};
use gw_providers::provider::Provider;
use gw_providers::seal::Sealer;
use gw_providers::settings::{ProviderSettings, Timeouts};
use gw_reconcile::NightlyTargets;
use gw_server::{LiveTls, LoadedTls};
use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use self::discovery::DiscoveryTasks;
use self::metrics::ReloadMetrics;
pub use self::watch::keep_up_to_date;
use crate::certificate_times;
use crate::nightly_reconcile::NightlyReconcile;
use crate::response_cache::{self, CurrentCache};
use gw_wire::calendar::unix_millis;

/// The event that asks for a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// SIGHUP.
    Signal,
    /// The configuration file, or a file that it names, may have changed.
    File,
    /// `POST /admin/v1/reload`.
    Request,
    /// The configuration in the store may have changed.
    Stored,
}

impl Trigger {
    /// Whether an equal configuration and equal problems are no news.
    fn is_quiet(self) -> bool {
        matches!(self, Self::File | Self::Stored)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Signal => "SIGHUP",
            Self::File => "a changed file",
            Self::Request => "POST /admin/v1/reload",
            Self::Stored => "a change over the API",
        }
    }
}

/// The parts of a running gateway that follow the configuration.
#[derive(Debug)]
pub struct Live {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The management API, which lists the configured keys.
    pub management: Arc<LiveAdminService>,
    /// The response cache.
    pub response_cache: CurrentCache,
    /// The alerts.
    pub alerts: Alerts,
    /// The nightly comparison with providers' bills.
    pub nightly: NightlyReconcile,
    /// Seals the reasoning of new providers.
    pub sealer: Sealer,
    /// The configuration that was made over the API.
    pub stored: Arc<StoredConfiguration>,
}

/// Loads and applies the configuration.
#[derive(Debug)]
pub struct Reloader {
    common: Common,
    live: Live,
    /// The certificates of the listener. Empty: it has no TLS.
    certificates: OnceLock<LiveTls>,
    /// Providers that the start found on this machine or added itself. No file has them.
    found: Vec<ProviderSettings>,
    /// The digests at the start, for the settings that only a start applies.
    started: Fingerprints,
    /// One reload runs at a time.
    applied: Mutex<Applied>,
    state: RwLock<ConfigurationState>,
    metrics: ReloadMetrics,
}

/// A configuration that was read, with the certificates that its files hold. None: the listener has no TLS.
struct Next {
    setup: Setup,
    certificates: Option<LoadedTls>,
    /// A note about the times of the certificate.
    certificate_note: Option<String>,
}

/// The reason why a configuration was not read.
enum LoadError {
    /// It has these problems.
    Problems(Vec<String>),
    /// The entries of the API cannot be read from the store.
    Store(String),
}

impl LoadError {
    fn into_problems(self) -> Vec<String> {
        match self {
            Self::Problems(problems) => problems,
            Self::Store(error) => vec![error],
        }
    }
}

impl Next {
    /// Whether there is a file and it sets nothing.
    fn is_blank(&self) -> bool {
        self.setup.path.is_some() && self.setup.config.is_blank
    }

    /// The problem of a file that no longer sets anything. A program that writes the file in its place empties it first, and a full disk
    /// leaves it so. To take it for a configuration would remove every key and every provider.
    fn blank_file(&self) -> String {
        let path = self.setup.path.as_deref().unwrap_or(Path::new("")).display();
        format!(
            "{path}: the file is empty, as it is while it is being written; only a restart takes an empty file"
        )
    }
}

/// The configuration that was applied last.
#[derive(Debug)]
struct Applied {
    fingerprints: Fingerprints,
    timeouts: Timeouts,
    /// The file set nothing.
    is_blank: bool,
    discovery: DiscoveryTasks,
}

impl Reloader {
    /// Creates the reloader of a gateway that has started with `setup`, and starts the tasks that keep lists of models up to
    /// date. Registers the metrics of reloads.
    #[must_use]
    pub fn start(common: &Common, setup: &Setup, live: Live, registry: &mut Registry) -> Arc<Self> {
        let metrics = ReloadMetrics::register(registry);
        metrics.succeeded();
        let mut discovery = DiscoveryTasks::default();
        discovery.follow(&live.engine);
        let fingerprints = setup.config.fingerprints.clone();
        let applied = Applied {
            fingerprints: fingerprints.clone(),
            timeouts: setup.config.timeouts,
            is_blank: setup.config.is_blank,
            discovery,
        };
        let state = ConfigurationState {
            file: setup.path.as_ref().map(|path| path.display().to_string()),
            loaded_at_ms: unix_millis(),
            ..ConfigurationState::default()
        };
        Arc::new(Self {
            common: common.clone(),
            found: found_providers(setup, &live.stored),
            live,
            certificates: OnceLock::new(),
            started: fingerprints,
            applied: Mutex::new(applied),
            state: RwLock::new(state),
            metrics,
        })
    }

    /// Keeps the certificates of the listener up to date from now on.
    pub fn keep_certificates(&self, certificates: Option<LiveTls>) {
        if let Some(certificates) = certificates {
            // The program has one listener with TLS, so this is the first call.
            let _ = self.certificates.set(certificates);
        }
    }

    /// Reads the configuration and applies it. [`Trigger::File`] applies a configuration only if it differs, and reports equal
    /// problems only once.
    ///
    /// # Errors
    /// Every problem. The configuration before stays in force.
    pub async fn reload(&self, trigger: Trigger) -> Result<ReloadReport, Vec<String>> {
        let mut applied = self.applied.lock().await;
        let loaded = match self.load().await {
            Ok(next) if !applied.is_blank && next.is_blank() => Err(vec![next.blank_file()]),
            Ok(next) if trigger.is_quiet() && self.is_applied(&next, &applied) => {
                let restart_required = self.state.read().restart_required.clone();
                return Ok(ReloadReport { changes: Vec::new(), restart_required });
            }
            Ok(next) => {
                let applied = self.apply(next, &mut applied).await;
                if applied.is_ok() {
                    self.record(trigger).await;
                }
                applied
            }
            // The reading of keys reports a store that does not answer. Nobody has changed the configuration.
            Err(LoadError::Store(error)) if trigger.is_quiet() => {
                tracing::debug!(error, "the configuration of the store cannot be read again");
                return Err(vec![error]);
            }
            Err(error) => Err(error.into_problems()),
        };
        self.note(trigger, &loaded);
        loaded
    }

    /// Records a reload that no request asked for in the audit log. The file is changed already, so a store that does not answer
    /// does not stop the reload.
    async fn record(&self, trigger: Trigger) {
        if trigger == Trigger::Request {
            return;
        }
        let recorded =
            self.live.management.record(&Requester::of_gateway(), "config.reload", "configuration").await;
        if let Err(error) = recorded {
            tracing::warn!(error = %error.message, "a reload is missing in the audit log");
        }
    }

    /// Reads the configuration without applying it.
    ///
    /// # Errors
    /// Every problem.
    pub async fn read(&self) -> Result<Setup, Vec<String>> {
        self.load().await.map(|next| next.setup).map_err(LoadError::into_problems)
    }

    /// Reads the configuration. A large file takes time, so another thread reads it.
    async fn load(&self) -> Result<Next, LoadError> {
        let (common, found) = (self.common.clone(), self.found.clone());
        let has_tls = self.certificates.get().is_some();
        let loading = tokio::task::spawn_blocking(move || {
            let mut setup = setup::read(&common)?;
            if setup.path.is_none() {
                setup.config.providers = found;
            }
            let tls = setup.config.server.tls.as_ref().filter(|_| has_tls).map(LoadedTls::read).transpose();
            let certificates = tls.map_err(|error| vec![format!("server.tls: {error}")])?;
            let listener = setup.config.server.tls.as_ref().filter(|_| has_tls);
            let certificate_note = listener.and_then(certificate_times::note);
            Ok(Next { setup, certificates, certificate_note })
        });
        let unreadable = |_| Err(vec!["the configuration could not be read".to_owned()]);
        let loaded = loading.await.unwrap_or_else(unreadable);
        let Next { setup, certificates, certificate_note } = loaded.map_err(LoadError::Problems)?;
        let mut setup = self.live.stored.merge(setup).await.map_err(|error| match error {
            MergeError::Problems(problems) => LoadError::Problems(problems),
            MergeError::Overlay(OverlayError::Store(error)) => LoadError::Store(error.to_string()),
            error @ MergeError::Overlay(_) => LoadError::Problems(vec![error.to_string()]),
        })?;
        setup.demo_if_alone();
        Ok(Next { setup, certificates, certificate_note })
    }

    /// Whether this configuration is in force, and no other was refused since.
    fn is_applied(&self, next: &Next, applied: &Applied) -> bool {
        next.setup.config.fingerprints == applied.fingerprints
            && self.renewed(next).is_none()
            && self.state.read().refused.is_none()
    }

    /// The certificates in force, if the files now hold others.
    fn renewed(&self, next: &Next) -> Option<&LiveTls> {
        let live = self.certificates.get()?;
        next.certificates.as_ref().is_some_and(|loaded| !live.is_current(loaded)).then_some(live)
    }

    /// Applies a configuration without problems of its own.
    async fn apply(&self, next: Next, applied: &mut Applied) -> Result<ReloadReport, Vec<String>> {
        let Live { engine, management, response_cache, alerts, nightly, sealer, stored: _ } = &self.live;
        let renewed = self.renewed(&next).cloned();
        let Next { setup, certificates, certificate_note } = next;
        let keeps_tls = certificates.is_some();
        let config = &setup.config;
        let deployed = deploy(&setup, applied, engine, sealer)?;
        if !config.cache.semantic.is_empty() {
            let problems = setup.semantic_problems(&setup.catalog(false)?);
            if !problems.is_empty() {
                return Err(problems);
            }
        }
        let cache = response_cache::build(config, response_cache.load_full()).await;
        let next_alerts = PreparedAlerts::new(&config.alerts).map_err(|error| vec![error.to_string()])?;
        let next_nightly = NightlyTargets::of(&setup)?;
        let has_new_catalogue = engine.configured().documents != setup.documents;
        let next =
            Configured { settings: config.engine.clone(), deployed, documents: setup.documents.clone() };
        engine.reconfigure(next, cache.clone())?;
        alerts.replace(next_alerts);
        nightly.replace(next_nightly);
        if let (Some(live), Some(loaded)) = (renewed, certificates) {
            live.replace(loaded);
            tracing::info!("new connections use the changed certificates");
            if let Some(note) = certificate_note {
                tracing::warn!("{note}");
            }
        }
        response_cache.store(cache);
        management.configuration_changed().await;
        if let Err(error) = management.refresh().await {
            tracing::warn!(%error, "the keys cannot be read from the store; the known keys stay in force");
        }
        applied.discovery.follow(engine);
        let new = &config.fingerprints;
        let mut changes = new.changes(&applied.fingerprints);
        // `models update` writes a file that is no part of the configuration.
        changes.extend(has_new_catalogue.then(|| "the model catalogue".to_owned()));
        let report = ReloadReport {
            changes,
            restart_required: new
                .changes(&self.started)
                .into_iter()
                .filter(|path| needs_start(path) && !(keeps_tls && path.starts_with("server.tls")))
                .collect(),
        };
        let is_changed =
            |provider: &&ProviderSettings| report.changes.contains(&provider_path(&provider.name));
        for note in opened_members::notes(config.providers.iter().filter(is_changed)) {
            tracing::warn!("{note}");
        }
        applied.fingerprints = new.clone();
        applied.timeouts = config.timeouts;
        applied.is_blank = config.is_blank;
        Ok(report)
    }

    /// Notes the result for operators: log, metrics, `GET /admin/v1/config`.
    fn note(&self, trigger: Trigger, loaded: &Result<ReloadReport, Vec<String>>) {
        let mut state = self.state.write();
        let trigger_name = trigger.as_str();
        match loaded {
            Ok(ReloadReport { changes, restart_required }) => {
                self.metrics.succeeded();
                state.loaded_at_ms = unix_millis();
                state.restart_required.clone_from(restart_required);
                state.refused = None;
                tracing::info!(
                    trigger = trigger_name,
                    changes = changes.join(", "),
                    "the configuration is loaded"
                );
                if !restart_required.is_empty() {
                    let settings = restart_required.join(", ");
                    tracing::warn!(settings, "these settings have changed, and only a restart applies them");
                }
            }
            Err(problems) => {
                self.metrics.refused();
                let is_known = state.refused.as_ref().is_some_and(|refused| refused.problems == *problems);
                state.refused = Some(RefusedReload { at_ms: unix_millis(), problems: problems.clone() });
                if !trigger.is_quiet() || !is_known {
                    let problems = problems.join("; ");
                    tracing::error!(
                        trigger = trigger_name,
                        problems,
                        "the configuration cannot be used; the one before stays in force"
                    );
                }
            }
        }
    }
}

impl ApplyConfiguration for Reloader {
    fn apply(&self) -> ApplyFuture<'_> {
        Box::pin(async {
            let reloaded = self.reload(Trigger::Stored).await;
            reloaded.map(|report| report.restart_required).map_err(|problems| ApplyError(problems.join("; ")))
        })
    }
}

/// Applies the changes that other replicas make over the API, for as long as the program runs.
pub async fn follow_stored(reloader: Arc<Reloader>, stored: Arc<StoredConfiguration>) {
    let mut seen = None;
    loop {
        // A store that does not answer is reported by the reading of keys.
        let Ok(version) = stored.next_version().await else { continue };
        if seen.replace(version) != Some(version) {
            // The reloader logs the result. An equal configuration is no news.
            let _ = reloader.reload(Trigger::Stored).await;
        }
    }
}

/// The providers that no file and no entry of the API has.
fn found_providers(setup: &Setup, stored: &StoredConfiguration) -> Vec<ProviderSettings> {
    if setup.path.is_some() {
        return Vec::new();
    }
    let providers = setup.config.providers.iter();
    providers.filter(|provider| !stored.had_provider(&provider.name)).cloned().collect()
}

impl ConfigurationSource for Reloader {
    fn state(&self) -> ConfigurationState {
        self.state.read().clone()
    }

    fn reload(&self) -> ReloadFuture<'_> {
        Box::pin(self.reload(Trigger::Request))
    }
}

/// The providers of a configuration. An unchanged provider stays as it is, with its connections and the state of its keys.
fn deploy(
    setup: &Setup,
    applied: &Applied,
    engine: &Engine,
    sealer: &Sealer,
) -> Result<Vec<Deployed>, Vec<String>> {
    let (config, current) = (&setup.config, engine.configured());
    let is_unchanged = |name: &str| {
        applied.timeouts == config.timeouts
            && applied.fingerprints.is_same(&config.fingerprints, &provider_path(name))
    };
    let (mut deployed, mut problems) = (Vec::with_capacity(config.providers.len()), Vec::new());
    for settings in &config.providers {
        let known = current.deployed.iter().find(|known| **known.provider.name() == *settings.name);
        if let Some(known) = known.filter(|_| is_unchanged(&settings.name)) {
            deployed.push(known.clone());
            continue;
        }
        match Provider::build(settings, config.timeouts) {
            Ok(provider) => deployed.push(Deployed {
                provider: Arc::new(provider.with_sealer(sealer.clone())),
                price_multiplier: settings.price_multiplier,
                discovers: settings.discover,
            }),
            Err(problem) => problems.push(problem.to_string()),
        }
    }
    if problems.is_empty() { Ok(deployed) } else { Err(problems) }
}

/// Whether only a start applies this setting.
fn needs_start(path: &str) -> bool {
    let (section, key) = path.split_once('.').unwrap_or((path, ""));
    match section {
        "store" | "redis" | "responses" | "identity" | "telemetry" => true,
        "server" => key != "request_limits",
        "cache" => matches!(key, "max_mib" | "backend"),
        _ => false,
    }
}
