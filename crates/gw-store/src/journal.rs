//! The journal: a file beside the store that knows of a request before its upstream is called and of its outcome before
//! its answer ends. The ledger is written from it in batches; when the process is killed, the next one reads it again.
//!
//! A line is appended with one `write`: it then belongs to the operating system, which a killed process does not take
//! with it. (A machine that loses power may lose the last seconds.) Lines go to segments; a segment is deleted once all
//! that it tells is in the ledger. A lock on each segment tells a living process's from those of a dead one.
//!
//! A line is a letter and an entry: `B` when a request begins, `P` what it has used so far, `E` its outcome. Each tells the
//! whole entry, so that one is enough when others are damaged.

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

use crate::Store;
use crate::ledger::{Entry, Line};
use crate::private;

/// A segment is left for a new one when it has grown to this.
const SEGMENT_BYTES: u64 = 4 << 20;
/// Or when it is as old as this: what is in the ledger must not lie here until the ledger has forgotten it, because it
/// would look new to [`replay()`] then.
const SEGMENT_AGE: Duration = Duration::from_secs(3600);
/// Outcomes that wait for the store in memory. Beyond it nothing new is accepted: see [`Journal::is_full`].
const MOST_WAITING: usize = 200_000;
/// Rows of one transaction.
const BATCH: usize = 4_000;
/// How long outcomes are gathered before they are written. They are in the journal already: nothing is at risk meanwhile.
const GATHER: Duration = Duration::from_millis(100);
/// Between two tries while the store is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Tokens between two notes of what a request has used so far, when nobody says otherwise.
const PROGRESS_TOKENS: u64 = 256;

/// Status of a request that was under way when its process died.
pub const INTERRUPTED: &str = "interrupted";

/// The journal of one process.
///
/// What it keeps in memory while the store is away is bounded: once [`Journal::is_full`], nothing begins any more, and an
/// outcome that never began (a request refused before any upstream) is dropped, which [`Journal::dropped`] counts. Only
/// what had begun before still comes on top, at most the requests under way, and the batch that is being tried.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    active: Mutex<Arc<Segment>>,
    waiting: Mutex<VecDeque<Waiting>>,
    wake: Notify,
    segments: AtomicU64,
    /// Outcomes beyond which nothing new begins.
    most: usize,
    /// A segment as old as this is left.
    oldest: Duration,
    /// See [`Journal::progress_tokens`].
    progress_tokens: u64,
    /// Outcomes that were not kept.
    dropped: AtomicU64,
    /// Lines that could not be written.
    unwritten: AtomicU64,
    /// Outcomes so far, and how many of them are in the ledger.
    ended: AtomicU64,
    written: watch::Sender<u64>,
    closing: AtomicBool,
    /// Cuts the pause between two tries short.
    stop: Notify,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: File,
    made: Instant,
    bytes: AtomicU64,
    /// Lines whose outcome is not in the ledger yet.
    open: AtomicU64,
}

impl Drop for Segment {
    /// A segment whose every line is in the ledger is needed no more. Any other is the next start's to read, however this
    /// process ends: a stop while the store is away loses nothing.
    fn drop(&mut self) {
        if *self.open.get_mut() == 0 {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A request that has begun. Keeps the lines about it until its outcome is in the ledger; without lines (a full disk)
/// it is known in memory alone.
#[derive(Debug)]
pub struct Begun {
    begun: Option<Arc<Segment>>,
    /// Where the newest note of what it has used is.
    progress: Option<Arc<Segment>>,
}

/// Nothing new may begin: too many outcomes wait for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Where the journal tells of a request.
type Told = [Option<Arc<Segment>>; 3];

#[derive(Debug)]
struct Waiting {
    line: Line,
    told: Told,
}

/// What a process that died has left.
pub use replay::{Damaged, Replayed, is_in_use, replay, set_aside};

impl Journal {
    /// A journal in this directory, which is made when it is missing.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Self::open_with(directory, MOST_WAITING, SEGMENT_AGE)
    }

    fn open_with(directory: &Path, most: usize, oldest: Duration) -> io::Result<Self> {
        private::directory(directory)?;
        // Those that are left of an older version.
        let segments = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
        segments.filter(|path| is_segment(path)).for_each(|path| private::tighten(&path));
        let segments = AtomicU64::new(0);
        let first = Arc::new(Segment::make(directory, segments.fetch_add(1, Ordering::Relaxed))?);
        Ok(Self {
            directory: directory.to_owned(),
            active: Mutex::new(first),
            waiting: Mutex::default(),
            wake: Notify::new(),
            segments,
            most,
            oldest,
            progress_tokens: PROGRESS_TOKENS,
            dropped: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            written: watch::Sender::new(0),
            closing: AtomicBool::new(false),
            stop: Notify::new(),
        })
    }

    /// A request is about to be sent upstream; `entry` is what its row says if we are not there at its end.
    ///
    /// # Errors
    /// So much waits for the store that the request must not go on.
    pub fn begin(&self, entry: &Entry) -> Result<Begun, Full> {
        if self.is_full() {
            return Err(Full);
        }
        Ok(Begun { begun: self.try_append(&Line::begun(entry)), progress: None })
    }

    /// A request goes on; `entry` is what its row says if we are not there at its end: what it has used so far. A note
    /// replaces the one before.
    pub fn progress(&self, begun: &mut Begun, entry: &Entry) {
        // Without its line the note before stays good.
        let Some(segment) = self.try_append(&Line::progress(entry)) else { return };
        if let Some(before) = begun.progress.replace(segment) {
            before.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// [`Journal::progress`] is to be said every so many tokens.
    #[must_use]
    pub fn with_progress_tokens(self, progress_tokens: u64) -> Self {
        Self { progress_tokens, ..self }
    }

    /// How many tokens a stream gives between two calls of [`Journal::progress`].
    #[must_use]
    pub fn progress_tokens(&self) -> u64 {
        self.progress_tokens
    }

    /// A request is over. On return its outcome will outlive this process; it is in the ledger soon after. One that never
    /// began is dropped while the journal is full.
    pub fn end(&self, begun: Option<Begun>, entry: Entry) {
        if begun.is_none() && self.is_full() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let line = Line::new(entry);
        // Without its line the outcome still goes to the ledger from memory.
        let ended = self.try_append(line.told());
        let (begun, progress) = begun.map_or((None, None), |begun| (begun.begun, begun.progress));
        let told = [begun, progress, ended];
        let mut waiting = self.waiting.lock();
        waiting.push_back(Waiting { line, told });
        // Under the lock, so that what is counted is there to be written.
        self.ended.fetch_add(1, Ordering::Release);
        drop(waiting);
        self.wake.notify_one();
    }

    /// Whether so much waits for the store that nothing new may begin.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waiting.lock().len() >= self.most
    }

    /// Outcomes that are not in the ledger yet, those that are being written among them.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        // In this order: what is written has ended before.
        let written = *self.written.borrow();
        self.ended.load(Ordering::Acquire).saturating_sub(written)
    }

    /// Waits until everything that was over by now is in the ledger; false when that takes longer.
    pub async fn until_written(&self, at_most: Duration) -> bool {
        let wanted = self.ended.load(Ordering::Acquire);
        let written = async {
            let mut seen = self.written.subscribe();
            seen.wait_for(|written| *written >= wanted).await.is_ok()
        };
        tokio::time::timeout(at_most, written).await.unwrap_or(false)
    }

    /// Lines that could not be written since the start (a full disk): what a crash would have lost.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Outcomes since the start that were not kept, because they had not begun and too many waited for the store.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// As [`Journal::run_with`], when nobody else has to know.
    pub async fn run(&self, store: &Store) {
        self.run_with(store, |_| std::future::ready(())).await;
    }

    /// Writes outcomes into the ledger until [`Journal::close`] and all are there. For one task. Their lines are kept until
    /// `others_know` is over, too: it is called after each batch, with the ids of its requests.
    pub async fn run_with<F: Future<Output = ()>>(
        &self,
        store: &Store,
        others_know: impl Fn(&mut dyn Iterator<Item = &str>) -> F,
    ) {
        let mut pause = GATHER;
        let mut away: Option<String> = None;
        loop {
            let (lines, told) = self.next_batch();
            if lines.is_empty() {
                if self.closing.load(Ordering::Acquire) {
                    return;
                }
                // Where nothing comes, no line does what has to be done with an old segment.
                let _ = tokio::time::timeout(self.oldest, self.wake.notified()).await;
                self.leave_old();
                self.gather().await;
                continue;
            }
            let is_all = lines.len() < BATCH;
            match store.record_lines(&lines).await {
                Ok(()) => {
                    pause = GATHER;
                    others_know(&mut lines.iter().map(|line| &*line.request_id)).await;
                    settle(&told);
                    self.written.send_modify(|written| *written += lines.len() as u64);
                    if away.take().is_some() {
                        tracing::info!(waiting = self.waiting(), "the ledger can be written again");
                    }
                    // A transaction costs by the pages it touches, so few large ones are cheaper than many small ones.
                    if is_all {
                        self.gather().await;
                    }
                }
                Err(error) => {
                    // Said once for each reason: the store being away is one event, however often it is tried.
                    let reason = error.to_string();
                    if away.as_ref() != Some(&reason) {
                        let waiting = self.waiting();
                        tracing::warn!(waiting, "the ledger cannot be written, its rows wait: {reason}");
                        away = Some(reason);
                    }
                    self.put_back(lines, told);
                    if self.closing.load(Ordering::Acquire) {
                        // The lines stay; the next start reads them.
                        return;
                    }
                    let _ = tokio::time::timeout(pause, self.stop.notified()).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Waits for more, unless nothing more will come.
    async fn gather(&self) {
        if !self.closing.load(Ordering::Acquire) {
            let _ = tokio::time::timeout(GATHER, self.stop.notified()).await;
        }
    }

    /// Nothing more will come: [`Journal::run`] ends once everything is in the ledger.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
        self.stop.notify_one();
    }

    fn next_batch(&self) -> (Vec<Line>, Vec<Told>) {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(BATCH);
        waiting.drain(..count).map(|Waiting { line, told }| (line, told)).unzip()
    }

    fn put_back(&self, lines: Vec<Line>, told: Vec<Told>) {
        let mut waiting = self.waiting.lock();
        let batch = lines.into_iter().zip(told);
        batch.rev().for_each(|(line, told)| waiting.push_front(Waiting { line, told }));
    }

    /// A line could not be written: the request goes on without it.
    fn missed(&self, error: &io::Error) {
        // Said at the first, and at every thousandth: a full disk is not made better by its log.
        if self.unwritten.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000) {
            tracing::warn!("the journal cannot be written, requests are kept in memory alone: {error}");
        }
    }

    /// Where the line is; `None`: it could not be written.
    fn try_append(&self, line: &str) -> Option<Arc<Segment>> {
        self.append(line).map_err(|error| self.missed(&error)).ok()
    }

    fn append(&self, line: &str) -> io::Result<Arc<Segment>> {
        let segment = Arc::clone(&self.active.lock());
        // One call: lines of other threads come before or behind it, never into it.
        if (&segment.file).write(line.as_bytes())? != line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        segment.open.fetch_add(1, Ordering::Relaxed);
        let bytes = segment.bytes.fetch_add(line.len() as u64, Ordering::Relaxed) + line.len() as u64;
        if bytes > SEGMENT_BYTES || segment.made.elapsed() >= self.oldest {
            self.next_segment(&segment);
        }
        Ok(segment)
    }

    /// Leaves the active segment if it is old and tells of anything.
    fn leave_old(&self) {
        let segment = Arc::clone(&self.active.lock());
        if segment.bytes.load(Ordering::Relaxed) > 0 && segment.made.elapsed() >= self.oldest {
            self.next_segment(&segment);
        }
    }

    /// Leaves a segment that is full or old, unless another thread already has.
    fn next_segment(&self, full: &Arc<Segment>) {
        let mut active = self.active.lock();
        if !Arc::ptr_eq(&active, full) {
            return;
        }
        match Segment::make(&self.directory, self.segments.fetch_add(1, Ordering::Relaxed)) {
            Ok(next) => *active = Arc::new(next),
            Err(error) => tracing::warn!("the journal goes on in its old segment: {error}"),
        }
    }
}

/// Whether a file of the journal's directory is one of its segments.
fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "journal")
}

/// What these lines told is in the ledger.
fn settle(told: &[Told]) {
    for segment in told.iter().flatten().flatten() {
        segment.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Segment {
    fn make(directory: &Path, number: u64) -> io::Result<Self> {
        let path = directory.join(format!("{}-{number}.journal", uuid::Uuid::now_v7()));
        let file = private::new_file().append(true).open(&path)?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(Self { path, file, made: Instant::now(), bytes: AtomicU64::new(0), open: AtomicU64::new(0) })
    }
}

#[cfg(test)]
mod tests;
