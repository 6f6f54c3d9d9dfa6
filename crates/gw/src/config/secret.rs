//! Secrets, and the files they can be kept in. Nothing here ever shows one.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use secrecy::SecretString;

use super::scalar::Wrong;
use super::schema::{Format, Kind, Section, required};

/// No key or URL is longer.
const LIMIT: u64 = 64 * 1024;

/// The table that names a secret's file.
pub(super) static FILE: Section = Section {
    doc: "A secret that is kept in a file of its own.",
    keys: &[required("file", Kind::Path, "The file; a line end at its end is not part of the secret.")],
};

/// A secret is never blank: an unset variable or an emptied file must not become an open door.
pub(super) fn checked(text: &str, format: &Format) -> Result<SecretString, Wrong> {
    if text.trim().is_empty() {
        return Err("is blank; a secret cannot be".into());
    }
    (format.check)(text)?;
    Ok(SecretString::from(text))
}

/// The text of a secret's file without the line end that editors leave.
pub(super) fn read(path: &Path) -> Result<String, Wrong> {
    let trouble = |error: std::io::Error| -> Wrong {
        match error.kind() {
            ErrorKind::NotFound => "there is no such file".into(),
            ErrorKind::PermissionDenied => "the file may not be read by this user".into(),
            _ => "the file cannot be read".into(),
        }
    };
    // A pipe or a device would keep the loader waiting, so only plain files are opened.
    if !std::fs::metadata(path).map_err(trouble)?.is_file() {
        return Err("is not a plain file".into());
    }
    let mut text = String::new();
    let read = File::open(path).map_err(trouble)?.take(LIMIT + 1).read_to_string(&mut text);
    match read {
        Ok(length) if length as u64 > LIMIT => {
            Err("the file is larger than 64 KiB, too large for a secret".into())
        }
        Ok(_) if text.is_empty() => Err("the file is empty".into()),
        Ok(_) => Ok(text.trim_end_matches(['\n', '\r']).to_owned()),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err("the file is not UTF-8 text".into()),
        Err(error) => Err(trouble(error)),
    }
}
