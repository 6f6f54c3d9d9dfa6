//! Live figures of one provider and model: speed, reliability, load.
//!
//! Two memories of the same calls:
//! - **Averages that fade** ([`Seen`]), for decisions. Each observation counts `exp(-age / 30 s)`; an average is the
//!   weighted sum over the sum of weights, so a single late answer after a quiet hour is not drowned by the hour
//!   before, and a busy model's figure is that of its last half minute. The sum of weights itself ([`Seen::recent`])
//!   says how much the figure is worth: it falls to nothing while a model is not asked, and the decision returns to
//!   the catalogue's prior. So nobody is shunned for ever for what was long ago.
//! - **A window of the last 256 calls** ([`Window`]), for the catalogue's `performance` and the 95th percentile of
//!   hedging.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Calls that the window holds.
const WINDOW: usize = 256;
/// Times to the first token below which no percentile is told.
const FEWEST: usize = 20;
/// Seconds after which an observation counts 37 %.
const FADING: f64 = 30.0;
/// Weight below which an average is forgotten: some seven minutes after its last observation.
const FORGOTTEN: f64 = 1e-6;

/// What was seen of one model at one provider.
#[derive(Debug, Default)]
pub struct Measured {
    figures: Mutex<Figures>,
    in_flight: AtomicU32,
}

/// The figures at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Milliseconds to the first token, fading average. Of a model that was only asked for plain answers: to the answer.
    pub ttft_ms: Option<f64>,
    /// Tokens a second once it speaks, fading average.
    pub tokens_per_second: Option<f64>,
    /// Share of calls that failed, 0 to 1: failures over calls and one, each fading, so it falls to 0 in silence.
    pub error_rate: f64,
    /// Calls, fading: how much the figures above are worth. 1 just after a first call, 0.1 after 70 s of silence.
    pub recent: f64,
    /// Calls under way.
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

/// A call under way: counted until it is dropped.
#[derive(Debug)]
#[must_use = "a call is under way as long as this lives"]
pub struct InFlight(Arc<Measured>);

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

impl Measured {
    /// A call begins.
    pub fn begun(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// The first token of a stream has come, this long after the request was sent.
    pub fn first_token(&self, after: Duration, now: Instant) {
        let mut figures = self.figures.lock();
        figures.ttft.note(millis_f64(after), now);
        push(&mut figures.first_tokens, millis(after));
    }

    /// A call was answered after this long; of a stream, its first content has come.
    pub fn served(&self, after: Duration, now: Instant) {
        let mut figures = self.figures.lock();
        figures.answer.note(millis_f64(after), now);
        figures.failures.note(0.0, now);
        push(&mut figures.outcomes, Some(millis(after)));
    }

    /// An answer of this many tokens took this long, its first token not counted in. Ignored when nothing was spoken.
    pub fn spoke(&self, tokens: u64, over: Duration, now: Instant) {
        let seconds = over.as_secs_f64();
        if tokens == 0 || seconds <= 0.0 {
            return;
        }
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        self.figures.lock().speed.note(f64::from(tokens) / seconds, now);
    }

    /// A call failed through the upstream's fault.
    pub fn failed(&self, now: Instant) {
        let mut figures = self.figures.lock();
        figures.failures.note(1.0, now);
        push(&mut figures.outcomes, None);
    }

    /// The figures now.
    #[must_use]
    pub fn seen(&self, now: Instant) -> Seen {
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let figures = self.figures.lock();
        let (failed, calls) = figures.failures.faded(now);
        Seen {
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
        if known < FEWEST {
            return None;
        }
        let known = copy.get_mut(..known)?;
        let (_, nth, _) = known.select_nth_unstable(rank(known.len(), 95));
        Some(Duration::from_millis(u64::from(*nth)))
    }

    /// Whether there was no call yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.figures.lock().outcomes.is_empty()
    }

    /// Goes on with what another catalogue has seen of the same model. Calls under way stay counted where they began.
    pub fn adopt(&self, other: &Self) {
        let seen = other.figures.lock().clone();
        *self.figures.lock() = seen;
    }
}

/// A fading average: each value counts `exp(-age / FADING)`.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    sum: f64,
    weight: f64,
    at: Option<Instant>,
}

impl Average {
    fn note(&mut self, value: f64, now: Instant) {
        let (sum, weight) = self.faded(now);
        // Threads read the clock before they have the lock: the latest moment stays.
        let at = self.at.map_or(now, |at| at.max(now));
        *self = Self { sum: sum + value, weight: weight + 1.0, at: Some(at) };
    }

    /// Sum and weight as they count now.
    fn faded(&self, now: Instant) -> (f64, f64) {
        let Some(at) = self.at else { return (0.0, 0.0) };
        let factor = (-now.saturating_duration_since(at).as_secs_f64() / FADING).exp();
        (self.sum * factor, self.weight * factor)
    }

    fn value(&self, now: Instant) -> Option<f64> {
        let (sum, weight) = self.faded(now);
        (weight > FORGOTTEN).then(|| sum / weight)
    }
}

fn push<T>(window: &mut VecDeque<T>, value: T) {
    if window.len() == WINDOW {
        window.pop_front();
    }
    window.push_back(value);
}

/// The position of a percentile among so many sorted values (nearest rank).
fn rank(many: usize, percent: usize) -> usize {
    (many * percent).div_ceil(100).saturating_sub(1)
}

/// A window is small: its length is a u32, and a double.
fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn millis_f64(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests;
