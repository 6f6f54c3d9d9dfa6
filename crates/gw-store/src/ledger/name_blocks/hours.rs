//! The hours in which a name occurs, from the blocks of the hours.

use std::collections::BTreeMap;

use gw_wire::attribution::Dimension;

use super::codec::{Packed, each_sums};
use super::named::ids;
use super::report::push_blocks;
use super::{Level, Progress, finished, place_of};
use crate::db::{Result, Store, WriteTransaction};
use crate::ledger::Sums;

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
    let mut sql = push_blocks("start, b.costs, b.counts", Level::Hour, bounds.0.saturating_sub(1), bounds.1);
    sql.push(" AND b.kind = ").push_text(kind).push(" AND b.part = ").push_int(part);
    let mut blocks = Vec::new();
    for row in snapshot.all(sql).await? {
        let packed = Packed { costs: row.get("costs")?, counts: row.get("counts")? };
        blocks.push((row.get::<i64>("start")?, packed));
    }
    let running = tokio::task::spawn_blocking(move || {
        let mut found = BTreeMap::new();
        for (hour, block) in &blocks {
            each_sums(
                block,
                |one| one == number,
                |_, sums| {
                    found.insert(*hour, sums);
                },
            )?;
        }
        Some(found)
    });
    Ok(PackedHours { bounds, sums: finished(running).await? })
}
