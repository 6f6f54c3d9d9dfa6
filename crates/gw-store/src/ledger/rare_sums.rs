//! Sums of the amounts that few requests have: what prompt caches of providers saved and cost, and the costs that providers stated. They are
//! tables of their own, so that other requests do not pay for them.

use std::collections::{BTreeMap, HashMap};

use gw_wire::attribution::Dimension;

use super::line::{Line, Names};
use super::prompt_caches::PromptCacheSums;
use super::source::push_hours;
use super::write::{UsageRow, add_rows_postgres, add_rows_sqlite};
use super::{Entry, Filter, GroupBy, HOUR_MS, joined, split};
use crate::db::{Result, Store, WriteTransaction};
use crate::sql::{Row, Sql};

/// The counters of a row.
const COUNTS: usize = 9;
/// The kind of the sums over all tags of all requests.
const ALL_TAGS: &str = "tags";
/// The sums of rows, as `read` reads them.
const SUMS: &str = "CAST(coalesce(sum(saved_nano), 0) AS BIGINT) AS saved_nano, \
    CAST(coalesce(sum(saved_rest), 0) AS BIGINT) AS saved_rest, \
    CAST(coalesce(sum(surcharge_nano), 0) AS BIGINT) AS surcharge_nano, \
    CAST(coalesce(sum(surcharge_rest), 0) AS BIGINT) AS surcharge_rest, \
    CAST(coalesce(sum(lost_nano), 0) AS BIGINT) AS lost_nano, \
    CAST(coalesce(sum(lost_rest), 0) AS BIGINT) AS lost_rest, \
    CAST(coalesce(sum(provider_nano), 0) AS BIGINT) AS provider_nano, \
    CAST(coalesce(sum(provider_rest), 0) AS BIGINT) AS provider_rest, \
    CAST(coalesce(sum(provider_requests), 0) AS BIGINT) AS provider_requests";

/// Amounts that few requests have, in femto-USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RareSums {
    /// The savings and surcharges of prompt caches.
    pub prompt_cache: PromptCacheSums,
    /// The costs that providers stated.
    provider_cost: i128,
    /// The requests whose provider stated a cost.
    provider_requests: u64,
}

/// Amounts that few requests have, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RareSumsByName {
    /// The amounts of the names that were asked for. A name without amounts is missing.
    pub listed: HashMap<String, RareSums>,
    /// The amounts of all other names.
    pub others: RareSums,
    /// The amounts of the requests without a name.
    pub unnamed: RareSums,
    /// The amounts of all requests, each once.
    pub total: RareSums,
}

impl RareSums {
    /// The amounts of one request.
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            prompt_cache: entry.prompt_cache.as_deref().map(PromptCacheSums::of).unwrap_or_default(),
            provider_cost: entry.provider_cost.unwrap_or_default(),
            provider_requests: u64::from(entry.provider_cost.is_some()),
        }
    }

    /// The costs that providers stated. None: no request has one.
    #[must_use]
    pub fn provider_cost(&self) -> Option<i128> {
        (self.provider_requests > 0).then_some(self.provider_cost)
    }

    /// Adds other amounts.
    pub fn add(&mut self, more: &Self) {
        self.prompt_cache.add(&more.prompt_cache);
        self.provider_cost += more.provider_cost;
        self.provider_requests += more.provider_requests;
    }

    /// These amounts without a part of them.
    fn without(mut self, part: &Self) -> Self {
        self.prompt_cache.saved -= part.prompt_cache.saved;
        self.prompt_cache.surcharge -= part.prompt_cache.surcharge;
        self.prompt_cache.lost -= part.prompt_cache.lost;
        self.provider_cost -= part.provider_cost;
        self.provider_requests = self.provider_requests.saturating_sub(part.provider_requests);
        self
    }

    fn counts(&self) -> [i64; COUNTS] {
        let PromptCacheSums { saved, surcharge, lost } = self.prompt_cache;
        let [saved, surcharge, lost, provider] = [saved, surcharge, lost, self.provider_cost].map(split);
        let requests = i64::try_from(self.provider_requests).unwrap_or(i64::MAX);
        [saved.0, saved.1, surcharge.0, surcharge.1, lost.0, lost.1, provider.0, provider.1, requests]
    }

    fn read(row: &Row) -> sqlx::Result<Self> {
        Ok(Self {
            prompt_cache: PromptCacheSums {
                saved: joined(row.get("saved_nano")?, row.get("saved_rest")?),
                surcharge: joined(row.get("surcharge_nano")?, row.get("surcharge_rest")?),
                lost: joined(row.get("lost_nano")?, row.get("lost_rest")?),
            },
            provider_cost: joined(row.get("provider_nano")?, row.get("provider_rest")?),
            provider_requests: u64::try_from(row.get::<i64>("provider_requests")?).unwrap_or(0),
        })
    }
}

/// A statement that adds rows. `$names` are the columns of the key besides the hour.
macro_rules! add_up {
    ($table:literal, $names:literal, $rows:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " AS sums (hour, ",
            $names,
            ", saved_nano, saved_rest, surcharge_nano, surcharge_rest, lost_nano, lost_rest, provider_nano, provider_rest, \
             provider_requests) ",
            $rows,
            " ON CONFLICT (hour, ",
            $names,
            ") DO UPDATE SET saved_nano = sums.saved_nano + excluded.saved_nano, \
             saved_rest = sums.saved_rest + excluded.saved_rest, \
             surcharge_nano = sums.surcharge_nano + excluded.surcharge_nano, \
             surcharge_rest = sums.surcharge_rest + excluded.surcharge_rest, \
             lost_nano = sums.lost_nano + excluded.lost_nano, lost_rest = sums.lost_rest + excluded.lost_rest, \
             provider_nano = sums.provider_nano + excluded.provider_nano, \
             provider_rest = sums.provider_rest + excluded.provider_rest, \
             provider_requests = sums.provider_requests + excluded.provider_requests"
        )
    };
}
macro_rules! hours {
    ($rows:literal) => {
        add_up!("usage_prompt_caches", "surface, key_id, team, model, provider", $rows)
    };
}
macro_rules! sessions {
    ($rows:literal) => {
        add_up!("usage_prompt_cache_sessions", "session, surface, key_id, team, model, provider", $rows)
    };
}
macro_rules! names {
    ($rows:literal) => {
        add_up!("usage_prompt_cache_names", "kind, name, surface, key_id, team, model, provider", $rows)
    };
}

fn sqlite_hours(_: usize) -> (&'static str, usize) {
    (hours!("VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"), 1)
}

fn sqlite_sessions(_: usize) -> (&'static str, usize) {
    (sessions!("VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"), 1)
}

fn sqlite_names(_: usize) -> (&'static str, usize) {
    (names!("VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"), 1)
}

const POSTGRES_HOURS: &str = hours!(
    "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])"
);
const POSTGRES_SESSIONS: &str = sessions!(
    "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], \
     $15::bigint[], $16::bigint[])"
);
const POSTGRES_NAMES: &str = names!(
    "SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
     $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], \
     $15::bigint[], $16::bigint[], $17::bigint[])"
);

/// The sums of a table by the hour and its other key columns, in their order, so that two processes do not deadlock.
type Added<'l, const NAMES: usize> = BTreeMap<(i64, [&'l str; NAMES]), RareSums>;

fn rows<'l, const NAMES: usize>(sums: &Added<'l, NAMES>) -> Vec<UsageRow<'l, NAMES, COUNTS>> {
    let row = |(&(hour, names), sums): (&(i64, [&'l str; NAMES]), &RareSums)| UsageRow {
        hour,
        names,
        counts: sums.counts(),
    };
    sums.iter().map(row).collect()
}

/// Adds the amounts of lines to the sums. `lines` have the index of their group.
pub(super) async fn add_up<'l>(
    change: &mut WriteTransaction<'_>,
    groups: &'l [(&str, Names)],
    lines: impl Iterator<Item = (&'l Line, usize)>,
) -> sqlx::Result<()> {
    let (mut by_hour, mut by_session, mut by_name) = (Added::new(), Added::new(), Added::new());
    for (line, place) in lines.filter(|(line, _)| line.rare != RareSums::default()) {
        let Some((_, Names { key_id, team, model, provider, surface })) = groups.get(place) else { continue };
        let hour = line.at.div_euclid(HOUR_MS) * 3600;
        let (team, session) = (team.as_deref().unwrap_or(""), line.session.as_deref().unwrap_or(""));
        let add = |sums: &mut RareSums| sums.add(&line.rare);
        add(by_hour.entry((hour, [surface, key_id, team, model, provider])).or_default());
        add(by_session.entry((hour, [session, surface, key_id, team, model, provider])).or_default());
        for (kind, name) in keys_of_names(line) {
            add(by_name.entry((hour, [kind, name, surface, key_id, team, model, provider])).or_default());
        }
    }
    match change {
        WriteTransaction::Sqlite(transaction) => {
            add_rows_sqlite(transaction, &rows(&by_hour), sqlite_hours).await?;
            add_rows_sqlite(transaction, &rows(&by_session), sqlite_sessions).await?;
            add_rows_sqlite(transaction, &rows(&by_name), sqlite_names).await
        }
        WriteTransaction::Postgres(held) => {
            add_rows_postgres(held, &rows(&by_hour), POSTGRES_HOURS).await?;
            add_rows_postgres(held, &rows(&by_session), POSTGRES_SESSIONS).await?;
            add_rows_postgres(held, &rows(&by_name), POSTGRES_NAMES).await
        }
    }
}

/// The kinds and names under which a line counts: its names, once for each kind, and once for each tag.
fn keys_of_names(line: &Line) -> impl Iterator<Item = (&str, &str)> {
    let attribution = line.attribution.as_deref();
    attribution.into_iter().flat_map(|attribution| {
        let has = |kind: &Dimension| attribution.names().any(|(other, _)| other == *kind);
        let kinds = Dimension::ALL.into_iter().filter(has).map(|kind| (kind.name(), ""));
        let all_tags = attribution.tags.iter().map(|_| (ALL_TAGS, ""));
        let names = attribution.names().map(|(kind, name)| (kind.name(), name));
        kinds.chain(all_tags).chain(names).collect::<Vec<_>>()
    })
}

impl Store {
    /// The amounts of the requests that match the filter, by group. None: the sums do not know them, because the filter has several names,
    /// or a name and a session.
    pub async fn rare_sums(&self, by: GroupBy, filter: &Filter) -> Result<Option<Vec<(String, RareSums)>>> {
        let has_session = by == GroupBy::Session || filter.session.is_some();
        let mut sql = Sql::new("SELECT ");
        sql.push(by.column()).push(" AS name, ").push(SUMS);
        match filter.names.as_slice() {
            [] if has_session => {
                sql.push(" FROM usage_prompt_cache_sessions WHERE 1 = 1");
            }
            [] => {
                sql.push(" FROM usage_prompt_caches WHERE 1 = 1");
            }
            [(dimension, name)] if !has_session => {
                sql.push(" FROM usage_prompt_cache_names WHERE kind = ").push_text(dimension.name());
                sql.push(" AND name = ").push_text(name);
            }
            _ => return Ok(None),
        }
        push_hours(&mut sql, filter);
        sql.push(" GROUP BY 1");
        self.list(sql, |row| Ok((row.get("name")?, RareSums::read(row)?))).await.map(Some)
    }

    /// The amounts of the requests that match the filter by their names of a kind. None: the sums do not know them, because the filter has
    /// names or a session.
    pub async fn rare_sums_by_name(
        &self,
        dimension: Dimension,
        filter: &Filter,
        names: impl Iterator<Item = &str>,
    ) -> Result<Option<RareSumsByName>> {
        if !filter.names.is_empty() || filter.session.is_some() {
            return Ok(None);
        }
        let list = serde_json::to_string(&names.chain([""]).collect::<Vec<_>>()).unwrap_or_default();
        let mut sql = Sql::new("SELECT name, ");
        sql.push(SUMS).push(" FROM usage_prompt_cache_names WHERE kind = ").push_text(dimension.name());
        sql.push(if self.is_postgres() {
            " AND name IN (SELECT json_array_elements_text(CAST("
        } else {
            " AND name IN (SELECT value FROM json_each("
        });
        sql.push_owned(list).push(if self.is_postgres() { " AS json)))" } else { "))" });
        push_hours(&mut sql, filter);
        sql.push(" GROUP BY name UNION ALL SELECT CAST(NULL AS TEXT) AS name, ").push(SUMS);
        sql.push(" FROM usage_prompt_cache_names WHERE name = '' AND kind = ").push_text(ALL_TAGS);
        push_hours(&mut sql, filter);
        let mut found = RareSumsByName::default();
        let mut all_tags = RareSums::default();
        let read = |row: &Row| Ok((row.get::<Option<String>>("name")?, RareSums::read(row)?));
        for (name, sums) in self.list(sql, read).await? {
            match name {
                Some(name) => {
                    found.listed.insert(name, sums);
                }
                None => all_tags = sums,
            }
        }
        let named = found.listed.remove("").unwrap_or_default();
        for (_, sums) in self.rare_sums(GroupBy::Provider, filter).await?.unwrap_or_default() {
            found.total.add(&sums);
        }
        let each = if dimension == Dimension::Tag { all_tags } else { named };
        found.others = found.listed.values().fold(each, |others, sums| others.without(sums));
        found.unnamed = found.total.without(&named);
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests;
