//! The archive of a backup: a tar file with a manifest, which has the size and the SHA-256 of every file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};

use gw_config::catalogue_update;
use gw_wire::calendar;
use gw_wire::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{JOURNAL, SECRET};

/// The SQLite file in the archive.
pub(super) const STORE_NAME: &str = "gateway.db";
/// The manifest, which is the first file.
const MANIFEST_NAME: &str = "manifest.json";
/// The version of this form of archives.
const FORMAT: u32 = 1;
/// The largest manifest.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// The kind of the store of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StoreKind {
    /// The archive has the store.
    Sqlite,
    /// The archive has only the files beside the store.
    Postgres,
}

/// The content of an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: u32,
    /// The version of the program that made it.
    program: String,
    /// Unix milliseconds.
    pub(super) made_at: i64,
    pub(super) store: StoreKind,
    /// The schema version of the store.
    pub(super) schema: Option<i64>,
    pub(super) files: Vec<ArchivedFile>,
}

/// A file in an archive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ArchivedFile {
    /// Its path in the data directory.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Hexadecimal digits.
    sha256: String,
}

/// The reason why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a backup, or it is damaged.
    #[error("{} is not a usable backup: {reason}", path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
}

fn failed(path: &Path) -> impl Fn(io::Error) -> ArchiveError {
    let path = path.to_owned();
    move |source| ArchiveError::Io { path: path.clone(), source }
}

/// Packs all files of a folder. The archive appears under its name when it is complete. Only its owner may read it.
pub(super) fn write(
    folder: &Path,
    archive: &Path,
    store: StoreKind,
    schema: Option<i64>,
) -> Result<Manifest, ArchiveError> {
    let mut files = Vec::new();
    collect(folder, "", &mut files)?;
    files.sort_by(|one: &ArchivedFile, other| one.name.cmp(&other.name));
    let program = env!("CARGO_PKG_VERSION").to_owned();
    let manifest =
        Manifest { format: FORMAT, program, made_at: calendar::unix_millis(), store, schema, files };
    let parts = folder.join("archive.partial");
    let pack = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut tar = tar::Builder::new(BufWriter::new(options.open(&parts)?));
        let text = serde_json::to_vec_pretty(&manifest)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(manifest.made_at.unsigned_abs() / 1000);
        tar.append_data(&mut header, MANIFEST_NAME, text.as_slice())?;
        for file in &manifest.files {
            tar.append_path_with_name(folder.join(&file.name), &file.name)?;
        }
        let mut written = tar.into_inner()?;
        written.flush()?;
        written.get_ref().sync_all()?;
        // A hard link never replaces a file that another program has made meanwhile.
        fs::hard_link(&parts, archive).or_else(|_| fs::rename(&parts, archive))
    };
    pack().map_err(failed(archive))?;
    Ok(manifest)
}

/// Lists the files of a folder with their sums.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<ArchivedFile>) -> Result<(), ArchiveError> {
    let here = folder.join(prefix);
    for entry in fs::read_dir(&here).map_err(failed(&here))? {
        let path = entry.map_err(failed(&here))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        if path.is_dir() {
            collect(folder, &name, files)?;
            continue;
        }
        let (bytes, sha256) =
            File::open(&path).and_then(|file| sum(file, u64::MAX)).map_err(failed(&path))?;
        files.push(ArchivedFile { name, bytes, sha256 });
    }
    Ok(())
}

/// The length and the SHA-256 of at most `limit` bytes.
fn sum(reader: impl Read, limit: u64) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let bytes = io::copy(&mut BufReader::new(reader).take(limit), &mut hash)?;
    Ok((bytes, hex::encode(&hash.finalize())))
}

/// Unpacks an archive into an empty folder, and checks every file.
pub(super) fn read(archive: &Path, folder: &Path) -> Result<Manifest, ArchiveError> {
    let damaged =
        |reason: &str| ArchiveError::Damaged { path: archive.to_owned(), reason: reason.to_owned() };
    let opened = File::open(archive).map_err(failed(archive))?;
    let mut tar = tar::Archive::new(BufReader::new(opened));
    let unreadable = |error: io::Error| damaged(&error.to_string());
    let mut entries = tar.entries().map_err(unreadable)?;
    let first = entries.next().ok_or_else(|| damaged("it is empty"))?.map_err(unreadable)?;
    let manifest = manifest(first).ok_or_else(|| damaged("it has no manifest of this program's form"))?;
    let mut left: BTreeMap<&str, &ArchivedFile> =
        manifest.files.iter().map(|file| (file.name.as_str(), file)).collect();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let name = entry.path().map_err(unreadable)?.to_string_lossy().into_owned();
        // The names come from the archive, so only plain names of the manifest become paths.
        let Some(file) = left.remove(name.as_str()).filter(|_| is_state(&name)) else {
            return Err(damaged(&format!("'{}' does not belong there", name.escape_debug())));
        };
        let path = folder.join(&name);
        unpack(entry, &path, file.bytes).map_err(failed(&path))?;
        let (bytes, sha256) =
            File::open(&path).and_then(|file| sum(file, u64::MAX)).map_err(failed(&path))?;
        if (bytes, &sha256) != (file.bytes, &file.sha256) {
            return Err(damaged(&format!("'{name}' is damaged")));
        }
    }
    match left.keys().next() {
        Some(name) => Err(damaged(&format!("'{}' is missing", name.escape_debug()))),
        None => Ok(manifest),
    }
}

fn manifest(entry: impl Read) -> Option<Manifest> {
    let mut text = Vec::new();
    entry.take(MAX_MANIFEST_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok().filter(|manifest: &Manifest| manifest.format == FORMAT)
}

/// Writes one file, which only its owner may read.
fn unpack(entry: impl Read, path: &Path, bytes: u64) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    io::copy(&mut entry.take(bytes.saturating_add(1)), &mut file)?;
    file.sync_all()
}

/// Whether a backup has a file of this name: the store, the encryption key, the installed catalogue, or a plain name in
/// the folder of the journal. Another file of the data directory, such as a `gateway.toml`, is no part of the state.
fn is_state(name: &str) -> bool {
    let is_plain = |part: &str| {
        !part.starts_with('.')
            && !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
    };
    match name.split_once('/') {
        Some((folder, name)) => folder == JOURNAL && is_plain(name),
        None => [STORE_NAME, SECRET].contains(&name) || catalogue_update::FILES.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("journal")).unwrap();
        fs::write(folder.path().join("journal/1.journal"), "lines").unwrap();
        fs::write(folder.path().join(STORE_NAME), "rows").unwrap();
        folder
    }

    fn packed(target: &tempfile::TempDir) -> PathBuf {
        let archive = target.path().join("backup.tar");
        write(folder().path(), &archive, StoreKind::Sqlite, Some(12)).unwrap();
        archive
    }

    #[test]
    fn an_archive_gives_back_its_files() {
        use std::os::unix::fs::PermissionsExt;
        let target = tempfile::tempdir().unwrap();
        let archive = packed(&target);
        assert_eq!(fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);
        let manifest = read(&archive, target.path()).unwrap();
        assert_eq!((manifest.schema, manifest.files.len()), (Some(12), 2));
        assert_eq!(fs::read(target.path().join("journal/1.journal")).unwrap(), b"lines");
        assert_eq!(fs::read(target.path().join(STORE_NAME)).unwrap(), b"rows");
    }

    #[test]
    fn a_changed_byte_and_a_cut_archive_are_refused() {
        let target = tempfile::tempdir().unwrap();
        let archive = packed(&target);
        let good = fs::read(&archive).unwrap();
        let at = good.windows(4).position(|bytes| bytes == b"rows").unwrap();
        let mut changed = good.clone();
        changed[at] = b'R';
        for bytes in [&changed[..], &good[..at], b"not a tar archive"] {
            fs::write(&archive, bytes).unwrap();
            let error = read(&archive, tempfile::tempdir().unwrap().path()).unwrap_err();
            assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
        }
    }

    #[test]
    fn only_files_of_the_state_are_in_an_archive() {
        for good in
            ["gateway.db", "secret.key", "journal/1-2.journal"].into_iter().chain(catalogue_update::FILES)
        {
            assert!(is_state(good), "{good}");
        }
        let outside =
            ["", "/etc/passwd", "../x", "journal/../x", "journal/a/b", ".hidden", "journal//b", "a\\b"];
        let others =
            ["gateway.toml", "hand-over.sock", "journal", "journal/", "journal/.x", "replaced-1/gateway.db"];
        for bad in outside.into_iter().chain(others) {
            assert!(!is_state(bad), "{bad}");
        }
    }
}
