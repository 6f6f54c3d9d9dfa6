//! Loads the configuration again while the gateway serves. A configuration is applied whole or not at all: a wrong one leaves
//! the one before in force.

mod discovery;
mod metrics;
mod watch;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gw_admin::{
    ConfigurationSource, ConfigurationState, LiveAdminService, RefusedReload, ReloadFuture, ReloadReport,
};
use gw_engine::Engine;
use gw_engine::engine::{Configured, Deployed};
use gw_providers::provider::Provider;
use gw_providers::seal::Sealer;
use gw_providers::settings::{ProviderSettings, Timeouts};
use gw_server::{Certificates, PreparedCertificate};
use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use self::discovery::DiscoveryTasks;
use self::metrics::ReloadMetrics;
pub use self::watch::keep_up_to_date;
use crate::command::Common;
use crate::config::{Fingerprints, provider_path};
use crate::response_cache::{self, CurrentCache};
use crate::setup::{self, Setup};

/// The event that asks for a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// SIGHUP.
    Signal,
    /// The configuration file, or a file that it names, may have changed.
    File,
    /// `POST /admin/v1/reload`.
    Request,
}

impl Trigger {
    fn as_str(self) -> &'static str {
        match self {
            Self::Signal => "SIGHUP",
            Self::File => "a changed file",
            Self::Request => "POST /admin/v1/reload",
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
    /// Seals the reasoning of new providers.
    pub sealer: Sealer,
    /// The certificate of the listeners. None: plain HTTP.
    pub certificates: Option<Arc<Certificates>>,
}

/// Loads and applies the configuration.
#[derive(Debug)]
pub struct Reloader {
    common: Common,
    live: Live,
    /// Providers that the start found on this machine or added itself. No file has them.
    found: Vec<ProviderSettings>,
    /// The digests at the start, for the settings that only a start applies.
    started: Fingerprints,
    /// One reload runs at a time.
    applied: Mutex<Applied>,
    state: RwLock<ConfigurationState>,
    metrics: ReloadMetrics,
}

/// The configuration that was applied last.
#[derive(Debug)]
struct Applied {
    fingerprints: Fingerprints,
    timeouts: Timeouts,
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
        let state = ConfigurationState {
            file: setup.path.as_ref().map(|path| path.display().to_string()),
            loaded_at_ms: unix_millis(),
            ..ConfigurationState::default()
        };
        Arc::new(Self {
            common: common.clone(),
            found: if setup.path.is_some() { Vec::new() } else { setup.config.providers.clone() },
            live,
            started: fingerprints.clone(),
            applied: Mutex::new(Applied { fingerprints, timeouts: setup.config.timeouts, discovery }),
            state: RwLock::new(state),
            metrics,
        })
    }

    /// Reads the configuration and applies it. [`Trigger::File`] applies a configuration only if it differs, and reports equal
    /// problems only once.
    ///
    /// # Errors
    /// Every problem. The configuration before stays in force.
    pub async fn reload(&self, trigger: Trigger) -> Result<ReloadReport, Vec<String>> {
        let mut applied = self.applied.lock().await;
        let loaded = match self.load().await {
            Ok(setup) if trigger == Trigger::File && self.is_applied(&setup, &applied) => {
                return Ok(ReloadReport::default());
            }
            Ok(setup) => self.apply(setup, &mut applied).await,
            Err(problems) => Err(problems),
        };
        self.note(trigger, &loaded);
        loaded
    }

    /// Reads the configuration. A large file takes time, so another thread reads it.
    async fn load(&self) -> Result<Setup, Vec<String>> {
        let (common, found) = (self.common.clone(), self.found.clone());
        let loading = tokio::task::spawn_blocking(move || {
            let mut setup = setup::read(&common)?;
            if setup.path.is_none() {
                setup.config.providers = found;
            }
            setup.demo_if_alone();
            let later: Vec<String> = setup.config.later.iter().map(ToString::to_string).collect();
            if later.is_empty() { Ok(setup) } else { Err(later) }
        });
        loading.await.unwrap_or_else(|_| Err(vec!["the configuration could not be read".to_owned()]))
    }

    /// Whether this configuration is in force, and no other was refused since.
    fn is_applied(&self, setup: &Setup, applied: &Applied) -> bool {
        setup.config.fingerprints == applied.fingerprints && self.state.read().refused.is_none()
    }

    /// Applies a configuration without problems of its own.
    async fn apply(&self, setup: Setup, applied: &mut Applied) -> Result<ReloadReport, Vec<String>> {
        let Live { engine, management, response_cache, sealer, certificates } = &self.live;
        let config = &setup.config;
        let certificate = config.server.tls.as_ref().map(PreparedCertificate::read).transpose();
        let certificate = certificate.map_err(|error| vec![format!("server.tls: {error}")])?;
        let deployed = deploy(&setup, applied, engine, sealer)?;
        if !config.cache.semantic.is_empty() {
            let problems = setup.semantic_problems(&setup.catalog(false)?);
            if !problems.is_empty() {
                return Err(problems);
            }
        }
        let cache = response_cache::build(config, response_cache.load_full()).await;
        let next = Configured { settings: config.engine.clone(), deployed };
        engine.reconfigure(next, cache.clone())?;
        response_cache.store(cache);
        let is_tls_switched = certificates.is_some() != certificate.is_some();
        if let (Some(certificates), Some(certificate)) = (certificates, certificate) {
            certificates.replace(certificate);
        }
        management.configuration_changed().await;
        if let Err(error) = management.refresh().await {
            tracing::warn!(%error, "the keys cannot be read from the store; the known keys stay in force");
        }
        applied.discovery.follow(engine);
        let new = &config.fingerprints;
        let report = ReloadReport {
            changes: new.changes(&applied.fingerprints),
            restart_required: new
                .changes(&self.started)
                .into_iter()
                .filter(|path| needs_start(path) || is_tls_switched && path == "server.tls")
                .collect(),
        };
        applied.fingerprints = new.clone();
        applied.timeouts = config.timeouts;
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
                if trigger != Trigger::File || !is_known {
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
        "store" | "redis" | "responses" => true,
        "server" => !matches!(key, "request_limits" | "tls"),
        "cache" => matches!(key, "max_mib" | "backend"),
        _ => false,
    }
}

fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
