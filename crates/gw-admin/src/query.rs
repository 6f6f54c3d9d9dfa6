//! The query strings of the management API: every parameter known, times in several spellings.

use gw_engine::catalog::query::{Query, invalid, shown};
use gw_engine::error::{Error, Kind};
use gw_store::ledger::Filter;
use gw_wire::request::fields::{Path, invalid_value, not_one_of};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{Books, Fault};

/// The largest page that may be asked for.
const MOST_PER_PAGE: usize = 1000;
/// The longest text of a parameter.
const LONGEST: usize = 500;

/// Decoded parameters, of which each is known.
pub(super) struct Params(Query);

impl Params {
    /// A parameter that is not in `known` is refused: a mistyped filter must not give the sums of everything.
    pub(super) fn read(query: &str, known: &[&str]) -> Result<Self, Error> {
        let query = Query::parse(query);
        if let Some(name) = query.unknown(known) {
            let message = format!(
                "Invalid '{}': there is no such parameter. The parameters are {}.",
                shown(name),
                known.join(", ")
            );
            return Err(Error::new(Kind::UnsupportedParameter, message));
        }
        Ok(Self(query))
    }

    /// A text; an empty one is as good as none.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<String>, Error> {
        let Some(text) = self.0.last(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        if text.len() > LONGEST || text.contains('\0') {
            let message = format!("Invalid '{name}': expected at most {LONGEST} bytes and no NUL.");
            return Err(invalid("invalid_value", message));
        }
        Ok(Some(text.to_owned()))
    }

    /// Entries of a page.
    pub(super) fn limit(&self, usual: usize) -> Result<usize, Error> {
        let limit = self.0.whole("limit", 1)?.unwrap_or(usual);
        if limit > MOST_PER_PAGE {
            let message = format!(
                "Invalid 'limit': integer above maximum value. Expected a value <= {MOST_PER_PAGE}, but got {limit} instead."
            );
            return Err(invalid("integer_above_max_value", message));
        }
        Ok(limit)
    }

    /// `true` or `false`; false when it is not there.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, Error> {
        match self.0.last(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(super::refused(not_one_of(&Path::Top(name), &["true", "false"], other))),
        }
    }

    /// One of a closed set.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &'static str,
        all: &[(&'static str, T)],
    ) -> Result<Option<T>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = all.iter().find(|(known, _)| *known == text).map(|(_, value)| *value);
        let known: Vec<_> = all.iter().map(|(known, _)| *known).collect();
        found.map(Some).ok_or_else(|| super::refused(not_one_of(&Path::Top(name), &known, &text)))
    }

    /// What the reports and the log are filtered by.
    pub(super) fn filter(&self, now: i64) -> Result<Filter, Error> {
        let filter = Filter {
            since: self.time("since", now)?,
            until: self.time("until", now)?,
            key_id: self.text("key")?,
            team: self.text("team")?,
            model: self.text("model")?,
            provider: self.text("provider")?,
            status: None,
        };
        if filter.since.zip(filter.until).is_some_and(|(since, until)| since >= until) {
            return Err(invalid("invalid_value", "Invalid 'until': it must be later than 'since'."));
        }
        Ok(filter)
    }

    /// A moment, unix milliseconds.
    fn time(&self, name: &'static str, now: i64) -> Result<Option<i64>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        moment(&text, now).map(Some).ok_or_else(|| {
            let what = format!(
                "expected a time (2026-11-21T09:00:00Z), a date (2026-11-21), unix seconds or how long ago (7d, 24h, 30m), but \
                 got '{}' instead.",
                shown(&text)
            );
            super::refused(invalid_value(&Path::Top(name), &what))
        })
    }
}

/// A moment in any of its spellings, unix milliseconds: a time (`2026-11-21T09:00:00Z`), a date, unix seconds, or how long
/// before `now` (unix seconds): `7d`, `24h`, `30m`.
#[must_use]
pub fn moment(text: &str, now: i64) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let at = Timestamp::from_second(text.parse().ok()?).ok()?;
        return Some(at.as_millisecond());
    }
    if let Some((number, unit)) = text.split_at_checked(text.len().saturating_sub(1))
        && let Some(seconds) = match unit {
            "w" => Some(604_800),
            "d" => Some(86_400),
            "h" => Some(3600),
            "m" => Some(60),
            "s" => Some(1),
            _ => None,
        }
    {
        let number: u32 = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
        let at = now.checked_sub(i64::from(number).checked_mul(seconds)?)?;
        return Some(Timestamp::from_second(at).ok()?.as_millisecond());
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at.as_millisecond());
    }
    // Only a date: `2026-11-21T09:00` would otherwise be taken for its midnight.
    let date: Date = (text.len() == "2026-11-21".len()).then(|| text.parse().ok())??;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

impl Books {
    /// An id in a filter under which nothing was ever counted, and that names nothing, is a 404: it is a mistake.
    pub(super) async fn check_names(&self, filter: &Filter) -> Result<(), Fault> {
        if let Some(id) = &filter.key_id
            && self.configured_key(id).is_none()
            && self.store.key(id).await?.is_none()
            && self.never_counted(Filter { key_id: Some(id.clone()), ..Filter::default() }).await?
        {
            return Err(super::keys::no_key(id).into());
        }
        if let Some(id) = &filter.team
            && self.store.team(id).await?.is_none()
            && self.never_counted(Filter { team: Some(id.clone()), ..Filter::default() }).await?
        {
            return Err(super::teams::no_team(id).into());
        }
        Ok(())
    }

    async fn never_counted(&self, filter: Filter) -> Result<bool, Fault> {
        Ok(self.store.total(&filter).await?.requests == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_every_spelling() {
        const NOW: i64 = 1_795_253_896;
        for (text, at) in [
            ("2026-11-21T09:38:16Z", Some(NOW * 1000)),
            ("2026-11-21T10:38:16.5+01:00", Some(NOW * 1000 + 500)),
            ("2026-11-21", Some(1_795_219_200_000)),
            ("1795253896", Some(NOW * 1000)),
            ("0", Some(0)),
            ("7d", Some((NOW - 7 * 86_400) * 1000)),
            ("24h", Some((NOW - 86_400) * 1000)),
            ("30m", Some((NOW - 1800) * 1000)),
            ("2w", Some((NOW - 14 * 86_400) * 1000)),
            ("", None),
            ("d", None),
            ("-7d", None),
            ("7 d", None),
            ("7y", None),
            ("99999999999d", None),
            ("99999999999999999999", None),
            ("2026-13-01", None),
            ("2026-11-21T09:38:16", None),
            ("yesterday", None),
            ("1e9", None),
            ("٣d", None),
        ] {
            assert_eq!(moment(text, NOW), at, "{text}");
        }
    }
}
