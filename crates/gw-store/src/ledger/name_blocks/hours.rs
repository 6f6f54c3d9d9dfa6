//! The hours in which a name occurs, from the blocks of the hours.

use std::collections::BTreeMap;

use gw_wire::attribution::Dimension;

use super::codec::{Packed, each_sums};
use super::named::ids;
use super::report::{BLOCKS_AT_ONCE, push_blocks};
use super::{Level, Progress, finished, place_of};
use crate::db::{Result, Store, WriteTransaction};
use crate::ledger::read::{SUMS, read_sums};
use crate::ledger::source::hours;
use crate::ledger::{Filter, Sums};
use crate::sql::Sql;

/// The hours with blocks in which a name occurs, with its sums there.
#[derive(Debug)]
pub(in crate::ledger) struct PackedHours {
    /// The first hour and the end of the hours that have blocks, in unix seconds.
    pub(in crate::ledger) bounds: (i64, i64),
    /// The sums of the name by hour. Late requests may be missing.
    pub(in crate::ledger) sums: BTreeMap<i64, Sums>,
}

impl Store {
    /// The hours of `first .. end` (unix seconds) with blocks in which the name occurs.
    pub(in crate::ledger) async fn packed_hours(
        &self,
        dimension: Dimension,
        name: &str,
        (first, end): (i64, i64),
    ) -> Result<PackedHours> {
        let mut snapshot = self.begin_snapshot().await?;
        let found = packed_hours(&mut snapshot, dimension, name, (first, end)).await;
        let found = found.map_err(|error| self.error(&error))?;
        snapshot.rollback().await.map_err(|error| self.error(&error))?;
        Ok(found)
    }

    /// The sums of the requests with one name by hour (unix seconds): the hours with blocks from these, and only the others row by row.
    pub(in crate::ledger) async fn hours_of_name(
        &self,
        (dimension, name): (Dimension, &str),
        filter: &Filter,
    ) -> Result<BTreeMap<i64, Sums>> {
        let mut snapshot = self.begin_snapshot().await?;
        let found = self.sums_by_hour(&mut snapshot, (dimension, name), filter).await;
        let found = found.map_err(|error| self.error(&error))?;
        snapshot.rollback().await.map_err(|error| self.error(&error))?;
        Ok(found)
    }

    async fn sums_by_hour(
        &self,
        snapshot: &mut WriteTransaction<'_>,
        (dimension, name): (Dimension, &str),
        filter: &Filter,
    ) -> sqlx::Result<BTreeMap<i64, Sums>> {
        let (since, end) = hours(filter);
        let (since, end) = (since.unwrap_or(0), end.unwrap_or(i64::MAX));
        let PackedHours { bounds: (first, last), sums: mut found } =
            packed_hours(snapshot, dimension, name, (since, end)).await?;
        let others = [
            (" FROM usage_name_late AS a WHERE hour >= ", (first, last)),
            (" FROM usage_attributions AS a WHERE hour >= ", (since, first)),
            (" FROM usage_attributions AS a WHERE hour >= ", (last.max(since), end)),
        ];
        for (table, (begin, end)) in others.into_iter().filter(|(_, (begin, end))| begin < end) {
            let mut sql = Sql::new("SELECT hour, ");
            sql.push(SUMS).push(table).push_int(begin).push(" AND hour < ").push_int(end);
            filter.push_names(&mut sql, "a", self.is_postgres());
            sql.push(" GROUP BY hour");
            for row in snapshot.all(sql).await? {
                found.entry(row.get("hour")?).or_default().join(&read_sums(&row)?);
            }
        }
        Ok(found)
    }
}

async fn packed_hours(
    snapshot: &mut WriteTransaction<'_>,
    dimension: Dimension,
    name: &str,
    (first, end): (i64, i64),
) -> sqlx::Result<PackedHours> {
    let progress = Progress::read(snapshot, false).await?;
    let first = first.max(progress.first);
    let bounds = (first, end.min(progress.until).max(first));
    let kind = dimension.name();
    let known = ids(snapshot, kind, std::iter::once(name)).await?;
    // The name of all requests with tags has no number.
    let bounds = if name.is_empty() { (first, first) } else { bounds };
    let Some(id) = known.get(name) else { return Ok(PackedHours { bounds, sums: BTreeMap::new() }) };
    let (part, number) = place_of(*id);
    let mut sums = BTreeMap::new();
    let mut after = bounds.0.saturating_sub(1);
    loop {
        let mut sql = push_blocks("start, b.costs, b.counts", Level::Hour, after, bounds.1);
        sql.push(" AND b.kind = ").push_text(kind).push(" AND b.part = ").push_int(part);
        sql.push(" ORDER BY b.start LIMIT ").push_int(BLOCKS_AT_ONCE);
        let mut blocks = Vec::new();
        for row in snapshot.all(sql).await? {
            let packed = Packed { costs: row.get("costs")?, counts: row.get("counts")? };
            blocks.push((row.get::<i64>("start")?, packed));
        }
        let Some((last, _)) = blocks.last() else { break };
        after = *last;
        let is_last = (blocks.len() as i64) < BLOCKS_AT_ONCE;
        sums.append(&mut finished(tokio::task::spawn_blocking(move || found_in(&blocks, number))).await?);
        if is_last {
            break;
        }
    }
    Ok(PackedHours { bounds, sums })
}

/// The sums of the name with this number in the blocks of hours. None: a block is damaged.
fn found_in(blocks: &[(i64, Packed)], number: u16) -> Option<BTreeMap<i64, Sums>> {
    let mut found = BTreeMap::new();
    for (hour, block) in blocks {
        let is_wanted = |one: u16| one == number;
        each_sums(block, is_wanted, |_, sums| {
            found.insert(*hour, sums);
        })?;
    }
    Some(found)
}
