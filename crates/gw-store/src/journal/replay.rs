//! Reading what a process that died has left.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::INTERRUPTED;
use crate::Store;
use crate::db::Result;
use crate::ledger::Entry;

/// What was found, and is in the ledger now.
#[derive(Debug)]
pub struct Replayed {
    /// The requests.
    pub entries: Vec<Entry>,
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
/// # Errors
/// The store's.
pub async fn replay(directory: &Path, store: &Store) -> Result<Replayed> {
    let segments = abandoned(directory);
    // All together: a request may begin in one segment and end in the next.
    let mut found: HashMap<String, Entry> = HashMap::new();
    for (_, file) in &segments {
        if let Err(error) = read(file, &mut found) {
            tracing::warn!("a journal cannot be read to its end: {error}");
        }
    }
    let entries: Vec<Entry> = found.into_values().collect();
    store.record(&entries).await?;
    Ok(Replayed { entries, segments })
}

/// The segments that no living process has locked.
fn abandoned(directory: &Path) -> Vec<(PathBuf, File)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let segments = paths.filter(|path| path.extension().is_some_and(|extension| extension == "journal"));
    segments
        .filter_map(|path| {
            let file = File::open(&path).ok()?;
            file.try_lock().ok()?;
            Some((path, file))
        })
        .collect()
}

/// The last line may be cut short: the process died in it, and nobody was told of what it says.
fn read(file: &File, found: &mut HashMap<String, Entry>) -> io::Result<()> {
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        let Some((kind, json)) = line.split_first() else { continue };
        let Ok(mut entry) = serde_json::from_slice::<Entry>(json) else { continue };
        match kind {
            b'E' => {
                found.insert(entry.request_id.clone(), entry);
            }
            b'B' => {
                INTERRUPTED.clone_into(&mut entry.status);
                found.entry(entry.request_id.clone()).or_insert(entry);
            }
            _ => {}
        }
    }
    Ok(())
}
