//! The sums of requests that name something, by combination of names and by single name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;

use gw_wire::attribution::Dimension;
use gw_wire::hex;
use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteConnection;

use super::super::known_days::DAY;
use super::super::line::{Line, Names};
use super::super::name_blocks;
use super::super::usage_rows::{UsageRow, add_rows_postgres, add_rows_sqlite, counts};
use super::super::write::{POSTGRES_ATTRIBUTIONS, POSTGRES_NAMES, sqlite_attributions, sqlite_names};
use super::super::{HOUR_MS, Sums};
use crate::db::{Result, Store};
use crate::postgres::PooledConnection;
use crate::sql::{Row, Sql};

/// The sums by name that one transaction looks at when old ones are deleted. Requests are written in between.
const PURGED_AT_ONCE: i64 = 10_000;
/// Bytes of a digest that stands for a combination.
const DIGEST_BYTES: usize = 16;

/// The key of a row of `usage_names`: the kind, the name, the surface, the key, the team, the model and the provider.
type NameKey<'g> = (i64, [&'g str; 7]);

/// The sums that a batch adds. They are empty if no request of the batch names anything.
#[derive(Debug, Default)]
pub(in crate::ledger) struct AttributedSums<'g> {
    /// By the hour and the digest: the columns that the digest stands for, and the sums.
    combinations: BTreeMap<(i64, String), ([&'g str; 7], Sums)>,
    names: BTreeMap<NameKey<'g>, Sums>,
}

impl<'g> AttributedSums<'g> {
    /// Adds a line, whose shared part has these names.
    pub(in crate::ledger) fn add(&mut self, line: &'g Line, shared: &'g Names) {
        let (Some(names), Some(attribution)) = (line.names.as_deref(), line.attribution.as_deref()) else {
            return;
        };
        let hour = line.at.div_euclid(HOUR_MS) * 3600;
        let day = hour.div_euclid(DAY) * DAY;
        let Names { key_id, team, model, provider, surface } = shared;
        let team = team.as_deref().unwrap_or("");
        let session = line.session.as_deref().unwrap_or("");
        let own = (model.as_str(), provider.as_str(), &line.sums);
        let others = line.others.iter().map(|other| (&*other.model, &*other.provider, &other.sums));
        // A cost belongs to the model and the provider of its own call.
        for (model, provider, sums) in std::iter::once(own).chain(others) {
            let columns = [names, session, surface, key_id, team, model, provider];
            match self.combinations.entry((hour, digest(&columns))) {
                Place::Occupied(mut place) => place.get_mut().1.join(sums),
                Place::Vacant(place) => {
                    place.insert((columns, *sums));
                }
            }
            let any_tag = (!attribution.tags.is_empty()).then_some((Dimension::Tag, ""));
            for (dimension, name) in attribution.names().chain(any_tag) {
                let key = [dimension.name(), name, surface, key_id, team, model, provider];
                self.names.entry((day, key)).or_default().join(sums);
            }
        }
    }

    fn combination_rows(&self) -> Vec<UsageRow<'_, 8>> {
        self.combinations
            .iter()
            .map(|((hour, digest), (columns, sums))| {
                let [names, session, surface, key_id, team, model, provider] = *columns;
                UsageRow {
                    hour: *hour,
                    names: [digest, names, session, surface, key_id, team, model, provider],
                    counts: counts(sums),
                }
            })
            .collect()
    }

    /// The names of combinations of the hours before `end`, with their sums.
    fn rows_before(&self, end: i64) -> Vec<UsageRow<'g, 1>> {
        let before = self.combinations.range(..(end, String::new()));
        let row = |((hour, _), (columns, sums)): (&(i64, String), &([&'g str; 7], Sums))| {
            let [names, ..] = *columns;
            UsageRow { hour: *hour, names: [names], counts: counts(sums) }
        };
        before.map(row).collect()
    }

    fn name_rows(&self) -> Vec<UsageRow<'g, 7>> {
        let row = |((hour, names), sums): (&NameKey<'g>, &Sums)| UsageRow {
            hour: *hour,
            names: *names,
            counts: counts(sums),
        };
        self.names.iter().map(row).collect()
    }
}

/// A short text that stands for these columns. No column has a NUL.
fn digest(columns: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for column in columns {
        hasher.update(column.as_bytes());
        hasher.update([0]);
    }
    hex::encode(hasher.finalize().get(..DIGEST_BYTES).unwrap_or_default())
}

/// Adds the sums to SQLite.
pub(in crate::ledger) async fn add_up_sqlite(
    connection: &mut SqliteConnection,
    sums: &AttributedSums<'_>,
) -> sqlx::Result<()> {
    if sums.combinations.is_empty() {
        return Ok(());
    }
    name_blocks::add_sqlite(connection, |closed| sums.rows_before(closed)).await?;
    add_rows_sqlite(connection, &sums.combination_rows(), sqlite_attributions).await?;
    add_rows_sqlite(connection, &sums.name_rows(), sqlite_names).await
}

/// Adds the sums to PostgreSQL.
pub(in crate::ledger) async fn add_up_postgres(
    held: &mut PooledConnection<'_>,
    sums: &AttributedSums<'_>,
) -> sqlx::Result<()> {
    if sums.combinations.is_empty() {
        return Ok(());
    }
    name_blocks::add_postgres(held, |closed| sums.rows_before(closed)).await?;
    add_rows_postgres(held, &sums.combination_rows(), POSTGRES_ATTRIBUTIONS).await?;
    add_rows_postgres(held, &sums.name_rows(), POSTGRES_NAMES).await
}

impl Store {
    /// Deletes the sums by name of the days that ended before this time (unix milliseconds). Returns how many.
    pub(in crate::ledger) async fn purge_names(&self, before: i64) -> Result<u64> {
        let push_condition = |sql: &mut Sql<'_>| {
            sql.push("(hour + 86400) * 1000 <= ").push_int(before);
        };
        let mut deleted = 0;
        if self.is_postgres() {
            let mut sql = Sql::new("DELETE FROM usage_names WHERE ");
            push_condition(&mut sql);
            return self.run(sql).await;
        }
        let mut some = Sql::new("SELECT 1 AS one FROM usage_name_days WHERE ");
        push_condition(&mut some);
        some.push(" LIMIT 1");
        if self.first(some, |_| Ok(())).await?.is_none() {
            return Ok(deleted);
        }
        // The names are in order, and each has its days behind it.
        let mut last = Some((String::new(), String::new()));
        while let Some((kind, name)) = last {
            let mut sql = Sql::new("SELECT kind, name FROM usage_names WHERE (kind, name) > (");
            sql.push_text(&kind).push(", ").push_text(&name);
            sql.push(") ORDER BY kind, name LIMIT 1 OFFSET ").push_int(PURGED_AT_ONCE);
            let read = |row: &Row| Ok((row.get::<String>("kind")?, row.get::<String>("name")?));
            let end = self.first(sql, read).await?;
            let mut sql = Sql::new("DELETE FROM usage_names WHERE ");
            push_condition(&mut sql);
            sql.push(" AND (kind, name) > (").push_text(&kind).push(", ").push_text(&name).push(")");
            if let Some((kind, name)) = &end {
                sql.push(" AND (kind, name) <= (").push_text(kind).push(", ").push_text(name).push(")");
            }
            deleted += self.run(sql).await?;
            last = end;
        }
        Ok(deleted)
    }
}
