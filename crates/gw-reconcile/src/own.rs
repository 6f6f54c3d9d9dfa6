//! The ledger's side of a comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gw_engine::catalog::Catalog;
use gw_store::Store;
use gw_store::ledger::{Cursor, Entry, Filter, GroupBy};
use gw_wire::money::Money;
use gw_wire::usage::Usage;

use super::args::{DAY_SECONDS, DayRange};
use super::bill::{BilledDay, BilledTokens};
use super::causes::{ComparedDay, MAX_SHIFT_HOURS, OwnDay, StatedSum, shift_of_days};
use super::rates::TokenRates;
use super::reconciliation::{DayRow, ModelNames};

/// The rows of a page of the log.
const PAGE_ROWS: u32 = 1000;
const DAY_MS: i64 = DAY_SECONDS * 1000;
const HOUR_MS: i64 = 3_600_000;

/// The sums of the ledger by day since 1970 and by model.
#[derive(Debug)]
pub(crate) struct OwnBill {
    provider: String,
    days: BTreeMap<(i64, String), OwnSums>,
    /// The ids of models that one id stands for.
    ids: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OwnSums {
    day: OwnDay,
    /// Whether a cache answered some requests, whose tokens the sums have, too.
    has_hits: bool,
}

impl OwnSums {
    fn add(&mut self, more: &OwnDay, has_hits: bool) {
        let is_first = self.day == OwnDay::default();
        self.has_hits |= has_hits;
        self.day.tokens = match (self.day.tokens, more.tokens) {
            (None, tokens) if is_first => tokens,
            (Some(mut tokens), Some(more)) => {
                tokens.add(&more);
                Some(tokens)
            }
            _ => None,
        };
        self.day.cost += more.cost;
        self.day.requests = self.day.requests.saturating_add(more.requests);
        self.day.unpriced = self.day.unpriced.saturating_add(more.unpriced);
        self.day.unserved += more.unserved;
    }
}

impl OwnBill {
    /// Reads the sums of a provider.
    pub(crate) async fn read(
        store: &Store,
        provider: &str,
        names: &ModelNames<'_>,
        range: DayRange,
    ) -> gw_store::Result<Self> {
        let mut days: BTreeMap<(i64, String), OwnSums> = BTreeMap::new();
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for day in range.days() {
            let filter = Filter {
                since: Some(day * DAY_MS),
                until: Some((day + 1) * DAY_MS),
                provider: Some(provider.to_owned()),
                ..Filter::default()
            };
            for (model, sums) in store.usage(GroupBy::Model, &filter).await? {
                let tokens = sums.tokens;
                let read = tokens.cached.saturating_add(tokens.cache_write);
                let tokens = BilledTokens {
                    uncached: tokens.prompt.saturating_sub(read),
                    cached: tokens.cached,
                    write_5m: tokens.cache_write,
                    write_1h: 0,
                    completion: tokens.completion,
                };
                let cost = Money::from_femtos(sums.cost);
                let own = OwnDay {
                    cost,
                    requests: sums.requests.saturating_sub(sums.cache_hits),
                    unpriced: sums.unpriced,
                    tokens: (sums.cache_hits == 0).then_some(tokens),
                    // A call that failed, or was left for a fallback, has a cost and no tokens.
                    unserved: if sums.requests == 0 { cost } else { Money::ZERO },
                    ..OwnDay::default()
                };
                let shared = names.shared_id(&model);
                ids.entry(shared.clone()).or_default().insert(model);
                days.entry((day, shared)).or_default().add(&own, sums.cache_hits > 0);
            }
        }
        // A day with hits of the cache alone has nothing that a provider could charge for.
        days.retain(|_, sums| sums.day.requests > 0 || sums.day.cost != Money::ZERO);
        Ok(Self { provider: provider.to_owned(), days, ids })
    }

    /// The days and models that the ledger has.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (i64, Option<String>)> {
        self.days.keys().map(|(day, model)| (*day, Some(model.clone())))
    }

    /// Whether the ledger has the model on a day.
    pub(crate) fn has(&self, day: i64, model: &str) -> bool {
        self.days.contains_key(&(day, model.to_owned()))
    }

    /// The models that the ledger has on a day.
    pub(crate) fn models_of(&self, day: i64) -> impl Iterator<Item = &str> {
        self.days.keys().filter(move |(known, _)| *known == day).map(|(_, model)| model.as_str())
    }

    /// The part of a model's cost on a day that the ledger charged for tools that the provider ran.
    pub(crate) async fn tools_of(
        &self,
        (store, catalog): (&Store, &Catalog),
        model: &str,
        day: i64,
    ) -> gw_store::Result<Money> {
        let range = DayRange { first: day, last: day };
        Ok(self.log((store, catalog), model, range).await?.day(day).tools)
    }

    async fn log(
        &self,
        (store, catalog): (&Store, &Catalog),
        model: &str,
        range: DayRange,
    ) -> gw_store::Result<TokenLog> {
        let mut log = TokenLog::default();
        for id in self.ids.get(model).into_iter().flatten() {
            log.read((store, catalog), (&self.provider, id), range).await?;
        }
        Ok(log)
    }

    /// The rows of a report for a model. The log is read only where the costs differ.
    pub(crate) async fn rows_of(
        &self,
        (store, catalog): (&Store, &Catalog),
        model: &str,
        days: &[(i64, Option<&BilledDay>)],
        range: DayRange,
    ) -> gw_store::Result<Vec<DayRow>> {
        let rates = catalog.get(model).and_then(|model| TokenRates::of(model));
        let sums = |day: i64| self.days.get(&(day, model.to_owned()));
        let own = |day: i64| sums(day).map(|sums| sums.day).unwrap_or_default();
        let mut compared: Vec<(i64, ComparedDay<'_>)> = days
            .iter()
            .map(|(day, bill)| {
                (*day, ComparedDay { own: own(*day), bill: *bill, rates, shifted_hours: None })
            })
            .collect();
        if compared.iter().any(|(_, day)| day.difference() != Money::ZERO) {
            let log = self.log((store, catalog), model, range).await?;
            let shift = shift_of(&log, &compared, range);
            for (day, compared) in &mut compared {
                compared.shifted_hours = shift;
                let logged = log.day(*day);
                let has_hits = sums(*day).is_some_and(|sums| sums.has_hits);
                // Rows that are purged leave their sums.
                let own = &mut compared.own;
                own.stated = logged.stated;
                if own.requests > 0 && logged.requests >= own.requests {
                    own.tokens = Some(logged.tokens);
                    (own.has_lifetimes, own.tools) = (true, logged.tools);
                    own.unserved = own.cost - logged.served;
                } else if has_hits {
                    own.tokens = None;
                }
            }
        }
        Ok(compared.into_iter().map(|(day, compared)| DayRow::new(day, model, &compared)).collect())
    }
}

/// The shift of the report's days, where the report has tokens.
fn shift_of(log: &TokenLog, compared: &[(i64, ComparedDay<'_>)], range: DayRange) -> Option<i64> {
    let is_told = compared.iter().any(|(_, day)| day.bill.is_some_and(|bill| bill.all_tokens().is_some()));
    let tokens = |day: i64| {
        let bill = compared.iter().find(|(known, _)| *known == day).and_then(|(_, compared)| compared.bill);
        bill.and_then(BilledDay::all_tokens).unwrap_or_default().total()
    };
    let billed: Vec<(i64, u64)> = range.days().map(|day| (day, tokens(day))).collect();
    is_told.then(|| shift_of_days(|hour| log.hour(hour).tokens.total(), &billed))?
}

#[derive(Clone, Copy, Debug, Default)]
struct LoggedTokens {
    requests: u64,
    tokens: BilledTokens,
    /// The cost of the calls that served.
    served: Money,
    /// The part of it beyond that of tokens.
    tools: Money,
    stated: StatedSum,
}

/// The tokens of a model's rows in the log, by hour since 1970.
#[derive(Debug, Default)]
struct TokenLog(BTreeMap<i64, LoggedTokens>);

impl TokenLog {
    async fn read(
        &mut self,
        (store, catalog): (&Store, &Catalog),
        (provider, model): (&str, &str),
        range: DayRange,
    ) -> gw_store::Result<()> {
        let around = MAX_SHIFT_HOURS * HOUR_MS;
        let filter = Filter {
            since: Some(range.first * DAY_MS - around),
            until: Some((range.last + 1) * DAY_MS + around),
            provider: Some(provider.to_owned()),
            model: Some(model.to_owned()),
            ..Filter::default()
        };
        let mut after = None::<Cursor>;
        loop {
            let page = store.requests(&filter, after.as_ref(), PAGE_ROWS).await?;
            page.iter().for_each(|entry| self.add(entry, catalog));
            match page.last() {
                Some(last) if page.len() == PAGE_ROWS as usize => {
                    after = Some(Cursor { at: last.at, request_id: Arc::clone(&last.request_id) });
                }
                _ => return Ok(()),
            }
        }
    }

    fn add(&mut self, entry: &Entry, catalog: &Catalog) {
        if entry.cache_hit {
            return;
        }
        let tokens = entry.tokens;
        let long = entry.cache_write_1h.min(tokens.cache_write);
        let serving = entry.attempts.iter().rev().find(|attempt| *attempt.model == *entry.model);
        let served = serving.map_or(entry.cost, |attempt| attempt.cost.unwrap_or(attempt.known_part));
        let served = Money::from_femtos(served);
        let usage = Usage {
            prompt: tokens.prompt,
            completion: tokens.completion,
            cached: Some(tokens.cached),
            cache_write: Some(tokens.cache_write),
            cache_write_1h: u32::try_from(long).ok(),
            ..Usage::default()
        };
        let of_tokens = catalog.get(&entry.model).and_then(|model| model.cost(&usage));
        let hour = self.0.entry(entry.at.div_euclid(HOUR_MS)).or_default();
        hour.requests += 1;
        hour.served += served;
        if let Some(stated) = entry.provider_cost {
            let own = Money::from_femtos(entry.cost);
            hour.stated.add(&StatedSum { requests: 1, cost: Money::from_femtos(stated), own });
        }
        hour.tools += of_tokens.map(|cost| (served - cost).max(Money::ZERO)).unwrap_or_default();
        hour.tokens.add(&BilledTokens {
            uncached: tokens.prompt.saturating_sub(tokens.cached.saturating_add(tokens.cache_write)),
            cached: tokens.cached,
            write_5m: tokens.cache_write - long,
            write_1h: long,
            completion: tokens.completion,
        });
    }

    fn hour(&self, hour: i64) -> LoggedTokens {
        self.0.get(&hour).copied().unwrap_or_default()
    }

    fn day(&self, day: i64) -> LoggedTokens {
        let mut sum = LoggedTokens::default();
        for hour in (day * 24..(day + 1) * 24).map(|hour| self.hour(hour)) {
            sum.requests += hour.requests;
            sum.served += hour.served;
            sum.tools += hour.tools;
            sum.stated.add(&hour.stated);
            sum.tokens.add(&hour.tokens);
        }
        sum
    }
}
