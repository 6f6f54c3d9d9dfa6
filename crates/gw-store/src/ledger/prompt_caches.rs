//! The savings and surcharges of providers' prompt caches: in the row of a request, and summed up by hour. Few requests have such amounts, so
//! their sums are tables of their own.

use std::collections::BTreeMap;

use gw_wire::money::Money;
use gw_wire::prompt_cache::{CacheMiss, MissCause, PromptCacheUse};
use serde::Deserialize;

use super::line::{Line, Names};
use super::line_text::LineText;
use super::source::push_hours;
use super::{Filter, GroupBy, HOUR_MS, joined, split};
use crate::db::{Result, Store, WriteTransaction};
use crate::sql::Sql;

/// The most that one request counts, in femto-USD: a million dollars.
const MAX_FEMTOS: i128 = 1_000_000_000_000_000_000_000;

/// The amounts of requests in femto-USD, as far as prices are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptCacheSums {
    /// The cost that reads saved.
    pub saved: i128,
    /// The cost of writes above the price of plain input.
    pub surcharge: i128,
    /// The cost of prompts that were not in the cache.
    pub lost: i128,
}

impl PromptCacheSums {
    /// The amounts of one request.
    pub(super) fn of(used: &PromptCacheUse) -> Self {
        let femtos = |amount: Option<Money>| amount.map_or(0, Money::femtos).clamp(-MAX_FEMTOS, MAX_FEMTOS);
        let lost = femtos(used.miss.and_then(|miss| miss.lost));
        Self { saved: femtos(used.saved), surcharge: femtos(used.surcharge), lost }
    }

    /// Adds other amounts.
    pub fn add(&mut self, more: &Self) {
        self.saved += more.saved;
        self.surcharge += more.surcharge;
        self.lost += more.lost;
    }

    fn columns(&self) -> [i64; 6] {
        let [saved, surcharge, lost] = [self.saved, self.surcharge, self.lost].map(split);
        [saved.0, saved.1, surcharge.0, surcharge.1, lost.0, lost.1]
    }
}

/// Writes the use of a prompt cache at the end of a row, as an array without names.
pub(super) fn write(out: &mut LineText, used: &PromptCacheUse) {
    let PromptCacheUse { is_inserted, read_tokens, write_tokens, saved, surcharge, is_held, miss } = used;
    out.raw(if *is_inserted { ",[1" } else { ",[0" });
    out.next_number(u8::from(*is_held));
    out.next_number(*read_tokens);
    out.next_number(*write_tokens);
    amount(out, *saved);
    amount(out, *surcharge);
    if let Some(CacheMiss { cause, index, age_seconds, ttl_seconds, lost_tokens, lost }) = miss {
        out.next_text(cause.as_str());
        match index {
            Some(index) => out.next_number(*index),
            None => out.next_text_or_null(None),
        }
        out.next_number(*age_seconds);
        out.next_number(*ttl_seconds);
        out.next_number(*lost_tokens);
        amount(out, *lost);
    }
    out.character(']');
}

fn amount(out: &mut LineText, amount: Option<Money>) {
    match amount {
        Some(amount) => out.next_amount(amount.femtos()),
        None => out.next_text_or_null(None),
    }
}

/// The output of [`write()`].
#[derive(Deserialize)]
pub(super) struct EncodedPromptCache {
    inserted: u8,
    held: u8,
    read_tokens: u64,
    write_tokens: u64,
    saved: Option<i128>,
    surcharge: Option<i128>,
    #[serde(default)]
    cause: Option<String>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    age_seconds: u64,
    #[serde(default)]
    ttl_seconds: u64,
    #[serde(default)]
    lost_tokens: u64,
    #[serde(default)]
    lost: Option<i128>,
}

impl From<EncodedPromptCache> for PromptCacheUse {
    fn from(said: EncodedPromptCache) -> Self {
        let cause = said.cause.as_deref().and_then(MissCause::named);
        Self {
            is_inserted: said.inserted != 0,
            read_tokens: said.read_tokens,
            write_tokens: said.write_tokens,
            saved: said.saved.map(Money::from_femtos),
            surcharge: said.surcharge.map(Money::from_femtos),
            is_held: said.held != 0,
            miss: cause.map(|cause| CacheMiss {
                cause,
                index: said.index,
                age_seconds: said.age_seconds,
                ttl_seconds: said.ttl_seconds,
                lost_tokens: said.lost_tokens,
                lost: said.lost.map(Money::from_femtos),
            }),
        }
    }
}

macro_rules! add_up {
    ($table:literal, $names:literal, $values:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " AS sums (saved_nano, saved_rest, surcharge_nano, surcharge_rest, lost_nano, lost_rest, hour, ",
            $names,
            ") VALUES ($1, $2, $3, $4, $5, $6, ",
            $values,
            ") ON CONFLICT (hour, ",
            $names,
            ") DO UPDATE SET saved_nano = sums.saved_nano + excluded.saved_nano, \
             saved_rest = sums.saved_rest + excluded.saved_rest, \
             surcharge_nano = sums.surcharge_nano + excluded.surcharge_nano, \
             surcharge_rest = sums.surcharge_rest + excluded.surcharge_rest, \
             lost_nano = sums.lost_nano + excluded.lost_nano, lost_rest = sums.lost_rest + excluded.lost_rest"
        )
    };
}

const ADD: &str =
    add_up!("usage_prompt_caches", "surface, key_id, team, model, provider", "$7, $8, $9, $10, $11, $12");
const ADD_BY_SESSION: &str = add_up!(
    "usage_prompt_cache_sessions",
    "session, surface, key_id, team, model, provider",
    "$7, $8, $9, $10, $11, $12, $13"
);

/// Adds the amounts of lines to the sums. `lines` have the index of their group.
pub(super) async fn add_up<'l>(
    change: &mut WriteTransaction<'_>,
    groups: &[(&str, Names)],
    lines: impl Iterator<Item = (&'l Line, usize)>,
) -> sqlx::Result<()> {
    let mut by_hour: BTreeMap<(i64, usize), PromptCacheSums> = BTreeMap::new();
    let mut by_session: BTreeMap<(i64, usize, &str), PromptCacheSums> = BTreeMap::new();
    for (line, place) in lines {
        if line.prompt_cache != PromptCacheSums::default() {
            let hour = line.at.div_euclid(HOUR_MS) * 3600;
            let session = line.session.as_deref().unwrap_or("");
            by_hour.entry((hour, place)).or_default().add(&line.prompt_cache);
            by_session.entry((hour, place, session)).or_default().add(&line.prompt_cache);
        }
    }
    let by_hour = by_hour.into_iter().map(|((hour, place), sums)| (hour, place, None, sums));
    let by_session =
        by_session.into_iter().map(|((hour, place, session), sums)| (hour, place, Some(session), sums));
    for (hour, place, session, sums) in by_hour.chain(by_session) {
        if let Some((_, names)) = groups.get(place) {
            add(change, (hour, session), names, &sums).await?;
        }
    }
    Ok(())
}

/// Adds amounts to one row of the sums, or of the sums by session.
async fn add(
    change: &mut WriteTransaction<'_>,
    (hour, session): (i64, Option<&str>),
    names: &Names,
    sums: &PromptCacheSums,
) -> sqlx::Result<()> {
    let sql = if session.is_some() { ADD_BY_SESSION } else { ADD };
    let Names { key_id, team, model, provider, surface } = names;
    let names = [surface, key_id, team.as_deref().unwrap_or(""), model, provider];
    let texts = session.into_iter().chain(names).map(str::to_owned);
    match change {
        WriteTransaction::Sqlite(transaction) => {
            let query = sums.columns().into_iter().fold(sqlx::query(sql), sqlx::query::Query::bind);
            let query = texts.fold(query.bind(hour), sqlx::query::Query::bind);
            query.execute(&mut **transaction).await?;
        }
        WriteTransaction::Postgres(held) => {
            let query = sqlx::query(sql).persistent(false);
            let query = sums.columns().into_iter().fold(query, sqlx::query::Query::bind);
            held.query(texts.fold(query.bind(hour), sqlx::query::Query::bind)).await?;
        }
    }
    Ok(())
}

impl Store {
    /// The savings and surcharges of prompt caches in the requests that match the filter, by group. The sums know no end users, tags and the like.
    pub async fn prompt_cache_sums(
        &self,
        by: GroupBy,
        filter: &Filter,
    ) -> Result<Vec<(String, PromptCacheSums)>> {
        let has_session = by == GroupBy::Session || filter.session.is_some();
        let mut sql = Sql::new("SELECT ");
        sql.push(by.column()).push(" AS name");
        for column in
            ["saved_nano", "saved_rest", "surcharge_nano", "surcharge_rest", "lost_nano", "lost_rest"]
        {
            sql.push(", CAST(sum(").push(column).push(") AS BIGINT) AS ").push(column);
        }
        sql.push(" FROM ");
        sql.push(if has_session { "usage_prompt_cache_sessions" } else { "usage_prompt_caches" });
        sql.push(" WHERE 1 = 1");
        push_hours(&mut sql, filter);
        sql.push(" GROUP BY 1");
        self.list(sql, |row| {
            let sums = PromptCacheSums {
                saved: joined(row.get("saved_nano")?, row.get("saved_rest")?),
                surcharge: joined(row.get("surcharge_nano")?, row.get("surcharge_rest")?),
                lost: joined(row.get("lost_nano")?, row.get("lost_rest")?),
            };
            Ok((row.get("name")?, sums))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ledger::Entry;

    #[test]
    fn a_row_keeps_the_use_of_a_prompt_cache() {
        let usd = |femtos| Some(Money::from_femtos(femtos));
        let miss = CacheMiss {
            cause: MissCause::Message,
            index: Some(2),
            age_seconds: 400,
            ttl_seconds: 300,
            lost_tokens: 1_000,
            lost: usd(27),
        };
        let plain =
            PromptCacheUse { is_inserted: true, write_tokens: 9, saved: usd(0), ..Default::default() };
        let missed = PromptCacheUse { miss: Some(miss), is_held: true, ..plain };
        let unknown = CacheMiss { cause: MissCause::Tools, index: None, lost: None, ..miss };
        for used in [missed, PromptCacheUse { miss: Some(unknown), ..plain }, plain] {
            let entry = Entry { prompt_cache: Some(Arc::new(used)), ..Entry::default() };
            let line = Line::new(entry.clone());
            assert_eq!(super::super::read_json(line.json()).unwrap(), entry);
        }
    }
}
