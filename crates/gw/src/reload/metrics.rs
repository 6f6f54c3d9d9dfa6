//! The metrics of reloads.

use std::sync::atomic::AtomicU64;

use gw_engine::metrics::registered;
use gw_wire::calendar::since_1970;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The metrics of reloads. The start of the gateway counts as a success, but not as a reload.
#[derive(Debug)]
pub(super) struct ReloadMetrics {
    reloads: Family<[(&'static str, &'static str); 1], Counter>,
    is_successful: Gauge,
    succeeded_at: Gauge<f64, AtomicU64>,
}

impl ReloadMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            reloads: registered(
                registry,
                "gateway_config_reloads",
                "Configurations that were read again, by result",
            ),
            is_successful: registered(
                registry,
                "gateway_config_last_reload_successful",
                "1 if the configuration that was read last is in force, 0 if it was refused",
            ),
            succeeded_at: registered(
                registry,
                "gateway_config_last_reload_success_timestamp_seconds",
                "Unix time at which the configuration in force was read",
            ),
        }
    }

    /// A configuration is in force.
    pub(super) fn succeeded(&self) {
        if self.succeeded_at.get() > 0.0 {
            self.reloads.get_or_create(&[("result", "ok")]).inc();
        }
        self.is_successful.set(1);
        self.succeeded_at.set(since_1970().as_secs_f64());
    }

    /// A configuration was refused.
    pub(super) fn refused(&self) {
        self.reloads.get_or_create(&[("result", "refused")]).inc();
        self.is_successful.set(0);
    }
}
