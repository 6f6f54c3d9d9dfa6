//! Reads single members of a request.

use std::borrow::Cow;

use crate::json::{Kind, View};
pub(super) use crate::request::fields::texts::{optional, required, required_name};
use crate::request::fields::{self, Path, wrong_type};
use crate::request::{Body, Invalid};

/// The members with these names; null counts as absent. A duplicate name is refused, because readers disagree about which
/// value counts.
pub(super) fn members<'a, const N: usize>(
    path: &Path<'_>,
    value: View<'a>,
    names: [&str; N],
) -> Result<[Option<View<'a>>; N], Invalid> {
    let mut slots: [Option<View<'a>>; N] = [None; N];
    fields::map(path, value, |name, value| {
        if let Some((_, slot)) = names.iter().zip(&mut slots).find(|(known, _)| **known == name) {
            *slot = Some(value);
        }
        Ok(())
    })?;
    Ok(slots.map(|slot| slot.filter(|value| value.kind() != Kind::Null)))
}

/// An optional object.
pub(super) fn optional_object<'a>(
    path: &Path<'_>,
    name: &str,
    value: Option<View<'a>>,
) -> Result<Option<View<'a>>, Invalid> {
    match value {
        Some(value) if value.kind() != Kind::Object => {
            Err(wrong_type(&path.member(name), "an object", value))
        }
        value => Ok(value),
    }
}

/// A boolean of the body.
pub(super) fn flag(body: &Body, name: &str, default: bool) -> Result<bool, Invalid> {
    match body.view(name) {
        None => Ok(default),
        Some(value) if value.kind() == Kind::Boolean => Ok(value.text() == "true"),
        Some(value) => Err(wrong_type(&Path::Top(name), "a boolean", value)),
    }
}

/// A string of the body; None for another kind.
pub(super) fn text_of<'b>(body: &'b Body, name: &str) -> Option<Cow<'b, str>> {
    body.view(name).and_then(View::string)
}

/// The warnings of a translation, each once.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    list: Vec<Cow<'static, str>>,
}

/// The most warnings of one request. The names in them come from the client.
const MAX_WARNINGS: usize = 32;

impl Warnings {
    /// Adds a warning.
    pub(super) fn add(&mut self, warning: impl Into<Cow<'static, str>>) {
        let warning = warning.into();
        if self.list.len() < MAX_WARNINGS && !self.list.contains(&warning) {
            self.list.push(warning);
        }
    }

    /// All warnings in order.
    pub(super) fn into_vec(self) -> Vec<Cow<'static, str>> {
        self.list
    }
}
