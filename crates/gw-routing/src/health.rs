//! The circuit breaker of one provider and model, and its pause after a 429.
//!
//! ```text
//!            5 failures in a row            cooldown over            a request takes it
//!   Able ───────────────────────► Open ───────────────────► Ready ────────────────────► Probing
//!     ▲                            ▲                          ▲                          │ │ │
//!     │ ramp over                  │ the probe fails: twice the cooldown, up to 8 times ─┘ │ │
//!   Ramping ◄──────────────────────┼────────────── the probe succeeds ─────────────────────┘ │
//!   Ramping ◄──────────────────────┼────────────── the probe succeeds ─────────────────────┘ │
//!                                  └ (guard dropped without an outcome, a 429: Ready again) ─┘
//!
//! A 429 is neither success nor failure: the upstream works and says when to come back ([`Health::pause_until`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::rng;

/// How often a cooldown is doubled at most: up to eight times the configured one.
const MAX_DOUBLINGS: u32 = 3;
/// The share by which a cooldown after a failed probe is longer at most, so that replicas do not probe at the same time.
const JITTER: f64 = 0.1;
/// The share of its requests that a recovered upstream gets at once.
const FIRST_SHARE: f64 = 0.1;
/// The largest difference between a moment and the same moment after a trip to another replica and back.
const CLOCK_ERROR: Duration = Duration::from_secs(1);
/// The longest time for which another replica's open circuit is adopted.
const MAX_ADOPTED_OPEN: Duration = Duration::from_secs(300);

/// `[routing.breaker]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open the circuit; 0 counts as 1.
    pub failures: u32,
    /// How long an open circuit waits before the first probe.
    pub cooldown: Duration,
    /// How long a recovered upstream takes to get its full share back.
    pub ramp: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, cooldown: Duration::from_secs(10), ramp: Duration::from_secs(10) }
    }
}

/// Whether a candidate can be called.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum HealthStatus {
    /// The candidate can be called.
    #[default]
    Able,
    /// The candidate recovered recently and gets only a share of its requests.
    Ramping {
        /// The share, which grows evenly from 0.1 to 1.
        share: f64,
    },
    /// The candidate has asked for a pause (429, Retry-After).
    Resting {
        /// Time until the pause ends.
        left: Duration,
    },
    /// Its circuit is open.
    Open {
        /// Time until it may be probed.
        left: Duration,
    },
    /// Its circuit is open and a probe is in flight.
    Probing,
    /// Its circuit is open and the next request may be the probe. It is sorted like a healthy candidate.
    Ready,
}

impl HealthStatus {
    /// Whether the strategy's order applies to it.
    #[must_use]
    pub const fn is_served(self) -> bool {
        matches!(self, Self::Able | Self::Ramping { .. } | Self::Ready)
    }
}

/// Whether an attempt may call the upstream.
#[derive(Debug)]
pub enum Permit {
    /// The candidate may be called.
    Granted,
    /// The candidate may be called, and the outcome decides whether the circuit closes. Hold the guard until the outcome is recorded.
    Probe(Probe),
    /// The circuit is open and no probe is due: call it only as the last resort.
    Denied,
}

/// The one probe of an open circuit. When it is dropped without an outcome, the next request may be the probe.
#[derive(Debug)]
#[must_use = "dropping it lets another request be the probe"]
pub struct Probe {
    health: Arc<Health>,
    number: u64,
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(open) = &mut self.health.state.lock().open
            && open.probe == Some(self.number)
        {
            open.probe = None;
        }
    }
}

/// The circuit breaker and the pause of one provider and model.
#[derive(Debug, Default)]
pub struct Health {
    state: Mutex<State>,
    /// Seed of the jitter.
    seed: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Failures since the last success.
    failures_in_a_row: u32,
    open: Option<Open>,
    recovered: Option<Instant>,
    pause: Option<Instant>,
    /// Reports of other replicas that the circuit is open until this moment or earlier are from before the recovery.
    outdated: Option<Instant>,
    /// Probes started so far.
    probes: u64,
}

/// An open circuit.
#[derive(Debug)]
struct Open {
    until: Instant,
    /// Failed probes.
    doublings: u32,
    /// The number of the probe in flight.
    probe: Option<u64>,
    /// This replica opened the circuit; otherwise it was adopted from another replica.
    is_own: bool,
    /// Until when the circuit is open according to the last report between replicas.
    reported: Instant,
}

impl Health {
    /// A closed circuit whose jitter is drawn from `seed`. Replicas should have different seeds.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Whether the upstream can be called now.
    #[must_use]
    pub fn status(&self, settings: &BreakerSettings, now: Instant) -> HealthStatus {
        let state = self.state.lock();
        let pause = left(state.pause, now);
        if let Some(open) = &state.open {
            return match (left(Some(open.until), now), open.probe, pause) {
                (Some(cooldown), _, pause) => {
                    HealthStatus::Open { left: pause.unwrap_or_default().max(cooldown) }
                }
                (None, Some(_), _) => HealthStatus::Probing,
                (None, None, Some(left)) => HealthStatus::Resting { left },
                (None, None, None) => HealthStatus::Ready,
            };
        }
        if let Some(left) = pause {
            return HealthStatus::Resting { left };
        }
        let Some(recovered) = state.recovered else { return HealthStatus::Able };
        let since = now.saturating_duration_since(recovered);
        if since >= settings.ramp {
            return HealthStatus::Able;
        }
        let way = since.as_secs_f64() / settings.ramp.as_secs_f64();
        HealthStatus::Ramping { share: FIRST_SHARE + (1.0 - FIRST_SHARE) * way }
    }

    /// Called right before an attempt. When the cooldown of an open circuit is over, exactly one attempt becomes the probe.
    pub fn request_permit(self: &Arc<Self>, _settings: &BreakerSettings, now: Instant) -> Permit {
        let mut state = self.state.lock();
        let number = state.probes;
        let Some(open) = &mut state.open else { return Permit::Granted };
        if open.until > now || open.probe.is_some() {
            return Permit::Denied;
        }
        open.probe = Some(number);
        state.probes += 1;
        drop(state);
        Permit::Probe(Probe { health: Arc::clone(self), number })
    }

    /// Records the success of an attempt. During the cooldown it may answer a request from before the failures: it then
    /// only ends the cooldown, and a probe decides.
    pub fn record_success(&self, _settings: &BreakerSettings, now: Instant) {
        let mut state = self.state.lock();
        state.failures_in_a_row = 0;
        match &mut state.open {
            Some(open) if open.until > now => open.until = now,
            Some(open) => {
                state.outdated = Some(open.reported);
                state.open = None;
                state.recovered = Some(now);
            }
            None => {}
        }
    }

    /// Records an attempt that failed through the upstream's fault (never a 429). Returns true when the failure opened
    /// the circuit, or kept it open because it was the probe's. Failures during the cooldown do not prolong it.
    pub fn record_failure(&self, settings: &BreakerSettings, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.failures_in_a_row = state.failures_in_a_row.saturating_add(1);
        let failures_in_a_row = state.failures_in_a_row;
        let salt = self.seed ^ state.probes;
        match &mut state.open {
            Some(open) if open.until > now => false,
            Some(open) => {
                // Without a probe in flight this is the failure of an earlier request: the cooldown is not doubled.
                let doubled = u32::from(open.probe.is_some());
                open.doublings = (open.doublings + doubled).min(MAX_DOUBLINGS);
                let longer = settings.cooldown.saturating_mul(1 << open.doublings);
                let jitter = longer.mul_f64(JITTER * rng::fraction(u64::from(open.doublings), salt));
                // The guard of the failed probe releases its place, so there are never two probes.
                open.until = now + longer + jitter;
                open.reported = open.until;
                open.is_own = true;
                true
            }
            None if failures_in_a_row >= settings.failures.max(1) => {
                let until = now + settings.cooldown;
                state.open = Some(Open { until, doublings: 0, probe: None, is_own: true, reported: until });
                state.recovered = None;
                true
            }
            None => false,
        }
    }

    /// Records that the upstream asked for a pause (a 429). The caller bounds the pause to 1 to 300 s. The circuit
    /// breaker does not change.
    pub fn pause_until(&self, until: Instant) {
        let mut state = self.state.lock();
        state.pause = Some(state.pause.map_or(until, |pause| pause.max(until)));
    }

    /// Opens the circuit until this moment because another replica has opened its own. A circuit that this replica
    /// opened itself stays as it is. At most five minutes are adopted.
    pub fn adopt_open_circuit(&self, until: Instant, now: Instant) {
        let until = until.min(now + MAX_ADOPTED_OPEN);
        if until <= now {
            return;
        }
        let mut state = self.state.lock();
        // The circuit has closed since then, and this is our own report coming back, with another clock's rounding.
        if state.outdated.is_some_and(|outdated| until <= outdated + CLOCK_ERROR) {
            return;
        }
        match &mut state.open {
            // Two replicas that prolonged each other's open circuit would never close it.
            Some(open) if open.is_own => {}
            Some(open) => {
                open.until = open.until.max(until);
                open.reported = open.until;
            }
            None => {
                state.open = Some(Open { until, doublings: 0, probe: None, is_own: false, reported: until });
                state.recovered = None;
            }
        }
    }

    /// How long this replica keeps the circuit open, for the other replicas. None when the circuit is closed or was adopted.
    #[must_use]
    pub fn open_remaining(&self, now: Instant) -> Option<Duration> {
        let state = self.state.lock();
        state.open.as_ref().filter(|open| open.is_own).and_then(|open| left(Some(open.until), now))
    }
}

/// The time left until a moment; None when the moment has passed.
fn left(until: Option<Instant>, now: Instant) -> Option<Duration> {
    until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
