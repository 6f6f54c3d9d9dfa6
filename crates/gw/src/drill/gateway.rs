//! The gateway of a drill: the configured routing, models, aliases and weights, with the scripted upstream in place of every
//! provider, and all timeouts shortened by one factor.

use std::sync::Arc;
use std::time::Duration;

use gw_command::CommandError;
use gw_config::setup::Setup;
use gw_config::{Config, StoreSettings};
use gw_engine::Engine;
use gw_engine::engine::Stored;
use gw_providers::seal::Sealer;
use gw_providers::settings::{Api, TimeoutOverrides, Timeouts};
use gw_routing::hedge::HedgeDelay;
use prometheus_client::registry::Registry;
use secrecy::SecretString;

use super::fault::Fault;
use super::upstream::Upstream;
use crate::engine_parts;

/// The shortest configured first-token or idle timeout is shortened to this, which is long enough for a busy machine.
const TARGET_MIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest configured first-token or idle timeout becomes at most this.
const TARGET_MAX_TIMEOUT: Duration = Duration::from_secs(6);
/// No timeout becomes shorter than this, so that a healthy upstream can keep it.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The connect timeout. On loopback a connection opens or fails at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The least delay of a hedge with a fixed delay.
const MIN_HEDGE_DELAY: Duration = Duration::from_millis(20);
/// A request that has not ended this long after its deadline has no end.
const GRACE: Duration = Duration::from_secs(10);
/// The requests of a storm beyond those that open a circuit.
const EXTRA_STORM_REQUESTS: u32 = 2;
/// The most requests of a storm.
const MAX_STORM_REQUESTS: u32 = 20;

/// The configuration and the upstream of a drill.
#[derive(Debug)]
pub(super) struct DrillGateway {
    setup: Setup,
    upstream: Upstream,
    /// The factor of all timeouts, at most 1.
    pub factor: f64,
    /// The longest time of a request.
    pub timeout: Duration,
}

impl DrillGateway {
    /// Copies the configuration and starts the upstream.
    ///
    /// # Errors
    /// Exit code 1 when no port is free on loopback.
    pub(super) async fn build(setup: &Setup) -> Result<Self, CommandError> {
        let factor = factor(&setup.config);
        let mut config = setup.config.clone();
        // The drill must not touch Redis, the store or the keys.
        config.redis = None;
        config.store = StoreSettings::default();
        config.engine.keys.clear();
        config.timeouts = shorter(config.timeouts, factor);
        for model in &mut config.engine.models {
            shorten(&mut model.timeouts, factor);
        }
        if let Some(hedge) = &mut config.engine.routing.hedge
            && let HedgeDelay::Fixed(after) = &mut hedge.after
        {
            *after = after.mul_f64(factor).max(MIN_HEDGE_DELAY);
        }
        for provider in &mut config.providers {
            shorten(&mut provider.timeouts, factor);
            provider.api = Api::OPENAI;
            provider.allow_private_network = true;
            provider.headers.clear();
            provider.options.clear();
            for (place, (key, _)) in provider.api_keys.iter_mut().enumerate() {
                *key = SecretString::from(format!("drill-{place}"));
            }
        }
        let all = levels(&config);
        let timeout = all.iter().map(|clocks| clocks.total).max().unwrap_or_default() + GRACE;
        // A slow upstream pauses for a sixth of a timeout, and ends well before the deadline.
        let pace = all.iter().flat_map(|clocks| [clocks.first_token / 6, clocks.idle / 6, clocks.total / 25]);
        let pace = pace.min().unwrap_or_default().min(TARGET_MIN_TIMEOUT / 6);
        let upstream = Upstream::start(pace).await.map_err(|error| no_port(&error))?;
        let documents = setup.documents.clone();
        let setup = Setup { config, path: None, notes: Vec::new(), documents };
        Ok(Self { setup, upstream, factor, timeout })
    }

    /// Builds an engine without measurements. `faulty` is the name of the provider that fails, and its fault.
    ///
    /// # Errors
    /// Exit code 2 with the problems of the configuration.
    pub(super) fn engine(&self, faulty: Option<(&str, Fault)>) -> Result<Arc<Engine>, CommandError> {
        let Setup { config, .. } = &self.setup;
        let documents = self.setup.documents.clone();
        let mut setup = Setup { config: config.clone(), path: None, notes: Vec::new(), documents };
        for provider in &mut setup.config.providers {
            let fault = faulty.filter(|(name, _)| *name == provider.name).map(|(_, fault)| fault);
            provider.base_url = Some(self.upstream.base_url(fault).map_err(|error| no_port(&error))?);
        }
        let deployed =
            setup.deploy(&Sealer::random()).map_err(|problems| CommandError::problems(&problems))?;
        engine_parts::engine(&setup, deployed, Stored::default(), &mut Registry::default())
    }

    /// The drilled settings.
    #[must_use]
    pub(super) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The number of requests of a storm: enough to open a circuit, and some more.
    #[must_use]
    pub(super) fn storm(&self) -> u32 {
        let failures = self.setup.config.engine.routing.breaker.failures;
        failures.saturating_add(EXTRA_STORM_REQUESTS).min(MAX_STORM_REQUESTS)
    }
}

fn no_port(error: &std::io::Error) -> CommandError {
    CommandError::Runtime(format!("the drill's upstream cannot be started: {error}"))
}

/// The effective timeouts of the configuration, of each provider and of each model.
fn levels(config: &Config) -> Vec<Timeouts> {
    let own = config.providers.iter().map(|provider| &provider.timeouts);
    let own = own.chain(config.engine.models.iter().map(|model| &model.timeouts));
    std::iter::once(config.timeouts).chain(own.map(|clocks| clocks.over(config.timeouts))).collect()
}

/// The factor of all timeouts. One factor keeps their proportions.
fn factor(config: &Config) -> f64 {
    let waits = levels(config).into_iter().flat_map(|clocks| [clocks.first_token, clocks.idle]);
    let (shortest, longest) =
        waits.fold((Duration::MAX, Duration::ZERO), |(least, most), wait| (wait.min(least), wait.max(most)));
    let by =
        |wanted: Duration, configured: Duration| wanted.as_secs_f64() / configured.as_secs_f64().max(0.001);
    by(TARGET_MIN_TIMEOUT, shortest).min(by(TARGET_MAX_TIMEOUT, longest)).min(1.0)
}

fn shorter(clocks: Timeouts, factor: f64) -> Timeouts {
    Timeouts {
        connect: clocks.connect.min(CONNECT_TIMEOUT),
        first_token: clocks.first_token.mul_f64(factor).max(MIN_TIMEOUT),
        idle: clocks.idle.mul_f64(factor).max(MIN_TIMEOUT),
        total: clocks.total.mul_f64(factor).max(MIN_TIMEOUT),
    }
}

fn shorten(clocks: &mut TimeoutOverrides, factor: f64) {
    // A timeout that is not set here inherits a shortened one.
    let TimeoutOverrides { connect, first_token, idle, total } = *clocks;
    let all = shorter(clocks.over(Timeouts::default()), factor);
    *clocks = TimeoutOverrides {
        connect: connect.map(|_| all.connect),
        first_token: first_token.map(|_| all.first_token),
        idle: idle.map(|_| all.idle),
        total: total.map(|_| all.total),
    };
}
