//! Replays the journal of a process that ended without writing all of its outcomes to the ledger.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::is_segment;
use super::salvage::{self, Damage, Requests};
use crate::db::Result;
use crate::ledger::Entry;
use crate::{Store, private};

/// Rows per transaction, so that a transaction finishes within the store's timeout however long the journal is.
const CHUNK: usize = 2_000;

/// File name extension of a quarantined segment.
const SET_ASIDE: &str = "damaged";

/// The replayed requests, which are now in the ledger.
#[derive(Debug)]
pub struct Replayed {
    /// The requests.
    pub entries: Vec<Entry>,
    /// Number of requests that were too old for the ledger.
    pub skipped: usize,
    /// Segments with bytes that belong to no record.
    pub damaged: Vec<DamagedSegment>,
    /// The replayed segments, locked until this is dropped.
    segments: Vec<(PathBuf, File)>,
}

/// Segments that no running process has locked. They are locked until this is dropped.
#[derive(Debug)]
pub struct AbandonedSegments {
    files: Vec<(PathBuf, File)>,
    /// The lock of the directory: two processes that lock segments at one time would divide those of a request.
    _directory: Option<File>,
}

impl AbandonedSegments {
    /// Locks all of them. A segment that cannot be opened is logged. While another process recovers segments of this directory, it
    /// has them all.
    #[must_use]
    pub fn lock_all(directory: &Path) -> Self {
        Self::lock(directory, |path| File::open(path).inspect_err(|error| cannot_open(path, error)).ok())
    }

    /// Locks all of them if nobody has written to any for this long, and otherwise none. A segment that cannot be opened is left out.
    #[must_use]
    pub fn lock_unchanged(directory: &Path, unchanged_for: Duration) -> Self {
        let mut found = Self::lock(directory, |path| File::open(path).ok());
        // After a clock was set back the time may be ahead. Such a segment must not keep the others waiting.
        let age = |file: &File| {
            let modified = file.metadata().ok()?.modified().ok()?;
            Some(modified.elapsed().unwrap_or_else(|ahead| ahead.duration()))
        };
        let is_settled = |file: &File| age(file).is_some_and(|age| age >= unchanged_for);
        // A request may begin in one segment and end in the next.
        if !found.files.iter().all(|(_, file)| is_settled(file)) {
            found.files.clear();
        }
        found
    }

    fn lock(directory: &Path, open: impl Fn(&Path) -> Option<File>) -> Self {
        let guard = File::open(directory).ok().filter(|directory| directory.try_lock().is_ok());
        let paths = segments(directory).filter(|_| guard.is_some());
        let files = paths.filter_map(|path| {
            let file = open(&path)?;
            file.metadata().ok().filter(|data| data.is_file())?;
            file.try_lock().ok()?;
            Some((path, file))
        });
        Self { files: files.collect(), _directory: guard }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// A segment with bytes that belong to no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSegment {
    /// Path of the segment until [`Replayed::remove_segments`].
    pub path: PathBuf,
    /// Number of damaged regions.
    pub regions: u64,
    /// Bytes of all damaged regions.
    pub bytes: u64,
    /// Number of requests that were found in this segment and in no earlier one.
    pub requests: usize,
}

impl DamagedSegment {
    /// The path after quarantine. A quarantined segment is never replayed again.
    #[must_use]
    pub fn quarantine_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(SET_ASIDE);
        name.into()
    }
}

impl Replayed {
    /// Deletes the segments once every other component knows the requests too. Damaged segments are quarantined. Returns whether all are
    /// gone; the others stay locked.
    pub fn remove_segments(&mut self) -> bool {
        self.segments.retain(|(path, _)| {
            let damaged = self.damaged.iter().find(|damaged| damaged.path == *path);
            let removed = match damaged {
                Some(damaged) => {
                    private::tighten(path);
                    fs::rename(path, damaged.quarantine_path())
                }
                None => fs::remove_file(path),
            };
            removed
                .inspect_err(|error| {
                    let action = if damaged.is_some() { "rename a damaged" } else { "delete a replayed" };
                    tracing::warn!(path = %path.display(), "cannot {action} journal: {error}");
                })
                .is_err()
        });
        self.segments.is_empty()
    }
}

/// Writes the outcomes in these segments to the ledger, and a row for each request that began and has no outcome. The
/// segments stay until [`Replayed::remove_segments`]; replaying them again changes nothing.
///
/// Requests accepted before `not_before` (unix milliseconds; `None` = any time) are skipped: the ledger may already have
/// deleted them, and would add them to its sums again.
///
/// # Errors
/// The store's. Some requests may be in the ledger by then; the segments stay.
pub async fn replay(segments: AbandonedSegments, store: &Store, not_before: Option<i64>) -> Result<Replayed> {
    // All segments together, because a request may begin in one segment and end in the next.
    let (mut found, mut damaged) = (Requests::default(), Vec::new());
    for (path, file) in &segments.files {
        let before = found.len();
        let length = file.metadata().map_or(1, |data| data.len());
        let Damage { regions, bytes, .. } = salvage::read(file, length, &mut found);
        if regions > 0 {
            damaged.push(DamagedSegment {
                path: path.clone(),
                regions,
                bytes,
                requests: found.len() - before,
            });
        }
    }
    let all = found.len();
    let is_kept = |entry: &Entry| not_before.is_none_or(|not_before| entry.at >= not_before);
    let entries: Vec<Entry> = found.into_entries().filter(is_kept).collect();
    let skipped = all - entries.len();
    if skipped > 0 {
        tracing::warn!(
            requests = skipped,
            "skipped requests in the journal that are older than the ledger's retention"
        );
    }
    for chunk in entries.chunks(CHUNK) {
        store.record(&store.without_trimmed(chunk).await?).await?;
    }
    damaged.iter().for_each(warn);
    Ok(Replayed { entries, skipped, damaged, segments: segments.files })
}

fn warn(damaged: &DamagedSegment) {
    let DamagedSegment { path, regions, bytes, requests } = damaged;
    tracing::warn!(
        places = regions,
        bytes,
        requests,
        path = %path.display(),
        "a journal is damaged in {regions} places ({bytes} bytes); {requests} requests could be read from it, and it is \
         kept as {}",
        damaged.quarantine_path().display()
    );
}

/// Logs a segment that cannot be opened. A missing file is no error: another process may have replayed and deleted it.
fn cannot_open(path: &Path, error: &io::Error) {
    if error.kind() != io::ErrorKind::NotFound {
        tracing::warn!(path = %path.display(), "cannot read a journal, so its requests are missing in the ledger: {error}");
    }
}

/// The number of quarantined segments in this directory.
#[must_use]
pub fn quarantined_segments(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == SET_ASIDE)).count()
}

/// Whether a running process keeps its journal in this directory.
#[must_use]
pub fn is_in_use(directory: &Path) -> bool {
    let is_locked = |path: PathBuf| {
        File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    };
    segments(directory).any(is_locked)
}

/// The files of the journal in this directory, also those of running processes.
#[must_use]
pub fn segment_files(directory: &Path) -> Vec<PathBuf> {
    segments(directory).collect()
}

fn segments(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| is_segment(path))
}
