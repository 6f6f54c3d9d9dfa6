//! Texts among the members of an object.

use std::borrow::Cow;

use super::{Path, empty_string, missing, string};
use crate::json::View;
use crate::request::Invalid;

/// A required string.
pub(crate) fn required<'a>(
    path: &Path<'_>,
    name: &str,
    value: Option<View<'a>>,
) -> Result<Cow<'a, str>, Invalid> {
    let path = path.member(name);
    string(&path, value.ok_or_else(|| missing(&path))?)
}

/// A required string that is not empty.
pub(crate) fn required_name<'a>(
    path: &Path<'_>,
    name: &str,
    value: Option<View<'a>>,
) -> Result<Cow<'a, str>, Invalid> {
    let text = required(path, name, value)?;
    if text.is_empty() { Err(empty_string(&path.member(name))) } else { Ok(text) }
}

/// An optional string.
pub(crate) fn optional<'a>(
    path: &Path<'_>,
    name: &str,
    value: Option<View<'a>>,
) -> Result<Option<Cow<'a, str>>, Invalid> {
    value.map(|value| string(&path.member(name), value)).transpose()
}
