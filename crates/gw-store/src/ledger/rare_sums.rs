//! Sums of the amounts that few requests have: what prompt caches of providers saved and cost, and the costs that providers stated. They are
//! tables of their own, so that other requests do not pay for them.

pub(super) mod add;

use std::collections::HashMap;

use gw_wire::attribution::Dimension;

use super::prompt_caches::PromptCacheSums;
use super::source::push_hours;
use super::{Entry, Filter, GroupBy, joined, split};
use crate::db::{Result, Store};
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
