//! The ledger beside the running gateway: what a dead process left, the one writer, old rows, and its figures.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gw_engine::{Engine, Limiter};
use gw_store::Store;
use gw_store::journal::{Journal, Replayed, is_in_use, replay};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cli::Stop;
use crate::places;
use crate::setup::Setup;

/// The end of the program waits so long for the last rows.
const LAST_ROWS: Duration = Duration::from_secs(5);
/// Lines are kept so long for a Redis that does not answer.
const UNTIL_TOLD: Duration = Duration::from_secs(1);
/// Old rows are looked for so often.
pub(crate) const SWEEP: Duration = Duration::from_secs(3600);
/// Old rows that are forgotten in one transaction: it must not hold up the writer.
const PORTION: u32 = 2_000;
/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// The journal beside the store, and what a process that died had left in it: that is in the ledger now.
///
/// # Errors
/// The store's or the directory's, for an operator.
pub async fn open(
    setup: &Setup,
    store: &Store,
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
    let not_before = setup.config.store.retention_days.map(|days| ago(i64::from(days) * DAY_MS));
    let found =
        replay(&directory, store, not_before).await.map_err(|error| Stop::Runtime(error.to_string()))?;
    if !found.entries.is_empty() {
        tracing::info!(
            requests = found.entries.len(),
            "brought into the ledger what the last process had no time for"
        );
    }
    let opened = Journal::open(&directory);
    let failed = |error| Stop::Runtime(format!("{}: {error}", directory.display()));
    let journal = opened.map(Arc::new).map_err(failed)?;
    registry.register_collector(Box::new(Figures(Arc::clone(&journal))));
    Ok((journal, found))
}

/// Tells Redis of what a process that died had under way. Where Redis has lost its memory since, it cannot know what of
/// that it has counted: the ledger knows.
///
/// # Errors
/// There is no directory for data.
pub async fn charge(setup: &Setup, engine: &Engine, limiter: &Limiter, left: &Replayed) -> Result<(), Stop> {
    let data = places::data_dir(setup.config.data_dir.as_deref()).map_err(Stop::Runtime)?;
    let path = data.join("journal").join("generation");
    let generations = limiter.generations();
    let is_lost = generations.as_ref().is_some_and(|generations| {
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        !before.is_empty() && *before != **generations.borrow()
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
    Ok(())
}

/// Notes beside the journal what the memory of Redis was called that knows of its lines.
async fn keep_generation(path: PathBuf, mut generations: watch::Receiver<Arc<str>>) {
    loop {
        let generation = Arc::clone(&generations.borrow_and_update());
        if !generation.is_empty()
            && let Err(error) = std::fs::write(&path, generation.as_bytes())
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
    pub fn start(journal: Arc<Journal>, store: Store, limiter: Limiter, retention_days: Option<u32>) -> Self {
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
            tokio::spawn(forget_old(store.clone(), i64::from(days) * DAY_MS));
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

/// The time so many milliseconds ago, unix milliseconds.
pub(crate) fn ago(age_ms: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(age_ms)
}

async fn forget_old(store: Store, age_ms: i64) {
    loop {
        match store.forget(ago(age_ms), PORTION).await {
            Ok(gone) if gone == u64::from(PORTION) => continue,
            Ok(0) => {}
            Ok(gone) => {
                tracing::info!(rows = gone, "the last of the old requests are forgotten; their sums stay")
            }
            Err(error) => tracing::warn!("old requests cannot be forgotten now: {error}"),
        }
        tokio::time::sleep(SWEEP).await;
    }
}

/// What metrics say of the journal.
#[derive(Debug)]
struct Figures(Arc<Journal>);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let waiting = ConstGauge::new(i64::try_from(self.0.waiting()).unwrap_or(i64::MAX));
        let help = "Requests that are over and not in the ledger yet";
        let metric =
            encoder.encode_descriptor("gateway_ledger_waiting", help, None, waiting.metric_type())?;
        waiting.encode(metric)?;
        let unwritten = ConstCounter::new(self.0.unwritten());
        let help = "Lines that could not be written to the journal, so that a crash would have lost them";
        let name = "gateway_journal_unwritten";
        let metric = encoder.encode_descriptor(name, help, None, unwritten.metric_type())?;
        unwritten.encode(metric)?;
        let dropped = ConstCounter::new(self.0.dropped());
        let help =
            "Requests without a row: refused before any upstream while too many rows waited for the store";
        let name = "gateway_ledger_dropped";
        let metric = encoder.encode_descriptor(name, help, None, dropped.metric_type())?;
        dropped.encode(metric)
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
