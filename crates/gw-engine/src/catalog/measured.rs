//! What this gateway has seen of a model: speed and reliability over its own latest calls.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use super::model::Performance;

/// Calls that are remembered.
const WINDOW: usize = 256;

/// The latest outcomes of a model's upstream calls.
#[derive(Debug, Default)]
pub struct Measured {
    /// Milliseconds to the answer (of a stream: to its first content); None = the upstream failed.
    outcomes: Mutex<VecDeque<Option<u32>>>,
}

impl Measured {
    /// A call was answered after this long.
    pub(crate) fn served(&self, after: Duration) {
        self.note(Some(u32::try_from(after.as_millis()).unwrap_or(u32::MAX)));
    }

    /// A call failed through the upstream's fault.
    pub(crate) fn failed(&self) {
        self.note(None);
    }

    fn note(&self, outcome: Option<u32>) {
        let mut outcomes = self.outcomes.lock();
        if outcomes.len() == WINDOW {
            outcomes.pop_front();
        }
        outcomes.push_back(outcome);
    }

    /// Whether there was no call yet.
    pub(super) fn is_empty(&self) -> bool {
        self.outcomes.lock().is_empty()
    }

    /// Goes on with what another catalogue has seen of the same model.
    pub(super) fn adopt(&self, other: &Self) {
        let seen = other.outcomes.lock().clone();
        *self.outcomes.lock() = seen;
    }

    /// The measured figures; the prior stands in for what was not measured.
    pub(super) fn over(&self, prior: Performance) -> Performance {
        let (mut latencies, total) = {
            let outcomes = self.outcomes.lock();
            (outcomes.iter().copied().flatten().collect::<Vec<_>>(), outcomes.len())
        };
        if total == 0 {
            return prior;
        }
        latencies.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
            latencies.get(rank).map(|millis| f64::from(*millis))
        };
        // The window is small: neither count loses anything as u32, and two decimals are all it can show.
        let count = |many: usize| f64::from(u32::try_from(many).unwrap_or(u32::MAX));
        let availability = (count(latencies.len()) / count(total) * 10_000.0).round() / 100.0;
        Performance {
            availability: Some(availability),
            latency_p50_ms: percentile(50).or(prior.latency_p50_ms),
            latency_p99_ms: percentile(99).or(prior.latency_p99_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: Performance =
        Performance { availability: Some(99.9), latency_p50_ms: Some(400.0), latency_p99_ms: Some(2000.0) };

    #[test]
    fn the_prior_stands_until_there_is_traffic() {
        let measured = Measured::default();
        assert_eq!(measured.over(PRIOR), PRIOR);
        measured.failed();
        assert_eq!(measured.over(PRIOR), Performance { availability: Some(0.0), ..PRIOR });
    }

    #[test]
    fn percentiles_are_of_answers_and_availability_is_of_calls() {
        let measured = Measured::default();
        for millis in 1..=100 {
            measured.served(Duration::from_millis(millis));
        }
        measured.failed();
        let seen = measured.over(PRIOR);
        assert_eq!((seen.latency_p50_ms, seen.latency_p99_ms), (Some(50.0), Some(99.0)));
        assert_eq!(seen.availability, Some(99.01));
    }

    #[test]
    fn old_calls_are_forgotten_and_a_new_catalogue_remembers() {
        let measured = Measured::default();
        measured.failed();
        for _ in 0..WINDOW {
            measured.served(Duration::from_millis(7));
        }
        let next = Measured::default();
        next.adopt(&measured);
        assert_eq!(next.over(PRIOR).availability, Some(100.0));
        assert_eq!(next.over(PRIOR).latency_p99_ms, Some(7.0));
    }
}
