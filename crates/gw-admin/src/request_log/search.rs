//! The search of the request log: the filters that the database knows, and those that are compared row by row.

use std::sync::Arc;

use gw_engine::error::Error;
use gw_store::Store;
use gw_store::ledger::{Cursor, Entry, Filter};
use gw_wire::attribution::Dimension;
use gw_wire::money::Price;
use gw_wire::request::fields::{Path, invalid_value};

use crate::error::AdminError;
use crate::query::{NAMES, QueryParams};

/// The most rows that one request compares. They bound the work, however long the log is.
const MAX_COMPARED: usize = 5_000;
/// The rows that one query reads.
const ROWS_PER_QUERY: usize = 1_000;
/// Femto-USD per nano-USD.
const FEMTOS_PER_NANO: i128 = 1_000_000;

/// The conditions of a search beside the names.
const CONDITIONS: [&str; 4] = ["status", "cost_min", "latency_min_ms", "error"];

/// The parameters that every search of the log has.
pub(crate) fn filters() -> Vec<&'static str> {
    [&NAMES[..], &CONDITIONS].concat()
}

/// A search of the request log.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestSearch {
    /// The conditions that the database checks.
    pub(crate) filter: Filter,
    /// The least cost, in femto-USD.
    cost_min: Option<i128>,
    latency_min_ms: Option<u64>,
    /// A part of an error's code or of an upstream's reason, in lower case.
    error: Option<String>,
}

/// The rows of a search.
pub(crate) struct FoundRequests {
    pub(crate) entries: Vec<Entry>,
    /// Where the next page begins. None: there is no other row.
    pub(crate) next: Option<Cursor>,
    /// The number of rows that were compared. None: the database has compared all.
    pub(crate) compared: Option<usize>,
}

impl RequestSearch {
    /// Reads the parameters at the time `now` (unix seconds).
    ///
    /// # Errors
    /// `invalid_value`, `invalid_type`.
    pub(crate) fn parse(params: &QueryParams, now: i64) -> Result<Self, Error> {
        let filter = Filter { status: params.text("status")?, ..params.filter(now)? };
        let cost_min = params.text("cost_min")?.map(|text| {
            let price = Price::parse(&text);
            let invalid = || {
                Error::from(invalid_value(&Path::Top("cost_min"), "expected an amount in USD, such as 0.05."))
            };
            price.map(|price| i128::from(price.nanos()) * FEMTOS_PER_NANO).map_err(|_| invalid())
        });
        let latency = params.whole("latency_min_ms")?;
        Ok(Self {
            filter,
            cost_min: cost_min.transpose()?,
            latency_min_ms: latency.map(|millis| u64::try_from(millis).unwrap_or(0)),
            error: params.text("error")?.map(|text| text.to_lowercase()),
        })
    }

    fn compares_rows(&self) -> bool {
        self.cost_min.is_some() || self.latency_min_ms.is_some() || self.error.is_some()
    }

    /// Finds the newest rows after `after`, at most `limit`.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn run(
        &self,
        store: &Store,
        mut after: Option<Cursor>,
        limit: usize,
    ) -> Result<FoundRequests, AdminError> {
        let (mut entries, mut compared) = (Vec::new(), 0);
        loop {
            // One row more than the page holds tells whether there is another page.
            let wanted = if self.compares_rows() { ROWS_PER_QUERY } else { limit + 1 };
            let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
            let page = store.requests(&self.filter, after.as_ref(), wanted).await?;
            let is_last = page.len() < wanted as usize;
            for entry in page {
                if entries.len() == limit {
                    return Ok(self.found(entries, after, compared));
                }
                compared += 1;
                after = Some(cursor(&entry));
                if self.matches_row(&entry) {
                    entries.push(entry);
                }
            }
            if is_last {
                return Ok(self.found(entries, None, compared));
            }
            if entries.len() == limit || compared >= MAX_COMPARED {
                return Ok(self.found(entries, after, compared));
            }
        }
    }

    fn found(&self, entries: Vec<Entry>, next: Option<Cursor>, compared: usize) -> FoundRequests {
        FoundRequests { entries, next, compared: self.compares_rows().then_some(compared) }
    }

    /// Whether a row matches the filters that the database does not know.
    fn matches_row(&self, entry: &Entry) -> bool {
        let holds = |text: &str, wanted: &String| text.to_lowercase().contains(wanted);
        let has_error = |wanted: &String| {
            let mut reasons = entry.attempts.iter().filter_map(|attempt| attempt.reason.as_deref());
            let mut codes =
                entry.attempts.iter().map(|attempt| &*attempt.status).filter(|code| *code != "ok");
            (entry.status != "ok" && holds(&entry.status, wanted))
                || reasons.any(|reason| holds(reason, wanted))
                || codes.any(|code| holds(code, wanted))
        };
        self.cost_min.is_none_or(|least| entry.cost >= least)
            && self.latency_min_ms.is_none_or(|least| entry.latency_ms >= least)
            && self.error.as_ref().is_none_or(has_error)
    }

    /// Whether a new row matches all filters except the times.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        let Filter { since: _, until: _, key_id, team, model, provider, session, surface, names, status } =
            &self.filter;
        let attribution = entry.attribution.as_deref();
        let has_name = |(dimension, name): &(Dimension, String)| {
            attribution.is_some_and(|attribution| attribution.has(*dimension, name))
        };
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let has_status = match status.as_deref() {
            None => true,
            Some("failed") => entry.status != "ok",
            Some(status) => entry.status == status,
        };
        is(key_id, Some(&entry.key_id))
            && is(team, entry.team.as_deref())
            && is(model, Some(&entry.model))
            && is(provider, Some(&entry.provider))
            && is(session, entry.session.as_deref())
            && is(surface, Some(entry.surface()))
            && names.iter().all(has_name)
            && has_status
            && self.matches_row(entry)
    }
}

/// The position of a row in the log.
pub(crate) fn cursor(entry: &Entry) -> Cursor {
    Cursor { at: entry.at, request_id: Arc::clone(&entry.request_id) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gw_store::ledger::Attempt;
    use gw_wire::attribution::Attribution;

    use super::*;

    fn search(query: &str) -> Result<RequestSearch, Error> {
        RequestSearch::parse(&QueryParams::parse(query, &filters())?, 0)
    }

    fn entry() -> Entry {
        let attempt = Attempt {
            provider: "acme".into(),
            model: "acme/fast".into(),
            status: "upstream_error".into(),
            latency_ms: 5,
            cost: Some(0),
            started_ms: 0,
            image_fetch_ms: 0,
            known_part: 0,
            reason: Some("Quota Exceeded for project".to_owned()),
        };
        Entry {
            key_id: "k".into(),
            status: "upstream_error".into(),
            operation: "completion".into(),
            model: "acme/fast".into(),
            cost: 50_000_000_000_000,
            latency_ms: 700,
            attempts: vec![attempt],
            attribution: Some(Arc::new(Attribution {
                end_user: Some("ann".into()),
                tags: vec!["a".into()],
                ..Attribution::default()
            })),
            ..Entry::default()
        }
    }

    #[test]
    fn a_row_matches_all_filters() {
        for (query, matches) in [
            ("", true),
            ("key=k&model=acme/fast&surface=completions", true),
            ("key=other", false),
            ("team=blue", false),
            ("session=s", false),
            ("end_user=ann&tag=a", true),
            ("tag=ann", false),
            ("branch=a", false),
            ("surface=chat", false),
            ("status=failed", true),
            ("status=upstream_error", true),
            ("status=ok", false),
            ("cost_min=0.05", true),
            ("cost_min=0.050001", false),
            ("latency_min_ms=700", true),
            ("latency_min_ms=701", false),
            ("error=quota%20exceeded", true),
            ("error=UPSTREAM", true),
            ("error=timeout", false),
        ] {
            assert_eq!(search(query).unwrap().matches(&entry()), matches, "{query}");
        }
        for (query, code) in [
            ("cost_min=x", "invalid_value"),
            ("cost_min=-1", "invalid_value"),
            ("latency_min_ms=1.5", "invalid_type"),
        ] {
            assert_eq!(search(query).unwrap_err().code(), code, "{query}");
        }
    }
}
