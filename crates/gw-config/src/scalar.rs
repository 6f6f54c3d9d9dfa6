//! Single values: numbers, words, prices, dates.

use std::path::Path;

use gw_wire::calendar::day_of_date;
use gw_wire::money::{Price, UnitPrice};
use toml::de::{DeInteger, DeValue};
use toml::value::{Datetime, Offset};

use super::schema::Kind;
use super::tree::Checked;
use gw_wire::nearest::did_you_mean;

/// The reason why a value is refused. It does not hold the value.
#[derive(Debug)]
pub(super) struct ValueError {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl From<&str> for ValueError {
    fn from(message: &str) -> Self {
        Self { message: message.to_owned(), hint: None }
    }
}

/// Checks a string whose references are replaced.
pub(super) fn from_text(kind: &Kind, text: &str, directory: &Path) -> Result<Checked, ValueError> {
    match kind {
        Kind::Text(format) => {
            (format.check)(text)?;
            Ok(Checked::Text(text.to_owned()))
        }
        Kind::Path => {
            if text.trim().is_empty() || text.contains('\0') {
                return Err("is not a path".into());
            }
            Ok(Checked::Path(directory.join(text)))
        }
        Kind::Time => {
            let time: Datetime = text.parse().map_err(|_| expected(kind, "another string"))?;
            unix_seconds(&time).map(Checked::Time).ok_or_else(|| expected(kind, "another string"))
        }
        Kind::ChoiceOr(_, format) if (format.check)(text).is_ok() => Ok(Checked::Text(text.to_owned())),
        Kind::Choice(words) | Kind::ChoiceOr(words, _) => {
            let known = words.iter().find(|(word, others)| *word == text || others.contains(&text));
            known.map(|(word, _)| Checked::Choice(word)).ok_or_else(|| {
                let spellings = words.iter().flat_map(|(word, others)| std::iter::once(word).chain(*others));
                let hint = did_you_mean(text, spellings.copied());
                ValueError { message: format!("unknown word; expected {}", kind.describe()), hint }
            })
        }
        _ => Err(expected(kind, "a string")),
    }
}

/// Checks a value that is not a string, and refuses strings where none may be.
pub(super) fn from_value(kind: &Kind, value: &DeValue<'_>) -> Result<Checked, ValueError> {
    match (kind, value) {
        (Kind::Bool, DeValue::Boolean(value)) => Ok(Checked::Bool(*value)),
        (Kind::Int { min, max }, DeValue::Integer(value)) => {
            let value = integer(value).filter(|value| (min..=max).contains(&value));
            value.map(Checked::Int).ok_or_else(|| out_of_range(kind))
        }
        (Kind::Number { min, max }, DeValue::Integer(_) | DeValue::Float(_)) => {
            let value = decimal(value).and_then(|text| text.parse::<f64>().ok());
            let value = value.filter(|value| (min..=max).contains(&value));
            value.map(Checked::Number).ok_or_else(|| out_of_range(kind))
        }
        (Kind::Price, DeValue::Integer(_) | DeValue::Float(_)) => {
            let text = decimal(value).unwrap_or_default();
            // The price keeps the digits as written, without a binary float in between.
            Price::parse(&text).map(Checked::Price).map_err(|error| error.to_string().as_str().into())
        }
        (Kind::UnitPrice, DeValue::Integer(_) | DeValue::Float(_)) => {
            let text = decimal(value).unwrap_or_default();
            UnitPrice::parse(&text).map(Checked::UnitPrice).map_err(|error| error.to_string().as_str().into())
        }
        (Kind::Time, DeValue::Datetime(time)) => {
            unix_seconds(time).map(Checked::Time).ok_or_else(|| expected(kind, "a date or time without one"))
        }
        _ => Err(mistyped(kind, value)),
    }
}

/// The error for the text of an environment variable that is no number and no switch. Such a text has no quotes.
pub(super) fn unreadable_variable(kind: &Kind) -> ValueError {
    expected(kind, "another text")
}

/// The error for a value of the wrong type.
pub(super) fn mistyped(kind: &Kind, value: &DeValue<'_>) -> ValueError {
    let found = match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    ValueError { hint: remedy(kind, value), ..expected(kind, found) }
}

/// Hints for common mistakes with types.
fn remedy(kind: &Kind, value: &DeValue<'_>) -> Option<String> {
    let hint = match (kind, value) {
        (Kind::Tables(_), DeValue::Table(_)) => "write [[…]] with two brackets on each side",
        (Kind::Table(_), DeValue::Array(_)) => "write […] with one bracket on each side",
        (
            Kind::Bool | Kind::Int { .. } | Kind::Number { .. } | Kind::Price | Kind::UnitPrice,
            DeValue::String(text),
        ) => {
            if text.contains("${") {
                "a ${…} reference is always text; to set a number or a switch of [server], [timeouts], [store], [redis], [cache] or \
                 [routing] use the variable MODEL_GATEWAY_<SECTION>__<KEY>"
            } else {
                "write it without quotes"
            }
        }
        // Quotes alone would not help.
        (Kind::Text(format), _) if written(value).is_some_and(|text| (format.check)(&text).is_err()) => {
            return None;
        }
        (
            Kind::Text(_) | Kind::Secret(_) | Kind::Choice(_) | Kind::ChoiceOr(..) | Kind::Path,
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_),
        ) => "put it in quotes",
        (Kind::List { .. }, DeValue::String(_) | DeValue::Integer(_)) => "put it in brackets",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The text of a value that stands without quotes.
fn written(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(time) => Some(time.to_string()),
        _ => decimal(value),
    }
}

fn expected(kind: &Kind, found: &str) -> ValueError {
    ValueError { message: format!("expected {}, found {found}", kind.describe()), hint: None }
}

fn out_of_range(kind: &Kind) -> ValueError {
    ValueError { message: format!("out of range; expected {}", kind.describe()), hint: None }
}

fn integer(value: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(value.as_str(), value.radix()).ok()
}

/// The decimal digits of a number.
pub(super) fn decimal(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Integer(value) if value.radix() == 10 => {
            Some(value.as_str().trim_start_matches('+').to_owned())
        }
        DeValue::Integer(value) => integer(value).map(|value| value.to_string()),
        DeValue::Float(value) => Some(value.as_str().trim_start_matches('+').to_owned()),
        _ => None,
    }
}

/// The seconds since 1970. None: the date, the time or the offset is missing, or the day does not exist.
fn unix_seconds(time: &Datetime) -> Option<i64> {
    let (date, clock) = (time.date?, time.time?);
    let offset = match time.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    if clock.hour > 23 || clock.minute > 59 {
        return None;
    }
    let days = day_of_date(i64::from(date.year), i64::from(date.month), i64::from(date.day))?;
    let seconds =
        i64::from(clock.hour) * 3600 + i64::from(clock.minute) * 60 + i64::from(clock.second.unwrap_or(0));
    Some(days * 86_400 + seconds - offset * 60)
}

#[cfg(test)]
mod tests {
    use super::unix_seconds;

    #[test]
    fn dates_are_counted_from_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00Z", Some(951_825_600)),
            ("2027-01-01T00:00:00Z", Some(1_798_761_600)),
            ("2027-01-01T01:00:00+01:00", Some(1_798_761_600)),
            ("2026-12-31T19:00:00.5-05:00", Some(1_798_761_600)),
            ("1969-12-31T23:59:59Z", Some(-1)),
            ("2100-03-01T00:00:00Z", Some(4_107_542_400)),
            ("2027-01-01", None),
            ("2027-01-01T00:00:00", None),
            ("00:00:00", None),
        ] {
            assert_eq!(unix_seconds(&text.parse().unwrap()), expected, "{text}");
        }
    }
}
