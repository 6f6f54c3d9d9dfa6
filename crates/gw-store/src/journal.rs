//! The journal: a file beside the store that records a request before its upstream is called, and its outcome before its
//! answer ends. A task writes the outcomes to the ledger in batches. If the process is killed, the next process replays
//! the journal.
//!
//! A line is appended with one `write` and then belongs to the operating system, so it survives a killed process. (A power
//! failure may lose the last seconds.) Lines go to segments. A segment is deleted once the ledger holds all of its
//! requests. A lock on each segment distinguishes segments of running processes from abandoned ones.
//!
//! A line is a letter and an entry: `B` when a request begins, `P` for its usage so far, `E` for its outcome. Each line
//! holds the whole entry, so one intact line is enough.

mod follower;
mod replay;
mod salvage;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use self::follower::Followers;
use crate::Store;
use crate::ledger::{BegunLine, Entry, Line};
use crate::private;

/// A segment of this size is replaced by a new one.
const SEGMENT_BYTES: u64 = 4 << 20;
/// A segment of this age is replaced by a new one. An entry must not stay in a segment until the ledger has deleted it,
/// because [`replay()`] would then take it for a new one.
const SEGMENT_AGE: Duration = Duration::from_secs(3600);
/// Maximum number of outcomes that wait for the store in memory. Beyond it no request begins: see [`Journal::is_full`].
const MAX_PENDING: usize = 200_000;
/// Rows per transaction.
const BATCH: usize = 4_000;
/// How long outcomes are collected before they are written. They are safe in the journal meanwhile.
const GATHER: Duration = Duration::from_millis(100);
/// The longest pause between two attempts while the store is unavailable.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Default number of tokens between two progress lines of a request.
const PROGRESS_TOKENS: u64 = 256;

/// Status of a request that was in flight when its process ended.
pub const INTERRUPTED: &str = "interrupted";

/// The journal of one process.
///
/// Its memory is bounded while the store is unavailable. Once [`Journal::is_full`], no request begins, and an outcome
/// without a begin (a request refused before any upstream) is dropped and counted by [`Journal::dropped`]. Only the
/// requests already in flight and the batch being written come on top.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    active: Mutex<Arc<Segment>>,
    pending: Mutex<VecDeque<PendingOutcome>>,
    /// When the oldest outcome of the batch under way ended; None = no batch is being written.
    oldest_in_batch: Mutex<Option<Instant>>,
    wake: Notify,
    segments: AtomicU64,
    /// Maximum number of pending outcomes.
    max_pending: usize,
    /// Maximum age of a segment.
    max_age: Duration,
    /// See [`Journal::progress_tokens`].
    progress_tokens: u64,
    /// Number of dropped outcomes.
    dropped: AtomicU64,
    /// Number of lines that could not be written.
    unwritten: AtomicU64,
    /// Outcomes that neither the ledger nor the journal has.
    only_in_memory: AtomicU64,
    /// Number of outcomes so far, and of those that are in the ledger.
    ended: AtomicU64,
    written: watch::Sender<u64>,
    closing: AtomicBool,
    /// Ends the pause between two attempts early.
    stop: Notify,
    followers: Followers,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: File,
    made: Instant,
    bytes: AtomicU64,
    /// Number of lines whose request is not in the ledger yet.
    open: AtomicU64,
}

impl Drop for Segment {
    /// Deletes a segment whose requests are all in the ledger. Any other segment stays for the next process, so stopping
    /// while the store is unavailable loses nothing.
    fn drop(&mut self) {
        if *self.open.get_mut() == 0 {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A request that has begun. It keeps the segments with its lines until its outcome is in the ledger. Without lines (a full
/// disk) the request is known only in memory.
#[derive(Debug)]
pub struct OpenRequest {
    begun: Option<Arc<Segment>>,
    /// The segment of the newest progress line.
    progress: Option<Arc<Segment>>,
    /// The first line, for the last one.
    line: BegunLine,
}

/// No request may begin: too many outcomes wait for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many outcomes wait for the store")]
pub struct JournalFull;

#[derive(Debug)]
struct PendingOutcome {
    line: Line,
    backing: Backing,
}

/// The part of an outcome that the journal keeps until the ledger has the outcome.
#[derive(Debug)]
struct Backing {
    /// The segments with the lines of the request.
    segments: [Option<Arc<Segment>>; 3],
    /// When the request ended.
    ended: Instant,
}

pub use follower::{Followed, RequestFollower};
/// Replay of abandoned segments.
pub use replay::{
    AbandonedSegments, DamagedSegment, Replayed, is_in_use, quarantined_segments, replay, segment_files,
};

impl Journal {
    /// A journal in this directory, which is created if it is missing.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Self::open_with(directory, MAX_PENDING, SEGMENT_AGE)
    }

    fn open_with(directory: &Path, max_pending: usize, max_age: Duration) -> io::Result<Self> {
        private::directory(directory)?;
        // An older version may have left segments that others can read.
        let segments = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
        segments.filter(|path| is_segment(path)).for_each(|path| private::tighten(&path));
        let segments = AtomicU64::new(0);
        let first = Arc::new(Segment::make(directory, segments.fetch_add(1, Ordering::Relaxed))?);
        Ok(Self {
            directory: directory.to_owned(),
            active: Mutex::new(first),
            pending: Mutex::default(),
            oldest_in_batch: Mutex::default(),
            wake: Notify::new(),
            segments,
            max_pending,
            max_age,
            progress_tokens: PROGRESS_TOKENS,
            dropped: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            only_in_memory: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            written: watch::Sender::new(0),
            closing: AtomicBool::new(false),
            stop: Notify::new(),
            followers: Followers::default(),
        })
    }

    /// Records that a request is about to be sent upstream. `entry` becomes its row if the process ends before the request.
    ///
    /// # Errors
    /// If too many outcomes wait for the store, so that the request must not be sent.
    pub fn begin(&self, entry: &Entry) -> Result<OpenRequest, JournalFull> {
        if self.is_full() {
            return Err(JournalFull);
        }
        let line = Line::begun(entry);
        Ok(OpenRequest { begun: self.try_append(line.journal_line()), progress: None, line })
    }

    /// Records the usage of a request so far. `entry` becomes its row if the process ends before the request. Each progress
    /// line replaces the previous one.
    pub fn progress(&self, begun: &mut OpenRequest, entry: &Entry) {
        // If the line cannot be written, the previous one stays valid.
        let Some(segment) = self.try_append(&Line::progress(entry)) else { return };
        if let Some(before) = begun.progress.replace(segment) {
            before.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sets the number of tokens between two progress lines.
    #[must_use]
    pub fn with_progress_tokens(self, progress_tokens: u64) -> Self {
        Self { progress_tokens, ..self }
    }

    /// The number of tokens of a stream between two calls of [`Journal::progress`].
    #[must_use]
    pub fn progress_tokens(&self) -> u64 {
        self.progress_tokens
    }

    /// Records the outcome of a request. On return the outcome survives the process, and the ledger gets it soon after. An
    /// outcome without a begin is dropped while the journal is full.
    pub fn finish(&self, begun: Option<OpenRequest>, entry: Entry) {
        if begun.is_none() && self.is_full() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.followers.tell(&entry);
        let line = Line::after(begun.as_ref().map(|begun| &begun.line), entry);
        // If the line cannot be written, the outcome still reaches the ledger from memory.
        let ended = self.try_append(line.journal_line());
        let (begun, progress) = begun.map_or((None, None), |begun| (begun.begun, begun.progress));
        if ended.is_none() {
            self.only_in_memory.fetch_add(1, Ordering::AcqRel);
        }
        let backing = Backing { segments: [begun, progress, ended], ended: Instant::now() };
        let mut pending = self.pending.lock();
        pending.push_back(PendingOutcome { line, backing });
        // Counted under the lock, so that every counted outcome is pending.
        self.ended.fetch_add(1, Ordering::Release);
        drop(pending);
        self.wake.notify_one();
    }

    /// Reads the outcomes that end from now on.
    pub fn follow(&self) -> RequestFollower {
        self.followers.follow()
    }

    /// Whether too many outcomes wait for the store, so that no request may begin.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.pending.lock().len() >= self.max_pending
    }

    /// Number of outcomes that are not in the ledger yet, including those being written.
    #[must_use]
    pub fn pending(&self) -> u64 {
        // In this order, because a written outcome has ended before.
        let written = *self.written.borrow();
        self.ended.load(Ordering::Acquire).saturating_sub(written)
    }

    /// The age of the oldest outcome that is not in the ledger yet; zero if all are.
    #[must_use]
    pub fn lag(&self) -> Duration {
        // The locks are taken together, as in `next_batch`, so that no outcome is seen in neither place.
        let pending = self.pending.lock();
        let in_batch = *self.oldest_in_batch.lock();
        let oldest = in_batch.or_else(|| pending.front().map(|outcome| outcome.backing.ended));
        oldest.map_or(Duration::ZERO, |ended| ended.elapsed())
    }

    /// Waits until every request that has ended by now is in the ledger; false if that takes longer than `at_most`.
    pub async fn wait_until_written(&self, at_most: Duration) -> bool {
        let wanted = self.ended.load(Ordering::Acquire);
        let written = async {
            let mut seen = self.written.subscribe();
            seen.wait_for(|written| *written >= wanted).await.is_ok()
        };
        tokio::time::timeout(at_most, written).await.unwrap_or(false)
    }

    /// Number of lines that could not be written since the start (a full disk). A crash would lose them.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Number of dropped outcomes since the start: requests that never began while too many outcomes waited for the store.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// As [`Journal::run_with`], without other components.
    pub async fn run(&self, store: &Store) {
        self.run_with(store, |_| std::future::ready(())).await;
    }

    /// Writes outcomes to the ledger until [`Journal::close`] was called and none is left. Call it from one task. After each
    /// batch it calls `others_know` with the request ids; the lines of the batch are kept until that future is done.
    pub async fn run_with<F: Future<Output = ()>>(
        &self,
        store: &Store,
        others_know: impl Fn(&mut dyn Iterator<Item = &str>) -> F,
    ) {
        let mut pause = GATHER;
        let mut away: Option<String> = None;
        loop {
            let (lines, backing) = self.next_batch();
            if lines.is_empty() {
                if self.closing.load(Ordering::Acquire) {
                    return;
                }
                // Without new outcomes nothing else replaces an old segment.
                let _ = tokio::time::timeout(self.max_age, self.wake.notified()).await;
                self.leave_old();
                self.gather().await;
                continue;
            }
            let is_all = lines.len() < BATCH;
            match store.record_lines(&lines).await {
                Ok(()) => {
                    pause = GATHER;
                    others_know(&mut lines.iter().map(|line| &*line.request_id)).await;
                    settle(&backing);
                    let unwritten = backing.iter().filter(|backing| matches!(backing.segments, [.., None]));
                    self.only_in_memory.fetch_sub(unwritten.count() as u64, Ordering::AcqRel);
                    *self.oldest_in_batch.lock() = None;
                    self.written.send_modify(|written| *written += lines.len() as u64);
                    if away.take().is_some() {
                        tracing::info!(waiting = self.pending(), "the ledger can be written again");
                    }
                    // A transaction's cost depends on its pages, so a few large transactions are cheaper than many small ones.
                    if is_all {
                        self.gather().await;
                    }
                }
                Err(error) => {
                    // Logged once per reason, however often the write is tried again.
                    let reason = error.to_string();
                    if away.as_ref() != Some(&reason) {
                        let waiting = self.pending();
                        tracing::warn!(waiting, "the ledger cannot be written; its rows wait: {reason}");
                        away = Some(reason);
                    }
                    self.put_back(lines, backing);
                    if !self.closing.load(Ordering::Acquire) {
                        let _ = tokio::time::timeout(pause, self.stop.notified()).await;
                        pause = (pause * 2).min(MAX_PAUSE);
                    } else if self.only_in_memory() == 0 {
                        // The lines stay for the next process.
                        return;
                    } else {
                        tokio::time::sleep(GATHER).await;
                    }
                }
            }
        }
    }

    /// Waits for more outcomes unless the journal is closing.
    async fn gather(&self) {
        if !self.closing.load(Ordering::Acquire) {
            let _ = tokio::time::timeout(GATHER, self.stop.notified()).await;
        }
    }

    /// Announces that no more outcomes will come: [`Journal::run`] ends once all are in the ledger.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
        self.stop.notify_one();
    }

    /// The number of outcomes that neither the ledger nor the journal has. They are lost when the process ends.
    pub fn only_in_memory(&self) -> u64 {
        self.only_in_memory.load(Ordering::Acquire)
    }

    fn next_batch(&self) -> (Vec<Line>, Vec<Backing>) {
        let mut pending = self.pending.lock();
        let count = pending.len().min(BATCH);
        *self.oldest_in_batch.lock() = pending.front().map(|outcome| outcome.backing.ended);
        pending.drain(..count).map(|PendingOutcome { line, backing }| (line, backing)).unzip()
    }

    fn put_back(&self, lines: Vec<Line>, backing: Vec<Backing>) {
        let mut pending = self.pending.lock();
        let batch = lines.into_iter().zip(backing);
        batch.rev().for_each(|(line, backing)| pending.push_front(PendingOutcome { line, backing }));
        *self.oldest_in_batch.lock() = None;
    }

    /// Counts and logs a line that could not be written. Its request continues without the line.
    fn missed(&self, error: &io::Error) {
        // The first and every thousandth failure is logged, so that the log does not fill a full disk further.
        if self.unwritten.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000) {
            tracing::warn!("the journal cannot be written; requests are only kept in memory: {error}");
        }
    }

    /// Appends a line and returns its segment; `None` if the line could not be written.
    fn try_append(&self, line: &str) -> Option<Arc<Segment>> {
        self.append(line).map_err(|error| self.missed(&error)).ok()
    }

    fn append(&self, line: &str) -> io::Result<Arc<Segment>> {
        let segment = Arc::clone(&self.active.lock());
        // One `write` per line, so that lines of other threads never end up inside it.
        if (&segment.file).write(line.as_bytes())? != line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        segment.open.fetch_add(1, Ordering::Relaxed);
        let bytes = segment.bytes.fetch_add(line.len() as u64, Ordering::Relaxed) + line.len() as u64;
        if bytes > SEGMENT_BYTES || segment.made.elapsed() >= self.max_age {
            self.next_segment(&segment);
        }
        Ok(segment)
    }

    /// Replaces the active segment if it is old and not empty.
    fn leave_old(&self) {
        let segment = Arc::clone(&self.active.lock());
        if segment.bytes.load(Ordering::Relaxed) > 0 && segment.made.elapsed() >= self.max_age {
            self.next_segment(&segment);
        }
    }

    /// Replaces a full or old segment unless another thread already has.
    fn next_segment(&self, full: &Arc<Segment>) {
        let mut active = self.active.lock();
        if !Arc::ptr_eq(&active, full) {
            return;
        }
        match Segment::make(&self.directory, self.segments.fetch_add(1, Ordering::Relaxed)) {
            Ok(next) => *active = Arc::new(next),
            Err(error) => tracing::warn!("cannot begin a new journal segment; the old one goes on: {error}"),
        }
    }
}

/// Whether a file in the journal's directory is a segment.
fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "journal")
}

/// Marks lines as written to the ledger.
fn settle(backing: &[Backing]) {
    for segment in backing.iter().flat_map(|backing| &backing.segments).flatten() {
        segment.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Segment {
    fn make(directory: &Path, number: u64) -> io::Result<Self> {
        let path = directory.join(format!("{}-{number}.journal", uuid::Uuid::now_v7()));
        // Under its own name, a process that recovers journals could lock it first.
        let draft = path.with_extension("new");
        let file = private::new_file().append(true).open(&draft)?;
        file.try_lock().map_err(io::Error::from)?;
        fs::rename(&draft, &path)?;
        Ok(Self { path, file, made: Instant::now(), bytes: AtomicU64::new(0), open: AtomicU64::new(0) })
    }
}

#[cfg(test)]
mod tests;
