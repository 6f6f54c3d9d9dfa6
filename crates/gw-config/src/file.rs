//! Reads the files of a configuration. Only regular files of bounded size are read, so that reading never waits.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The reason why a file cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The file does not exist.
    Missing,
    /// A symbolic link to a file that does not exist.
    Dangling(PathBuf),
    /// This user may not read the file.
    Forbidden,
    /// The path is not a regular file. The text names its kind.
    NotRegular(&'static str),
    /// The file is larger than the limit, in bytes.
    TooLarge(u64),
    /// Another error of the system.
    Other(std::io::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("cannot be read: the file does not exist"),
            Self::Dangling(target) => write!(
                f,
                "cannot be read: it is a symbolic link to '{}', which does not exist",
                target.display()
            ),
            Self::Forbidden => f.write_str("cannot be read: this user has no permission"),
            Self::NotRegular(kind) => write!(f, "is {kind}, not a regular file"),
            Self::TooLarge(limit) if *limit < 1 << 20 => write!(f, "is larger than {} KiB", limit >> 10),
            Self::TooLarge(limit) => write!(f, "is larger than {} MiB", limit >> 20),
            Self::Other(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Unreadable> {
    // Opening a named pipe waits for a writer, so the kind of the file is checked first.
    let found = fs::metadata(path).map_err(|error| failure(error, path))?;
    if let Some(kind) = irregular(&found) {
        return Err(Unreadable::NotRegular(kind));
    }
    let file = File::open(path).map_err(|error| failure(error, path))?;
    let mut bytes = Vec::new();
    // The length in the metadata is not used: a file can grow while it is read, and some system files have length 0.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| failure(error, path))?;
    if bytes.len() as u64 > limit { Err(Unreadable::TooLarge(limit)) } else { Ok(bytes) }
}

/// The kind of a path that exists and is not a regular file.
pub(super) fn not_regular(path: &Path) -> Option<&'static str> {
    fs::metadata(path).ok().and_then(|found| irregular(&found))
}

fn failure(error: std::io::Error, path: &Path) -> Unreadable {
    match error.kind() {
        ErrorKind::NotFound => fs::read_link(path).map_or(Unreadable::Missing, Unreadable::Dangling),
        ErrorKind::PermissionDenied => Unreadable::Forbidden,
        _ => Unreadable::Other(error),
    }
}

fn irregular(found: &Metadata) -> Option<&'static str> {
    let kind = found.file_type();
    if kind.is_file() {
        return None;
    }
    if kind.is_dir() {
        return Some("a directory");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return Some("a named pipe (FIFO)");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
        if kind.is_char_device() || kind.is_block_device() {
            return Some("a device");
        }
    }
    Some("something else")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read(&path, 4).unwrap_err().to_string(), "is larger than 0 KiB");
        let error = read(directory.path(), 5).unwrap_err();
        assert_eq!(error.to_string(), "is a directory, not a regular file");
        let error = read(Path::new("/dev/zero"), 5).unwrap_err();
        assert_eq!(error.to_string(), "is a device, not a regular file");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let said = "cannot be read: it is a symbolic link to 'nowhere', which does not exist";
        assert_eq!(read(&link, 5).unwrap_err().to_string(), said);
        fs::remove_file(&link).unwrap();
        assert_eq!(read(&link, 5).unwrap_err().to_string(), "cannot be read: the file does not exist");
    }
}
