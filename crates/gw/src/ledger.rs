//! The ledger of the running gateway: the journal of a process that died, the writer task, the purge of old rows, the metrics.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gw_command::CommandError;
use gw_config::setup::Setup;
use gw_config::{StoreSettings, paths};
use gw_engine::{Engine, Limiter};
use gw_limits::{DeliveryFigures, HoldingFigures, MAX_CHARGE_AGE, SubjectKind};
use gw_store::Store;
use gw_store::journal::{Journal, Replayed, is_in_use, quarantined_segments, replay};
use gw_wire::calendar;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::watch;
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

/// Opens the journal, after it has written the requests of a process that died to the ledger. `last_use` is the time at which
/// the store was last in use, in unix milliseconds. Requests that the retention had already purged by then are left out.
///
/// # Errors
/// Exit code 1 when the store or the data directory cannot be used.
pub async fn open(
    setup: &Setup,
    store: &Store,
    last_use: Option<i64>,
    registry: &mut Registry,
) -> Result<(Arc<Journal>, Replayed), CommandError> {
    let data = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
    let directory = data.join("journal");
    // This check comes before this process opens a journal of its own.
    if is_in_use(&directory) {
        tracing::warn!(
            data_dir = %data.display(),
            "another running gateway uses the same data directory {}: both share its keys and its request log, and without \
             [redis] each counts limits and budgets for itself. To separate them, set server.data_dir or \
             MODEL_GATEWAY_DATA_DIR of one of them to another directory",
            data.display()
        );
    }
    let retention = setup.config.store.retention_days.map(|days| i64::from(days) * DAY_MS);
    let not_before = last_use.zip(retention).map(|(last_use, age)| last_use.saturating_sub(age));
    let found = replay(&directory, store, not_before).await.map_err(CommandError::runtime)?;
    if !found.entries.is_empty() {
        tracing::info!(
            requests = found.entries.len(),
            "wrote the requests of the last process to the ledger, which it had no time for"
        );
    }
    let failed = |error| CommandError::Runtime(format!("{}: {error}", directory.display()));
    let journal = Journal::open(&directory).map_err(failed)?;
    let journal = Arc::new(journal.with_progress_tokens(setup.config.store.progress_tokens));
    let unreadable = found.damaged.iter().map(|damaged| damaged.regions).sum();
    let metrics = JournalMetrics { journal: Arc::clone(&journal), directory, unreadable };
    registry.register_collector(Box::new(metrics));
    Ok((journal, found))
}

/// Charges the requests of a process that died to the limits in Redis. If Redis has lost its memory since, or a request is too
/// old, the budgets are rebuilt from the ledger instead. Returns whether the old journal may be removed once Redis has taken everything.
///
/// # Errors
/// Exit code 1 when there is no data directory.
pub async fn charge(
    setup: &Setup,
    engine: &Engine,
    limiter: &Limiter,
    left: &Replayed,
) -> Result<bool, CommandError> {
    let data = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
    let path = data.join("journal").join("generation");
    let generations = limiter.generations();
    let is_lost = generations.as_ref().is_some_and(|generations| {
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let now = generations.borrow();
        // While Redis is away its generation is unknown. The charges wait, and Redis takes them only if it kept its memory.
        !before.is_empty() && !now.is_empty() && *before != **now
    });
    // Redis may have forgotten the reservation of such a request.
    let oldest = calendar::unix_millis().saturating_sub_unsigned(MAX_CHARGE_AGE.as_millis() as u64);
    let is_forgotten = is_lost || left.entries.iter().any(|entry| entry.cost > 0 && entry.at <= oldest);
    if !is_forgotten {
        for entry in &left.entries {
            // The key may be an identity that has not come back yet, or may have moved to another team since.
            let team = entry.team.as_deref().map(|team| (SubjectKind::Team, team));
            let counters = engine.counters_of(entry);
            let rules = counters.iter().map(|counter| (SubjectKind::Rule, counter.as_str()));
            let subjects: Vec<_> =
                [(SubjectKind::Key, &*entry.key_id)].into_iter().chain(team).chain(rules).collect();
            limiter.charge(&entry.request_id, &subjects, entry.cost, entry.at.div_euclid(1000));
        }
    } else if !left.entries.is_empty() {
        limiter.begin_new_generation();
    }
    if let Some(generations) = generations {
        tokio::spawn(keep_generation(path, generations));
    }
    // If this process dies during the rebuild, its next start must find the old journal again.
    Ok(!is_forgotten || left.entries.is_empty())
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

/// Keeps the name of Redis' current memory in a file beside the journal, so that the next start notices a loss.
async fn keep_generation(path: PathBuf, mut generations: watch::Receiver<Arc<str>>) {
    loop {
        let generation = Arc::clone(&generations.borrow_and_update());
        if !generation.is_empty()
            && let Err(error) = write_private(&path, generation.as_bytes())
        {
            // Without the file the next start rebuilds the budgets once more than necessary.
            tracing::warn!("{}: {error}", path.display());
        }
        if generations.changed().await.is_err() {
            return;
        }
    }
}

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
    /// The number of damaged places in old journals that this start could not read.
    unreadable: u64,
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
                "Damaged places in old journals that the last start could not read",
                self.unreadable,
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
