//! The figures of the catalogue: measured over the latest calls, else configured.

use gw_routing::metrics::CallMetrics;

use super::model::Performance;

/// The measured figures, and the configured ones where nothing was measured.
pub(super) fn over(measured: &CallMetrics, prior: Performance) -> Performance {
    let seen = measured.window();
    if seen.samples == 0 {
        return prior;
    }
    Performance {
        availability: seen.availability,
        latency_p50_ms: seen.p50_ms.or(prior.latency_p50_ms),
        latency_p99_ms: seen.p99_ms.or(prior.latency_p99_ms),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const PRIOR: Performance =
        Performance { availability: Some(99.9), latency_p50_ms: Some(400.0), latency_p99_ms: Some(2000.0) };

    #[test]
    fn the_prior_stands_until_there_is_traffic() {
        let measured = CallMetrics::default();
        assert_eq!(over(&measured, PRIOR), PRIOR);
        measured.record_failure(Instant::now());
        assert_eq!(over(&measured, PRIOR), Performance { availability: Some(0.0), ..PRIOR });
        measured.record_success(Duration::from_millis(7), Instant::now());
        let seen = over(&measured, PRIOR);
        assert_eq!((seen.latency_p50_ms, seen.availability), (Some(7.0), Some(50.0)));
    }
}
