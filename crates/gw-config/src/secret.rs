//! Secrets, and the files that hold them. No error here shows a secret.

use std::path::Path;

use secrecy::SecretString;

use super::file::{self, Unreadable};
use super::scalar::ValueError;
use super::schema::{Kind, Section, TextFormat, required};

/// The largest file of a secret.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// The table with the file of a secret.
pub(super) static FILE: Section = Section {
    doc: "A secret in a file of its own.",
    keys: &[required("file", Kind::Path, "The file. A line end at its end is not part of the secret.")],
};

/// Checks a secret. A blank one is refused, so that an unset variable or an empty file never means an empty key.
pub(super) fn checked(text: &str, format: &TextFormat) -> Result<SecretString, ValueError> {
    if text.trim().is_empty() {
        return Err("is blank; a secret must not be blank".into());
    }
    (format.check)(text)?;
    Ok(SecretString::from(text))
}

/// Reads the file of a secret, without the line end that editors leave.
pub(super) fn read(path: &Path) -> Result<String, ValueError> {
    let bytes = file::read(path, MAX_SECRET_BYTES).map_err(|error| -> ValueError {
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
