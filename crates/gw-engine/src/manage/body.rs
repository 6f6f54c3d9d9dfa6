//! The bodies of the management API: every member known, every value in its range, `null` told from absent.

use std::borrow::Cow;

use gw_store::limits::{Budget, Limits, OnBudget};
use gw_store::{Period, Role};
use gw_wire::json::{Kind as JsonKind, View};
use gw_wire::money::{Price, PriceError};
use gw_wire::request::fields::{
    Path, array, clip, empty_array, empty_string, integer, invalid_value, missing, not_one_of, string,
    string_too_long, wrong_type,
};
use gw_wire::request::{Invalid, parse_members};
use jiff::Timestamp;

use super::Fault;
use crate::error::{Error, Kind};

const LONGEST_NAME: usize = 200;
const LONGEST_MODEL: usize = 300;
const MOST_MODELS: usize = 1000;
/// Bytes of a key's metadata.
const LARGEST_METADATA: usize = 16 << 10;
/// A team's id.
const LONGEST_TEAM: usize = 64;
/// The longest grace time of a rotation: a week.
const LONGEST_GRACE: i64 = 604_800;
/// The one that is taken when none is asked for.
const USUAL_GRACE: i64 = 3600;

/// A member that may be cleared: None = absent, Some(None) = null.
type Set<T> = Option<Option<T>>;

/// Changes of limits.
#[derive(Debug, Default)]
pub(super) struct LimitChanges {
    rpm: Set<u32>,
    burst: Set<u32>,
    tpm: Set<u64>,
    max_in_flight: Set<u32>,
    budget: Set<u64>,
    period: Set<Period>,
    on_budget: Set<OnBudget>,
}

/// Changes of a key, or a whole new one.
#[derive(Debug, Default)]
pub(super) struct KeyChanges {
    pub(super) name: Option<String>,
    pub(super) role: Option<Role>,
    pub(super) team: Set<String>,
    pub(super) models: Set<Vec<String>>,
    pub(super) limits: LimitChanges,
    pub(super) log_payloads: Set<bool>,
    pub(super) expires_at: Set<i64>,
    pub(super) metadata: Set<String>,
}

const LIMITS: [&str; 7] =
    ["rpm", "burst", "tpm", "max_in_flight", "budget_usd", "budget_period", "on_budget"];

impl LimitChanges {
    /// Reads a member, if it is one of these.
    fn read(&mut self, name: &str, value: View<'_>) -> Result<bool, Invalid> {
        let path = &Path::Top(name);
        match name {
            "rpm" => self.rpm = set(value, |value| whole(path, value, 10_000_000))?,
            "burst" => self.burst = set(value, |value| whole(path, value, 10_000_000))?,
            "tpm" => self.tpm = set(value, |value| whole(path, value, 1_000_000_000_000))?,
            "max_in_flight" => self.max_in_flight = set(value, |value| whole(path, value, 1_000_000))?,
            "budget_usd" => self.budget = set(value, |value| money(path, value))?,
            "budget_period" => self.period = set(value, |value| period(path, value))?,
            "on_budget" => self.on_budget = set(value, |value| on_budget(path, value))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What becomes of these limits.
    pub(super) fn apply(&self, to: Limits) -> Result<Limits, Invalid> {
        let budget = match (self.budget, to.budget) {
            (Some(None), _) | (None, None) => None,
            (Some(Some(nano)), before) => {
                Some(Budget { nano, period: before.map(|before| before.period).unwrap_or_default() })
            }
            (None, before) => before,
        };
        let budget = match (budget, self.period) {
            (None, Some(Some(_))) => {
                return Err(invalid_value(&Path::Top("budget_period"), "it needs a 'budget_usd'."));
            }
            (Some(budget), Some(period)) => Some(Budget { period: period.unwrap_or_default(), ..budget }),
            (budget, _) => budget,
        };
        // Who has no budget any more begins anew with the next one.
        let on_budget = match (budget, self.on_budget) {
            (None, Some(Some(_))) => {
                return Err(invalid_value(&Path::Top("on_budget"), "it needs a 'budget_usd'."));
            }
            (None, _) => OnBudget::default(),
            (Some(_), on_budget) => on_budget.map_or(to.on_budget, Option::unwrap_or_default),
        };
        let rpm = self.rpm.unwrap_or(to.rpm);
        Ok(Limits {
            rpm,
            burst: self.burst_of(rpm, to.burst)?,
            tpm: self.tpm.unwrap_or(to.tpm),
            max_in_flight: self.max_in_flight.unwrap_or(to.max_in_flight),
            budget,
            on_budget,
        })
    }

    /// What may come at once of so many requests a minute: a part of them, which goes when they go.
    fn burst_of(&self, rpm: Option<u32>, before: Option<u32>) -> Result<Option<u32>, Invalid> {
        match (rpm, self.burst) {
            (None, Some(Some(_))) => Err(invalid_value(&Path::Top("burst"), "it needs an 'rpm'.")),
            (None, _) => Ok(None),
            (Some(_), burst) => Ok(burst.unwrap_or(before)),
        }
    }
}

/// The body of a new key or of a change.
pub(super) fn key(body: &[u8]) -> Result<KeyChanges, Fault> {
    const OTHERS: [&str; 7] = ["name", "role", "team", "models", "log_payloads", "expires_at", "metadata"];
    let mut changes = KeyChanges::default();
    for (name, value) in parse_members(body)? {
        let path = &Path::Top(&name);
        match &*name {
            "name" => changes.name = Some(text(path, value, LONGEST_NAME)?),
            "role" => changes.role = Some(role(path, value)?),
            "team" => changes.team = set(value, |value| text(path, value, LONGEST_TEAM))?,
            "models" => changes.models = set(value, |value| models(path, value))?,
            "log_payloads" => changes.log_payloads = set(value, |value| boolean(path, value))?,
            "expires_at" => changes.expires_at = set(value, |value| time(path, value))?,
            "metadata" => changes.metadata = set(value, |value| metadata(path, value))?,
            _ if changes.limits.read(&name, value)? => {}
            _ => return Err(unknown(&name, &[&OTHERS[..], &LIMITS].concat()).into()),
        }
    }
    Ok(changes)
}

/// The name of a new key.
pub(super) fn name_of(changes: &KeyChanges) -> Result<&str, Invalid> {
    changes.name.as_deref().ok_or_else(|| missing(&Path::Top("name")))
}

/// The body of a team.
pub(super) fn team(body: &[u8]) -> Result<Limits, Fault> {
    let mut changes = LimitChanges::default();
    if !body.trim_ascii().is_empty() {
        for (name, value) in parse_members(body)? {
            if !changes.read(&name, value)? {
                return Err(unknown(&name, &LIMITS).into());
            }
        }
    }
    Ok(changes.apply(Limits::default())?)
}

/// The seconds for which both secrets of a rotation are good. An empty body is an empty object.
pub(super) fn grace(body: &[u8]) -> Result<i64, Fault> {
    let mut grace = USUAL_GRACE;
    if !body.trim_ascii().is_empty() {
        for (name, value) in parse_members(body)? {
            if &*name != "grace_seconds" {
                return Err(unknown(&name, &["grace_seconds"]).into());
            }
            grace = integer(&Path::Top(&name), value, &(0..=LONGEST_GRACE))?;
        }
    }
    Ok(grace)
}

/// Whether a team can have this id.
pub(super) fn is_team_id(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_TEAM).contains(&id.len()) && id.bytes().all(fits)
}

fn unknown(name: &str, known: &[&str]) -> Error {
    let message =
        format!("Invalid '{}': there is no such field. The fields are {}.", clip(name), known.join(", "));
    Error::new(Kind::UnsupportedParameter, message)
}

fn set<T>(
    value: View<'_>,
    read: impl FnOnce(View<'_>) -> Result<T, Invalid>,
) -> Result<Option<Option<T>>, Invalid> {
    if value.kind() == JsonKind::Null { Ok(Some(None)) } else { read(value).map(|value| Some(Some(value))) }
}

fn whole<T: TryFrom<i64>>(path: &Path<'_>, value: View<'_>, most: i64) -> Result<T, Invalid> {
    let number = integer(path, value, &(1..=most))?;
    T::try_from(number).map_err(|_| invalid_value(path, "the number is too large."))
}

/// An amount in nano-USD, from a number's or a string's own digits: never by way of a float.
fn money(path: &Path<'_>, value: View<'_>) -> Result<u64, Invalid> {
    let digits: Cow<'_, str> = match value.kind() {
        JsonKind::Integer | JsonKind::Decimal => value.text().into(),
        JsonKind::String => string(path, value)?,
        _ => return Err(wrong_type(path, "a decimal number or a string that holds one", value)),
    };
    Price::parse(&digits).map(Price::nanos).map_err(|fault| match fault {
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
        PriceError::OutOfRange => {
            invalid_value(path, "expected at most 9 digits before and 9 digits after the point.")
        }
    })
}

fn role(path: &Path<'_>, value: View<'_>) -> Result<Role, Invalid> {
    let text = string(path, value)?;
    Role::parse(&text).ok_or_else(|| not_one_of(path, &["inference", "admin"], &text))
}

fn period(path: &Path<'_>, value: View<'_>) -> Result<Period, Invalid> {
    let text = string(path, value)?;
    Period::parse(&text).ok_or_else(|| not_one_of(path, &Period::ALL.map(Period::as_str), &text))
}

fn on_budget(path: &Path<'_>, value: View<'_>) -> Result<OnBudget, Invalid> {
    let text = string(path, value)?;
    OnBudget::parse(&text).ok_or_else(|| not_one_of(path, &OnBudget::ALL.map(OnBudget::as_str), &text))
}

fn boolean(path: &Path<'_>, value: View<'_>) -> Result<bool, Invalid> {
    match (value.kind(), value.text()) {
        (JsonKind::Boolean, text) => Ok(text == "true"),
        _ => Err(wrong_type(path, "a boolean", value)),
    }
}

/// A string for people and for filters: not empty, on one line.
fn text(path: &Path<'_>, value: View<'_>, longest: usize) -> Result<String, Invalid> {
    let text = string(path, value)?;
    let length = text.chars().count();
    if text.is_empty() {
        return Err(empty_string(path));
    }
    if length > longest {
        return Err(string_too_long(path, longest, length));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid_value(path, "it holds a control character."));
    }
    Ok(text.into_owned())
}

fn models(path: &Path<'_>, value: View<'_>) -> Result<Vec<String>, Invalid> {
    let mut models = Vec::new();
    for (at, element) in array(path, value, MOST_MODELS, "an array of strings")?.enumerate() {
        models.push(text(&path.item(at), element, LONGEST_MODEL)?);
    }
    if models.is_empty() { Err(empty_array(path)) } else { Ok(models) }
}

fn time(path: &Path<'_>, value: View<'_>) -> Result<i64, Invalid> {
    let text = string(path, value)?;
    let time: Result<Timestamp, _> = text.parse();
    time.map(Timestamp::as_second).map_err(|_| {
        let what =
            format!("expected a time such as 2027-01-01T00:00:00Z, but got '{}' instead.", clip(&text));
        invalid_value(path, &what)
    })
}

fn metadata(path: &Path<'_>, value: View<'_>) -> Result<String, Invalid> {
    if value.kind() != JsonKind::Object {
        return Err(wrong_type(path, "an object", value));
    }
    if value.text().len() > LARGEST_METADATA {
        let what =
            format!("expected at most {LARGEST_METADATA} bytes of JSON, but got {}.", value.text().len());
        return Err(invalid_value(path, &what));
    }
    Ok(value.text().to_owned())
}
