//! Payloads beside the running gateway: the one writer, the broom, and their figures.

use std::sync::Arc;
use std::time::Duration;

use gw_engine::payloads::Payloads;
use gw_store::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;

use crate::cli::Stop;
use crate::clock::{DAY_MS, Trusted};
use crate::config::StoreSettings;

/// The end of the program waits so long for the last payloads.
const LAST_PAYLOADS: Duration = Duration::from_secs(2);
/// Old payloads that are forgotten in one transaction: they are large, and it must not hold up the ledger's writer.
const PORTION: u32 = 200;

/// Where payloads go to, with figures of it.
///
/// # Errors
/// None that an operator could do something about.
pub fn open(settings: &StoreSettings, registry: &mut Registry) -> Result<Arc<Payloads>, Stop> {
    let payloads = Payloads::new(&settings.payloads).map_err(|error| Stop::Runtime(error.to_string()))?;
    registry.register_collector(Box::new(Figures(Arc::clone(&payloads))));
    Ok(payloads)
}

/// The tasks that keep payloads.
#[derive(Debug)]
pub struct Keeper {
    payloads: Arc<Payloads>,
    writer: JoinHandle<()>,
}

impl Keeper {
    /// Starts the writer and the broom.
    #[must_use]
    pub fn start(
        payloads: Arc<Payloads>,
        store: Store,
        clock: Arc<Trusted>,
        settings: &StoreSettings,
    ) -> Self {
        // Without its row a payload cannot be found any more.
        let days = settings.retention_days.unwrap_or(u32::MAX).min(settings.payloads.retention_days);
        tokio::spawn(forget_old(store.clone(), clock, i64::from(days) * DAY_MS));
        let writer = tokio::spawn({
            let payloads = Arc::clone(&payloads);
            async move { payloads.run(&store).await }
        });
        Self { payloads, writer }
    }

    /// Writes what is left, if that does not take long. Before the store is closed.
    pub async fn close(self) {
        self.payloads.close();
        let _ = tokio::time::timeout(LAST_PAYLOADS, self.writer).await;
    }
}

async fn forget_old(store: Store, clock: Arc<Trusted>, age_ms: i64) {
    loop {
        match sweep(&store, &clock, age_ms).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(payloads = gone, "old payloads are forgotten"),
            Err(error) => tracing::warn!("old payloads cannot be forgotten now: {error}"),
        }
        clock.next_sweep().await;
    }
}

/// Forgets all old payloads; says how many. None is kept longer than was promised to whoever wrote it.
async fn sweep(store: &Store, clock: &Trusted, age_ms: i64) -> gw_store::Result<u64> {
    let Some(now) = clock.look().await? else { return Ok(0) };
    let mut gone = 0;
    loop {
        let count = store.purge_payloads(now.saturating_sub(age_ms), PORTION).await?;
        gone += count;
        if count < u64::from(PORTION) {
            return Ok(gone);
        }
    }
}

/// What metrics say of payloads.
#[derive(Debug)]
struct Figures(Arc<Payloads>);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let waiting = ConstGauge::new(i64::try_from(self.0.waiting()).unwrap_or(i64::MAX));
        let help = "Payloads that are not in the store yet";
        let metric =
            encoder.encode_descriptor("gateway_payloads_waiting", help, None, waiting.metric_type())?;
        waiting.encode(metric)?;
        let dropped = ConstCounter::new(self.0.dropped());
        let help = "Payloads that were not kept, because too many waited or the store would not have them";
        let metric =
            encoder.encode_descriptor("gateway_payloads_dropped", help, None, dropped.metric_type())?;
        dropped.encode(metric)
    }
}
