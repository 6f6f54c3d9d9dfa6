//! Payloads of the running gateway: the writer task, the purge of old payloads, the metrics.

use std::sync::Arc;
use std::time::Duration;

use gw_command::CommandError;
use gw_config::StoreSettings;
use gw_engine::payloads::Payloads;
use gw_store::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;

use crate::clock::{DAY_MS, PURGE_INTERVAL, TrustedClock};

/// The longest wait for the last payloads when the program ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The most old payloads that one transaction purges. They are large, and a longer one would hold up the ledger's writer.
const PURGE_BATCH: u32 = 200;

/// Creates the queue of payloads, and registers its metrics.
///
/// # Errors
/// Exit code 1 when the redaction rules cannot be built, which is a bug.
pub fn open(settings: &StoreSettings, registry: &mut Registry) -> Result<Arc<Payloads>, CommandError> {
    let payloads = Payloads::new(&settings.payloads).map_err(CommandError::runtime)?;
    registry.register_collector(Box::new(PayloadMetrics(Arc::clone(&payloads))));
    Ok(payloads)
}

/// The tasks of payloads.
#[derive(Debug)]
pub struct PayloadTasks {
    payloads: Arc<Payloads>,
    writer: JoinHandle<()>,
}

impl PayloadTasks {
    /// Starts the writer and the purge of old payloads.
    #[must_use]
    pub fn start(
        payloads: Arc<Payloads>,
        store: Store,
        clock: Arc<TrustedClock>,
        settings: &StoreSettings,
    ) -> Self {
        // A payload cannot be found without its row, so it is not kept longer than the row.
        let days = settings.retention_days.unwrap_or(u32::MAX).min(settings.payloads.retention_days);
        let (purged_store, age_ms) = (store.clone(), i64::from(days) * DAY_MS);
        let purge = move |now: i64| {
            let store = purged_store.clone();
            async move { purge_payloads(&store, now.saturating_sub(age_ms)).await }
        };
        tokio::spawn(clock.purge_regularly("payloads", PURGE_INTERVAL, purge));
        let writer = tokio::spawn({
            let payloads = Arc::clone(&payloads);
            async move { payloads.run(&store).await }
        });
        Self { payloads, writer }
    }

    /// Writes the payloads that wait, within two seconds. Call this before the store is closed.
    pub async fn close(self) {
        self.payloads.close();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.writer).await;
    }
}

/// Purges all payloads from before this time, so that none is kept longer than promised. Returns their number.
async fn purge_payloads(store: &Store, before: i64) -> gw_store::Result<u64> {
    let mut purged = 0;
    loop {
        let count = store.purge_payloads(before, PURGE_BATCH).await?;
        purged += count;
        if count < u64::from(PURGE_BATCH) {
            return Ok(purged);
        }
    }
}

/// The metrics of payloads.
#[derive(Debug)]
struct PayloadMetrics(Arc<Payloads>);

impl Collector for PayloadMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let waiting = ConstGauge::new(i64::try_from(self.0.waiting()).unwrap_or(i64::MAX));
        let help = "Payloads that are not in the store yet";
        let metric =
            encoder.encode_descriptor("gateway_payloads_waiting", help, None, waiting.metric_type())?;
        waiting.encode(metric)?;
        let dropped = ConstCounter::new(self.0.dropped());
        let help = "Payloads that were not stored, because too many waited or the store refused them";
        let metric =
            encoder.encode_descriptor("gateway_payloads_dropped", help, None, dropped.metric_type())?;
        dropped.encode(metric)
    }
}
