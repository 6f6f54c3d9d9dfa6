//! Reading what a process that died has left.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::is_segment;
use super::salvage::{self, Damage, Requests};
use crate::db::Result;
use crate::ledger::Entry;
use crate::{Store, private};

/// Rows of one transaction: it must be over in the time that the store gives it, however much was left.
const CHUNK: usize = 2_000;

/// How the name of a damaged segment ends once it is set aside.
const SET_ASIDE: &str = "damaged";

/// What was found, and is in the ledger now.
#[derive(Debug)]
pub struct Replayed {
    /// The requests.
    pub entries: Vec<Entry>,
    /// Requests that were too old to be brought into the ledger.
    pub passed_over: usize,
    /// Segments with bytes that belong to no record.
    pub damaged: Vec<Damaged>,
    /// Locked until this is dropped.
    segments: Vec<(PathBuf, File)>,
}

/// A segment with bytes that belong to no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where it is until [`Replayed::forget`].
    pub path: PathBuf,
    /// Places of it that belong to no record.
    pub stretches: u64,
    /// And their bytes.
    pub bytes: u64,
    /// Requests that were read from it and from no segment before it.
    pub requests: usize,
}

impl Damaged {
    /// Where it is kept for people: no start reads it again.
    #[must_use]
    pub fn kept(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(SET_ASIDE);
        name.into()
    }
}

impl Replayed {
    /// Whoever else had to know of these requests does: nobody needs to read them again. What is damaged is set aside.
    pub fn forget(self) {
        for damaged in &self.damaged {
            private::tighten(&damaged.path);
            if let Err(error) = fs::rename(&damaged.path, damaged.kept()) {
                tracing::warn!(path = %damaged.path.display(), "a damaged journal cannot be set aside: {error}");
            }
        }
        let is_damaged = |path: &Path| self.damaged.iter().any(|damaged| damaged.path == path);
        for (path, _) in self.segments.iter().filter(|(path, _)| !is_damaged(path)) {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(path = %path.display(), "a journal that was read cannot be deleted: {error}");
            }
        }
    }
}

/// Brings the outcomes in abandoned segments into the ledger, and a row for each request that had begun and has none.
/// The segments stay until [`Replayed::forget`]: read again, they change nothing.
///
/// Requests accepted before `not_before` (unix milliseconds; `None` = any time) are passed over: the ledger may have had
/// and forgotten them, and would add them to its sums again.
///
/// # Errors
/// The store's. Some may be in the ledger then; the segments stay.
pub async fn replay(directory: &Path, store: &Store, not_before: Option<i64>) -> Result<Replayed> {
    let segments = abandoned(directory);
    // All together: a request may begin in one segment and end in the next.
    let (mut found, mut damaged) = (Requests::default(), Vec::new());
    for (path, file) in &segments {
        let before = found.len();
        let length = file.metadata().map_or(1, |data| data.len());
        let Damage { stretches, bytes, .. } = salvage::read(file, length, &mut found);
        if stretches > 0 {
            damaged.push(Damaged { path: path.clone(), stretches, bytes, requests: found.len() - before });
        }
    }
    let all = found.len();
    let is_kept = |entry: &Entry| not_before.is_none_or(|not_before| entry.at >= not_before);
    let entries: Vec<Entry> = found.into_entries().filter(is_kept).collect();
    let passed_over = all - entries.len();
    if passed_over > 0 {
        tracing::warn!(
            requests = passed_over,
            "the journal tells of requests that are older than rows are kept; passed over"
        );
    }
    for chunk in entries.chunks(CHUNK) {
        store.record(chunk).await?;
    }
    damaged.iter().for_each(warn);
    Ok(Replayed { entries, passed_over, damaged, segments })
}

fn warn(damaged: &Damaged) {
    let Damaged { path, stretches, bytes, requests } = damaged;
    tracing::warn!(
        places = stretches,
        bytes,
        requests,
        path = %path.display(),
        "a journal is damaged in {stretches} places ({bytes} bytes); {requests} requests could be read from it, and it is \
         kept as {}",
        damaged.kept().display()
    );
}

/// Another process may have brought a segment in and deleted it meanwhile.
fn cannot_open(path: &Path, error: &io::Error) {
    if error.kind() != io::ErrorKind::NotFound {
        tracing::warn!(path = %path.display(), "a journal cannot be read, so its requests are not in the ledger: {error}");
    }
}

/// How many damaged segments are kept in this directory.
#[must_use]
pub fn set_aside(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == SET_ASIDE)).count()
}

/// Whether a living process keeps its journal in this directory.
#[must_use]
pub fn is_in_use(directory: &Path) -> bool {
    let is_locked = |path: PathBuf| {
        File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    };
    segments(directory).any(is_locked)
}

fn segments(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| is_segment(path))
}

/// The segments that no living process has locked.
fn abandoned(directory: &Path) -> Vec<(PathBuf, File)> {
    segments(directory)
        .filter_map(|path| {
            let file = File::open(&path).inspect_err(|error| cannot_open(&path, error)).ok()?;
            file.metadata().ok().filter(|data| data.is_file())?;
            file.try_lock().ok()?;
            Some((path, file))
        })
        .collect()
}
