//! The metric of deliveries.

use gw_engine::metrics::registered;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The outcome of a delivery, as the label `outcome` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// The receiver took it.
    Delivered,
    /// An attempt failed.
    Failed,
    /// It was too old.
    GivenUp,
    /// Too many messages waited, so it was not queued.
    Full,
}

/// The counters of deliveries, by alert and outcome.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryMetrics(Family<[(&'static str, String); 2], Counter>);

impl DeliveryMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let help = "Attempts to deliver alerts and alerts that are given up, by outcome";
        Self(registered(registry, "gateway_alerts", help))
    }

    pub(crate) fn count(&self, alert: &str, outcome: DeliveryOutcome) {
        let outcome = match outcome {
            DeliveryOutcome::Delivered => "delivered",
            DeliveryOutcome::Failed => "failed",
            DeliveryOutcome::GivenUp => "given_up",
            DeliveryOutcome::Full => "queue_full",
        };
        self.0.get_or_create(&[("alert", alert.to_owned()), ("outcome", outcome.to_owned())]).inc();
    }
}
