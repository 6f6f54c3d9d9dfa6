//! The content of a large store: rows, payloads, keys, teams and the audit log.

use std::fmt;
use std::sync::Arc;

use gw_store::audit::{Actor, AuditRecord};
use gw_store::ledger::{Attempt, Entry};
use gw_store::payloads::{Payload, PayloadBody};
use gw_store::{Budget, Limits, NewKey, Period, Role, Store, Team};
use gw_wire::attribution::Attribution;
use gw_wire::request_id;

use crate::error::Result;
use crate::ledger::entry;

const HOURS: i64 = 90 * 24;
const ROWS_PER_BATCH: u64 = 20_000;
const PAYLOADS_PER_BATCH: u64 = 2_000;
/// A run of an agent has a request in so many rows, and ends after twenty of them.
const ROWS_PER_SESSION_ROW: u64 = 20;
const ROWS_PER_SESSION: u64 = 400;
const KEYS: u64 = 60;
const TEAMS: u64 = 5;
const CHANGES: u64 = 10_000;
/// Bytes of the content of a kept request and of its answer: a short chat.
const PAYLOAD_BYTES: usize = 600;

/// How much the store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    rows: u64,
    payloads: u64,
    /// The distinct end users of the rows. 0: the rows name nobody.
    end_users: u64,
    /// The unix milliseconds at which the log ends.
    end: i64,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {} payloads, {} end users, ", self.rows, self.payloads, self.end_users)?;
        write!(f, "{KEYS} keys, {CHANGES} changes")
    }
}

impl Content {
    pub(super) fn new(rows: u64, payloads: u64, end_users: u64, end: i64) -> Self {
        Self { rows, payloads: payloads.min(rows), end_users, end }
    }

    /// Whether the rows name end users, tags and repositories.
    pub(super) const fn has_names(&self) -> bool {
        self.end_users > 0
    }

    pub(super) fn to_text(self) -> String {
        format!("{} {} {} {}", self.rows, self.payloads, self.end, self.end_users)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace();
        let (rows, payloads) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        let end = numbers.next()?.parse().ok()?;
        let end_users = numbers.next().map_or(Some(0), |number| number.parse().ok())?;
        Some(Self { rows, payloads, end_users, end })
    }

    /// The n-th row.
    fn row(&self, n: u64) -> Entry {
        let plain = entry(n, self.rows, (self.end, HOURS));
        let session = (n % ROWS_PER_SESSION_ROW == 3).then_some(n / ROWS_PER_SESSION);
        // A run of an agent has one key.
        let like = session.map_or(n, |session| session * ROWS_PER_SESSION);
        let owner = entry(like, self.rows, (self.end, HOURS));
        let number: u64 = owner.key_id.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let operation = ["chat", "messages", "responses"].get((number % 3) as usize).copied();
        let mut row = Entry {
            request_id: self.request_id(n).into(),
            key_id: owner.key_id,
            key_name: owner.key_name,
            team: owner.team,
            operation: operation.unwrap_or("chat").into(),
            model: owner.model,
            provider: owner.provider,
            status: "ok".into(),
            session: session.map(|session| format!("run-{session}")),
            attribution: self.has_names().then(|| Arc::new(self.attribution(n))),
            latency_ms: 400 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 4_000,
            ..plain
        };
        if n % 100 == 50 {
            fail(&mut row, n);
        }
        row
    }

    /// The names of the n-th row: an end user out of all of them, one of 20 tags and one of 200 repositories.
    fn attribution(&self, n: u64) -> Attribution {
        let drawn = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        Attribution {
            end_user: Some(format!("user-{}", drawn % self.end_users).into()),
            tags: vec![format!("app-{}", drawn % 20).into()],
            repository: Some(format!("acme/repository-{}", drawn % 200).into()),
            ..Attribution::default()
        }
    }

    /// The id of the n-th row.
    fn request_id(&self, n: u64) -> String {
        let at = entry(n, self.rows, (self.end, HOURS)).at;
        let id = request_id::format(u128::from(at.unsigned_abs()) << 80 | u128::from(n));
        String::from_utf8_lossy(&id).into_owned()
    }

    /// The id of a row with a payload and a session, another one in each round.
    pub(super) fn request_with_session(&self, round: u64) -> String {
        let newest = self.rows.saturating_sub(1 + round * 977);
        self.request_id(newest - (newest + ROWS_PER_SESSION_ROW - 3) % ROWS_PER_SESSION_ROW)
    }

    /// The id of an old row, another one in each round.
    pub(super) fn old_request(&self, round: u64) -> String {
        self.request_id((self.rows / 3 + round * 7_919) % self.rows.max(1))
    }

    /// A moment of the log in unix seconds, another one in each round.
    pub(super) fn moment(&self, round: u64) -> i64 {
        self.end / 1000 - i64::try_from(round * 86_399).unwrap_or(0) % (HOURS * 3600)
    }

    /// A session, another one in each round.
    pub(super) fn session(&self, round: u64) -> String {
        let last = (self.rows / ROWS_PER_SESSION).saturating_sub(1);
        format!("run-{}", last.saturating_sub(round * 31))
    }
}

/// Turns a row into a failed request. Most have `upstream_error`; a few have a rare code.
fn fail(row: &mut Entry, n: u64) {
    let status = match n % 1_000_000 {
        150 => "upstream_quota_exceeded",
        other if other % 300 == 50 => "upstream_timeout",
        _ => "upstream_error",
    };
    let attempt = Attempt {
        provider: Arc::clone(&row.provider),
        model: Arc::clone(&row.model),
        status: status.into(),
        latency_ms: row.latency_ms,
        started_ms: 0,
        image_fetch_ms: 0,
        cost: Some(row.cost),
        known_part: 0,
        reason: Some(format!("The upstream's own words about the failure, with its reference {n:x}.")),
    };
    row.attempts = vec![attempt];
    row.status = status.into();
    row.ttft_ms = None;
}

/// Fills an empty store.
pub(super) async fn fill(store: &Store, content: &Content) -> Result<()> {
    for number in 0..TEAMS {
        let limits = Limits { budget: budget(Period::Month), ..Limits::default() };
        store.put_team(&Team { id: format!("team-{number}"), limits, created_at: 0 }).await?;
    }
    for number in 0..KEYS {
        let mut key = NewKey::generate()?.stored(&format!("service {number}"), Role::Inference, 0);
        key.id = format!("sk-gw-{number:06}");
        key.team = (number % TEAMS > 0).then(|| format!("team-{}", number % TEAMS));
        let period = Period::ALL.get((number % 4) as usize).copied().unwrap_or_default();
        key.limits = Limits { budget: budget(period), ..Limits::default() };
        store.insert_key(&key).await?;
    }
    for number in 0..CHANGES {
        store.record_change(&change(content, number)).await?;
    }
    for first in (0..content.rows).step_by(ROWS_PER_BATCH as usize) {
        let rows: Vec<Entry> =
            (first..(first + ROWS_PER_BATCH).min(content.rows)).map(|n| content.row(n)).collect();
        store.record(&rows).await?;
    }
    let kept = content.rows - content.payloads;
    for first in (kept..content.rows).step_by(PAYLOADS_PER_BATCH as usize) {
        let last = (first + PAYLOADS_PER_BATCH).min(content.rows);
        let payloads: Vec<Payload> = (first..last).map(|n| payload(content, n)).collect();
        store.keep_payloads(&payloads).await?;
    }
    // A running gateway would have added up these days.
    store.roll_up(content.end / 1000 - 24 * 3600).await?;
    store.roll_up_names(content.end / 1000).await?;
    Ok(())
}

fn budget(period: Period) -> Option<Budget> {
    Some(Budget { nano: 1_000_000_000_000, period })
}

fn change(content: &Content, number: u64) -> AuditRecord {
    AuditRecord {
        at: content.end,
        actor: Actor::gateway(),
        action: "key.update",
        object: format!("sk-gw-{:06}", number % KEYS),
        before: Some(format!(r#"{{"rpm":{number}}}"#)),
        after: Some(format!(r#"{{"rpm":{}}}"#, number + 1)),
    }
}

fn payload(content: &Content, n: u64) -> Payload {
    let text = "A fox and a dog meet in a field. ".repeat(PAYLOAD_BYTES / 33);
    let body = |text: String| PayloadBody { text, is_cut: false };
    Payload {
        request_id: content.request_id(n),
        at: content.row(n).at,
        request: body(format!(
            r#"{{"model":"gpt-4o-mini","messages":[{{"role":"user","content":"{text}{n}"}}]}}"#
        )),
        response: body(format!(
            r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}}}}]}}"#
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_filled_store_has_what_the_views_ask_for() {
        let store = Store::in_memory().await.unwrap();
        let content = Content::new(5_000, 2_000, 100, 1_795_000_000_000);
        fill(&store, &content).await.unwrap();
        assert_eq!(Content::parse(&content.to_text()), Some(content));
        let total = store.total(&gw_store::ledger::Filter::default()).await.unwrap();
        assert_eq!((total.requests, total.failed), (5_000, 50));
        let found = store.request(&content.request_with_session(1)).await.unwrap().unwrap();
        assert_eq!(found.attribution.map(|names| names.tags.len()), Some(1));
        assert!(found.session.is_some() && store.payload(&found.request_id).await.unwrap().is_some());
        assert!(store.request(&content.old_request(1)).await.unwrap().is_some());
    }
}
