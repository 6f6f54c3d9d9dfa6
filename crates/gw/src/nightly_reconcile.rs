//! The task that compares the ledger with providers' bills each day, and the metric of its last results.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gw_alerts::Alerts;
use gw_alerts::trigger::RECONCILE;
use gw_command::CommandError;
use gw_config::setup::Setup;
use gw_reconcile::{NightlyResult, NightlyTargets};
use gw_store::Store;
use gw_store::reconciliations::ComparedTotals;
use gw_wire::calendar::unix_seconds;
use gw_wire::money::Money;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;

/// The time between two looks at the calendar.
const INTERVAL: Duration = Duration::from_secs(60);

/// The nightly comparison of a running gateway. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NightlyReconcile(Arc<NightlyState>);

#[derive(Debug)]
struct NightlyState {
    targets: Mutex<Arc<NightlyTargets>>,
    /// The last results of the targets, of any replica.
    figures: Mutex<Vec<ComparedTotals>>,
}

impl NightlyReconcile {
    /// Registers the metric, and starts the task.
    ///
    /// # Errors
    /// Exit code 2 for a catalogue with problems.
    pub fn start(
        setup: &Setup,
        store: &Store,
        alerts: &Alerts,
        registry: &mut Registry,
    ) -> Result<Self, CommandError> {
        let targets = NightlyTargets::of(setup).map_err(|problems| CommandError::problems(&problems))?;
        let targets = Mutex::new(Arc::new(targets));
        let nightly = Self(Arc::new(NightlyState { targets, figures: Mutex::default() }));
        registry.register_collector(Box::new(ReconcileMetrics(nightly.clone())));
        tokio::spawn(nightly.clone().run(store.clone(), alerts.clone()));
        Ok(nightly)
    }

    /// Replaces the providers that are compared.
    pub fn replace(&self, targets: NightlyTargets) {
        *self.0.targets.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(targets);
    }

    fn targets(&self) -> Arc<NightlyTargets> {
        Arc::clone(&self.0.targets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn run(self, store: Store, alerts: Alerts) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let targets = self.targets();
            let mut known = Vec::new();
            if !targets.is_empty() {
                compare(Arc::clone(&targets), store.clone(), &alerts).await;
                known = store.reconciliations().await.unwrap_or_default();
                known.retain(|totals| targets.has(&totals.provider));
            }
            *self.0.figures.lock().unwrap_or_else(PoisonError::into_inner) = known;
        }
    }
}

/// Compares the days that are due, tells of those above their thresholds, and keeps the totals.
async fn compare(targets: Arc<NightlyTargets>, store: Store, alerts: &Alerts) {
    let (place, handle) = (store.clone(), Handle::current());
    // A comparison reads the log and large reports, once a day. It has a thread of its own, as the command has.
    let comparing =
        tokio::task::spawn_blocking(move || handle.block_on(targets.compare_due(&place, unix_seconds())));
    for NightlyResult { totals, is_above } in comparing.await.unwrap_or_default() {
        if is_above {
            alerts.tell(RECONCILE, "provider", &totals.provider).await;
        }
        if let Err(error) = store.keep_reconciliation(&totals).await {
            tracing::warn!(provider = totals.provider, %error, "the result of the comparison is not kept");
        }
    }
}

#[derive(Debug)]
struct ReconcileMetrics(NightlyReconcile);

impl Collector for ReconcileMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.0.0.figures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let help =
            "Cost in USD of the last compared day on the provider's bill, less the ledger's cost of that day";
        let mut differences =
            encoder.encode_descriptor("gateway_reconcile_difference_usd", help, None, MetricType::Gauge)?;
        for ComparedTotals { provider, ours, theirs, .. } in &figures {
            let difference = Money::from_femtos(*theirs) - Money::from_femtos(*ours);
            let labels = [("provider", provider.as_str())];
            ConstGauge::new(difference.approx_usd()).encode(differences.encode_family(&labels)?)?;
        }
        let help = "Unix time of the begin of the last day that was compared with the provider's bill";
        let mut days = encoder.encode_descriptor(
            "gateway_reconcile_day_timestamp_seconds",
            help,
            None,
            MetricType::Gauge,
        )?;
        for ComparedTotals { provider, day, .. } in &figures {
            let labels = [("provider", provider.as_str())];
            ConstGauge::new(day.saturating_mul(86_400)).encode(days.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
