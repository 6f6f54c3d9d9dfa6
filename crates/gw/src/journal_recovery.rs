//! The journals of processes that died: their requests become rows of the ledger, and with Redis their costs count in the budgets.
//!
//! A start reads these journals before it serves. A running gateway looks for further ones, because another process of the same data
//! directory may die: after a take-over, the earlier process still has requests under way. Without Redis, each process counts its
//! own requests alone, and a start learns the others from the ledger.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gw_command::CommandError;
use gw_config::paths;
use gw_config::setup::Setup;
use gw_engine::{Engine, Limiter};
use gw_limits::{MAX_CHARGE_AGE, SubjectKind};
use gw_store::Store;
use gw_store::journal::{AbandonedSegments, Journal, Replayed, is_in_use, replay};
use gw_wire::calendar;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::clock::{DAY_MS, TrustedClock};
use crate::ledger;

/// The folder of the journals in the data directory.
const JOURNAL: &str = "journal";
/// The longest wait for Redis to take the charges of one look.
const CHARGE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two looks for journals of processes that died.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// A look leaves out a journal that changed more recently, because somebody may be copying it into the directory.
const UNCHANGED_FOR: Duration = Duration::from_secs(3);

/// The requests that a start has found in the journals of processes that died. They are in the ledger, and not charged yet.
#[derive(Debug)]
pub(crate) struct FoundAtStart {
    directory: PathBuf,
    store: Store,
    /// The age at which the ledger deletes rows, in milliseconds. None: it keeps all.
    retention_ms: Option<i64>,
    /// The number of damaged places in journals, for the metrics.
    unreadable: Arc<AtomicU64>,
    found: Replayed,
}

/// Warns if another running gateway uses this data directory. The caller asks before this process opens a journal of its own.
pub(crate) fn warn_of_another_gateway(data: &Path) {
    if is_in_use(&data.join(JOURNAL)) {
        tracing::warn!(
            data_dir = %data.display(),
            "another running gateway uses the same data directory {}: both share its keys and its request log, and without \
             [redis] each counts limits and budgets for itself. To separate them, set server.data_dir or \
             MODEL_GATEWAY_DATA_DIR of one of them to another directory",
            data.display()
        );
    }
}

/// Opens the journal of this process, after the requests of processes that died have been written to the ledger. `last_use` is the
/// time at which the store was last in use, in unix milliseconds. Requests that the retention had already purged by then are left out.
///
/// # Errors
/// Exit code 1 when the store or the data directory cannot be used.
pub(crate) async fn open(
    setup: &Setup,
    store: &Store,
    last_use: Option<i64>,
    registry: &mut Registry,
) -> Result<(Arc<Journal>, FoundAtStart), CommandError> {
    let data = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
    let directory = data.join(JOURNAL);
    let retention_ms = setup.config.store.retention_days.map(|days| i64::from(days) * DAY_MS);
    let not_before = last_use.zip(retention_ms).map(|(last_use, age)| last_use.saturating_sub(age));
    let segments = AbandonedSegments::lock_all(&directory);
    let found = replay(segments, store, not_before).await.map_err(CommandError::runtime)?;
    log(&found);
    let failed = |error| CommandError::Runtime(format!("{}: {error}", directory.display()));
    let journal = Journal::open(&directory).map_err(failed)?;
    let journal = Arc::new(journal.with_progress_tokens(setup.config.store.progress_tokens));
    let unreadable = Arc::new(AtomicU64::new(damaged_places(&found)));
    ledger::register_journal(&journal, &directory, &unreadable, registry);
    let store = store.clone();
    Ok((journal, FoundAtStart { directory, store, retention_ms, unreadable, found }))
}

fn log(found: &Replayed) {
    if !found.entries.is_empty() {
        tracing::info!(
            requests = found.entries.len(),
            "read the journal of a process that died; the ledger has all of its requests"
        );
    }
}

fn damaged_places(found: &Replayed) -> u64 {
    found.damaged.iter().map(|damaged| damaged.regions).sum()
}

impl FoundAtStart {
    /// Charges the requests to the limits, and starts the task that looks for further ones.
    pub(crate) async fn charge(self, engine: &Arc<Engine>, limiter: &Limiter, clock: &Arc<TrustedClock>) {
        let Self { directory, store, retention_ms, unreadable, found } = self;
        let path = directory.join("generation");
        let generations = limiter.generations();
        let is_lost = generations.as_ref().is_some_and(|generations| {
            let before = std::fs::read_to_string(&path).unwrap_or_default();
            let now = generations.borrow();
            // While Redis is away its generation is unknown. The charges wait, and Redis takes them only if it kept its memory.
            !before.is_empty() && !now.is_empty() && *before != **now
        });
        let mut recovery = JournalRecovery {
            directory,
            store,
            retention_ms,
            unreadable,
            engine: Arc::clone(engine),
            limiter: limiter.clone(),
            clock: Arc::clone(clock),
            charged: Vec::new(),
            kept: Vec::new(),
            generation_before: None,
            is_failing: false,
        };
        recovery.charge(found, is_lost).await;
        if let Some(generations) = generations {
            tokio::spawn(keep_generation(path, generations));
        }
        tokio::spawn(recovery.run());
    }
}

/// Recovers the requests of processes that die in this data directory.
struct JournalRecovery {
    directory: PathBuf,
    store: Store,
    retention_ms: Option<i64>,
    unreadable: Arc<AtomicU64>,
    engine: Arc<Engine>,
    limiter: Limiter,
    clock: Arc<TrustedClock>,
    /// Journals that go as soon as Redis has taken all charges.
    charged: Vec<Replayed>,
    /// Journals that stay until Redis has a new generation, because this process may die during the rebuild of the budgets, and those
    /// that cannot be removed. They stay locked, so that no look reads them again.
    kept: Vec<Replayed>,
    /// The generation of Redis before the rebuild that was asked for.
    generation_before: Option<Arc<str>>,
    /// The last look failed, and the log says so.
    is_failing: bool,
}

impl JournalRecovery {
    async fn run(mut self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            match self.look().await {
                Ok(()) => self.is_failing = false,
                // The next look finds the journals again.
                Err(error) if !std::mem::replace(&mut self.is_failing, true) => {
                    tracing::warn!(
                        "the journal of a process that died cannot be written to the ledger yet: {error}"
                    );
                }
                Err(_) => {}
            }
        }
    }

    /// Looks once for journals of processes that died.
    async fn look(&mut self) -> gw_store::Result<()> {
        self.remove_charged();
        self.remove_rebuilt();
        let segments = AbandonedSegments::lock_unchanged(&self.directory, UNCHANGED_FOR);
        if segments.is_empty() {
            return Ok(());
        }
        let not_before = match (self.retention_ms, self.clock.now().await?) {
            (None, _) => None,
            (Some(age), Some(now)) => Some(now.saturating_sub(age)),
            // The ledger may have deleted these requests, and nobody knows.
            (Some(_), None) => return Ok(()),
        };
        let (store, runtime) = (self.store.clone(), Handle::current());
        // A long journal takes long to read.
        let replaying = move || runtime.block_on(replay(segments, &store, not_before));
        let replayed = tokio::task::spawn_blocking(replaying).await;
        let Ok(found) = replayed.inspect_err(|error| tracing::error!("a journal cannot be read: {error}"))
        else {
            return Ok(());
        };
        let found = found?;
        log(&found);
        self.unreadable.fetch_add(damaged_places(&found), Ordering::Relaxed);
        if self.limiter.generations().is_some() {
            // This process has noticed each loss of Redis' memory, so the budgets are right but for these requests.
            self.charge(found, false).await;
        } else {
            self.remove(found);
        }
        Ok(())
    }

    /// Charges requests to the limits. If Redis has lost its memory since they began (`is_lost`), or one of them is too old, the budgets
    /// are rebuilt from the ledger instead.
    async fn charge(&mut self, mut found: Replayed, is_lost: bool) {
        let entries = std::mem::take(&mut found.entries);
        // Redis may have forgotten the reservation of such a request.
        let oldest = calendar::unix_millis().saturating_sub_unsigned(MAX_CHARGE_AGE.as_millis() as u64);
        let is_forgotten = is_lost || entries.iter().any(|entry| entry.cost > 0 && entry.at <= oldest);
        if let Some(generations) = self.limiter.generations().filter(|_| is_forgotten && !entries.is_empty())
        {
            self.generation_before = Some(Arc::clone(&generations.borrow()));
            self.limiter.begin_new_generation();
            self.kept.push(found);
            return;
        }
        for entry in &entries {
            // The key may be an identity that has not come back yet, or may have moved to another team since.
            let team = entry.team.as_deref().map(|team| (SubjectKind::Team, team));
            let counters = self.engine.counters_of(entry);
            let rules = counters.iter().map(|counter| (SubjectKind::Rule, counter.as_str()));
            let subjects: Vec<_> =
                [(SubjectKind::Key, &*entry.key_id)].into_iter().chain(team).chain(rules).collect();
            self.limiter.charge(&entry.request_id, &subjects, entry.cost, entry.at.div_euclid(1000));
        }
        self.charged.push(found);
        self.limiter.drain(CHARGE_TIMEOUT).await;
        self.remove_charged();
    }

    fn remove_charged(&mut self) {
        if !self.charged.is_empty() && self.limiter.delivery_figures().waiting == 0 {
            std::mem::take(&mut self.charged).into_iter().for_each(|charged| self.remove(charged));
        }
    }

    /// Removes the journals of a rebuild that Redis has begun: from now on the budgets come from the ledger, whoever dies.
    fn remove_rebuilt(&mut self) {
        let Some((before, generations)) = self.generation_before.as_ref().zip(self.limiter.generations())
        else {
            return;
        };
        let is_new = {
            let now = generations.borrow();
            !now.is_empty() && **now != **before
        };
        if is_new {
            self.generation_before = None;
            std::mem::take(&mut self.kept).into_iter().for_each(|rebuilt| self.remove(rebuilt));
        }
    }

    /// Removes the files of a journal. Those that cannot be removed stay locked.
    fn remove(&mut self, mut journal: Replayed) {
        if !journal.remove_segments() {
            journal.entries = Vec::new();
            self.kept.push(journal);
        }
    }
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
