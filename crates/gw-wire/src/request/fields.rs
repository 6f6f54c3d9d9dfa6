//! Reads single values of a request: checks type and range, with errors in OpenAI's style. The management API reads its
//! bodies with it too.

pub(crate) mod texts;

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use super::invalid::Invalid;
use crate::json::{Elements, Kind, View};
use crate::names::{NameIndex, duplicate};
use crate::nearest::did_you_mean;

/// The path of a value in the request. It is formatted only for an error message.
#[derive(Clone, Copy)]
pub enum Path<'p> {
    /// A top-level member.
    Top(&'p str),
    /// A member of an object.
    Member(&'p Path<'p>, &'p str),
    /// An element of an array.
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// The path of a member of this object.
    #[must_use]
    pub fn member<'p>(&'p self, name: &'p str) -> Path<'p> {
        Path::Member(self, name)
    }

    /// The path of an element of this array.
    #[must_use]
    pub fn item(&self, at: usize) -> Path<'_> {
        Path::Item(self, at)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top(name) => f.write_str(&clip(name)),
            Self::Member(parent, name) => write!(f, "{parent}.{}", clip(name)),
            Self::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

/// A client's text, shortened for a message.
#[must_use]
pub fn clip(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Refuses the absence of a required member.
#[must_use]
pub fn missing(path: &Path<'_>) -> Invalid {
    Invalid { code: "missing_required_parameter", message: format!("Missing required parameter: '{path}'.") }
}

/// Refuses a value of another JSON type.
#[must_use]
pub fn wrong_type(path: &Path<'_>, expected: &str, got: View<'_>) -> Invalid {
    let got = match got.kind() {
        Kind::Null => "null",
        Kind::Boolean => "a boolean",
        Kind::Integer => "an integer",
        Kind::Decimal => "a decimal number",
        Kind::String => "a string",
        Kind::Array => "an array",
        Kind::Object => "an object",
    };
    let message = format!("Invalid type for '{path}': expected {expected}, but got {got} instead.");
    Invalid { code: "invalid_type", message }
}

/// Refuses a value outside a closed set.
#[must_use]
pub fn not_one_of(path: &Path<'_>, allowed: &[&str], got: &str) -> Invalid {
    let list = allowed.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ");
    invalid_value(path, &format!("expected one of {list}, but got '{}' instead.", clip(got)))
}

/// Refuses a value for the reason in `what`.
#[must_use]
pub fn invalid_value(path: &Path<'_>, what: &str) -> Invalid {
    Invalid { code: "invalid_value", message: format!("Invalid '{path}': {what}") }
}

/// Refuses an empty string.
#[must_use]
pub fn empty_string(path: &Path<'_>) -> Invalid {
    let message = format!(
        "Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead."
    );
    Invalid { code: "empty_string", message }
}

/// Refuses a string with too many characters.
#[must_use]
pub fn string_too_long(path: &Path<'_>, max: usize, got: usize) -> Invalid {
    let message = format!(
        "Invalid '{path}': string too long. Expected a string with maximum length {max}, but got a string with length \
         {got} instead."
    );
    Invalid { code: "string_above_max_length", message }
}

/// Refuses an empty array.
#[must_use]
pub fn empty_array(path: &Path<'_>) -> Invalid {
    let message = format!(
        "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    );
    Invalid { code: "empty_array", message }
}

pub(super) fn array_too_long(path: &Path<'_>, max: usize, got: usize) -> Invalid {
    let message = format!(
        "Invalid '{path}': array too long. Expected an array with maximum length {max}, but got an array with length \
         {got} instead."
    );
    Invalid { code: "array_above_max_length", message }
}

/// Reads a string.
///
/// # Errors
/// `invalid_type`.
pub fn string<'a>(path: &Path<'_>, value: View<'a>) -> Result<Cow<'a, str>, Invalid> {
    value.string().ok_or_else(|| wrong_type(path, "a string", value))
}

/// Reads a required string.
pub(super) fn required_string<'a>(path: &Path<'_>, value: Option<View<'a>>) -> Result<Cow<'a, str>, Invalid> {
    string(path, value.ok_or_else(|| missing(path))?)
}

/// Reads a required string that must not be empty.
pub(super) fn required_name<'a>(path: &Path<'_>, value: Option<View<'a>>) -> Result<Cow<'a, str>, Invalid> {
    let name = required_string(path, value)?;
    if name.is_empty() { Err(empty_string(path)) } else { Ok(name) }
}

/// Checks that an optional value has this kind.
pub(super) fn optional(path: &Path<'_>, value: Option<View<'_>>, kind: Kind) -> Result<(), Invalid> {
    let Some(value) = value else { return Ok(()) };
    if value.kind() == kind {
        return Ok(());
    }
    let expected = match kind {
        Kind::Null => "null",
        Kind::Boolean => "a boolean",
        Kind::Integer => "an integer",
        Kind::Decimal => "a number",
        Kind::String => "a string",
        Kind::Array => "an array",
        Kind::Object => "an object",
    };
    Err(wrong_type(path, expected, value))
}

/// Reads an optional boolean; absent means false.
pub(super) fn boolean(path: &Path<'_>, value: Option<View<'_>>) -> Result<bool, Invalid> {
    optional(path, value, Kind::Boolean)?;
    Ok(value.is_some_and(|value| value.text() == "true"))
}

/// Reads an integer without fraction and exponent.
///
/// # Errors
/// `invalid_type`, `integer_below_min_value`, `integer_above_max_value`.
pub fn integer(path: &Path<'_>, value: View<'_>, range: &RangeInclusive<i64>) -> Result<i64, Invalid> {
    if value.kind() != Kind::Integer {
        return Err(wrong_type(path, "an integer", value));
    }
    let text = value.text();
    // The text is an integer, so it only fails to parse when it overflows; the sign tells the direction.
    let number = text.parse::<i128>().unwrap_or(if text.starts_with('-') { i128::MIN } else { i128::MAX });
    let (min, max) = (*range.start(), *range.end());
    match i64::try_from(number) {
        Ok(number) if range.contains(&number) => Ok(number),
        _ if number < i128::from(min) => Err(out_of_range(path, "integer", true, min, text)),
        _ => Err(out_of_range(path, "integer", false, max, text)),
    }
}

/// Reads any number. A number too large for a float is infinite and so out of every range.
pub(crate) fn number(path: &Path<'_>, value: View<'_>, range: &RangeInclusive<f64>) -> Result<f64, Invalid> {
    let parsed = match value.kind() {
        Kind::Integer | Kind::Decimal => value.text().parse::<f64>().ok(),
        _ => None,
    };
    let number = parsed.ok_or_else(|| wrong_type(path, "a decimal", value))?;
    let (min, max) = (*range.start(), *range.end());
    let is_farther = |bound| is_farther_than(value.text(), bound);
    if number < min || number <= min && min < 0.0 && is_farther(min) {
        return Err(out_of_range(path, "decimal", true, min, value.text()));
    }
    if number > max || number >= max && max > 0.0 && is_farther(max) {
        return Err(out_of_range(path, "decimal", false, max, value.text()));
    }
    Ok(number)
}

/// Whether a number is farther from zero than a whole bound, though the nearest float is the bound. A number with an exponent counts as
/// that float.
fn is_farther_than(text: &str, bound: f64) -> bool {
    let Some((whole, fraction)) = text.trim_start_matches('-').split_once('.') else { return false };
    let is_plain = fraction.bytes().all(|digit| digit.is_ascii_digit());
    is_plain
        && fraction.bytes().any(|digit| digit != b'0')
        && whole.parse::<f64>().is_ok_and(|whole| whole >= bound.abs())
}

fn out_of_range(path: &Path<'_>, sort: &str, below: bool, limit: impl fmt::Display, got: &str) -> Invalid {
    let code = match (sort, below) {
        ("integer", true) => "integer_below_min_value",
        ("integer", false) => "integer_above_max_value",
        (_, true) => "decimal_below_min_value",
        (_, false) => "decimal_above_max_value",
    };
    let (side, sign) = if below { ("below minimum", ">=") } else { ("above maximum", "<=") };
    let message = format!(
        "Invalid '{path}': {sort} {side} value. Expected a value {sign} {limit}, but got {} instead.",
        clip(got)
    );
    Invalid { code, message }
}

/// The elements of an array of at most `max` elements; `expected` names the types that the field accepts.
///
/// # Errors
/// `invalid_type`, `array_above_max_length`.
pub fn array<'a>(
    path: &Path<'_>,
    value: View<'a>,
    max: usize,
    expected: &str,
) -> Result<Elements<'a>, Invalid> {
    if value.kind() != Kind::Array {
        return Err(wrong_type(path, expected, value));
    }
    if max < usize::MAX {
        let count = value.elements().count();
        if count > max {
            return Err(array_too_long(path, max, count));
        }
    }
    Ok(value.elements())
}

/// The members with these names in an object; `null` counts as absent. A duplicate name is refused, because readers
/// disagree about which value counts.
pub(super) fn object<'a, const N: usize>(
    path: &Path<'_>,
    value: View<'a>,
    names: [&str; N],
) -> Result<[Option<View<'a>>; N], Invalid> {
    object_and(path, value, names, |_, _| {})
}

/// As [`object`]; `other` gets each member with another name.
pub(super) fn object_and<'a, const N: usize>(
    path: &Path<'_>,
    value: View<'a>,
    names: [&str; N],
    mut other: impl FnMut(&str, View<'a>),
) -> Result<[Option<View<'a>>; N], Invalid> {
    if value.kind() != Kind::Object {
        return Err(wrong_type(path, "an object", value));
    }
    let mut slots = [None; N];
    let mut others = Vec::new();
    for (literal, value) in value.members() {
        let name = literal.string().unwrap_or(Cow::Borrowed(literal.text()));
        match names.iter().zip(&mut slots).find(|(known, _)| *name == ***known) {
            Some((_, slot)) => {
                if slot.replace(value).is_some() {
                    return Err(twice(&path.member(&name)));
                }
            }
            None => {
                other(&name, value);
                others.push(name);
            }
        }
    }
    refuse_repeated(path, &others)?;
    Ok(slots.map(|slot| slot.filter(|value| value.kind() != Kind::Null)))
}

/// As [`object`], for an object that accepts only these members: an unknown name is refused with a suggestion.
pub(super) fn closed_object<'a, const N: usize>(
    path: &Path<'_>,
    value: View<'a>,
    names: [&str; N],
) -> Result<[Option<View<'a>>; N], Invalid> {
    let slots = object(path, value, names)?;
    for (literal, _) in value.members() {
        let name = literal.string().unwrap_or(Cow::Borrowed(literal.text()));
        if !names.contains(&&*name) {
            return Err(unknown(path, &name, &names));
        }
    }
    Ok(slots)
}

fn unknown(path: &Path<'_>, name: &str, names: &[&str]) -> Invalid {
    let hint = did_you_mean(name, names.iter().copied()).unwrap_or_else(|| {
        let list = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        format!("the members of '{path}' are {list}.")
    });
    let message = format!("Unknown parameter: '{}'; {hint}", path.member(name));
    Invalid { code: "unknown_parameter", message }
}

/// Calls `each` with the members of an object that is a map. A duplicate name is refused.
///
/// # Errors
/// `invalid_type`, `invalid_json`, and those of `each`.
pub fn map<'a>(
    path: &Path<'_>,
    value: View<'a>,
    mut each: impl FnMut(&str, View<'a>) -> Result<(), Invalid>,
) -> Result<(), Invalid> {
    if value.kind() != Kind::Object {
        return Err(wrong_type(path, "an object", value));
    }
    let mut names = Vec::new();
    for (literal, value) in value.members() {
        let name = literal.string().unwrap_or(Cow::Borrowed(literal.text()));
        each(&name, value)?;
        names.push(name);
    }
    refuse_repeated(path, &names)
}

/// Refuses duplicate names in a value and in all that it holds. The caller has bounded its depth.
///
/// # Errors
/// `invalid_json`.
pub fn refuse_repeated_members(path: &Path<'_>, value: View<'_>) -> Result<(), Invalid> {
    match value.kind() {
        Kind::Object => map(path, value, |name, inner| refuse_repeated_members(&path.member(name), inner)),
        Kind::Array => value
            .elements()
            .enumerate()
            .try_for_each(|(at, inner)| refuse_repeated_members(&path.item(at), inner)),
        _ => Ok(()),
    }
}

/// Refuses duplicate names in the object at `path`.
fn refuse_repeated(path: &Path<'_>, names: &[Cow<'_, str>]) -> Result<(), Invalid> {
    let name = |at| names.get(at).map(|name: &Cow<'_, str>| &**name);
    let index = NameIndex::of(names.iter().map(|name| &**name));
    match duplicate(index.as_ref(), names.len(), name).and_then(name) {
        Some(name) => Err(twice(&path.member(name))),
        None => Ok(()),
    }
}

fn twice(path: &Path<'_>) -> Invalid {
    let message = format!("Invalid '{path}': the member is given more than once.");
    Invalid { code: "invalid_json", message }
}

#[cfg(test)]
mod tests;
