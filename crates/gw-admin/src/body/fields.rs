//! Reads the values of a body's members and checks their types and ranges.

use std::borrow::Cow;

use gw_store::limits::{OnBudget, UnpricedPolicy};
use gw_store::{Period, Role};
use gw_wire::json::{Kind, View};
use gw_wire::money::{Price, PriceError};
use gw_wire::request::Invalid;
use gw_wire::request::fields::{
    Path, array, clip, empty_array, empty_string, integer, invalid_value, not_one_of,
    refuse_repeated_members, string, string_too_long, wrong_type,
};
use jiff::Timestamp;

/// Maximum length of a model's name in a key's model list, in characters.
const MAX_MODEL_NAME_CHARS: usize = 300;
/// Maximum number of models in a key's model list.
const MAX_KEY_MODELS: usize = 1000;
/// Maximum length of a key's metadata, in bytes of JSON.
const MAX_METADATA_BYTES: usize = 16 << 10;

/// A change of a member that may be cleared: `None` = the member is absent, `Some(None)` = it is null.
pub(super) type Patch<T> = Option<Option<T>>;

/// Reads a member that may be null.
pub(super) fn nullable<T>(
    value: View<'_>,
    read: impl FnOnce(View<'_>) -> Result<T, Invalid>,
) -> Result<Patch<T>, Invalid> {
    if value.kind() == Kind::Null { Ok(Some(None)) } else { read(value).map(|value| Some(Some(value))) }
}

/// A whole number from 1 to `max`.
pub(super) fn positive<T: TryFrom<i64>>(path: &Path<'_>, value: View<'_>, max: i64) -> Result<T, Invalid> {
    let number = integer(path, value, &(1..=max))?;
    T::try_from(number).map_err(|_| invalid_value(path, "the number is too large."))
}

/// An amount in nano-USD. It is read from the digits of a number or a string and never becomes a float.
pub(super) fn money(path: &Path<'_>, value: View<'_>) -> Result<u64, Invalid> {
    let digits: Cow<'_, str> = match value.kind() {
        Kind::Integer | Kind::Decimal => value.text().into(),
        Kind::String => string(path, value)?,
        _ => return Err(wrong_type(path, "a decimal number or a string that holds one", value)),
    };
    Price::parse(&digits).map(Price::nanos).map_err(|error| match error {
        PriceError::Malformed => {
            invalid_value(path, &format!("expected a decimal number, but got '{}' instead.", clip(&digits)))
        }
        PriceError::Negative => Invalid {
            code: "decimal_below_min_value",
            message: format!(
                "Invalid '{path}': decimal below minimum value. Expected a value >= 0, but got {} instead.",
                clip(&digits)
            ),
        },
        PriceError::OutOfRange | PriceError::UnitOutOfRange => {
            invalid_value(path, "expected at most 9 digits before and 9 digits after the point.")
        }
    })
}

pub(super) fn role(path: &Path<'_>, value: View<'_>) -> Result<Role, Invalid> {
    let text = string(path, value)?;
    Role::parse(&text).ok_or_else(|| not_one_of(path, &Role::ALL.map(Role::as_str), &text))
}

pub(super) fn period(path: &Path<'_>, value: View<'_>) -> Result<Period, Invalid> {
    let text = string(path, value)?;
    Period::parse(&text).ok_or_else(|| {
        let names = Period::NAMES.map(|name| format!("'{name}'")).join(", ");
        let what = format!(
            "expected one of {names}, or 1 to 366 days such as '30d', but got '{}' instead.",
            clip(&text)
        );
        invalid_value(path, &what)
    })
}

pub(super) fn on_budget(path: &Path<'_>, value: View<'_>) -> Result<OnBudget, Invalid> {
    let text = string(path, value)?;
    OnBudget::parse(&text).ok_or_else(|| not_one_of(path, &OnBudget::ALL.map(OnBudget::as_str), &text))
}

pub(super) fn unpriced(path: &Path<'_>, value: View<'_>) -> Result<UnpricedPolicy, Invalid> {
    let text = string(path, value)?;
    let names = UnpricedPolicy::ALL.map(UnpricedPolicy::as_str);
    UnpricedPolicy::parse(&text).ok_or_else(|| not_one_of(path, &names, &text))
}

pub(crate) fn boolean(path: &Path<'_>, value: View<'_>) -> Result<bool, Invalid> {
    match (value.kind(), value.text()) {
        (Kind::Boolean, text) => Ok(text == "true"),
        _ => Err(wrong_type(path, "a boolean", value)),
    }
}

/// A text on one line that is not empty.
pub(super) fn line(path: &Path<'_>, value: View<'_>, max_chars: usize) -> Result<String, Invalid> {
    let text = string(path, value)?;
    let chars = text.chars().count();
    if text.trim().is_empty() {
        return Err(empty_string(path));
    }
    if chars > max_chars {
        return Err(string_too_long(path, max_chars, chars));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid_value(path, "it holds a control character."));
    }
    Ok(text.into_owned())
}

pub(super) fn models(path: &Path<'_>, value: View<'_>) -> Result<Vec<String>, Invalid> {
    let mut models = Vec::new();
    for (at, element) in array(path, value, MAX_KEY_MODELS, "an array of strings")?.enumerate() {
        models.push(line(&path.item(at), element, MAX_MODEL_NAME_CHARS)?);
    }
    if models.is_empty() { Err(empty_array(path)) } else { Ok(models) }
}

/// A timestamp as unix seconds.
pub(super) fn timestamp(path: &Path<'_>, value: View<'_>) -> Result<i64, Invalid> {
    let text = string(path, value)?;
    let time: Result<Timestamp, _> = text.parse();
    time.map(Timestamp::as_second).map_err(|_| {
        let message =
            format!("expected a time such as 2027-01-01T00:00:00Z, but got '{}' instead.", clip(&text));
        invalid_value(path, &message)
    })
}

/// The text of a JSON object.
pub(super) fn metadata(path: &Path<'_>, value: View<'_>) -> Result<String, Invalid> {
    if value.kind() != Kind::Object {
        return Err(wrong_type(path, "an object", value));
    }
    if value.text().len() > MAX_METADATA_BYTES {
        let message =
            format!("expected at most {MAX_METADATA_BYTES} bytes of JSON, but got {}.", value.text().len());
        return Err(invalid_value(path, &message));
    }
    refuse_repeated_members(path, value)?;
    // A file can hold it, too.
    if serde_json::from_str::<serde_json::Value>(value.text()).is_err() {
        return Err(invalid_value(path, "it holds a number that is too large, or too many levels."));
    }
    Ok(value.text().to_owned())
}
