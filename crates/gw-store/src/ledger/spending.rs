//! The spending of a key or a team, as its budget asks for it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gw_wire::request_id;

use super::known_days::DAY;
use super::{Spender, joined};
use crate::db::{Result, Store};
use crate::limits::{CountedTime, ROLLING_STEPS};
use crate::sql::{Sql, indexed};

const HOUR: i64 = 3_600;
/// The number of the step that stands for the time before.
const BEFORE: i64 = -1;
/// The text behind the number of a step.
const SUMS: &str = " AS BIGINT) AS step, CAST(coalesce(sum(cost_nano), 0) AS BIGINT) AS nano, \
    CAST(coalesce(sum(cost_rest), 0) AS BIGINT) AS rest, CAST(NULL AS TEXT) AS id FROM ";

/// The answer to a budget's question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The spending in femto-USD, by the begin of each step (unix seconds). Steps without spending may be absent. A time without
    /// steps has one, which begins with it. The last step of a rolling period has everything that is later, too.
    pub steps: Vec<(i64, i128)>,
    /// The spending in the time before.
    pub before: i128,
    /// Those of the requests in question that have a row, so that the sums include them.
    pub requests: Vec<String>,
}

impl Store {
    /// The spending of a key or a team in femto-USD, from the hour that contains `from` (unix seconds) up to the hours that
    /// begin before `until`.
    pub async fn spent(&self, who: Spender<'_>, from: i64, until: i64) -> Result<i128> {
        let time = CountedTime { from, until, step: None };
        let spent = self.spent_with(who, time, None, &[]).await?;
        Ok(spent.steps.into_iter().map(|(_, femtos)| femtos).sum())
    }

    /// The spending of each step of a time, that of another time `before` (begin and end), and those of the given requests that have
    /// a row, all at the same moment. Hours count as a whole.
    pub async fn spent_with(
        &self,
        who: Spender<'_>,
        time: CountedTime,
        before: Option<(i64, i64)>,
        requests: &[String],
    ) -> Result<Spent> {
        // SQLite finds a row by its time, which the id holds.
        let listed: Vec<(i64, Cow<'_, str>)> =
            requests.iter().map(|id| (request_id::timestamp_millis(id).unwrap_or(0), indexed(id))).collect();
        let listed = serde_json::to_string(&listed).unwrap_or_default();
        let is_postgres = self.is_postgres();
        let mut sql = Sql::new("");
        // SQLite has sums by day, with an index by team. A key has few rows an hour.
        if self.has_days() && matches!(who, Spender::Team(_)) {
            push_parts(&mut sql, who, time, before);
        } else {
            push_steps(&mut sql, who, time, is_postgres);
            if let Some((from, until)) = before {
                sql.push(" UNION ALL SELECT CAST(").push_int(BEFORE).push(SUMS).push("usage_hours WHERE ");
                push_hours(&mut sql, who, from, until);
            }
        }
        // One statement sees one moment.
        sql.push(if is_postgres {
            " UNION ALL SELECT 0::bigint, 0::bigint, 0::bigint, ledger.request_id FROM ledger WHERE ledger.request_id IN \
             (SELECT one ->> 1 FROM json_array_elements(CAST("
        } else {
            " UNION ALL SELECT 0, 0, 0, r.request_id FROM json_each("
        });
        sql.push_text(&listed);
        sql.push(if is_postgres {
            " AS json)) AS one)"
        } else {
            ") AS one CROSS JOIN ledger_rows AS r ON r.at = json_extract(one.value, '$[0]') \
             AND r.request_id = json_extract(one.value, '$[1]')"
        });
        let rows = self.list(sql, |row| {
            let (step, id): (i64, Option<String>) = (row.get("step")?, row.get("id")?);
            Ok((step, joined(row.get("nano")?, row.get("rest")?), id))
        });
        let (mut spent, mut steps) = (Spent::default(), BTreeMap::new());
        for (step, femtos, id) in rows.await? {
            match id {
                Some(id) => spent.requests.push(id),
                None if step == BEFORE => spent.before += femtos,
                None => *steps.entry(begin_of(time, step)).or_default() += femtos,
            }
        }
        spent.steps = steps.into_iter().collect();
        Ok(spent)
    }
}

/// The begin of a step of this time by its number.
fn begin_of(time: CountedTime, number: i64) -> i64 {
    time.from.saturating_add(time.step.unwrap_or_default().saturating_mul(number))
}

/// Writes the question for the sums of the steps: their numbers, and the sums in two columns.
fn push_steps<'q>(sql: &mut Sql<'q>, who: Spender<'q>, time: CountedTime, is_postgres: bool) {
    sql.push("SELECT CAST(");
    match time.step {
        Some(step) => {
            sql.push(if is_postgres { "least((hour - " } else { "min((hour - " }).push_int(time.from);
            // A step of a rolling period is whole hours, and its begin is a whole hour.
            sql.push(") / ").push_int(step.max(1)).push(", ").push_int(ROLLING_STEPS + 1).push(")");
        }
        None => drop(sql.push("0")),
    }
    sql.push(SUMS).push("usage_hours WHERE ");
    push_hours(sql, who, time.from, time.until);
    if time.step.is_some() {
        sql.push(" GROUP BY 1");
    }
}

/// Writes the question of [`push_steps`], and that for the time before, for SQLite: the whole days of each step come from the sums
/// of days, as far as these reach.
fn push_parts<'q>(sql: &mut Sql<'q>, who: Spender<'q>, time: CountedTime, before: Option<(i64, i64)>) {
    let mut separator = "";
    let last = if time.step.is_some() { ROLLING_STEPS + 1 } else { 0 };
    let steps = (0..=last).map(|number| {
        let end = if number == last { time.until } else { begin_of(time, number + 1) };
        (number, begin_of(time, number), end)
    });
    for (number, from, until) in steps.chain(before.map(|(from, until)| (BEFORE, from, until))) {
        let from = from.div_euclid(HOUR).saturating_mul(HOUR);
        let first = from.saturating_add(DAY - 1).div_euclid(DAY).saturating_mul(DAY);
        let end = until.div_euclid(DAY).saturating_mul(DAY).max(first).min(until);
        for (source, from, until) in [
            (Source::Hours, from, first.min(until)),
            (Source::Days, first, end),
            (Source::LaterHours, first, end),
            (Source::Hours, end, until),
        ] {
            if from < until {
                sql.push(separator).push("SELECT CAST(").push_int(number).push(SUMS);
                push_part(sql, who, source, from, until);
                separator = " UNION ALL ";
            }
        }
    }
}

/// Where the sums of a part of a time come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Hours,
    /// The days that are added up.
    Days,
    /// The hours after these days.
    LaterHours,
}

fn push_part<'q>(sql: &mut Sql<'q>, who: Spender<'q>, source: Source, from: i64, until: i64) {
    const END_OF_DAYS: &str = ", (SELECT until FROM usage_rollup))";
    sql.push(if source == Source::Days { "usage_days WHERE " } else { "usage_hours WHERE " });
    push_spender(sql, who);
    match source {
        Source::Hours => sql.push(" AND hour >= ").push_int(from).push(" AND hour < ").push_int(until),
        Source::Days => sql
            .push(" AND hour >= ")
            .push_int(from)
            .push(" AND hour < min(")
            .push_int(until)
            .push(END_OF_DAYS),
        Source::LaterHours => sql
            .push(" AND hour < ")
            .push_int(until)
            .push(" AND hour >= max(")
            .push_int(from)
            .push(END_OF_DAYS),
    };
}

/// Writes the conditions on the hours between two moments.
fn push_hours<'q>(sql: &mut Sql<'q>, who: Spender<'q>, from: i64, until: i64) {
    push_spender(sql, who);
    sql.push(" AND hour >= ").push_int(from.div_euclid(HOUR).saturating_mul(HOUR));
    sql.push(" AND hour < ").push_int(until);
}

fn push_spender<'q>(sql: &mut Sql<'q>, who: Spender<'q>) {
    match who {
        Spender::Key(id) => sql.push("key_id = ").push_name(id),
        Spender::Team(id) => sql.push("team = ").push_name(id),
    };
}
