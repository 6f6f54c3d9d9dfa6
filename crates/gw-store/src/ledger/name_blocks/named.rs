//! Sums by single name, as they are added up from the sums of combinations, and the numbers of names.

use std::collections::{BTreeMap, HashMap};

use gw_wire::attribution::Dimension;

use super::codec::{Entries, Packed};
use super::{Level, TAGGED, damaged, place_of};
use crate::db::{Result, Store, WriteTransaction};
use crate::ledger::Sums;
use crate::ledger::read::read_sums;
use crate::ledger::usage_rows::counts;
use crate::sql::{Row, Sql};

/// The names in one list for the database.
const NAMES_AT_ONCE: usize = 5_000;

/// Sums by name.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// By the kind and the name.
    pub(super) names: BTreeMap<String, HashMap<String, Sums>>,
    /// By the kind: all names together, and [`TAGGED`].
    pub(super) totals: BTreeMap<String, Sums>,
}

impl Batch {
    /// Adds a row with the columns `names` and those of sums. `only`: names of other kinds do not count.
    pub(super) fn add(&mut self, row: &Row, only: Option<Dimension>) -> sqlx::Result<()> {
        let (names, sums) = (row.get::<String>("names")?, read_sums(row)?);
        let names: Vec<String> = serde_json::from_str(&names).map_err(|_| damaged())?;
        for text in &names {
            let Some((kind, name)) = text.split_once(':') else { continue };
            if only.is_some_and(|only| only.name() != kind) {
                continue;
            }
            let total = if name.is_empty() && kind == Dimension::Tag.name() { TAGGED } else { kind };
            join(&mut self.totals, total, &sums);
            if !name.is_empty() {
                if !self.names.contains_key(kind) {
                    self.names.insert(kind.to_owned(), HashMap::new());
                }
                if let Some(names) = self.names.get_mut(kind) {
                    names.entry(name.to_owned()).or_default().join(&sums);
                }
            }
        }
        Ok(())
    }

    /// The names by kind and part, with their numbers. None: a name has no number.
    pub(super) async fn placed(
        &self,
        change: &mut WriteTransaction<'_>,
    ) -> sqlx::Result<Option<BTreeMap<(String, i64), Entries>>> {
        let mut placed: BTreeMap<(String, i64), Entries> = BTreeMap::new();
        for (kind, names) in &self.names {
            let ids = ids(change, kind, names.keys().map(|name| &**name)).await?;
            for (name, sums) in names {
                let Some(id) = ids.get(name) else { return Ok(None) };
                let (part, number) = place_of(*id);
                placed.entry((kind.clone(), part)).or_default().insert(number, *sums);
            }
        }
        Ok(Some(placed))
    }
}

fn join(sums: &mut BTreeMap<String, Sums>, kind: &str, more: &Sums) {
    match sums.get_mut(kind) {
        Some(sum) => sum.join(more),
        None => {
            sums.insert(kind.to_owned(), *more);
        }
    }
}

/// A list of names as a value of a statement.
pub(super) fn list_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    serde_json::to_string(&names.collect::<Vec<_>>()).unwrap_or_default()
}

/// Writes a condition that a column is in a list of texts.
pub(super) fn push_in_list(sql: &mut Sql<'_>, is_postgres: bool, list: String) {
    if is_postgres {
        sql.push(" = ANY(ARRAY(SELECT json_array_elements_text(CAST(").push_owned(list).push(" AS json))))");
    } else {
        sql.push(" IN (SELECT value FROM json_each(").push_owned(list).push("))");
    }
}

/// The numbers of names. A name without one is missing.
pub(super) async fn ids<'n>(
    change: &mut WriteTransaction<'_>,
    kind: &str,
    names: impl Iterator<Item = &'n str>,
) -> sqlx::Result<HashMap<String, i64>> {
    let names: Vec<&str> = names.collect();
    let is_postgres = matches!(change, WriteTransaction::Postgres(_));
    let mut ids = HashMap::with_capacity(names.len());
    for some in names.chunks(NAMES_AT_ONCE) {
        let mut sql = Sql::new("SELECT id, name FROM usage_name_ids WHERE kind = ");
        sql.push_text(kind).push(" AND name");
        push_in_list(&mut sql, is_postgres, list_of(some.iter().copied()));
        for row in change.all(sql).await? {
            ids.insert(row.get("name")?, row.get("id")?);
        }
    }
    Ok(ids)
}

impl Store {
    /// Gives a number to each name that has none.
    pub(super) async fn number_names(&self, batch: &Batch) -> Result<()> {
        for (kind, names) in &batch.names {
            let mut names: Vec<&str> = names.keys().map(|name| &**name).collect();
            names.sort_unstable();
            for some in names.chunks(NAMES_AT_ONCE) {
                // An insert that does nothing would still take a number in PostgreSQL.
                let sql = Sql::new(if self.is_postgres() {
                    "INSERT INTO usage_name_ids (kind, name) SELECT CAST($1 AS TEXT), value \
                     FROM json_array_elements_text(CAST($2 AS json)) AS new(value) WHERE NOT EXISTS \
                     (SELECT 1 FROM usage_name_ids AS known WHERE known.kind = $1 AND known.name = value) ON CONFLICT DO NOTHING"
                } else {
                    "INSERT INTO usage_name_ids (kind, name) SELECT $1, value FROM json_each($2) WHERE NOT EXISTS \
                     (SELECT 1 FROM usage_name_ids AS known WHERE known.kind = $1 AND known.name = value) ON CONFLICT DO NOTHING"
                });
                self.run(sql.text(&**kind).owned(Some(list_of(some.iter().copied())))).await?;
            }
        }
        Ok(())
    }
}

/// Writes a part of a block.
pub(super) async fn put_part(
    change: &mut WriteTransaction<'_>,
    (level, start): (Level, i64),
    (kind, part): (&str, i64),
    packed: &Packed,
) -> sqlx::Result<()> {
    let sql = Sql::new(
        "INSERT INTO usage_name_blocks (level, start, kind, part, costs, counts) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (level, start, kind, part) DO UPDATE SET costs = excluded.costs, counts = excluded.counts",
    );
    let sql = sql.int(level.number()).int(start).text(kind).int(part);
    change.run(sql.bytes(&*packed.costs).bytes(&*packed.counts)).await.map(drop)
}

/// The part of a block. Empty: it is not there.
pub(super) async fn get_part(
    change: &mut WriteTransaction<'_>,
    (level, start): (Level, i64),
    (kind, part): (&str, i64),
) -> sqlx::Result<Packed> {
    let sql = Sql::new(
        "SELECT costs, counts FROM usage_name_blocks WHERE level = $1 AND start = $2 AND kind = $3 AND part = $4",
    );
    let rows = change.all(sql.int(level.number()).int(start).text(kind).int(part)).await?;
    let Some(row) = rows.first() else { return Ok(Packed::default()) };
    Ok(Packed { costs: row.get("costs")?, counts: row.get("counts")? })
}

/// Adds to the sums over all names of a block.
pub(super) async fn add_total(
    change: &mut WriteTransaction<'_>,
    (level, start): (Level, i64),
    kind: &str,
    sums: &Sums,
) -> sqlx::Result<()> {
    let sql = Sql::new(
        "INSERT INTO usage_name_block_sums AS sums (level, start, kind, requests, failed, cache_hits, prompt_tokens, \
         completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_nano, cost_rest, saved_nano, saved_rest, \
         unpriced) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
         ON CONFLICT (level, start, kind) DO UPDATE SET requests = sums.requests + excluded.requests, \
         failed = sums.failed + excluded.failed, cache_hits = sums.cache_hits + excluded.cache_hits, \
         prompt_tokens = sums.prompt_tokens + excluded.prompt_tokens, \
         completion_tokens = sums.completion_tokens + excluded.completion_tokens, \
         cached_tokens = sums.cached_tokens + excluded.cached_tokens, \
         cache_write_tokens = sums.cache_write_tokens + excluded.cache_write_tokens, \
         reasoning_tokens = sums.reasoning_tokens + excluded.reasoning_tokens, \
         cost_nano = sums.cost_nano + excluded.cost_nano, cost_rest = sums.cost_rest + excluded.cost_rest, \
         saved_nano = sums.saved_nano + excluded.saved_nano, saved_rest = sums.saved_rest + excluded.saved_rest, \
         unpriced = sums.unpriced + excluded.unpriced",
    );
    let sql = sql.int(level.number()).int(start).text(kind);
    let sql = counts(sums).into_iter().fold(sql, |sql, count| sql.int(count));
    change.run(sql).await.map(drop)
}
