//! The ledger beside the running gateway: what a dead process left, the one writer, old rows, and its figures.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gw_engine::{Engine, Limiter};
use gw_store::Store;
use gw_store::journal::{Journal, Replayed, is_in_use, quarantined_segments, replay};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cli::Stop;
use crate::clock::{DAY_MS, Trusted};
use crate::places;
use crate::setup::Setup;

/// The end of the program waits so long for the last rows.
const LAST_ROWS: Duration = Duration::from_secs(5);
/// Lines are kept so long for a Redis that does not answer.
const UNTIL_TOLD: Duration = Duration::from_secs(1);
/// Old rows that are forgotten in one transaction: it must not hold up the writer.
const PORTION: u32 = 2_000;
/// What is forgotten at one time is at most this part of the log: a mistake is noticed before all is gone.
const PART: u64 = 10;

/// The journal beside the store, and what a process that died had left in it: that is in the ledger now. `last_use`: when
/// the store was in use before; what was older than rows are kept then, it may have forgotten.
///
/// # Errors
/// The store's or the directory's, for an operator.
pub async fn open(
    setup: &Setup,
    store: &Store,
    last_use: Option<i64>,
    registry: &mut Registry,
) -> Result<(Arc<Journal>, Replayed), Stop> {
    let data = places::data_dir(setup.config.data_dir.as_deref()).map_err(Stop::Runtime)?;
    let directory = data.join("journal");
    // Looked at before our own journal is there.
    if is_in_use(&directory) {
        tracing::warn!(
            data_dir = %data.display(),
            "another running gateway uses the same data directory {}: both share its keys and its request log, and without \
             [redis] each counts limits and budgets for itself. To keep them apart, give one of them another directory with \
             server.data_dir or MODEL_GATEWAY_DATA_DIR",
            data.display()
        );
    }
    let retention = setup.config.store.retention_days.map(|days| i64::from(days) * DAY_MS);
    let not_before = last_use.zip(retention).map(|(last_use, age)| last_use.saturating_sub(age));
    let found =
        replay(&directory, store, not_before).await.map_err(|error| Stop::Runtime(error.to_string()))?;
    if !found.entries.is_empty() {
        tracing::info!(
            requests = found.entries.len(),
            "brought into the ledger what the last process had no time for"
        );
    }
    let failed = |error| Stop::Runtime(format!("{}: {error}", directory.display()));
    let journal = Journal::open(&directory).map_err(failed)?;
    let journal = Arc::new(journal.with_progress_tokens(setup.config.store.progress_tokens));
    let unreadable = found.damaged.iter().map(|damaged| damaged.regions).sum();
    let figures = Figures { journal: Arc::clone(&journal), directory, unreadable };
    registry.register_collector(Box::new(figures));
    Ok((journal, found))
}

/// Tells Redis of what a process that died had under way. Where Redis has lost its memory since, it cannot know what of
/// that it has counted: the ledger knows. True: Redis has been told, or hears it in its turn; what was left may be forgotten then.
///
/// # Errors
/// There is no directory for data.
pub async fn charge(
    setup: &Setup,
    engine: &Engine,
    limiter: &Limiter,
    left: &Replayed,
) -> Result<bool, Stop> {
    let data = places::data_dir(setup.config.data_dir.as_deref()).map_err(Stop::Runtime)?;
    let path = data.join("journal").join("generation");
    let generations = limiter.generations();
    let is_lost = generations.as_ref().is_some_and(|generations| {
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let now = generations.borrow();
        // Of a Redis that is away nobody knows: what it is told then waits, and it takes it only if it has kept its memory.
        !before.is_empty() && !now.is_empty() && *before != **now
    });
    if !is_lost {
        for entry in &left.entries {
            engine.charge(&entry.key_id, &entry.request_id, entry.cost, entry.at).await;
        }
    } else if !left.entries.is_empty() {
        limiter.begin_anew();
    }
    if let Some(generations) = generations {
        tokio::spawn(keep_generation(path, generations));
    }
    // A process that dies before everyone has told again must find it at its next start.
    Ok(!is_lost || left.entries.is_empty())
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

/// Notes beside the journal what the memory of Redis was called that knows of its lines.
async fn keep_generation(path: PathBuf, mut generations: watch::Receiver<Arc<str>>) {
    loop {
        let generation = Arc::clone(&generations.borrow_and_update());
        if !generation.is_empty()
            && let Err(error) = write_private(&path, generation.as_bytes())
        {
            // The next start asks the ledger once more than it has to.
            tracing::warn!("{}: {error}", path.display());
        }
        if generations.changed().await.is_err() {
            return;
        }
    }
}

/// The tasks that keep the ledger.
#[derive(Debug)]
pub struct Ledger {
    journal: Arc<Journal>,
    store: Store,
    writer: JoinHandle<()>,
}

impl Ledger {
    /// Starts the writer, and the broom when rows are not kept for ever.
    #[must_use]
    pub fn start(
        journal: Arc<Journal>,
        store: Store,
        limiter: Limiter,
        clock: Arc<Trusted>,
        retention_days: Option<u32>,
    ) -> Self {
        let writer = tokio::spawn({
            let (journal, store) = (Arc::clone(&journal), store.clone());
            // What Redis has not heard of yet must be in the journal: a replica that is killed now could not say it again.
            async move {
                let others_know = |ids: &mut dyn Iterator<Item = &str>| {
                    limiter.written(ids);
                    limiter.drain(UNTIL_TOLD)
                };
                journal.run_with(&store, others_know).await;
            }
        });
        if let Some(days) = retention_days {
            tokio::spawn(forget_old(store.clone(), clock, i64::from(days) * DAY_MS));
        }
        Self { journal, store, writer }
    }

    /// Writes what is left and closes the store. What cannot be written now is read again by the next start.
    pub async fn close(self) {
        self.journal.close();
        let _ = tokio::time::timeout(LAST_ROWS, self.writer).await;
        self.store.close().await;
    }
}

async fn forget_old(store: Store, clock: Arc<Trusted>, age_ms: i64) {
    loop {
        match sweep(&store, &clock, age_ms).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(rows = gone, "old requests are forgotten; their sums stay"),
            Err(error) => tracing::warn!("old requests cannot be forgotten now: {error}"),
        }
        clock.next_sweep().await;
    }
}

/// Forgets old rows, a tenth of the log at most, the oldest first; says how many.
async fn sweep(store: &Store, clock: &Trusted, age_ms: i64) -> gw_store::Result<u64> {
    let Some(now) = clock.look().await? else { return Ok(0) };
    let before = now.saturating_sub(age_ms);
    let mut left = store.requests_in_log().await?.div_ceil(PART);
    let mut gone = 0;
    while left > 0 {
        let portion = u32::try_from(left).unwrap_or(PORTION).min(PORTION);
        let count = store.purge(before, portion).await?;
        gone += count;
        left = left.saturating_sub(count);
        if count < u64::from(portion) {
            break;
        }
    }
    Ok(gone)
}

/// What metrics say of the journal.
#[derive(Debug)]
struct Figures {
    journal: Arc<Journal>,
    directory: PathBuf,
    /// Places of damaged journals that this start could not read.
    unreadable: u64,
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let gauges = [
            (
                "gateway_ledger_waiting",
                "Requests that are over and not in the ledger yet",
                self.journal.pending(),
            ),
            (
                "gateway_journal_set_aside",
                "Damaged journals that are kept beside the store for people to look at",
                quarantined_segments(&self.directory) as u64,
            ),
        ];
        for (name, help, value) in gauges {
            let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            value.encode(encoder.encode_descriptor(name, help, None, value.metric_type())?)?;
        }
        let counters = [
            (
                "gateway_journal_unwritten",
                "Lines that could not be written to the journal, so that a crash would have lost them",
                self.journal.unwritten(),
            ),
            (
                "gateway_journal_unreadable",
                "Places of damaged journals that the last start could not read",
                self.unreadable,
            ),
            (
                "gateway_ledger_dropped",
                "Requests without a row: refused before any upstream while too many rows waited for the store",
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

/// Has metrics say what the limiter has not been able to tell Redis.
pub fn show(limiter: &Limiter, registry: &mut Registry) {
    registry.register_collector(Box::new(Undelivered(limiter.clone())));
}

#[derive(Debug)]
struct Undelivered(Limiter);

impl Collector for Undelivered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (waiting, lost) = self.0.undelivered();
        let waiting = ConstGauge::new(i64::try_from(waiting).unwrap_or(i64::MAX));
        let help = "Settlements that wait for Redis";
        let name = "gateway_limits_undelivered";
        let metric = encoder.encode_descriptor(name, help, None, waiting.metric_type())?;
        waiting.encode(metric)?;
        let lost = ConstCounter::new(lost);
        let help = "Settlements that Redis was never told, because too many waited";
        let metric = encoder.encode_descriptor("gateway_limits_lost", help, None, lost.metric_type())?;
        lost.encode(metric)?;
        let (held, rebuilds) = self.0.held();
        let held = ConstGauge::new(i64::try_from(held).unwrap_or(i64::MAX));
        let help = "Requests that a budget or a limit of tokens in Redis counts and the ledger does not yet";
        let metric = encoder.encode_descriptor("gateway_limits_held", help, None, held.metric_type())?;
        held.encode(metric)?;
        let rebuilds = ConstCounter::new(rebuilds);
        let help = "How often Redis has lost its memory, and was told again what this replica holds";
        let name = "gateway_limits_rebuilds";
        let metric = encoder.encode_descriptor(name, help, None, rebuilds.metric_type())?;
        rebuilds.encode(metric)
    }
}
