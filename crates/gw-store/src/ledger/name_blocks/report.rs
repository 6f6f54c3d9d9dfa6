//! A report by name about a span, from the blocks of its hours and days.

use std::collections::{BTreeMap, HashMap};

use gw_wire::attribution::Dimension;
use tokio::task::JoinHandle;

use super::codec::{Packed, each_sums};
use super::named::{Batch, ids, list_of, push_in_list};
use super::ranking::{PartCosts, Ranking};
use super::{
    DAY, Level, PART_NAMES, Progress, TAGGED, WEEK, damaged, day_of, finished, place_of, week_from, week_of,
};
use crate::db::{Result, Store, WriteTransaction};
use crate::ledger::read::{SUMS, read_sums};
use crate::ledger::source::{COUNTERS, hours};
use crate::ledger::{Filter, Sums, UsageByName};
use crate::sql::{Row, Sql};

/// The most sums of combinations without a block that a report holds in memory. A report with more of them is left to the database.
const MOST_RECENT: i64 = 100_000;
/// The blocks of a part that are read at once.
pub(super) const BLOCKS_AT_ONCE: i64 = 32;
/// The names that cost as much as the last listed one, up to which each is looked up. Of more, the names are read in their order.
const MOST_LOOKED_UP: usize = 20_000;
/// The names in order that are read at once.
const NAMES_AT_ONCE: i64 = 4_000;

/// A span as blocks: ranges of first seconds.
struct Span {
    days: (i64, i64),
    /// The eight days within the days.
    weeks: (i64, i64),
    /// The hours before and after the days.
    hours: [(i64, i64); 2],
    /// The hours without blocks.
    recent: (i64, i64),
}

impl Span {
    /// None: the blocks do not help.
    fn of(filter: &Filter, progress: &Progress) -> Option<Self> {
        let (since, end) = hours(filter);
        let (since, end) = (since.unwrap_or(0).max(0), end.unwrap_or(i64::MAX));
        let packed_end = end.min(progress.until);
        if since < progress.first || since >= packed_end {
            return None;
        }
        let first = day_of(since.saturating_add(DAY - 1));
        let last = day_of(packed_end.min(progress.days_until));
        let (days, hours) = if first < last {
            ((first, last), [(since, first), (last, packed_end)])
        } else {
            ((0, 0), [(since, packed_end), (0, 0)])
        };
        let weeks = (week_from(days.0).max(progress.weeks_from), week_of(days.1).min(progress.weeks_until));
        let weeks = if weeks.0 < weeks.1 { weeks } else { (days.1, days.1) };
        Some(Self { days, weeks, hours, recent: (since.max(progress.until), end) })
    }

    /// The ranges with their level, for costs alone.
    fn cost_ranges(&self) -> impl Iterator<Item = (Level, i64, i64)> {
        let days = [
            (Level::Week, self.weeks.0, self.weeks.1),
            (Level::Day, self.days.0, self.weeks.0),
            (Level::Day, self.weeks.1, self.days.1),
        ];
        let hours = self.hours.into_iter().map(|(first, end)| (Level::Hour, first, end));
        days.into_iter().chain(hours).filter(|(_, first, end)| first < end)
    }

    /// The ranges with their level.
    fn ranges(&self) -> impl Iterator<Item = (Level, i64, i64)> {
        let hours = self.hours.into_iter().map(|(first, end)| (Level::Hour, first, end));
        let days = std::iter::once((Level::Day, self.days.0, self.days.1));
        days.chain(hours).filter(|(_, first, end)| first < end)
    }
}

/// The sums that are in no block.
#[derive(Default)]
struct Recent {
    /// Those of hours.
    of_hours: Batch,
    /// Those of late requests of whole days.
    of_days: Batch,
}

impl Recent {
    fn total(&self, kind: &str) -> Sums {
        Sums::of([&self.of_hours, &self.of_days].into_iter().filter_map(|batch| batch.totals.get(kind)))
    }

    /// The costs by name.
    fn costs(&self, kind: &str) -> HashMap<&str, i128> {
        let mut costs: HashMap<&str, i128> = HashMap::new();
        let batches = [&self.of_hours, &self.of_days];
        for (name, sums) in batches.into_iter().filter_map(|batch| batch.names.get(kind)).flatten() {
            *costs.entry(name).or_default() += sums.cost;
        }
        costs
    }
}

impl Store {
    /// The report by name about a span, without other conditions. None: the blocks cannot answer it.
    pub(in crate::ledger) async fn usage_by_blocks(
        &self,
        dimension: Dimension,
        filter: &Filter,
        limit: u32,
    ) -> Result<Option<UsageByName>> {
        let is_plain =
            Filter { since: None, until: None, status: None, ..filter.clone() } == Filter::default();
        if !is_plain {
            return Ok(None);
        }
        let mut snapshot = self.begin_snapshot().await?;
        let report = self.report(&mut snapshot, dimension, filter, limit).await;
        let report = report.map_err(|error| self.error(&error))?;
        snapshot.rollback().await.map_err(|error| self.error(&error))?;
        Ok(report)
    }

    async fn report(
        &self,
        snapshot: &mut WriteTransaction<'_>,
        dimension: Dimension,
        filter: &Filter,
        limit: u32,
    ) -> sqlx::Result<Option<UsageByName>> {
        let progress = Progress::read(snapshot, false).await?;
        let Some(span) = Span::of(filter, &progress) else { return Ok(None) };
        let Some(recent) = recent(snapshot, &span, dimension).await? else { return Ok(None) };
        let kind = dimension.name();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(1);
        let dearest = dearest(snapshot, &span, kind, &recent, limit).await?;
        let listed = listed(snapshot, &span, kind, &recent, &dearest).await?;
        let mut named = total_of(snapshot, &span, kind).await?;
        named.join(&recent.total(kind));
        let mut has_name = named;
        if dimension == Dimension::Tag {
            has_name = total_of(snapshot, &span, TAGGED).await?;
            has_name.join(&recent.total(TAGGED));
        }
        let mut sql = Sql::new("SELECT ");
        sql.push(SUMS);
        self.push_total_source(&mut sql, filter);
        let rows = snapshot.all(sql).await?;
        let total = read_sums(rows.first().ok_or(sqlx::Error::RowNotFound)?)?;
        let others = listed.iter().fold(named, |others, (_, sums)| others.without(sums));
        Ok(Some(UsageByName { listed, others, unnamed: total.without(&has_name), total }))
    }
}

/// The sums that are in no block. None: there are too many for the memory.
async fn recent(
    snapshot: &mut WriteTransaction<'_>,
    span: &Span,
    dimension: Dimension,
) -> sqlx::Result<Option<Recent>> {
    let (first, end) = span.recent;
    let mut recent = Recent::default();
    let mut sql = Sql::new("SELECT names, ");
    sql.push(COUNTERS).push(" FROM usage_attributions WHERE hour >= ").push_int(first);
    sql.push(" AND hour < ").push_int(end).push(" LIMIT ").push_int(MOST_RECENT);
    let mut rows = if first < end { snapshot.all(sql).await? } else { Vec::new() };
    let mut count = rows.len();
    for row in rows.drain(..) {
        recent.of_hours.add(&row, Some(dimension))?;
    }
    for (level, first, end) in span.ranges() {
        let mut sql = Sql::new("SELECT names, ");
        sql.push(COUNTERS).push(" FROM usage_name_late WHERE hour >= ").push_int(first);
        sql.push(" AND hour < ").push_int(end).push(" LIMIT ").push_int(MOST_RECENT);
        let batch = if level == Level::Day { &mut recent.of_days } else { &mut recent.of_hours };
        let rows = snapshot.all(sql).await?;
        count += rows.len();
        rows.iter().try_for_each(|row| batch.add(row, Some(dimension)))?;
    }
    Ok((i64::try_from(count).unwrap_or(i64::MAX) < MOST_RECENT).then_some(recent))
}

/// The dearest names with their numbers, if they have one.
async fn dearest(
    snapshot: &mut WriteTransaction<'_>,
    span: &Span,
    kind: &str,
    recent: &Recent,
    limit: usize,
) -> sqlx::Result<Vec<(String, Option<i64>)>> {
    let recent = recent.costs(kind);
    let known = ids(snapshot, kind, recent.keys().copied()).await?;
    let mut by_part: BTreeMap<i64, Vec<(u16, i128)>> = BTreeMap::new();
    // A name of the last hours may have no number yet.
    let mut names: Vec<(i128, String, Option<i64>)> = Vec::new();
    for (name, cost) in recent {
        match known.get(name) {
            Some(id) => {
                let (part, number) = place_of(*id);
                by_part.entry(part).or_default().push((number, cost));
            }
            None => names.push((cost, name.to_owned(), None)),
        }
    }
    let mut running: Running = tokio::task::spawn_blocking(move || {
        Some(Adding { ranking: Ranking::new(limit), costs: PartCosts::new(0) })
    });
    let mut next = Some(i64::MIN);
    while let Some(from) = next {
        let sql = Sql::new("SELECT id FROM usage_name_ids WHERE id >= $1 ORDER BY id LIMIT 1").int(from);
        let Some(row) = snapshot.all(sql).await?.into_iter().next() else { break };
        let (part, _) = place_of(row.get("id")?);
        let more = by_part.remove(&part).unwrap_or_default();
        running = add_part(snapshot, span, (kind, part), more, running).await?;
        next = (part + 1).checked_mul(PART_NAMES as i64);
    }
    let Adding { ranking, .. } = finished(running).await?;
    names.extend(tied(snapshot, kind, &ranking).await?);
    let texts = texts(snapshot, ranking.above().iter().map(|(_, id)| *id)).await?;
    for &(cost, id) in ranking.above() {
        let Some(name) = texts.get(&id) else { return Err(damaged()) };
        names.push((cost, name.clone(), Some(id)));
    }
    names.sort_unstable_by(|(one, first, _), (other, second, _)| {
        other.cmp(one).then_with(|| first.cmp(second))
    });
    names.truncate(limit);
    Ok(names.into_iter().map(|(_, name, id)| (name, id)).collect())
}

/// The work of a report on a part after the other. The blocks that come next are read meanwhile.
struct Adding {
    ranking: Ranking,
    costs: PartCosts,
}

type Running = JoinHandle<Option<Adding>>;

/// Goes on with the work when its last step is done. The step takes milliseconds, so it runs beside the tasks that must not wait for it.
async fn then(
    running: Running,
    step: impl FnOnce(&mut Adding) -> Option<()> + Send + 'static,
) -> sqlx::Result<Running> {
    let mut adding = finished(running).await?;
    Ok(tokio::task::spawn_blocking(move || step(&mut adding).map(|()| adding)))
}

/// Adds the names of a part to the ranking.
async fn add_part(
    snapshot: &mut WriteTransaction<'_>,
    span: &Span,
    (kind, part): (&str, i64),
    more: Vec<(u16, i128)>,
    mut running: Running,
) -> sqlx::Result<Running> {
    let mut costs = PartCosts::new(part * PART_NAMES as i64);
    more.into_iter().for_each(|(number, cost)| costs.add(number, cost));
    running = then(running, move |adding| {
        adding.costs = costs;
        Some(())
    })
    .await?;
    for (level, first, end) in span.cost_ranges() {
        let mut after = first - 1;
        loop {
            let mut sql = push_blocks("costs, b.start", level, after, end);
            sql.push(" AND b.kind = ").push_text(kind).push(" AND b.part = ").push_int(part);
            sql.push(" ORDER BY b.start LIMIT ").push_int(BLOCKS_AT_ONCE);
            let rows = snapshot.all(sql).await?;
            let Some(last) = rows.last() else { break };
            after = last.get("start")?;
            let is_last = (rows.len() as i64) < BLOCKS_AT_ONCE;
            let blocks: Vec<Vec<u8>> =
                rows.iter().map(|row| row.get("costs")).collect::<sqlx::Result<_>>()?;
            let add =
                move |adding: &mut Adding| blocks.iter().try_for_each(|block| adding.costs.add_packed(block));
            running = then(running, add).await?;
            if is_last {
                break;
            }
        }
    }
    then(running, |adding| {
        adding.ranking.add(&adding.costs);
        Some(())
    })
    .await
}

/// A query of blocks that begin in `after + 1 .. end`. The totals of hours and days are in order, and few.
pub(super) fn push_blocks<'q>(columns: &'static str, level: Level, after: i64, end: i64) -> Sql<'q> {
    let mut sql = Sql::new("SELECT b.");
    sql.push(columns).push(match level {
        Level::Week => {
            " FROM (SELECT DISTINCT start / 691200 * 691200 AS start, kind FROM usage_name_block_sums WHERE level = 1"
        }
        Level::Day => " FROM (SELECT start, kind FROM usage_name_block_sums WHERE level = 1",
        Level::Hour => " FROM (SELECT start, kind FROM usage_name_block_sums WHERE level = 0",
    });
    // The days of eight begin later than these.
    let last = if level == Level::Week { end + WEEK } else { end };
    sql.push(" AND start > ").push_int(after).push(" AND start < ").push_int(last);
    sql.push(
        ") AS s CROSS JOIN usage_name_blocks AS b WHERE s.kind = b.kind AND s.start = b.start AND b.level = ",
    );
    sql.push_int(level.number()).push(" AND b.start > ").push_int(after);
    sql.push(" AND b.start < ").push_int(end);
    sql
}

/// The first names in order of those that cost as much as the last listed one.
async fn tied(
    snapshot: &mut WriteTransaction<'_>,
    kind: &str,
    ranking: &Ranking,
) -> sqlx::Result<Vec<(i128, String, Option<i64>)>> {
    let Some((cost, room)) = ranking.floor() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    if ranking.tied_count() <= MOST_LOOKED_UP {
        let texts = texts(snapshot, ranking.tied()).await?;
        found.extend(texts.into_iter().map(|(id, name)| (cost, name, Some(id))));
        found.sort_unstable_by(|(_, one, _), (_, other, _)| one.cmp(other));
        found.truncate(room);
        return Ok(found);
    }
    let mut after = String::new();
    while found.len() < room {
        let mut sql = Sql::new("SELECT id, name FROM usage_name_ids WHERE kind = ");
        sql.push_text(kind).push(" AND name > ").push_text(&after).push(" ORDER BY name LIMIT ");
        let rows = {
            sql.push_int(NAMES_AT_ONCE);
            snapshot.all(sql).await?
        };
        let Some(last) = rows.last() else { return Err(damaged()) };
        after = last.get("name")?;
        for row in &rows {
            let id = row.get("id")?;
            if ranking.is_tied(id) && found.len() < room {
                found.push((cost, row.get("name")?, Some(id)));
            }
        }
    }
    Ok(found)
}

/// The texts of names by their numbers.
async fn texts(
    snapshot: &mut WriteTransaction<'_>,
    ids: impl Iterator<Item = i64>,
) -> sqlx::Result<HashMap<i64, String>> {
    let list = serde_json::to_string(&ids.collect::<Vec<_>>()).unwrap_or_default();
    let sql = Sql::new(if matches!(snapshot, WriteTransaction::Postgres(_)) {
        "SELECT id, name FROM usage_name_ids \
         WHERE id = ANY(ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS json)) AS BIGINT)))"
    } else {
        "SELECT id, name FROM usage_name_ids WHERE id IN (SELECT value FROM json_each($1))"
    });
    let rows = snapshot.all(sql.owned(Some(list))).await?;
    rows.iter().map(|row| Ok((row.get("id")?, row.get("name")?))).collect()
}

/// All sums of the listed names, in their order.
async fn listed(
    snapshot: &mut WriteTransaction<'_>,
    span: &Span,
    kind: &str,
    recent: &Recent,
    dearest: &[(String, Option<i64>)],
) -> sqlx::Result<Vec<(String, Sums)>> {
    let mut by_name = of_days(snapshot, span, kind, dearest).await?;
    if let Some(names) = recent.of_hours.names.get(kind) {
        for (name, _) in dearest {
            if let Some(more) = names.get(name) {
                by_name.entry(name.clone()).or_default().join(more);
            }
        }
    }
    let mut by_part: BTreeMap<i64, HashMap<u16, &str>> = BTreeMap::new();
    for (name, id) in dearest.iter().filter_map(|(name, id)| id.map(|id| (name, id))) {
        let (part, number) = place_of(id);
        by_part.entry(part).or_default().insert(number, name);
    }
    for (part, names) in by_part {
        for (number, sums) in of_hours(snapshot, span, (kind, part), names.keys().copied().collect()).await? {
            if let Some(name) = names.get(&number) {
                by_name.entry((*name).to_owned()).or_default().join(&sums);
            }
        }
    }
    Ok(dearest
        .iter()
        .map(|(name, _)| (name.clone(), by_name.get(name).copied().unwrap_or_default()))
        .collect())
}

/// The sums of names over the whole days. Their late requests are in them.
async fn of_days(
    snapshot: &mut WriteTransaction<'_>,
    span: &Span,
    kind: &str,
    names: &[(String, Option<i64>)],
) -> sqlx::Result<HashMap<String, Sums>> {
    let (first, end) = span.days;
    if first >= end {
        return Ok(HashMap::new());
    }
    let mut sql = Sql::new("SELECT name, ");
    sql.push(SUMS).push(" FROM usage_names WHERE kind = ").push_text(kind).push(" AND name");
    let is_postgres = matches!(snapshot, WriteTransaction::Postgres(_));
    push_in_list(&mut sql, is_postgres, list_of(names.iter().map(|(name, _)| &**name)));
    sql.push(" AND hour >= ").push_int(first).push(" AND hour < ").push_int(end);
    // The days that are being deleted have no block any more.
    sql.push(" AND hour IN (SELECT start FROM usage_name_block_sums WHERE level = 1 AND kind = ");
    sql.push_text(kind).push(" AND start >= ").push_int(first).push(" AND start < ").push_int(end);
    sql.push(") GROUP BY name");
    let rows = snapshot.all(sql).await?;
    rows.iter().map(|row| Ok((row.get("name")?, read_sums(row)?))).collect()
}

/// The sums of names over the hours that have blocks.
async fn of_hours(
    snapshot: &mut WriteTransaction<'_>,
    span: &Span,
    (kind, part): (&str, i64),
    numbers: Vec<u16>,
) -> sqlx::Result<HashMap<u16, Sums>> {
    let mut blocks = Vec::new();
    for (level, first, end) in span.ranges().filter(|(level, ..)| *level == Level::Hour) {
        let mut sql = push_blocks("costs, b.counts", level, first - 1, end);
        sql.push(" AND b.kind = ").push_text(kind).push(" AND b.part = ").push_int(part);
        let rows: Vec<Row> = snapshot.all(sql).await?;
        for row in rows {
            blocks.push(Packed { costs: row.get("costs")?, counts: row.get("counts")? });
        }
    }
    let running = tokio::task::spawn_blocking(move || {
        let mut found: HashMap<u16, Sums> = HashMap::new();
        let mut wanted = vec![false; PART_NAMES];
        for number in numbers {
            if let Some(is_wanted) = wanted.get_mut(usize::from(number)) {
                *is_wanted = true;
            }
        }
        let is_wanted = |number: u16| wanted.get(usize::from(number)).copied().unwrap_or(false);
        for block in &blocks {
            each_sums(block, is_wanted, |number, sums| found.entry(number).or_default().join(&sums))?;
        }
        Some(found)
    });
    finished(running).await
}

/// The sums over all names of a kind.
async fn total_of(snapshot: &mut WriteTransaction<'_>, span: &Span, kind: &str) -> sqlx::Result<Sums> {
    let mut total = Sums::default();
    for (level, first, end) in span.ranges() {
        let mut sql = Sql::new("SELECT ");
        sql.push(SUMS).push(" FROM usage_name_block_sums WHERE level = ").push_int(level.number());
        sql.push(" AND start >= ").push_int(first).push(" AND start < ").push_int(end);
        sql.push(" AND kind = ").push_text(kind);
        let rows = snapshot.all(sql).await?;
        total.join(&read_sums(rows.first().ok_or(sqlx::Error::RowNotFound)?)?);
    }
    Ok(total)
}
