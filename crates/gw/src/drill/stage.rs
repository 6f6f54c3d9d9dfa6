//! The configuration as it is drilled: its routing, models, aliases and weights as they are, every provider replaced by
//! the scripted upstream, and all clocks shortened by one factor.

use std::sync::Arc;
use std::time::Duration;

use gw_engine::Engine;
use gw_engine::engine::Stored;
use gw_providers::settings::{Api, TimeoutOverrides, Timeouts};
use gw_routing::hedge::HedgeDelay;
use prometheus_client::registry::Registry;
use secrecy::SecretString;

use super::fault::Fault;
use super::upstream::Upstream;
use crate::cli::Stop;
use crate::config::{Config, StoreSettings};
use crate::serve;
use crate::setup::Setup;

/// What the shortest wait for a first token or for the next piece becomes. Long enough for a busy machine.
const SHORTEST: Duration = Duration::from_secs(1);
/// And the longest, however much longer it is configured.
const LONGEST: Duration = Duration::from_secs(6);
/// No wait becomes shorter than this: an upstream that is well must be able to keep it.
const FLOOR: Duration = Duration::from_millis(100);
/// A connection on loopback is open or refused at once.
const CONNECT: Duration = Duration::from_secs(1);
/// A hedge after a fixed time is not sent before this.
const HEDGE: Duration = Duration::from_millis(20);
/// A request that is not over so long after its deadline hangs.
const GRACE: Duration = Duration::from_secs(10);
/// A storm is this many requests longer than what opens a circuit, and not longer than that.
const STORM: (u32, u32) = (2, 20);

/// Where a drill takes place.
#[derive(Debug)]
pub(super) struct Stage {
    setup: Setup,
    upstream: Upstream,
    /// What every clock is multiplied with, 1 at the most.
    pub factor: f64,
    /// After this a request hangs.
    pub patience: Duration,
}

impl Stage {
    /// Takes the configuration over and starts the upstream.
    ///
    /// # Errors
    /// Exit code 1 when there is no port on loopback.
    pub(super) async fn build(setup: &Setup) -> Result<Self, Stop> {
        let factor = factor(&setup.config);
        let mut config = setup.config.clone();
        // Nothing of these is asked, and nothing of them may be touched.
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
            *after = after.mul_f64(factor).max(HEDGE);
        }
        for provider in &mut config.providers {
            shorten(&mut provider.timeouts, factor);
            provider.api = Api::OpenAi;
            provider.allow_private_network = true;
            provider.headers.clear();
            provider.options.clear();
            for (place, (key, _)) in provider.api_keys.iter_mut().enumerate() {
                *key = SecretString::from(format!("drill-{place}"));
            }
        }
        let all = levels(&config);
        let patience = all.iter().map(|clocks| clocks.total).max().unwrap_or_default() + GRACE;
        // A sixth of a wait between pieces, and the whole answer well before the deadline.
        let pace = all.iter().flat_map(|clocks| [clocks.first_token / 6, clocks.idle / 6, clocks.total / 25]);
        let pace = pace.min().unwrap_or_default().min(SHORTEST / 6);
        let upstream = Upstream::start(pace).await.map_err(|error| no_port(&error))?;
        let setup = Setup { config, path: None, notes: Vec::new() };
        Ok(Self { setup, upstream, factor, patience })
    }

    /// A gateway that has seen nothing yet, whose provider of this name has this fault.
    ///
    /// # Errors
    /// Exit code 2 with what is wrong with the configuration.
    pub(super) fn engine(&self, faulty: Option<(&str, Fault)>) -> Result<Arc<Engine>, Stop> {
        let Setup { config, .. } = &self.setup;
        let mut setup = Setup { config: config.clone(), path: None, notes: Vec::new() };
        for provider in &mut setup.config.providers {
            let fault = faulty.filter(|(name, _)| *name == provider.name).map(|(_, fault)| fault);
            provider.base_url = Some(self.upstream.base_url(fault).map_err(|error| no_port(&error))?);
        }
        let deployed = setup.deploy().map_err(|problems| Stop::Usage(problems.join("\n")))?;
        serve::engine(&setup, deployed, Stored::default(), &mut Registry::default())
    }

    /// The settings as they are drilled.
    #[must_use]
    pub(super) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Requests of a storm: enough to open a circuit, and some after it.
    #[must_use]
    pub(super) fn storm(&self) -> u32 {
        let failures = self.setup.config.engine.routing.breaker.failures;
        failures.saturating_add(STORM.0).min(STORM.1)
    }
}

fn no_port(error: &std::io::Error) -> Stop {
    Stop::Runtime(format!("the drill's upstream cannot be started: {error}"))
}

/// The clocks of every level at which some are set.
fn levels(config: &Config) -> Vec<Timeouts> {
    let own = config.providers.iter().map(|provider| &provider.timeouts);
    let own = own.chain(config.engine.models.iter().map(|model| &model.timeouts));
    std::iter::once(config.timeouts).chain(own.map(|clocks| clocks.over(config.timeouts))).collect()
}

/// What all clocks are multiplied with, so that they stand to each other as configured.
fn factor(config: &Config) -> f64 {
    let waits = levels(config).into_iter().flat_map(|clocks| [clocks.first_token, clocks.idle]);
    let (shortest, longest) =
        waits.fold((Duration::MAX, Duration::ZERO), |(least, most), wait| (wait.min(least), wait.max(most)));
    let by =
        |wanted: Duration, configured: Duration| wanted.as_secs_f64() / configured.as_secs_f64().max(0.001);
    by(SHORTEST, shortest).min(by(LONGEST, longest)).min(1.0)
}

fn shorter(clocks: Timeouts, factor: f64) -> Timeouts {
    Timeouts {
        connect: clocks.connect.min(CONNECT),
        first_token: clocks.first_token.mul_f64(factor).max(FLOOR),
        idle: clocks.idle.mul_f64(factor).max(FLOOR),
        total: clocks.total.mul_f64(factor).max(FLOOR),
    }
}

fn shorten(clocks: &mut TimeoutOverrides, factor: f64) {
    // What is not set has been shortened above.
    let TimeoutOverrides { connect, first_token, idle, total } = *clocks;
    let all = shorter(clocks.over(Timeouts::default()), factor);
    *clocks = TimeoutOverrides {
        connect: connect.map(|_| all.connect),
        first_token: first_token.map(|_| all.first_token),
        idle: idle.map(|_| all.idle),
        total: total.map(|_| all.total),
    };
}
