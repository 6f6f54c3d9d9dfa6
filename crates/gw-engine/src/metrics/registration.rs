//! Registers a metric and returns it, so that a struct of metrics names each of its members once.

use prometheus_client::registry::{Metric, Registry, Unit};

/// Registers a new metric under this name.
pub fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    registered_metric(registry, name, help, M::default())
}

/// Registers this metric under this name.
pub(super) fn registered_metric<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a metric of durations. The registry appends `_seconds` to the name.
pub fn registered_seconds<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}
