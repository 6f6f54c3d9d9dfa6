//! Sums of units other than tokens, by hour. Few requests have such units, so their sums are a table of their own.

use std::collections::BTreeMap;

use gw_wire::usage::{Unit, UnitCount};

use super::line::{Line, Names};
use super::source::push_hours;
use super::{Filter, GroupBy, HOUR_MS};
use crate::db::{Result, Store, WriteTransaction};
use crate::sql::Sql;

/// Counts of units by their names.
pub type UnitSums = BTreeMap<&'static str, UnitCount>;

const ADD: &str = "INSERT INTO usage_units AS sums (hour, surface, key_id, team, model, provider, unit, millionths) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (hour, surface, key_id, team, model, provider, unit) \
    DO UPDATE SET millionths = sums.millionths + excluded.millionths";

/// Adds the units of lines to the sums. `lines` have the index of their group.
pub(super) async fn add_up<'l>(
    change: &mut WriteTransaction<'_>,
    groups: &[(&str, Names)],
    lines: impl Iterator<Item = (&'l Line, usize)>,
) -> sqlx::Result<()> {
    let mut sums: BTreeMap<(i64, usize, &'static str), UnitCount> = BTreeMap::new();
    for (line, place) in lines {
        if let Some((unit, count)) = line.units.get() {
            let hour = line.at.div_euclid(HOUR_MS) * 3600;
            let sum = sums.entry((hour, place, unit.name())).or_default();
            *sum = sum.plus(count);
        }
    }
    for ((hour, place, unit), count) in sums {
        let Some((_, names)) = groups.get(place) else { continue };
        let Names { key_id, team, model, provider, surface } = names;
        let team = team.as_deref().unwrap_or("");
        let millionths = i64::try_from(count.millionths()).unwrap_or(i64::MAX);
        match change {
            WriteTransaction::Sqlite(transaction) => {
                let query = sqlx::query(ADD).bind(hour).bind(&**surface).bind(&**key_id).bind(team);
                let query = query.bind(&**model).bind(&**provider).bind(unit).bind(millionths);
                query.execute(&mut **transaction).await?;
            }
            WriteTransaction::Postgres(held) => {
                let query = sqlx::query(ADD).persistent(false).bind(hour).bind(surface.clone());
                let query = query.bind(key_id.clone()).bind(team.to_owned()).bind(model.clone());
                held.query(query.bind(provider.clone()).bind(unit.to_owned()).bind(millionths)).await?;
            }
        }
    }
    Ok(())
}

impl Store {
    /// The units of the requests that match the filter, by group. The sums do not know sessions, so a report by or of sessions has
    /// none.
    pub async fn units(&self, by: GroupBy, filter: &Filter) -> Result<Vec<(String, UnitSums)>> {
        if by == GroupBy::Session || filter.session.is_some() {
            return Ok(Vec::new());
        }
        let mut sql = Sql::new("SELECT ");
        sql.push(by.column()).push(" AS name, unit, CAST(sum(millionths) AS BIGINT) AS millionths");
        sql.push(" FROM usage_units WHERE 1 = 1");
        push_hours(&mut sql, filter);
        sql.push(" GROUP BY 1, 2 ORDER BY 1, 2");
        let rows = self.list(sql, |row| {
            let (name, unit): (String, String) = (row.get("name")?, row.get("unit")?);
            let millionths: i64 = row.get("millionths")?;
            Ok((name, unit, UnitCount::from_millionths(u64::try_from(millionths).unwrap_or(0))))
        });
        let mut groups: Vec<(String, UnitSums)> = Vec::new();
        for (name, unit, count) in rows.await? {
            let Some(unit) = Unit::named(&unit) else { continue };
            match groups.last_mut().filter(|(last, _)| *last == name) {
                Some((_, sums)) => {
                    sums.insert(unit.name(), count);
                }
                None => groups.push((name, UnitSums::from([(unit.name(), count)]))),
            }
        }
        Ok(groups)
    }
}
