//! Adds the amounts of new rows to their sums.

use std::collections::BTreeMap;

use gw_wire::attribution::Dimension;

use super::super::HOUR_MS;
use super::super::line::{Line, Names};
use super::super::usage_rows::{UsageRow, add_rows_postgres, add_rows_sqlite};
use super::{ALL_TAGS, COUNTS, RareSums};
use crate::db::WriteTransaction;

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
pub(in crate::ledger) async fn add_up<'l>(
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
