//! Reads single members of a request. Google reads a name in its JSON form (`inlineData`) and in its original form
//! (`inline_data`).

use std::borrow::Cow;

use crate::json::{Kind, View};
use crate::request::Invalid;
pub(super) use crate::request::fields::texts::{optional, required, required_name};
use crate::request::fields::{self, Path, invalid_value, wrong_type};

/// Whether a name is the known one in one of its two forms.
pub(super) fn is_named(given: &str, known: &str) -> bool {
    if given == known {
        return true;
    }
    let mut given = given.bytes();
    let mut known = known.bytes();
    loop {
        match (given.next(), known.next()) {
            (None, None) => return true,
            (Some(b'_'), Some(upper)) if upper.is_ascii_uppercase() => {
                if given.next() != Some(upper.to_ascii_lowercase()) {
                    return false;
                }
            }
            (Some(given), Some(known)) if given == known && !known.is_ascii_uppercase() => {}
            _ => return false,
        }
    }
}

/// The members with these names; null counts as absent. A member that is given twice, in any of its forms, is refused,
/// because readers disagree about which value counts.
pub(super) fn members<'a, const N: usize>(
    path: &Path<'_>,
    value: View<'a>,
    names: [&'static str; N],
) -> Result<[Option<View<'a>>; N], Invalid> {
    members_and(path, value, names, |_, _| {})
}

/// As [`members`]; `other` gets each member with another name.
pub(super) fn members_and<'a, const N: usize>(
    path: &Path<'_>,
    value: View<'a>,
    names: [&'static str; N],
    mut other: impl FnMut(&str, View<'a>),
) -> Result<[Option<View<'a>>; N], Invalid> {
    let mut slots: [Option<View<'a>>; N] = [None; N];
    fields::map(path, value, |name, value| {
        match names.iter().zip(&mut slots).find(|(known, _)| is_named(name, known)) {
            Some((known, slot)) => {
                if slot.replace(value).is_some() {
                    let message =
                        format!("Invalid '{}': the member is given more than once.", path.member(known));
                    return Err(Invalid { code: "invalid_json", message });
                }
            }
            None => other(name, value),
        }
        Ok(())
    })?;
    Ok(slots.map(|slot| slot.filter(|value| value.kind() != Kind::Null)))
}

/// An optional boolean; absent means false.
pub(super) fn flag(path: &Path<'_>, name: &str, value: Option<View<'_>>) -> Result<bool, Invalid> {
    match value {
        None => Ok(false),
        Some(value) if value.kind() == Kind::Boolean => Ok(value.text() == "true"),
        Some(value) => Err(wrong_type(&path.member(name), "a boolean", value)),
    }
}

/// The elements of a list. Google takes a single element for a list of one.
pub(super) fn list<'a>(
    path: &Path<'_>,
    value: View<'a>,
    expected: &str,
) -> Result<impl Iterator<Item = View<'a>> + use<'a>, Invalid> {
    let (single, many) = match value.kind() {
        Kind::Array => (None, Some(value.elements())),
        Kind::Object => (Some(value), None),
        _ => return Err(wrong_type(path, expected, value)),
    };
    Ok(single.into_iter().chain(many.into_iter().flatten()))
}

/// A whole number. Google also takes one with an empty fraction (`40.0`), and digits in a string.
pub(super) fn whole(
    path: &Path<'_>,
    value: View<'_>,
    range: &std::ops::RangeInclusive<i64>,
) -> Result<i64, Invalid> {
    let text = match value.kind() {
        Kind::Integer => return fields::integer(path, value, range),
        Kind::Decimal => Cow::Borrowed(value.text()),
        Kind::String => value.string().unwrap_or_default(),
        _ => return Err(wrong_type(path, "an integer", value)),
    };
    let digits = match text.split_once('.') {
        Some((digits, fraction)) if fraction.bytes().all(|byte| byte == b'0') => digits,
        Some(_) => return Err(wrong_type(path, "an integer", value)),
        None => &text,
    };
    let number: i64 = digits.parse().map_err(|_| wrong_type(path, "an integer", value))?;
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(invalid_value(path, &format!("expected a value from {least} to {most}, but got {number} instead.")))
}

/// The most warnings of one request.
const MAX_WARNINGS: usize = 32;

/// Warnings about the parts that a translation leaves out, each once.
#[derive(Debug, Default)]
pub(super) struct Losses {
    warnings: Vec<Cow<'static, str>>,
}

impl Losses {
    /// A parameter was left out.
    pub(super) fn parameter(&mut self, name: &str) {
        self.add("parameter_dropped", name);
    }

    /// A tool that the provider runs was left out.
    pub(super) fn tool(&mut self, name: &str) {
        self.add("tool_dropped", name);
    }

    /// A part of a content was left out.
    pub(super) fn content(&mut self, name: &str) {
        self.add("content_dropped", name);
    }

    /// The warnings.
    pub(super) fn into_warnings(self) -> Vec<Cow<'static, str>> {
        self.warnings
    }

    fn add(&mut self, what: &str, name: &str) {
        // Names come from the client.
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let name = if is_plain && !name.is_empty() { fields::clip(name) } else { Cow::Borrowed("unknown") };
        let warning = format!("{what}:{name}");
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.iter().any(|known| *known == warning) {
            self.warnings.push(Cow::Owned(warning));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_two_forms() {
        for (given, known, expected) in [
            ("inlineData", "inlineData", true),
            ("inline_data", "inlineData", true),
            ("inlinedata", "inlineData", false),
            ("inline_Data", "inlineData", false),
            ("inline__data", "inlineData", false),
            ("topK", "topK", true),
            ("top_k", "topK", true),
            ("text", "text", true),
            ("texts", "text", false),
            ("tex", "text", false),
        ] {
            assert_eq!(is_named(given, known), expected, "{given}");
        }
    }

    #[test]
    fn a_whole_number_may_have_an_empty_fraction() {
        let read = |json| whole(&Path::Top("x"), View::new(json), &(0..=50));
        for json in ["40", "40.0", "\"40\""] {
            assert_eq!(read(json).unwrap(), 40, "{json}");
        }
        for (json, code) in [
            ("40.5", "invalid_type"),
            ("true", "invalid_type"),
            ("\"x\"", "invalid_type"),
            ("51", "integer_above_max_value"),
            ("51.0", "invalid_value"),
        ] {
            assert_eq!(read(json).unwrap_err().code, code, "{json}");
        }
    }
}
