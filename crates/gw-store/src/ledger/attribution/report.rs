//! Reports by name, and reports of the requests that have certain names.

use gw_wire::attribution::Dimension;
use gw_wire::calendar::unix_millis;

use super::super::read::{SUMS, read_sums};
use super::super::source::{COLUMNS, COUNTERS, hours, whole_days};
use super::super::{Filter, Sums};
use crate::db::{Result, Store};
use crate::sql::Sql;

/// A day in seconds, as SQL.
const DAY: &str = "86400";
const SECONDS_OF_DAY: i64 = 86_400;
/// Reports of so many days read sums by hour.
const MOST_DAYS_BY_HOUR: i64 = 2;
/// Parts of a report by name: the listed names, the sums of all names, of all requests with a name, and of all requests.
const LISTED: i64 = 0;
const NAMED: i64 = 1;
const TAGGED: i64 = 2;
const TOTAL: i64 = 3;

/// A report by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageByName {
    /// The most expensive names, the most expensive one first.
    pub listed: Vec<(String, Sums)>,
    /// The sums of all other names.
    pub others: Sums,
    /// The sums of the requests without a name, and of those whose sums by name are deleted.
    pub unnamed: Sums,
    /// The sums of all requests, each once.
    pub total: Sums,
}

impl Store {
    /// Sums of the requests that match the filter by their names of a kind, at most `limit` names. A request counts for each of its tags.
    pub async fn usage_by_name(
        &self,
        dimension: Dimension,
        filter: &Filter,
        limit: u32,
    ) -> Result<UsageByName> {
        let is_postgres = self.is_postgres();
        if !self.has_name_totals(filter)
            && let Some(found) = self.usage_by_blocks(dimension, filter, limit).await?
        {
            return Ok(found);
        }
        // One statement sees one moment.
        let mut sql = Sql::new("SELECT * FROM (SELECT ");
        sql.push_int(LISTED).push(" AS part, name, ");
        if self.has_name_totals(filter) {
            sql.push(COUNTERS).push(" FROM usage_name_totals WHERE kind = ").push_text(dimension.name());
            sql.push(" ORDER BY cost_nano + cost_rest / 1000000 DESC, cost_rest % 1000000 DESC, name LIMIT ")
                .push_int(limit.into());
        } else {
            push_dearest(&mut sql, filter, dimension, limit, is_postgres);
        }
        sql.push(") AS listed");
        self.push_all_names(push_part(&mut sql, NAMED), filter, dimension);
        if dimension == Dimension::Tag {
            push_names(push_part(&mut sql, TAGGED), filter, dimension, is_postgres);
            sql.push(" AND name = ''");
        }
        self.push_total_source(push_part(&mut sql, TOTAL), filter);
        let read = |row: &crate::sql::Row| {
            Ok((row.get::<i64>("part")?, row.get::<Option<String>>("name")?, read_sums(row)?))
        };
        let mut found = UsageByName::default();
        let (mut named, mut tagged) = (Sums::default(), Sums::default());
        for (part, name, sums) in self.list(sql, read).await? {
            match part {
                LISTED => found.listed.push((name.unwrap_or_default(), sums)),
                NAMED => named = sums,
                TAGGED => tagged = sums,
                _ => found.total = sums,
            }
        }
        let by_cost = |(one, costs): &(String, Sums), (other, more): &(String, Sums)| {
            more.cost.cmp(&costs.cost).then_with(|| one.cmp(other))
        };
        found.listed.sort_by(by_cost);
        found.others = found.listed.iter().fold(named, |others, (_, sums)| others.without(sums));
        let has_name = if dimension == Dimension::Tag { tagged } else { named };
        found.unnamed = found.total.without(&has_name);
        Ok(found)
    }

    /// Whether the store keeps sums of all names together, and of all time for each name. PostgreSQL adds them up: replicas that count the
    /// same names would wait for each other.
    fn has_sums_of_names(&self) -> bool {
        !self.is_postgres()
    }

    /// Whether the sums of all time for each name answer this filter.
    fn has_name_totals(&self, filter: &Filter) -> bool {
        self.has_sums_of_names() && *filter == Filter { status: filter.status.clone(), ..Filter::default() }
    }

    /// Writes `FROM … WHERE …` with rows that add up to the sums of all names of this kind.
    fn push_all_names<'q>(&self, sql: &mut Sql<'q>, filter: &'q Filter, dimension: Dimension) {
        let days = named_days(filter);
        if self.has_sums_of_names()
            && let Some((first, end)) = days
        {
            sql.push(" FROM (SELECT ").push(COLUMNS).push(" FROM usage_name_days WHERE kind = ");
            sql.push_text(dimension.name());
            push_bounds(sql, (Some(first), Some(end)));
            filter.push_columns(sql);
            for bounds in edges(hours(filter), (first, end)) {
                sql.push(" UNION ALL ");
                push_with_names(sql, filter, dimension, bounds, false);
            }
            sql.push(") AS named WHERE 1 = 1");
        } else if days.is_none() {
            sql.push(" FROM (");
            push_with_names(sql, filter, dimension, hours(filter), self.is_postgres());
            sql.push(") AS named WHERE 1 = 1");
        } else {
            push_names(sql, filter, dimension, self.is_postgres());
            sql.push(" AND name <> ''");
        }
    }
}

/// Writes the begin of a part without names.
fn push_part<'s, 'q>(sql: &'s mut Sql<'q>, part: i64) -> &'s mut Sql<'q> {
    sql.push(" UNION ALL SELECT ").push_int(part);
    sql.push(" AS part, CAST(NULL AS TEXT) AS name, ").push(SUMS)
}

/// Writes the most expensive names with their sums.
fn push_dearest<'q>(
    sql: &mut Sql<'q>,
    filter: &'q Filter,
    dimension: Dimension,
    limit: u32,
    is_postgres: bool,
) {
    sql.push(SUMS);
    push_names(sql, filter, dimension, is_postgres);
    // The names are found by their cost alone: to sort a million rows with all sums takes four times as long.
    sql.push(
        " AND name IN (SELECT name FROM (SELECT name, sum(cost_nano) + sum(cost_rest) / 1000000 AS cost, \
         sum(cost_rest) % 1000000 AS rest",
    );
    push_names(sql, filter, dimension, is_postgres);
    sql.push(" AND name <> '' GROUP BY name ORDER BY cost DESC, rest DESC, name LIMIT ");
    sql.push_int(limit.into()).push(") AS dearest) GROUP BY name");
}

/// Writes a query of the combinations that have a name of this kind, one with several tags once for each of them.
fn push_with_names<'q>(
    sql: &mut Sql<'q>,
    filter: &'q Filter,
    dimension: Dimension,
    bounds: (Option<i64>, Option<i64>),
    is_postgres: bool,
) {
    if dimension == Dimension::Tag {
        sql.push("SELECT ").push(COLUMNS).push(" FROM (");
        push_expanded(sql, filter, dimension, bounds, is_postgres);
        sql.push(") AS tags WHERE name <> ''");
        return;
    }
    sql.push("SELECT ").push(COLUMNS).push(" FROM (");
    push_combinations(sql, filter, bounds, is_postgres);
    sql.push(") AS a WHERE ");
    super::push_has_element(sql, "a", &format!("\"{}", super::text_of(dimension, "")), is_postgres);
}

/// Writes `FROM … WHERE …` with a row for each name of this kind: the sums of whole days, and those of hours for the rest.
fn push_names<'q>(sql: &mut Sql<'q>, filter: &'q Filter, dimension: Dimension, is_postgres: bool) {
    sql.push(" FROM (");
    let (since, until) = hours(filter);
    let Some((first, end)) = named_days(filter) else {
        push_expanded(sql, filter, dimension, (since, until), is_postgres);
        sql.push(") AS named WHERE 1 = 1");
        return;
    };
    sql.push("SELECT name, ")
        .push(COLUMNS)
        .push(" FROM usage_names WHERE kind = ")
        .push_text(dimension.name());
    push_bounds(sql, (Some(first), Some(end)));
    filter.push_columns(sql);
    for bounds in edges((since, until), (first, end)) {
        sql.push(" UNION ALL ");
        push_expanded(sql, filter, dimension, bounds, is_postgres);
    }
    sql.push(") AS named WHERE 1 = 1");
}

/// The whole days whose sums by name a report reads. None: it reads hours. The sums of days are in the order of the names, so for a few
/// days it would read many others.
fn named_days(filter: &Filter) -> Option<(i64, i64)> {
    let (first, end) = whole_days(filter)?;
    let tomorrow = unix_millis().div_euclid(1000 * SECONDS_OF_DAY).saturating_add(1) * SECONDS_OF_DAY;
    let is_short = end.min(tomorrow).saturating_sub(first) <= MOST_DAYS_BY_HOUR * SECONDS_OF_DAY;
    (filter.names.is_empty() && filter.session.is_none() && !is_short).then_some((first, end))
}

/// The hours before and after the whole days.
fn edges(
    (since, until): (Option<i64>, Option<i64>),
    (first, end): (i64, i64),
) -> impl Iterator<Item = (Option<i64>, Option<i64>)> {
    let early = since.filter(|since| *since < first).map(|since| (Some(since), Some(first)));
    let late = until.filter(|until| *until > end).map(|until| (Some(end), Some(until)));
    early.into_iter().chain(late)
}

/// Writes a query with a row for each name of this kind in each combination.
fn push_expanded<'q>(
    sql: &mut Sql<'q>,
    filter: &'q Filter,
    dimension: Dimension,
    bounds: (Option<i64>, Option<i64>),
    is_postgres: bool,
) {
    let begin = i64::try_from(dimension.name().len()).unwrap_or_default() + 1;
    if dimension != Dimension::Tag && !is_postgres {
        return push_single(sql, filter, dimension, bounds);
    }
    sql.push("SELECT substr(one.value, CAST(")
        .push_int(begin + 1)
        .push(" AS INTEGER)) AS name, ")
        .push(COLUMNS);
    sql.push(" FROM (");
    push_combinations(sql, filter, bounds, is_postgres);
    sql.push(if is_postgres {
        ") AS a CROSS JOIN LATERAL jsonb_array_elements_text(CAST(a.names AS jsonb)) AS one(value)"
    } else {
        ") AS a CROSS JOIN json_each(a.names) AS one"
    });
    sql.push(" WHERE substr(one.value, 1, CAST(").push_int(begin).push(" AS INTEGER)) = ");
    sql.push_owned(super::text_of(dimension, ""));
}

/// As [`push_expanded`], for a kind of which a request has at most one name, in SQLite. A list without a backslash need not be parsed: the
/// name ends at the next quotation mark.
fn push_single<'q>(
    sql: &mut Sql<'q>,
    filter: &'q Filter,
    dimension: Dimension,
    bounds: (Option<i64>, Option<i64>),
) {
    // Without the limit SQLite would compute the name anew for each condition on it.
    let begin = super::text_of(dimension, "");
    let quoted = format!("\"{begin}");
    let length = |text: &str| i64::try_from(text.len()).unwrap_or_default();
    sql.push("SELECT * FROM (SELECT CASE WHEN instr(names, '\\') = 0 THEN substr(rest, 1, instr(rest, '\"') - 1) ELSE (SELECT substr(value, CAST(");
    sql.push_int(length(&begin) + 1).push(" AS INTEGER)) FROM json_each(names) WHERE substr(value, 1, CAST(");
    sql.push_int(length(&begin)).push(" AS INTEGER)) = ").push_owned(begin);
    sql.push(") END AS name, ").push(COLUMNS);
    sql.push(" FROM (SELECT substr(a.names, instr(a.names, ").push_owned(quoted.clone()).push(") + CAST(");
    sql.push_int(length(&quoted)).push(" AS INTEGER)) AS rest, a.names, ").push(COLUMNS).push(" FROM (");
    push_combinations(sql, filter, bounds, false);
    sql.push(") AS a WHERE instr(a.names, ").push_owned(quoted).push(") > 0) AS found LIMIT -1 OFFSET 0)");
}

/// Writes `FROM … WHERE …` for a filter with one name and without a session: the sums of whole days, and those of hours for the rest.
pub(in crate::ledger) fn push_named_days<'q>(sql: &mut Sql<'q>, filter: &'q Filter, is_postgres: bool) {
    let (Some((first, end)), [(dimension, name)]) = (whole_days(filter), filter.names.as_slice()) else {
        return push_detail(sql, filter, is_postgres);
    };
    sql.push(" FROM (SELECT surface, ").push(COLUMNS).push(" FROM usage_names WHERE kind = ");
    sql.push_text(dimension.name()).push(" AND name = ").push_text(name);
    push_bounds(sql, (Some(first), Some(end)));
    filter.push_columns(sql);
    for bounds in edges(hours(filter), (first, end)) {
        sql.push(" UNION ALL SELECT surface, ").push(COLUMNS).push(" FROM (");
        push_combinations(sql, filter, bounds, is_postgres);
        sql.push(") AS part");
    }
    sql.push(") AS named WHERE 1 = 1");
}

/// Writes `FROM … WHERE …` for a filter with names: the sums of hours.
pub(in crate::ledger) fn push_detail<'q>(sql: &mut Sql<'q>, filter: &'q Filter, is_postgres: bool) {
    sql.push(" FROM (");
    push_combinations(sql, filter, hours(filter), is_postgres);
    sql.push(") AS combined WHERE 1 = 1");
}

/// Writes a query of the sums by combination that match the filter in these hours.
fn push_combinations<'q>(
    sql: &mut Sql<'q>,
    filter: &'q Filter,
    bounds: (Option<i64>, Option<i64>),
    is_postgres: bool,
) {
    match filter.names.first() {
        // The sums by day show the days on which the name occurs, however rare it is.
        Some((dimension, name)) => {
            sql.push("SELECT a.* FROM (SELECT DISTINCT hour AS day FROM usage_names WHERE kind = ");
            sql.push_text(dimension.name()).push(" AND name = ").push_text(name);
            // A database reads the hours between two bounds, and these may be those of the days.
            push_bounds(
                sql,
                (bounds.0.map(|first| first.div_euclid(SECONDS_OF_DAY) * SECONDS_OF_DAY), bounds.1),
            );
            sql.push(
                ") AS days CROSS JOIN usage_attributions AS a WHERE hour >= days.day AND hour < days.day + ",
            );
            sql.push(DAY);
        }
        None => {
            sql.push("SELECT a.* FROM usage_attributions AS a WHERE 1 = 1");
        }
    }
    push_bounds(sql, bounds);
    filter.push_names(sql, "a", is_postgres);
    filter.push_columns(sql);
    filter.push_session(sql);
}

fn push_bounds(sql: &mut Sql<'_>, (first, end): (Option<i64>, Option<i64>)) {
    if let Some(first) = first {
        sql.push(" AND hour >= ").push_int(first);
    }
    if let Some(end) = end {
        sql.push(" AND hour < ").push_int(end);
    }
}
