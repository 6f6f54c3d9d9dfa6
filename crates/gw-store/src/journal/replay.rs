//! Reading what a process that died has left.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{INTERRUPTED, is_segment};
use crate::Store;
use crate::db::Result;
use crate::ledger::{Entry, read_json};

/// Rows of one transaction: it must be over in the time that the store gives it, however much was left.
const CHUNK: usize = 2_000;

/// What a line is about, from what tells least to what tells most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A request has begun.
    Begun,
    /// What it has used so far.
    Progress,
    /// Its outcome.
    Ended,
}

impl Kind {
    /// Other kinds are those of newer programs.
    fn of(letter: u8) -> Option<Self> {
        match letter {
            b'B' => Some(Self::Begun),
            b'P' => Some(Self::Progress),
            b'E' => Some(Self::Ended),
            _ => None,
        }
    }
}

/// What the journal tells of a request.
struct Found {
    kind: Kind,
    entry: Entry,
}

/// What was found, and is in the ledger now.
#[derive(Debug)]
pub struct Replayed {
    /// The requests.
    pub entries: Vec<Entry>,
    /// Requests that were too old to be brought into the ledger.
    pub passed_over: usize,
    /// Locked until this is dropped.
    segments: Vec<(PathBuf, File)>,
}

impl Replayed {
    /// Whoever else had to know of these requests does: nobody needs to read them again.
    pub fn forget(self) {
        for (path, _) in &self.segments {
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
    let mut found: HashMap<String, Found> = HashMap::new();
    for (_, file) in &segments {
        if let Err(error) = read(file, &mut found) {
            tracing::warn!("a journal cannot be read to its end: {error}");
        }
    }
    let all = found.len();
    let is_kept = |entry: &Entry| not_before.is_none_or(|not_before| entry.at >= not_before);
    let entries: Vec<Entry> = found.into_values().map(|found| found.entry).filter(is_kept).collect();
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
    Ok(Replayed { entries, passed_over, segments })
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
            let file = File::open(&path).ok()?;
            file.try_lock().ok()?;
            Some((path, file))
        })
        .collect()
}

/// The last line may be cut short: the process died in it, and nobody was told of what it says.
fn read(file: &File, found: &mut HashMap<String, Found>) -> io::Result<()> {
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        let Some((kind, json)) = line.split_first() else { continue };
        let Ok(entry) = read_json(std::str::from_utf8(json).unwrap_or_default()) else { continue };
        let Some(kind) = Kind::of(*kind) else { continue };
        add(found, kind, entry);
    }
    Ok(())
}

/// Keeps of several lines about one request the one that tells most.
fn add(found: &mut HashMap<String, Found>, kind: Kind, mut entry: Entry) {
    if kind != Kind::Ended {
        INTERRUPTED.clone_into(&mut entry.status);
    }
    let told = |kind: Kind, entry: &Entry| {
        let tokens = entry.tokens.prompt.saturating_add(entry.tokens.completion);
        // Of two outcomes the later is good.
        if kind == Kind::Ended { (kind, 0, 0) } else { (kind, entry.cost, tokens) }
    };
    match found.entry(entry.request_id.clone()) {
        Place::Vacant(place) => {
            place.insert(Found { kind, entry });
        }
        Place::Occupied(mut place) => {
            let before = place.get_mut();
            if told(kind, &entry) >= told(before.kind, &before.entry) {
                *before = Found { kind, entry };
            }
        }
    }
}
