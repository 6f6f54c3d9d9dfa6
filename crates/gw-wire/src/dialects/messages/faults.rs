//! Faults of a request in the words of the Messages API: `messages.0.content.1.text: Field required`.

use std::borrow::Cow;
use std::fmt;

use crate::json::{Elements, Kind, View};
use crate::names::{NameIndex, duplicate};
use crate::request::Invalid;
use crate::request::fields::clip;

/// The path of a value in the request. It is formatted only for an error message.
#[derive(Clone, Copy)]
pub(super) enum MessagesPath<'p> {
    /// A top-level member.
    Top(&'p str),
    /// A member of an object.
    Member(&'p MessagesPath<'p>, &'p str),
    /// An element of an array.
    Item(&'p MessagesPath<'p>, usize),
}

impl MessagesPath<'_> {
    /// The path of a member of this object.
    pub(super) fn member<'p>(&'p self, name: &'p str) -> MessagesPath<'p> {
        MessagesPath::Member(self, name)
    }

    /// The path of an element of this array.
    pub(super) fn item(&self, at: usize) -> MessagesPath<'_> {
        MessagesPath::Item(self, at)
    }
}

impl fmt::Display for MessagesPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top(name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, at) => write!(f, "{parent}.{at}"),
        }
    }
}

/// Refuses a value for the reason in `what`.
pub(super) fn invalid(path: &MessagesPath<'_>, what: impl fmt::Display) -> Invalid {
    Invalid { code: "invalid_value", message: format!("{path}: {what}") }
}

/// Refuses the absence of a required member.
pub(super) fn missing(path: &MessagesPath<'_>) -> Invalid {
    Invalid { code: "missing_required_parameter", message: format!("{path}: Field required") }
}

/// Refuses a value of another JSON type; `expected` is "a valid string", "a valid list" and so on.
pub(super) fn wrong_type(path: &MessagesPath<'_>, expected: &str) -> Invalid {
    Invalid { code: "invalid_type", message: format!("{path}: Input should be {expected}") }
}

/// Refuses a word outside a closed set.
pub(super) fn not_one_of(path: &MessagesPath<'_>, allowed: &[&str], got: &str) -> Invalid {
    let quoted: Vec<String> = allowed.iter().map(|word| format!("'{word}'")).collect();
    let list = match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    };
    invalid(path, format_args!("Input should be {list}, but got '{}'", clip(got)))
}

/// Refuses a list or a set of lists with too many entries.
pub(super) fn too_many(path: &MessagesPath<'_>, what: &str, max: usize, setting: &str) -> Invalid {
    let message = format!(
        "{path}: too many {what}. At most {max} are allowed in one request (setting 'server.request_limits.{setting}')"
    );
    Invalid { code: "array_above_max_length", message }
}

/// Reads a string.
pub(super) fn string<'a>(path: &MessagesPath<'_>, value: View<'a>) -> Result<Cow<'a, str>, Invalid> {
    value.string().ok_or_else(|| wrong_type(path, "a valid string"))
}

/// Reads a required string.
pub(super) fn required_string<'a>(
    path: &MessagesPath<'_>,
    value: Option<View<'a>>,
) -> Result<Cow<'a, str>, Invalid> {
    string(path, value.ok_or_else(|| missing(path))?)
}

/// Reads a required string that must not be empty.
pub(super) fn required_name<'a>(
    path: &MessagesPath<'_>,
    value: Option<View<'a>>,
) -> Result<Cow<'a, str>, Invalid> {
    let name = required_string(path, value)?;
    if name.is_empty() {
        let message = format!("{path}: String should have at least 1 character");
        return Err(Invalid { code: "empty_string", message });
    }
    Ok(name)
}

/// Reads an optional string.
pub(super) fn optional_string<'a>(
    path: &MessagesPath<'_>,
    value: Option<View<'a>>,
) -> Result<Option<Cow<'a, str>>, Invalid> {
    value.map(|value| string(path, value)).transpose()
}

/// Reads an optional boolean; absent means false.
pub(super) fn boolean(path: &MessagesPath<'_>, value: Option<View<'_>>) -> Result<bool, Invalid> {
    match value {
        None => Ok(false),
        Some(value) if value.kind() == Kind::Boolean => Ok(value.text() == "true"),
        Some(_) => Err(wrong_type(path, "a valid boolean")),
    }
}

/// Reads an integer of at least `min`.
pub(super) fn integer(path: &MessagesPath<'_>, value: View<'_>, min: u64) -> Result<u64, Invalid> {
    if value.kind() != Kind::Integer {
        return Err(wrong_type(path, "a valid integer"));
    }
    let number = match value.text().parse::<i64>() {
        Ok(number) => number,
        Err(_) if value.text().starts_with('-') => i64::MIN,
        Err(_) => {
            let message = format!("{path}: Input should be less than or equal to {}", i64::MAX);
            return Err(Invalid { code: "integer_above_max_value", message });
        }
    };
    u64::try_from(number).ok().filter(|number| *number >= min).ok_or_else(|| Invalid {
        code: "integer_below_min_value",
        message: format!("{path}: Input should be greater than or equal to {min}"),
    })
}

/// Checks that a number is between 0 and 1.
pub(super) fn fraction(path: &MessagesPath<'_>, value: View<'_>) -> Result<(), Invalid> {
    let number = match value.kind() {
        Kind::Integer | Kind::Decimal => value.text().parse::<f64>().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| wrong_type(path, "a valid number"))?;
    if number < 0.0 {
        let message = format!("{path}: Input should be greater than or equal to 0");
        return Err(Invalid { code: "decimal_below_min_value", message });
    }
    if number > 1.0 {
        let message = format!("{path}: Input should be less than or equal to 1");
        return Err(Invalid { code: "decimal_above_max_value", message });
    }
    Ok(())
}

/// The elements of a list.
pub(super) fn list<'a>(path: &MessagesPath<'_>, value: View<'a>) -> Result<Elements<'a>, Invalid> {
    if value.kind() == Kind::Array { Ok(value.elements()) } else { Err(wrong_type(path, "a valid list")) }
}

/// The members with these names in an object. A name that is given twice is refused, because readers disagree about the
/// value that counts.
pub(super) fn object<'a, const N: usize>(
    path: &MessagesPath<'_>,
    value: View<'a>,
    names: [&str; N],
) -> Result<[Option<View<'a>>; N], Invalid> {
    if value.kind() != Kind::Object {
        return Err(wrong_type(path, "a valid dictionary"));
    }
    let mut slots = [None; N];
    let mut all = Vec::new();
    for (literal, value) in value.members() {
        let name = literal.string().unwrap_or(Cow::Borrowed(literal.text()));
        if let Some((_, slot)) = names.iter().zip(&mut slots).find(|(known, _)| **known == name) {
            *slot = Some(value);
        }
        all.push(name);
    }
    let name_at = |at| all.get(at).map(|name: &Cow<'_, str>| &**name);
    let index = NameIndex::of(all.iter().map(|name| &**name));
    if let Some(name) = duplicate(index.as_ref(), all.len(), name_at).and_then(name_at) {
        let message = format!("{}: the member is given more than once", path.member(&clip(name)));
        return Err(Invalid { code: "invalid_json", message });
    }
    Ok(slots.map(|slot| slot.filter(|value| value.kind() != Kind::Null)))
}

/// Checks that a value is an object.
pub(super) fn check_object(path: &MessagesPath<'_>, value: View<'_>) -> Result<(), Invalid> {
    if value.kind() == Kind::Object { Ok(()) } else { Err(wrong_type(path, "a valid dictionary")) }
}
