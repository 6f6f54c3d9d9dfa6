//! A file and its detached signature, read within bounds.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// The largest catalogue.
pub const MAX_BYTES: usize = 16 << 20;
/// The largest signature.
pub const MAX_SIGNATURE_BYTES: usize = 8 << 10;

/// A file and its detached signature.
#[derive(Debug)]
pub struct SignedFile {
    /// The content of the file.
    pub bytes: Bytes,
    /// The text of its signature.
    pub signature: String,
}

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SignedFileError {
    /// The system cannot read it.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is larger than any catalogue or signature.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size in bytes.
        limit: usize,
    },
}

impl SignedFile {
    /// Puts the content of a file and the content of its signature together.
    #[must_use]
    pub fn new(bytes: Bytes, signature: &[u8]) -> Self {
        Self { bytes, signature: String::from_utf8_lossy(signature).into_owned() }
    }

    /// Reads a catalogue and its signature from files.
    ///
    /// # Errors
    /// One of them cannot be read, or is too large.
    pub fn read(path: &Path, signature: &Path) -> Result<Self, SignedFileError> {
        let bytes = read_bounded(path, MAX_BYTES)?;
        Ok(Self::new(bytes, &read_bounded(signature, MAX_SIGNATURE_BYTES)?))
    }
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// The file cannot be read, or is larger.
pub fn read_bounded(path: &Path, limit: usize) -> Result<Bytes, SignedFileError> {
    let failed = |source| SignedFileError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limit {
        return Err(SignedFileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes.into())
}
