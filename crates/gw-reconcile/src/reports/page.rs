//! The parts of a page that the reports share.

use bytes::Bytes;
use gw_wire::money::Money;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::super::args::day_of;
use super::super::bill::{BilledDay, BilledTokens};
use super::super::fetch::ReportError;

/// A page of a report.
#[derive(Deserialize)]
pub(super) struct Page<T> {
    pub(super) data: Vec<T>,
    has_more: Option<bool>,
    #[serde(default)]
    next_page: Option<String>,
}

impl<T> Page<T> {
    /// The name of the next page.
    ///
    /// # Errors
    /// There are more pages, and the page does not name the next one.
    pub(super) fn next(self, path: &str) -> Result<Option<String>, ReportError> {
        match (self.has_more, self.next_page) {
            (Some(false), _) | (None, None) => Ok(None),
            (Some(true), None) => Err(wrong(path, "next page", "null")),
            (_, next) => Ok(next),
        }
    }
}

/// Reads null as the default of a member.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

pub(super) fn parse<'p, T: Deserialize<'p>>(path: &str, page: &'p Bytes) -> Result<T, ReportError> {
    serde_json::from_slice(page).map_err(|error| ReportError::Malformed { path: path.to_owned(), error })
}

/// An amount that is a JSON number or a string, in units of `10^power`.
pub(super) fn amount(path: &str, value: &RawValue, power: i32) -> Result<Money, ReportError> {
    let text = value.get().trim_matches('"');
    Money::parse_rounded(text, power).map_err(|_| wrong(path, "amount", text))
}

/// The day of a date, or of a time that begins with one.
pub(super) fn day(path: &str, text: &str) -> Result<i64, ReportError> {
    text.get(.."2026-11-01".len()).and_then(day_of).ok_or_else(|| wrong(path, "date", text))
}

pub(super) fn wrong(path: &str, kind: &'static str, text: &str) -> ReportError {
    ReportError::Value { path: path.to_owned(), kind, text: text.chars().take(40).collect() }
}

/// Whether the tier is the usual one.
fn is_usual(tier: Option<&str>) -> bool {
    tier.is_none_or(|tier| gw_wire::usage::USUAL_TIERS.contains(&tier))
}

/// Adds tokens to an entry: to the tier's, if the report names another tier than the usual one.
pub(super) fn add_tokens(entry: &mut BilledDay, tier: Option<&str>, tokens: &BilledTokens) {
    if is_usual(tier) {
        entry.tokens.get_or_insert_default().add(tokens);
    } else {
        entry.tier_tokens.add(tokens);
        entry.tiers.extend(tier.map(str::to_owned));
    }
}

/// Notes an amount of another currency than USD. Returns whether it is one.
pub(super) fn note_foreign(entry: &mut BilledDay, amount: Money, currency: Option<&str>) -> bool {
    let foreign = currency.filter(|currency| !currency.eq_ignore_ascii_case("usd"));
    entry.foreign.extend(foreign.map(|currency| format!("{amount} {}", currency.to_uppercase())));
    foreign.is_some()
}

/// Adds a cost of tokens to an entry: to the tier's, if the report names another tier than the usual one.
pub(super) fn add_token_cost(entry: &mut BilledDay, tier: Option<&str>, cost: Money) {
    if is_usual(tier) {
        entry.token_cost += cost;
    } else {
        *entry.tier_cost.get_or_insert_default() += cost;
        entry.tiers.extend(tier.map(str::to_owned));
    }
}
