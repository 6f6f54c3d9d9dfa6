//! Counts requests and connections while they are in flight.

use prometheus_client::metrics::gauge::Gauge;

/// One request or connection, counted in a gauge until this permit is dropped.
#[derive(Debug)]
pub(crate) struct InFlightPermit {
    gauge: Gauge,
    /// The value of the gauge right after this permit was added to it.
    count: i64,
}

impl InFlightPermit {
    /// Adds one to the gauge.
    pub(crate) fn take(gauge: &Gauge) -> Self {
        Self { count: gauge.inc() + 1, gauge: gauge.clone() }
    }

    /// How many permits existed when this one was taken, including this one.
    pub(crate) fn count(&self) -> i64 {
        self.count
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
