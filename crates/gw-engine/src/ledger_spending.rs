//! Answers the budgets' question to the ledger: the amount spent in a period.

mod names;
mod one_moment;
mod short_windows;

use std::sync::Arc;
use std::time::Duration;

use gw_limits::{
    CountedRequest, LedgerUnavailable, PART, Spending, SpendingFuture, SpendingLedger, SpendingQuestion,
    SubjectKind,
};
use gw_store::journal::Journal;
use gw_store::ledger::{Filter, GroupBy, Spender, Spent, TaggedCost};
use gw_store::{CountedTime, Store};
use gw_wire::attribution::Dimension;

use self::one_moment::{TwoQuestions, of_one_moment};
use self::short_windows::exact_steps;
use crate::auth::matches;
use crate::clock::unix_seconds;
use crate::rules::counter::{CounterId, MatchedNames};

/// The time to wait for rows that are not in the ledger yet.
const PENDING_ROWS_TIMEOUT: Duration = Duration::from_secs(2);

/// Looks up spending in the ledger.
#[derive(Clone, Debug)]
pub struct LedgerSpending {
    store: Store,
    journal: Arc<Journal>,
}

impl LedgerSpending {
    /// Spending in this store, kind rows come from this journal.
    #[must_use]
    pub fn new(store: Store, journal: Arc<Journal>) -> Self {
        Self { store, journal }
    }

    async fn look_up(
        &self,
        kind: SubjectKind,
        id: &str,
        SpendingQuestion { time, before, requests }: SpendingQuestion<'_>,
    ) -> Result<Spending, LedgerUnavailable> {
        // A new budget of a key in use must count the requests that ended and are not in the ledger yet.
        if !self.journal.wait_until_written(PENDING_ROWS_TIMEOUT).await {
            tracing::warn!("a budget cannot be looked up: the ledger is behind");
            return Err(LedgerUnavailable);
        }
        let who = match kind {
            SubjectKind::Key => Spender::Key(id),
            SubjectKind::Team => Spender::Team(id),
            SubjectKind::Rule => {
                return rule_spending(&self.store, id, SpendingQuestion { time, before, requests }).await;
            }
        };
        let spent = self.store.spent_with(who, time, before, requests).await;
        let failed = |error| {
            tracing::warn!("a budget cannot be looked up: {error}");
            LedgerUnavailable
        };
        let Spent { steps, before: before_femtos, requests } = spent.map_err(failed)?;
        let mut counted_requests = Vec::with_capacity(requests.len());
        for id in requests {
            // A row never changes, so it may be read after the sums.
            let row = if before.is_some() { self.store.request(&id).await.map_err(failed)? } else { None };
            let (cost_femtos, begun) = row.map(|row| (row.cost, row.at.div_euclid(1000))).unwrap_or_default();
            counted_requests.push(CountedRequest { id, cost_femtos, begun });
        }
        Ok(Spending { steps, before_femtos, counted_requests })
    }
}

impl SpendingLedger for LedgerSpending {
    fn spending<'a>(
        &'a self,
        kind: SubjectKind,
        id: &'a str,
        question: SpendingQuestion<'a>,
    ) -> SpendingFuture<'a> {
        Box::pin(self.look_up(kind, id, question))
    }
}

/// The spending of a counter of a rule.
async fn rule_spending(
    store: &Store,
    id: &str,
    SpendingQuestion { time, before, requests }: SpendingQuestion<'_>,
) -> Result<Spending, LedgerUnavailable> {
    let counter = CounterId::parse(id).ok_or(LedgerUnavailable)?;
    let questions = RuleQuestions { store, counter: &counter, time, before, requests };
    let ((counted_requests, before_femtos), steps) = of_one_moment(&questions).await?;
    Ok(Spending { steps, before_femtos, counted_requests })
}

/// The questions about the spending of a counter.
struct RuleQuestions<'a> {
    store: &'a Store,
    counter: &'a CounterId,
    time: CountedTime,
    before: Option<(i64, i64)>,
    requests: &'a [String],
}

impl TwoQuestions for RuleQuestions<'_> {
    type Counted = (Vec<CountedRequest>, i128);
    type Sums = Vec<(i64, i128)>;
    type Error = LedgerUnavailable;

    async fn counted(&self) -> Result<Self::Counted, LedgerUnavailable> {
        let requests = counted_requests(self.store, self.requests, self.before.is_some()).await?;
        Ok((requests, spending_before(self.store, self.counter, self.time, self.before).await?))
    }

    async fn sums(&self) -> Result<Self::Sums, LedgerUnavailable> {
        spending_by_step(self.store, self.counter, self.time).await
    }
}

/// Those of the requests that have a row. Their costs are only asked for with a time before.
async fn counted_requests(
    store: &Store,
    requests: &[String],
    with_costs: bool,
) -> Result<Vec<CountedRequest>, LedgerUnavailable> {
    let mut counted = Vec::new();
    for id in requests {
        let request = id.rsplit_once(PART).map_or(id.as_str(), |(request, _)| request);
        if let Some(row) = store.request(request).await.map_err(|error| unavailable(&error))? {
            let (cost_femtos, begun) = if with_costs { (row.cost, row.at.div_euclid(1000)) } else { (0, 0) };
            counted.push(CountedRequest { id: id.clone(), cost_femtos, begun });
        }
    }
    Ok(counted)
}

/// The sum of the time before, zero without one.
async fn spending_before(
    store: &Store,
    counter: &CounterId,
    time: CountedTime,
    before: Option<(i64, i64)>,
) -> Result<i128, LedgerUnavailable> {
    let Some((from, until)) = before else { return Ok(0) };
    match short_step(time) {
        Some(step) => {
            let steps = exact_steps(store, counter, (from, Some(until)), step).await?;
            Ok(steps.iter().fold(0, |sum: i128, (_, femtos)| sum.saturating_add(*femtos)))
        }
        None => rule_sum(store, counter, from, Some(whole_hours(time, until))).await,
    }
}

/// The bound of a step in the sums of the ledger, which are hourly: an hour counts in the step in which it ends, and in no other one.
fn whole_hours(time: CountedTime, at: i64) -> i64 {
    if time.step.is_some() { at - at.rem_euclid(HOUR) } else { at }
}

/// The step of a time whose steps are shorter than the sums of the ledger, which are hourly.
fn short_step(time: CountedTime) -> Option<i64> {
    time.step.filter(|step| *step < HOUR)
}

/// The sums of the steps of a time.
async fn spending_by_step(
    store: &Store,
    counter: &CounterId,
    time: CountedTime,
) -> Result<Vec<(i64, i128)>, LedgerUnavailable> {
    if let Some(step) = short_step(time) {
        return exact_steps(store, counter, (time.from, None), step).await;
    }
    let now = i64::try_from(unix_seconds()).unwrap_or(i64::MAX);
    let mut steps = Vec::new();
    let mut begin = time.from;
    loop {
        let next = time.step.map(|step| begin.saturating_add(step.max(1)));
        let is_last = next.is_none_or(|next| next > now || next >= time.until);
        let end = next.filter(|_| !is_last).map(|next| whole_hours(time, next));
        steps.push((begin, rule_sum(store, counter, whole_hours(time, begin), end).await?));
        match next {
            Some(next) if !is_last => begin = next,
            _ => return Ok(steps),
        }
    }
}

/// Seconds of an hour.
const HOUR: i64 = 3_600;
/// The cost of the requests of a counter in a time.
async fn rule_sum(
    store: &Store,
    counter: &CounterId,
    from: i64,
    until: Option<i64>,
) -> Result<i128, LedgerUnavailable> {
    let keys = key_ids(store, counter).await?;
    let time = Filter {
        since: Some(from.saturating_mul(1000)),
        until: until.map(|until| until.saturating_mul(1000)),
        ..Filter::default()
    };
    if names::are_needed(counter) {
        let filters = filters(store, counter, &time, &[tags_of_split(counter)]).await?;
        if let Some(sum) = named_sum(store, counter, keys.as_deref(), &filters).await? {
            return Ok(sum);
        }
    }
    let tags = tags(store, counter, &time).await?;
    let mut sum = 0_i128;
    for filter in filters(store, counter, &time, &tags).await? {
        sum = sum.saturating_add(sum_of(store, counter, keys.as_deref(), &filter).await?);
    }
    Ok(sum)
}

/// The cost of the requests of a filter, whatever their names.
async fn sum_of(
    store: &Store,
    counter: &CounterId,
    keys: Option<&[String]>,
    filter: &Filter,
) -> Result<i128, LedgerUnavailable> {
    let of = async |by: GroupBy, filter: &Filter| {
        store.usage(by, filter).await.map_err(|error| unavailable(&error))
    };
    if counter.split_value("team") != Some(None) {
        let costs = of(GroupBy::Key, filter).await?;
        return Ok(costs.iter().filter(|(key, _)| is_of_keys(keys, key)).map(|(_, sums)| sums.cost).sum());
    }
    // No filter finds the requests without a team.
    let each = keys.map_or_else(|| vec![None], |keys| keys.iter().cloned().map(Some).collect());
    let mut sum = 0_i128;
    for key_id in each {
        let costs = of(GroupBy::Team, &Filter { key_id, ..filter.clone() }).await?;
        sum = sum.saturating_add(
            costs.iter().filter(|(team, _)| team.is_empty()).map(|(_, sums)| sums.cost).sum(),
        );
    }
    Ok(sum)
}

/// As [`sum_of`], of the requests whose names the counter has. None: they have too many combinations of tags. Requests without any name are
/// in no sum by names, so they are what all others leave of the whole.
async fn named_sum(
    store: &Store,
    counter: &CounterId,
    keys: Option<&[String]>,
    filters: &[Filter],
) -> Result<Option<i128>, LedgerUnavailable> {
    let has_nameless = names::fit(counter, &[], false);
    let is_other = |cost: &&TaggedCost| {
        is_of_keys(keys, &cost.key_id)
            && is_of_team(counter, cost.team.as_deref())
            && names::fit(counter, &cost.tags, cost.has_end_user) != has_nameless
    };
    let mut sum = 0_i128;
    for filter in filters {
        let costs = store.costs_by_tags(filter, MAX_TAG_LISTS).await.map_err(|error| unavailable(&error))?;
        if costs.len() >= MAX_TAG_LISTS as usize {
            return Ok(None);
        }
        let others: i128 = costs.iter().filter(is_other).map(|cost| cost.cost).sum();
        sum = sum.saturating_add(match has_nameless {
            true => sum_of(store, counter, keys, filter).await?.saturating_sub(others).max(0),
            false => others,
        });
    }
    Ok(Some(sum))
}

fn is_of_keys(keys: Option<&[String]>, key: &str) -> bool {
    keys.is_none_or(|keys| keys.iter().any(|known| known == key))
}

/// Whether requests of this team count. Filters find those of a named team.
fn is_of_team(counter: &CounterId, team: Option<&str>) -> bool {
    counter.split_value("team") != Some(None) || team.is_none()
}

/// The ids of the keys of a counter. None: all keys.
async fn key_ids(store: &Store, counter: &CounterId) -> Result<Option<Vec<String>>, LedgerUnavailable> {
    if let Some(Some(id)) = counter.split_value("key") {
        return Ok(Some(vec![id.to_owned()]));
    }
    let mut ids = counter.matched.keys.clone();
    if ids.is_empty() {
        return Ok(None);
    }
    let stored = store.keys().await.map_err(|error| unavailable(&error))?;
    let named = stored.into_iter().filter(|key| counter.matched.keys.contains(&key.name)).map(|key| key.id);
    ids.extend(named);
    Ok(Some(ids))
}

/// The filters whose rows are those of a counter, whatever their key.
async fn filters(
    store: &Store,
    counter: &CounterId,
    time: &Filter,
    tags: &[Vec<String>],
) -> Result<Vec<Filter>, LedgerUnavailable> {
    let choices = |split: &str, matched: &[String]| match counter.split_value(split) {
        Some(Some(value)) => vec![Some(value.to_owned())],
        // The requests without a value have no filter of their own.
        Some(None) | None if matched.is_empty() => vec![None],
        Some(None) | None => matched.iter().cloned().map(Some).collect(),
    };
    let mut filters = Vec::new();
    for team in choices("team", &counter.matched.teams) {
        for user in choices("end_user", &counter.matched.end_users) {
            for tags in tags {
                let users = user.iter().map(|user| (Dimension::EndUser, user.clone()));
                let tags = tags.iter().map(|tag| (Dimension::Tag, tag.clone()));
                filters.push(Filter {
                    team: team.clone(),
                    names: users.chain(tags).collect(),
                    ..time.clone()
                });
            }
        }
    }
    by_target(store, counter, filters).await
}

/// The filters for each target of a counter.
async fn by_target(
    store: &Store,
    counter: &CounterId,
    filters: Vec<Filter>,
) -> Result<Vec<Filter>, LedgerUnavailable> {
    let MatchedNames { models, providers, .. } = &counter.matched;
    let mut narrowed = Vec::new();
    for filter in filters {
        let used = store.usage(GroupBy::Provider, &filter);
        let of_providers = named(counter.split_value("provider"), providers, used).await?;
        for provider in of_providers {
            let filter = Filter { provider, ..filter.clone() };
            let used = store.usage(GroupBy::Model, &filter);
            for model in named(counter.split_value("model"), models, used).await? {
                narrowed.push(Filter { model, ..filter.clone() });
            }
        }
    }
    Ok(narrowed)
}

/// The names of models or providers whose requests count. One None: all. `used` are those with requests.
async fn named<T>(
    split: Option<Option<&str>>,
    patterns: &[String],
    used: impl Future<Output = gw_store::Result<Vec<(String, T)>>>,
) -> Result<Vec<Option<String>>, LedgerUnavailable> {
    if let Some(Some(name)) = split {
        return Ok(vec![Some(name.to_owned())]);
    }
    if !patterns.iter().any(|pattern| pattern.contains('*')) {
        let names: Vec<_> = patterns.iter().cloned().map(Some).collect();
        return Ok(if names.is_empty() { vec![None] } else { names });
    }
    let used = used.await.map_err(|error| unavailable(&error))?;
    let names = used.into_iter().map(|(name, _)| name);
    Ok(names.filter(|name| patterns.iter().any(|pattern| matches(pattern, name))).map(Some).collect())
}

/// The most combinations of tags that are read. Beyond them the requests of all values and tags count, each once for each tag: a budget may
/// end too early, and never too late.
const MAX_TAG_LISTS: u32 = 100_000;
/// The most tags that are read for a pattern.
const MAX_TAGS: u32 = 1_000;

/// The tags whose requests count: each list has the tags that a request has together. One empty list: all requests.
async fn tags(
    store: &Store,
    counter: &CounterId,
    time: &Filter,
) -> Result<Vec<Vec<String>>, LedgerUnavailable> {
    let of_split = tags_of_split(counter);
    if !of_split.is_empty() {
        return Ok(vec![of_split]);
    }
    let patterns = &counter.matched.tags;
    if !patterns.iter().any(|pattern| pattern.contains('*')) {
        let named: Vec<_> = patterns.iter().map(|tag| vec![tag.clone()]).collect();
        return Ok(if named.is_empty() { vec![Vec::new()] } else { named });
    }
    let used =
        store.usage_by_name(Dimension::Tag, time, MAX_TAGS).await.map_err(|error| unavailable(&error))?;
    let names = used.listed.into_iter().map(|(name, _)| name);
    let is_one = |name: &String| patterns.iter().any(|pattern| matches(pattern, name));
    Ok(names.filter(is_one).map(|name| vec![name]).collect())
}

/// The tags that the values of the counter stand for. A request of the counter has all of them.
fn tags_of_split(counter: &CounterId) -> Vec<String> {
    let tag_of = |(by, value): &(String, Option<String>)| {
        Some(format!("{}:{}", by.strip_prefix("tag:")?, value.as_ref()?))
    };
    counter.split.iter().filter_map(tag_of).collect()
}

fn unavailable(error: &dyn std::fmt::Display) -> LedgerUnavailable {
    tracing::warn!("the budget of a rule cannot be looked up: {error}");
    LedgerUnavailable
}

/// Spending without a ledger: always zero.
#[derive(Clone, Copy, Debug)]
pub struct NothingSpent;

impl SpendingLedger for NothingSpent {
    fn spending<'a>(&'a self, _: SubjectKind, _: &'a str, _: SpendingQuestion<'a>) -> SpendingFuture<'a> {
        Box::pin(std::future::ready(Ok(Spending::default())))
    }
}

#[cfg(test)]
mod tests {
    use gw_store::Period;
    use gw_store::ledger::Entry;

    use super::*;

    #[tokio::test]
    async fn an_hour_in_which_a_step_ends_counts_once() {
        let store = Store::in_memory().await.unwrap();
        let now = i64::try_from(unix_seconds()).unwrap();
        // A step has one hour and a half.
        let period = Period::parse_any("36h").unwrap();
        let rows: Vec<_> = (0..70)
            .map(|number| Entry {
                request_id: format!("req_{number}").into(),
                at: (now - 1_800 * number) * 1_000,
                key_id: "k".into(),
                status: "ok".into(),
                cost: 1,
                ..Entry::default()
            })
            .collect();
        store.record(&rows).await.unwrap();
        let counter = CounterId { rule: "r".to_owned(), matched: MatchedNames::default(), split: Vec::new() };
        let time = period.counted_from(period.around(now).0);
        let steps = spending_by_step(&store, &counter, time).await.unwrap();
        assert_eq!(steps.iter().map(|(_, cost)| cost).sum::<i128>(), 70, "{steps:?}");
    }
}
