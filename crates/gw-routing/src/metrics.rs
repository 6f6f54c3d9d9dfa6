//! Measured figures of one provider and model: speed, reliability, load.
//!
//! Each call is recorded in two forms:
//! - **Fading averages** ([`Averages`]), for decisions. Each observation counts `exp(-age / 30 s)`; an average is the
//!   weighted sum divided by the sum of the weights. A single late answer after a quiet hour therefore counts in full, and
//!   the figure of a busy model describes its last half minute. The sum of the weights ([`Averages::recent`]) says how
//!   reliable a figure is. It falls to zero while a model is not called, and the decision returns to the catalogue's
//!   figures, so an old failure does not exclude a model for ever.
//! - **A window of the last 256 calls** ([`Window`]), for the catalogue's `performance` and for the 95th percentile that
//!   hedging uses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Number of calls that the window holds.
const WINDOW: usize = 256;
/// Minimum number of times to the first token for a percentile.
const MIN_SAMPLES: usize = 20;
/// Seconds after which an observation counts 37 %.
const DECAY_SECONDS: f64 = 30.0;
/// Weight below which an average is unknown again: about seven minutes after its last observation.
const MIN_WEIGHT: f64 = 1e-6;

/// Measurements of one model at one provider.
#[derive(Debug, Default)]
pub struct CallMetrics {
    figures: Mutex<Figures>,
    in_flight: AtomicU32,
    /// The round-robin decisions in which the model is the first candidate. Other models' traffic does not disturb their order.
    turns: AtomicU64,
}

/// The fading averages at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Averages {
    /// Milliseconds to the first token, fading average. Without streams: milliseconds to the answer.
    pub ttft_ms: Option<f64>,
    /// Tokens per second after the first token, fading average.
    pub tokens_per_second: Option<f64>,
    /// Failed calls divided by calls plus one, both fading. From 0 to 1; it falls to 0 without traffic.
    pub error_rate: f64,
    /// Number of calls, fading: how reliable the figures above are. 1 just after a first call, 0.1 after 70 s of silence.
    pub recent: f64,
    /// Calls in flight.
    pub in_flight: u32,
    /// Calls in the window.
    pub samples: u32,
}

/// The catalogue's figures, over the last 256 calls. None = not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Calls in the window.
    pub samples: u32,
    /// Percent of calls that were served, to two decimals.
    pub availability: Option<f64>,
    /// Milliseconds to the answer (of a stream: to its first content), median.
    pub p50_ms: Option<f64>,
    /// Milliseconds, 99th percentile.
    pub p99_ms: Option<f64>,
}

/// A call in flight: counted until it is dropped.
#[derive(Debug)]
#[must_use = "the call counts as in flight only while this lives"]
pub struct InFlight(Arc<CallMetrics>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug, Default)]
struct Figures {
    /// Milliseconds to the answer; None = the upstream failed.
    outcomes: VecDeque<Option<u32>>,
    /// Milliseconds to first tokens of streams.
    first_tokens: VecDeque<u32>,
    ttft: Average,
    answer: Average,
    speed: Average,
    /// 1 for a failure, 0 for a success.
    failures: Average,
}

impl CallMetrics {
    /// The round-robin turn of the candidates of which this model is the first.
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Takes the round-robin turn: the next request gets the next one.
    pub fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a call as in flight.
    pub fn start_call(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Records the first token of a stream, `after` the request was sent.
    pub fn record_first_token(&self, after: Duration, now: Instant) {
        let mut figures = self.figures.lock();
        figures.ttft.note(millis_f64(after), now);
        push(&mut figures.first_tokens, millis(after));
    }

    /// Records an answer `after` the request was sent; for a stream, its first content.
    pub fn record_success(&self, after: Duration, now: Instant) {
        let mut figures = self.figures.lock();
        figures.answer.note(millis_f64(after), now);
        figures.failures.note(0.0, now);
        push(&mut figures.outcomes, Some(millis(after)));
    }

    /// Records that an answer of this many tokens took this long after its first token. Ignored without tokens or time.
    pub fn record_speed(&self, tokens: u64, over: Duration, now: Instant) {
        let seconds = over.as_secs_f64();
        if tokens == 0 || seconds <= 0.0 {
            return;
        }
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        self.figures.lock().speed.note(f64::from(tokens) / seconds, now);
    }

    /// Records a call that failed through the upstream's fault.
    pub fn record_failure(&self, now: Instant) {
        let mut figures = self.figures.lock();
        figures.failures.note(1.0, now);
        push(&mut figures.outcomes, None);
    }

    /// The fading averages at this moment.
    #[must_use]
    pub fn averages(&self, now: Instant) -> Averages {
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let figures = self.figures.lock();
        let (failed, calls) = figures.failures.faded(now);
        Averages {
            ttft_ms: figures.ttft.value(now).or_else(|| figures.answer.value(now)),
            tokens_per_second: figures.speed.value(now),
            error_rate: failed / (calls + 1.0),
            recent: calls,
            in_flight,
            samples: count(figures.outcomes.len()),
        }
    }

    /// The figures of the window.
    #[must_use]
    pub fn window(&self) -> Window {
        let (mut latencies, total) = {
            let figures = self.figures.lock();
            (figures.outcomes.iter().copied().flatten().collect::<Vec<_>>(), figures.outcomes.len())
        };
        if total == 0 {
            return Window::default();
        }
        latencies.sort_unstable();
        let percentile = |percent| latencies.get(rank(latencies.len(), percent)).copied().map(f64::from);
        let served = f64::from(count(latencies.len())) / f64::from(count(total));
        Window {
            samples: count(total),
            availability: Some((served * 10_000.0).round() / 100.0),
            p50_ms: percentile(50),
            p99_ms: percentile(99),
        }
    }

    /// The 95th percentile of the last 256 times to a stream's first token; None when fewer than 20 are known.
    #[must_use]
    pub fn p95_ttft(&self) -> Option<Duration> {
        let mut copy = [0; WINDOW];
        let known = {
            let figures = self.figures.lock();
            for (to, from) in copy.iter_mut().zip(&figures.first_tokens) {
                *to = *from;
            }
            figures.first_tokens.len()
        };
        if known < MIN_SAMPLES {
            return None;
        }
        let known = copy.get_mut(..known)?;
        let (_, nth, _) = known.select_nth_unstable(rank(known.len(), 95));
        Some(Duration::from_millis(u64::from(*nth)))
    }

    /// Whether no call has been recorded yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.figures.lock().outcomes.is_empty()
    }

    /// Takes over another catalogue's figures of the same model. Calls in flight stay counted where they began.
    pub fn adopt(&self, other: &Self) {
        let averages = other.figures.lock().clone();
        *self.figures.lock() = averages;
    }
}

/// A fading average: each value counts `exp(-age / DECAY_SECONDS)`.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    sum: f64,
    weight: f64,
    at: Option<Instant>,
}

impl Average {
    fn note(&mut self, value: f64, now: Instant) {
        let (sum, weight) = self.faded(now);
        // Threads read the clock before they take the lock: keep the latest moment.
        let at = self.at.map_or(now, |at| at.max(now));
        *self = Self { sum: sum + value, weight: weight + 1.0, at: Some(at) };
    }

    /// Sum and weight, faded to this moment.
    fn faded(&self, now: Instant) -> (f64, f64) {
        let Some(at) = self.at else { return (0.0, 0.0) };
        let factor = (-now.saturating_duration_since(at).as_secs_f64() / DECAY_SECONDS).exp();
        (self.sum * factor, self.weight * factor)
    }

    fn value(&self, now: Instant) -> Option<f64> {
        let (sum, weight) = self.faded(now);
        (weight > MIN_WEIGHT).then(|| sum / weight)
    }
}

fn push<T>(window: &mut VecDeque<T>, value: T) {
    if window.len() == WINDOW {
        window.pop_front();
    }
    window.push_back(value);
}

/// The index of a percentile among `count` sorted values (nearest rank).
fn rank(count: usize, percent: usize) -> usize {
    (count * percent).div_ceil(100).saturating_sub(1)
}

/// A window's length as a u32, which a double holds exactly.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn millis_f64(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests;
