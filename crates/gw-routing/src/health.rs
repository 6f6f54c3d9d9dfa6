//! The circuit breaker of one provider and model, and its rest after a 429.
//!
//! ```text
//!            5 failures in a row            cooldown over            a request takes it
//!   Able ───────────────────────► Open ───────────────────► Ready ────────────────────► Probing
//!     ▲                            ▲                          ▲                          │ │ │
//!     │ ramp over                  │ the probe fails: twice the cooldown, up to 8 times ─┘ │ │
//!   Ramping ◄──────────────────────┼────────────── the probe succeeds ─────────────────────┘ │
//!                                  └ (guard dropped without a verdict, a 429: Ready again) ──┘
//! ```
//!
//! A 429 is neither success nor failure: the upstream is well and says when to come back ([`Health::rest`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::dice;

/// How often a cooldown is doubled at most: eight times the configured one.
const MOST_DOUBLINGS: u32 = 3;
/// A cooldown after a failed probe is up to this share longer, so that replicas do not probe together.
const JITTER: f64 = 0.1;
/// The share of its requests that a recovered upstream gets at once.
const FIRST_SHARE: f64 = 0.1;
/// By how much one and the same moment differs when it has gone to another replica and back.
const ECHO: Duration = Duration::from_secs(1);
/// The longest that another replica's word is believed.
const LONGEST_ELSEWHERE: Duration = Duration::from_secs(300);

/// `[routing.breaker]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open the circuit; 0 counts as 1.
    pub failures: u32,
    /// How long an open circuit is left alone before a probe.
    pub cooldown: Duration,
    /// Over how long a recovered upstream gets its share back.
    pub ramp: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, cooldown: Duration::from_secs(10), ramp: Duration::from_secs(10) }
    }
}

/// Whether a candidate can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Standing {
    /// Yes.
    #[default]
    Able,
    /// Recovered lately: it gets this share (0 to 1) of what it would get.
    Ramping {
        /// Grows evenly from 0.1 to 1.
        share: f64,
    },
    /// It has asked for a pause (429, Retry-After).
    Resting {
        /// Until the pause ends.
        left: Duration,
    },
    /// Its circuit is open.
    Open {
        /// Until it may be probed.
        left: Duration,
    },
    /// Its circuit is open and one request is finding out.
    Probing,
    /// Its circuit is open and the next request may find out: ordered like one that is able.
    Ready,
}

impl Standing {
    /// Whether the strategy's order holds for it.
    #[must_use]
    pub const fn is_served(self) -> bool {
        matches!(self, Self::Able | Self::Ramping { .. } | Self::Ready)
    }
}

/// What an attempt may do.
#[derive(Debug)]
pub enum Pass {
    /// Go on.
    Through,
    /// Go on: it decides over the circuit. Hold the guard until the verdict is told.
    Probe(Probe),
    /// The circuit is open and there is no probe to be had: only as the last resort.
    Closed,
}

/// The one probe of an open circuit. Dropped without a verdict, the next request may be the probe.
#[derive(Debug)]
#[must_use = "dropped at once, the probe is free again"]
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

/// The breaker and the rest of one provider and model.
#[derive(Debug, Default)]
pub struct Health {
    state: Mutex<State>,
    /// What the jitter is drawn from.
    seed: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Failures since the last success.
    in_a_row: u32,
    open: Option<Open>,
    recovered: Option<Instant>,
    rest: Option<Instant>,
    /// Words that it is open until then at the latest are from before it has recovered.
    outdated: Option<Instant>,
    /// Probes given out so far.
    probes: u64,
}

/// An open circuit.
#[derive(Debug)]
struct Open {
    until: Instant,
    /// Failed probes.
    doublings: u32,
    /// The number of the probe that is out.
    probe: Option<u64>,
    /// Opened by what we have seen, not on another replica's word.
    ours: bool,
    /// Until when others were told, or have told us, that it is open.
    word: Instant,
}

impl Health {
    /// Health whose jitter is drawn from a seed; replicas should have different ones.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Whether it can be asked now.
    #[must_use]
    pub fn standing(&self, settings: &BreakerSettings, now: Instant) -> Standing {
        let state = self.state.lock();
        let rest = left(state.rest, now);
        if let Some(open) = &state.open {
            return match (left(Some(open.until), now), open.probe, rest) {
                (Some(cooldown), _, rest) => Standing::Open { left: rest.unwrap_or_default().max(cooldown) },
                (None, Some(_), _) => Standing::Probing,
                (None, None, Some(left)) => Standing::Resting { left },
                (None, None, None) => Standing::Ready,
            };
        }
        if let Some(left) = rest {
            return Standing::Resting { left };
        }
        let Some(recovered) = state.recovered else { return Standing::Able };
        let since = now.saturating_duration_since(recovered);
        if since >= settings.ramp {
            return Standing::Able;
        }
        let way = since.as_secs_f64() / settings.ramp.as_secs_f64();
        Standing::Ramping { share: FIRST_SHARE + (1.0 - FIRST_SHARE) * way }
    }

    /// Asked right before an attempt. Of an open circuit whose cooldown is over exactly one attempt becomes the probe.
    pub fn pass(self: &Arc<Self>, _settings: &BreakerSettings, now: Instant) -> Pass {
        let mut state = self.state.lock();
        let number = state.probes;
        let Some(open) = &mut state.open else { return Pass::Through };
        if open.until > now || open.probe.is_some() {
            return Pass::Closed;
        }
        open.probe = Some(number);
        state.probes += 1;
        drop(state);
        Pass::Probe(Probe { health: Arc::clone(self), number })
    }

    /// An attempt has succeeded. While the cooldown runs that may be an answer to a request from before the storm: it
    /// only ends the cooldown, and a probe decides.
    pub fn succeeded(&self, _settings: &BreakerSettings, now: Instant) {
        let mut state = self.state.lock();
        state.in_a_row = 0;
        match &mut state.open {
            Some(open) if open.until > now => open.until = now,
            Some(open) => {
                state.outdated = Some(open.word);
                state.open = None;
                state.recovered = Some(now);
            }
            None => {}
        }
    }

    /// An attempt has failed through the upstream's fault (never a 429). True when that has opened the circuit, or has
    /// kept it open because it was the probe. What fails while the cooldown runs does not make it longer.
    pub fn failed(&self, settings: &BreakerSettings, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.in_a_row = state.in_a_row.saturating_add(1);
        let in_a_row = state.in_a_row;
        let salt = self.seed ^ state.probes;
        match &mut state.open {
            Some(open) if open.until > now => false,
            Some(open) => {
                // Without a probe out it is the failure of a request from before: no reason to wait longer than last time.
                let doubled = u32::from(open.probe.is_some());
                open.doublings = (open.doublings + doubled).min(MOST_DOUBLINGS);
                let longer = settings.cooldown.saturating_mul(1 << open.doublings);
                let jitter = longer.mul_f64(JITTER * dice::fraction(u64::from(open.doublings), salt));
                // The probe's guard makes room for the next one, so that there are never two.
                open.until = now + longer + jitter;
                open.word = open.until;
                open.ours = true;
                true
            }
            None if in_a_row >= settings.failures.max(1) => {
                let until = now + settings.cooldown;
                state.open = Some(Open { until, doublings: 0, probe: None, ours: true, word: until });
                state.recovered = None;
                true
            }
            None => false,
        }
    }

    /// It has asked for a pause until then (a 429; the caller bounds it to 1 to 300 s). The breaker is not concerned.
    pub fn rest(&self, until: Instant) {
        let mut state = self.state.lock();
        state.rest = Some(state.rest.map_or(until, |rest| rest.max(until)));
    }

    /// Another replica has opened its circuit until then: so is ours, unless it is open already by what we have seen
    /// ourselves. At most five minutes ahead are believed.
    pub fn open_elsewhere(&self, until: Instant, now: Instant) {
        let until = until.min(now + LONGEST_ELSEWHERE);
        if until <= now {
            return;
        }
        let mut state = self.state.lock();
        // It has recovered since: our own word comes back, in whole microseconds and by way of another clock.
        if state.outdated.is_some_and(|outdated| until <= outdated + ECHO) {
            return;
        }
        match &mut state.open {
            // Two replicas that extended each other's word would never come to an end.
            Some(open) if open.ours => {}
            Some(open) => {
                open.until = open.until.max(until);
                open.word = open.until;
            }
            None => {
                state.open = Some(Open { until, doublings: 0, probe: None, ours: false, word: until });
                state.recovered = None;
            }
        }
    }

    /// How long the circuit stays open, to tell other replicas; None when it is not, or when we have it from them.
    #[must_use]
    pub fn open_for(&self, now: Instant) -> Option<Duration> {
        let state = self.state.lock();
        state.open.as_ref().filter(|open| open.ours).and_then(|open| left(Some(open.until), now))
    }
}

/// What is left until a moment; None when it has passed.
fn left(until: Option<Instant>, now: Instant) -> Option<Duration> {
    until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
