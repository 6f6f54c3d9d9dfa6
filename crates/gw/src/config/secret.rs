//! Secrets, and the files they can be kept in. Nothing here ever shows one.

use std::path::Path;

use secrecy::SecretString;

use super::file::{self, Unreadable};
use super::scalar::ValueError;
use super::schema::{Kind, Section, TextFormat, required};

/// No key or URL is longer.
const LIMIT: u64 = 64 * 1024;

/// The table that names a secret's file.
pub(super) static FILE: Section = Section {
    doc: "A secret that is kept in a file of its own.",
    keys: &[required("file", Kind::Path, "The file; a line end at its end is not part of the secret.")],
};

/// A secret is never blank: an unset variable or an emptied file must not become an open door.
pub(super) fn checked(text: &str, format: &TextFormat) -> Result<SecretString, ValueError> {
    if text.trim().is_empty() {
        return Err("is blank; a secret must not be blank".into());
    }
    (format.check)(text)?;
    Ok(SecretString::from(text))
}

/// The text of a secret's file without the line end that editors leave.
pub(super) fn read(path: &Path) -> Result<String, ValueError> {
    let bytes = file::read(path, LIMIT).map_err(|error| -> ValueError {
        match error {
            Unreadable::Missing | Unreadable::Dangling(_) => "there is no such file".into(),
            Unreadable::Forbidden => "this user may not read the file".into(),
            Unreadable::NotRegular(_) => "is not a regular file".into(),
            Unreadable::TooLarge(_) => "the file is larger than 64 KiB, too large for a secret".into(),
            Unreadable::Other(_) => "the file cannot be read".into(),
        }
    })?;
    let text = String::from_utf8(bytes).map_err(|_| ValueError::from("the file is not UTF-8 text"))?;
    if text.is_empty() {
        return Err("the file is empty".into());
    }
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
