//! The metrics of the limits that are left: keys of the configuration and teams with limits. A task asks for the figures, because a
//! scrape must not wait for Redis or the store.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gw_engine::Engine;
use gw_engine::limit_use::{NamedUse, SubjectKind};
use gw_wire::money::Money;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::time::MissedTickBehavior;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(5);
/// The most keys and the most teams with figures, so that the labels stay bounded.
const MAX_SUBJECTS: usize = 100;

/// The figures of the last look. Empty while they cannot be read.
type Figures = Arc<Mutex<Vec<NamedUse>>>;

/// Registers the metrics, and starts the task that keeps them up to date.
pub fn start(engine: Arc<Engine>, registry: &mut Registry) {
    let figures = Figures::default();
    registry.register_collector(Box::new(LimitMetrics(Arc::clone(&figures))));
    tokio::spawn(keep_up_to_date(engine, figures));
}

async fn keep_up_to_date(engine: Arc<Engine>, figures: Figures) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let seen = engine.limits_in_use(MAX_SUBJECTS).await.unwrap_or_default();
        *figures.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }
}

#[derive(Debug)]
struct LimitMetrics(Figures);

impl Collector for LimitMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let help =
            "Requests, tokens or places that a key of the configuration or a team has left now, by limit";
        let mut left = encoder.encode_descriptor("gateway_limit_left", help, None, MetricType::Gauge)?;
        for NamedUse { name, used } in &figures {
            let requests = used.requests.map(|state| u64::from(state.remaining));
            let tokens = used.tokens.map(|state| state.remaining);
            let most = used.limits.max_in_flight;
            let places = most.zip(used.in_flight).map(|(most, taken)| u64::from(most.saturating_sub(taken)));
            for (limit, value) in [("rpm", requests), ("tpm", tokens), ("max_in_flight", places)] {
                let Some(value) = value else { continue };
                let labels = [("kind", kind(used.kind)), ("name", &**name), ("limit", limit)];
                let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                value.encode(left.encode_family(&labels)?)?;
            }
        }
        let help =
            "USD that a key of the configuration or a team has left of its budget in the current period";
        let mut money =
            encoder.encode_descriptor("gateway_budget_left_usd", help, None, MetricType::Gauge)?;
        for NamedUse { name, used } in &figures {
            let Some((limit, spent)) = used.limits.budget.zip(used.budget) else { continue };
            let left = limit.femtos() - spent.spent_femtos - spent.reserved_femtos;
            let labels = [("kind", kind(used.kind)), ("name", &**name)];
            ConstGauge::new(Money::from_femtos(left.max(0)).approx_usd())
                .encode(money.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn kind(kind: SubjectKind) -> &'static str {
    match kind {
        SubjectKind::Key => "key",
        SubjectKind::Team => "team",
        SubjectKind::Rule => "rule",
    }
}
