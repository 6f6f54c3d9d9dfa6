//! The query strings of the management API: every parameter is known, and every value is checked.

use gw_engine::catalog::query::{Query, invalid, shown};
use gw_engine::error::{Error, Kind};
use gw_store::ledger::Filter;
use gw_wire::attribution::Dimension;
use gw_wire::operation::Operation;
use gw_wire::request::fields::{Path, invalid_value, not_one_of};

use crate::time::parse_moment;

/// Maximum number of entries of a page.
const MAX_PAGE_ENTRIES: usize = 1000;
/// Maximum length of a parameter's value, in bytes.
const MAX_PARAMETER_BYTES: usize = 500;

/// The span of a report or of the request log.
pub(crate) const SPAN: [&str; 2] = ["since", "until"];
/// The names by which reports and the request log are filtered.
pub(crate) const NAMES: [&str; 11] = [
    "key",
    "team",
    "model",
    "provider",
    "session",
    "surface",
    "end_user",
    "tag",
    "repository",
    "branch",
    "pull_request",
];

/// The APIs through which requests come.
fn surfaces() -> [(&'static str, &'static str); Operation::ALL.len()] {
    Operation::ALL.map(|operation| (operation.row().surface, operation.row().surface))
}

/// The decoded parameters of a query.
pub(crate) struct QueryParams(Query);

impl QueryParams {
    /// Decodes a query that may have the parameters `known`. It refuses every other parameter, because a report that ignores
    /// a mistyped filter would hold the sums of all requests.
    ///
    /// # Errors
    /// `unsupported_parameter`.
    pub(crate) fn parse(query: &str, known: &[&str]) -> Result<Self, Error> {
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

    /// The value of a parameter as it was given, which may be empty.
    pub(crate) fn value(&self, name: &'static str) -> Option<&str> {
        self.0.last(name)
    }

    /// A text; `None` if the parameter is absent or empty.
    ///
    /// # Errors
    /// `invalid_value` for a long text or one with a NUL.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<String>, Error> {
        let Some(text) = self.value(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        if text.len() > MAX_PARAMETER_BYTES || text.contains('\0') {
            let message =
                format!("Invalid '{name}': expected at most {MAX_PARAMETER_BYTES} bytes and no NUL.");
            return Err(invalid("invalid_value", message));
        }
        Ok(Some(text.to_owned()))
    }

    /// The parameter `limit`: the number of entries of a page.
    ///
    /// # Errors
    /// `invalid_type`, `integer_below_min_value`, `integer_above_max_value`.
    pub(crate) fn page_size(&self, default: usize) -> Result<usize, Error> {
        let limit = self.0.whole("limit", 1)?.unwrap_or(default);
        if limit > MAX_PAGE_ENTRIES {
            let message = format!(
                "Invalid 'limit': integer above maximum value. Expected a value <= {MAX_PAGE_ENTRIES}, but got {limit} instead."
            );
            return Err(invalid("integer_above_max_value", message));
        }
        Ok(limit)
    }

    /// `true` or `false`; false if the parameter is absent.
    ///
    /// # Errors
    /// `invalid_value`.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, Error> {
        match self.value(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(not_one_of(&Path::Top(name), &["true", "false"], other).into()),
        }
    }

    /// One of the named values `all`; `None` if the parameter is absent or empty.
    ///
    /// # Errors
    /// `invalid_value`.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &'static str,
        all: &[(&'static str, T)],
    ) -> Result<Option<T>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = all.iter().find(|(known, _)| *known == text).map(|(_, value)| *value);
        let known: Vec<_> = all.iter().map(|(known, _)| *known).collect();
        found.map(Some).ok_or_else(|| not_one_of(&Path::Top(name), &known, &text).into())
    }

    /// The filter of the usage report and of the request log, without a status.
    ///
    /// # Errors
    /// `invalid_value`.
    pub(crate) fn filter(&self, now: i64) -> Result<Filter, Error> {
        let (since, until) = self.span(now)?;
        Ok(Filter {
            since,
            until,
            key_id: self.text("key")?,
            team: self.text("team")?,
            model: self.text("model")?,
            provider: self.text("provider")?,
            session: self.text("session")?,
            surface: self.choice("surface", &surfaces())?.map(str::to_owned),
            names: self.names()?,
            status: None,
        })
    }

    /// `since` and `until` as unix milliseconds.
    ///
    /// # Errors
    /// `invalid_value`: a time is wrong, or no time lies between them.
    pub(crate) fn span(&self, now: i64) -> Result<(Option<i64>, Option<i64>), Error> {
        let (since, until) = (self.moment("since", now)?, self.moment("until", now)?);
        if since.zip(until).is_some_and(|(since, until)| since >= until) {
            return Err(invalid("invalid_value", "Invalid 'until': it must be later than 'since'."));
        }
        Ok((since, until))
    }

    /// The names that the requests must have, each with its kind.
    fn names(&self) -> Result<Vec<(Dimension, String)>, Error> {
        let mut names = Vec::new();
        for dimension in Dimension::ALL {
            names.extend(self.text(dimension.name())?.map(|name| (dimension, name)));
        }
        Ok(names)
    }

    /// A whole number that is not negative.
    ///
    /// # Errors
    /// `invalid_type`.
    pub(crate) fn whole(&self, name: &'static str) -> Result<Option<i64>, Error> {
        Ok(self.0.whole(name, 0)?.map(|number| i64::try_from(number).unwrap_or(i64::MAX)))
    }

    /// A time as unix milliseconds.
    ///
    /// # Errors
    /// `invalid_value`.
    pub(crate) fn moment(&self, name: &'static str, now: i64) -> Result<Option<i64>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        parse_moment(&text, now).map(Some).ok_or_else(|| {
            let message = format!(
                "expected a time (2026-11-21T09:00:00Z), a date (2026-11-21), unix seconds or how long ago (7d, 24h, 30m), but \
                 got '{}' instead.",
                shown(&text)
            );
            invalid_value(&Path::Top(name), &message).into()
        })
    }
}
