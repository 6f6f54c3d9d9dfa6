//! The ledger of the running gateway: its journal, the writer task, the purge of old rows, the metrics.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gw_config::StoreSettings;
use gw_engine::Limiter;
use gw_limits::{DeliveryFigures, HoldingFigures};
use gw_store::Store;
use gw_store::journal::{Journal, quarantined_segments};
use gw_wire::calendar;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::task::JoinHandle;

use crate::clock::{DAY_MS, PURGE_INTERVAL, TrustedClock};

/// The longest wait for the last rows when the program ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for which written lines stay in the journal because Redis does not answer.
const REDIS_TIMEOUT: Duration = Duration::from_secs(1);
/// The most old rows that one transaction purges. A longer one would hold up the writer.
const PURGE_BATCH: u32 = 2_000;
/// The most rows that one transaction removes because the log is too large. Their payloads go, too, and are large.
const TRIM_BATCH: u32 = 500;
/// How often the size of the log is compared with its limit.
const TRIM_INTERVAL: Duration = Duration::from_secs(60);
/// The seconds after which an hour is added up by name. Few requests end later.
const CLOSING_DELAY: i64 = 600;
/// How often hours are looked for that can be added up by name.
const CLOSING_INTERVAL: Duration = Duration::from_secs(300);
/// One purge removes at most one part in this many of the log, so that a mistake is noticed in time.
const MAX_PURGE_PART: u64 = 10;

/// The tasks of the ledger.
#[derive(Debug)]
pub struct Ledger {
    journal: Arc<Journal>,
    store: Store,
    writer: JoinHandle<()>,
}

impl Ledger {
    /// Starts the writer, and the tasks that delete old rows and rows that are too many.
    #[must_use]
    pub fn start(
        journal: Arc<Journal>,
        store: Store,
        limiter: Limiter,
        clock: Arc<TrustedClock>,
        settings: &StoreSettings,
    ) -> Self {
        let writer = tokio::spawn({
            let (journal, store) = (Arc::clone(&journal), store.clone());
            // A line stays in the journal until Redis has counted it, so that a killed replica can charge it again.
            async move {
                let until_counted = |ids: &mut dyn Iterator<Item = &str>| {
                    limiter.mark_written(ids);
                    limiter.drain(REDIS_TIMEOUT)
                };
                journal.run_with(&store, until_counted).await;
            }
        });
        tokio::spawn(roll_up_regularly(store.clone()));
        tokio::spawn(roll_up_names_regularly(store.clone()));
        if let Some(mib) = settings.max_log_mib {
            tokio::spawn(trim_regularly(store.clone(), u64::from(mib) << 20));
        }
        if let Some(days) = settings.retention_days {
            let (store, age_ms) = (store.clone(), i64::from(days) * DAY_MS);
            let purge = move |now: i64| {
                let store = store.clone();
                async move { purge_rows(&store, now.saturating_sub(age_ms)).await }
            };
            let kind = "rows of the request log; their sums stay";
            tokio::spawn(clock.purge_regularly(kind, PURGE_INTERVAL, purge));
        }
        Self { journal, store, writer }
    }

    /// Writes the rows that wait and closes the store. The next start reads rows that cannot be written now from the journal. Rows that the
    /// journal does not have either are tried again for a while.
    pub async fn close(self) {
        self.journal.close();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.writer).await;
        let lost = self.journal.only_in_memory();
        if lost > 0 {
            tracing::error!(
                requests = lost,
                "neither the ledger nor the journal can be written; the rows are lost"
            );
        }
        self.store.close().await;
    }
}

/// Adds up each day of the ledger when it is over for a day, because the last requests of a day may be written on the next. A wrong clock
/// does no harm: the sums of a request always go where reports look for them.
async fn roll_up_regularly(store: Store) {
    loop {
        let before = calendar::unix_seconds().saturating_sub(DAY_MS / 1000);
        match store.roll_up(before).await {
            Ok(0) => {}
            Ok(days) => tracing::debug!(days, "added up the days of the ledger for long reports"),
            Err(error) => {
                tracing::warn!("days of the ledger are not added up, so long reports take longer: {error}")
            }
        }
        tokio::time::sleep(PURGE_INTERVAL).await;
    }
}

/// Adds up each hour by name soon after its end, for reports by name about a span. Requests that end later are added to it. A wrong clock does
/// no harm: reports see the requests that are not added up.
async fn roll_up_names_regularly(store: Store) {
    loop {
        let before = calendar::unix_seconds().saturating_sub(CLOSING_DELAY);
        match store.roll_up_names(before).await {
            Ok(0) => {}
            Ok(hours) => tracing::debug!(hours, "added up the hours of the ledger by name"),
            Err(error) => {
                tracing::warn!("hours are not added up by name, so reports by name take longer: {error}")
            }
        }
        tokio::time::sleep(CLOSING_INTERVAL).await;
    }
}

/// Keeps the request log below a size. Other writers of the store get their turn after each part of it.
async fn trim_regularly(store: Store, most: u64) {
    loop {
        let mut trimmed = 0;
        let ended = loop {
            match store.trim_log(most, TRIM_BATCH, calendar::unix_millis()).await {
                Ok(0) => break Ok(()),
                Ok(count) => trimmed += count,
                Err(error) => break Err(error),
            }
        };
        if trimmed > 0 {
            let mib = most >> 20;
            tracing::info!(
                requests = trimmed,
                "deleted the oldest rows of the request log, which has more than {mib} MiB (store.max_log_mib); their sums stay"
            );
        }
        if let Err(error) = ended {
            tracing::warn!("the request log is not shortened: {error}");
        }
        tokio::time::sleep(TRIM_INTERVAL).await;
    }
}

/// Purges rows from before this time, the oldest first and at most a tenth of the log. Returns their number.
async fn purge_rows(store: &Store, before: i64) -> gw_store::Result<u64> {
    let mut left = store.requests_in_log().await?.div_ceil(MAX_PURGE_PART);
    let mut purged = 0;
    while left > 0 {
        let batch = u32::try_from(left).unwrap_or(PURGE_BATCH).min(PURGE_BATCH);
        let count = store.purge(before, batch).await?;
        purged += count;
        left = left.saturating_sub(count);
        if count < u64::from(batch) {
            break;
        }
    }
    store.purge_detailed_sums(before).await?;
    Ok(purged)
}

/// The metrics of the journal.
#[derive(Debug)]
struct JournalMetrics {
    journal: Arc<Journal>,
    directory: PathBuf,
    /// The number of damaged places in the journals of processes that died.
    unreadable: Arc<AtomicU64>,
}

/// Registers the metrics of the journal in this directory.
pub(crate) fn register_journal(
    journal: &Arc<Journal>,
    directory: &Path,
    unreadable: &Arc<AtomicU64>,
    registry: &mut Registry,
) {
    registry.register_collector(Box::new(JournalMetrics {
        journal: Arc::clone(journal),
        directory: directory.to_owned(),
        unreadable: Arc::clone(unreadable),
    }));
}

impl Collector for JournalMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let gauges = [
            (
                "gateway_ledger_waiting",
                "Finished requests that are not in the ledger yet",
                self.journal.pending(),
            ),
            (
                "gateway_journal_set_aside",
                "Damaged journals that are kept for inspection",
                quarantined_segments(&self.directory) as u64,
            ),
        ];
        for (name, help, value) in gauges {
            let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            value.encode(encoder.encode_descriptor(name, help, None, value.metric_type())?)?;
        }
        let lag = ConstGauge::new(self.journal.lag().as_secs_f64());
        let help = "Age of the oldest finished request that is not in the ledger yet";
        let unit = Some(&Unit::Seconds);
        lag.encode(encoder.encode_descriptor("gateway_ledger_lag", help, unit, lag.metric_type())?)?;
        let counters = [
            (
                "gateway_journal_unwritten",
                "Lines that could not be written to the journal; a crash would have lost them",
                self.journal.unwritten(),
            ),
            (
                "gateway_journal_unreadable",
                "Damaged places in the journals of processes that died, since the start",
                self.unreadable.load(Ordering::Relaxed),
            ),
            (
                "gateway_ledger_dropped",
                "Requests without a row in the ledger, because they called no upstream and too many rows waited for the store",
                self.journal.dropped(),
            ),
        ];
        for (name, help, value) in counters {
            let value = ConstCounter::new(value);
            value.encode(encoder.encode_descriptor(name, help, None, value.metric_type())?)?;
        }
        Ok(())
    }
}

/// Registers the metrics of the limiter's connection to Redis.
pub fn register_limiter(limiter: &Limiter, registry: &mut Registry) {
    registry.register_collector(Box::new(LimiterMetrics(limiter.clone())));
}

#[derive(Debug)]
struct LimiterMetrics(Limiter);

impl Collector for LimiterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let DeliveryFigures { waiting, lost } = self.0.delivery_figures();
        let waiting = ConstGauge::new(i64::try_from(waiting).unwrap_or(i64::MAX));
        let help = "Charges that wait for Redis";
        let name = "gateway_limits_undelivered";
        let metric = encoder.encode_descriptor(name, help, None, waiting.metric_type())?;
        waiting.encode(metric)?;
        let lost = ConstCounter::new(lost);
        let help = "Charges that Redis never got, because too many waited";
        let metric = encoder.encode_descriptor("gateway_limits_lost", help, None, lost.metric_type())?;
        lost.encode(metric)?;
        let HoldingFigures { requests: held, memory_losses: rebuilds } = self.0.holding_figures();
        let held = ConstGauge::new(i64::try_from(held).unwrap_or(i64::MAX));
        let help =
            "Requests that Redis counts in a budget or a token limit and that are not in the ledger yet";
        let metric = encoder.encode_descriptor("gateway_limits_held", help, None, held.metric_type())?;
        held.encode(metric)?;
        let rebuilds = ConstCounter::new(rebuilds);
        let help = "Times that Redis lost its memory and got this replica's reservations again";
        let name = "gateway_limits_rebuilds";
        let metric = encoder.encode_descriptor(name, help, None, rebuilds.metric_type())?;
        rebuilds.encode(metric)
    }
}
