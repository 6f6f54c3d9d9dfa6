//! The metrics of providers as they stand: their keys, and the circuits of their models.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use gw_engine::Engine;
use gw_engine::catalog::Model;
use gw_engine::engine::Configured;
use gw_providers::provider::KeyState;
use gw_routing::health::HealthStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Registers the metrics of the engine's providers.
pub fn register(engine: &Arc<Engine>, registry: &mut Registry) {
    registry.register_collector(Box::new(ProviderMetrics(Arc::clone(engine))));
}

#[derive(Debug)]
struct ProviderMetrics(Arc<Engine>);

/// A model that the gateway called lately, or that it does not call now.
struct MeasuredTarget {
    model: Arc<Model>,
    standing: HealthStatus,
    in_flight: i64,
}

/// The name of a gauge, its help text, and its value.
type GaugeColumn = (&'static str, &'static str, fn(&MeasuredTarget) -> i64);

const COLUMNS: [GaugeColumn; 3] = [
    ("gateway_circuit_open", "1 while the circuit of a model is open or a probe tests it", |target| {
        let is_open = matches!(
            target.standing,
            HealthStatus::Open { .. } | HealthStatus::Probing | HealthStatus::Ready
        );
        i64::from(is_open)
    }),
    ("gateway_target_resting", "1 while a model rests because its provider asked for a pause", |target| {
        i64::from(matches!(target.standing, HealthStatus::Resting { .. }))
    }),
    ("gateway_upstream_in_flight", "Upstream calls of a model that are under way", |target| target.in_flight),
];

impl Collector for ProviderMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let engine = &self.0;
        let configured = engine.configured();
        let help = "1 if the key at this place of the configuration is used, 0 if it is set aside";
        let mut family =
            encoder.encode_descriptor("gateway_provider_key_up", help, None, MetricType::Gauge)?;
        for deployed in &configured.deployed {
            for (place, (state, _)) in deployed.provider.keys().into_iter().enumerate() {
                let key = (place + 1).to_string();
                let labels = [("provider", &**deployed.provider.name()), ("key", key.as_str())];
                let up = ConstGauge::new(i64::from(matches!(state, KeyState::Alive)));
                up.encode(family.encode_family(&labels)?)?;
            }
        }
        let targets = targets(engine, &configured);
        for (name, help, value) in COLUMNS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for target in &targets {
                let labels = [("provider", &*target.model.provider), ("model", &*target.model.id)];
                ConstGauge::new(value(target)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// The models that were called, or that are not called now. A catalogue has thousands of models that are never called.
fn targets(engine: &Engine, configured: &Configured) -> Vec<MeasuredTarget> {
    let (breaker, now) = (engine.breaker_settings(), Instant::now());
    let models = configured.deployed.iter().flat_map(|deployed| engine.models_of(deployed.provider.name()));
    let told = models.filter_map(|model| {
        let standing = model.health.status(&breaker, now);
        let in_flight = model.measured.averages(now).in_flight;
        let is_quiet = model.measured.window().samples == 0 && in_flight == 0;
        let in_flight = i64::from(in_flight);
        (!is_quiet || standing != HealthStatus::Able).then_some(MeasuredTarget { model, standing, in_flight })
    });
    told.collect()
}
