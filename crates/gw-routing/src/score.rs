//! Sorts candidates by their facts: [`order`].

use crate::facts::Facts;
use crate::formula::{self, Common, Ranges, Terms};
use crate::health::HealthStatus;
use crate::rng;
use gw_wire::strategy::Strategy;

/// The weights of `balanced`. Each term of its score is a distance from the best candidate, measured in doublings, so
/// that dollars, milliseconds and points can be added. Twice the price, twice the time to the first token, twice the
/// requests in flight, ten points of quality and ten percent of failures each count 1, times the weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Of the price: `log2` of the price over the lowest one.
    pub price: f64,
    /// Of the time to the first token: `log2` of the time over the shortest one.
    pub latency: f64,
    /// Of the benchmark score: tenths of the points below the highest one.
    pub quality: f64,
    /// Of failures: tenths of the expected percentage.
    pub availability: f64,
    /// Of load: `log2` of (requests in flight + 8) over the same figure of the least busy candidate.
    pub load: f64,
}

impl Default for Weights {
    /// All weights 1 except load, which is half: a busy candidate's load soon shows in its latency.
    fn default() -> Self {
        Self { price: 1.0, latency: 1.0, quality: 1.0, availability: 1.0, load: 0.5 }
    }
}

/// The first sort criterion of a candidate, before its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// First of all: it was not called recently, and this request measures it.
    Explored,
    /// Healthy: sorted by the strategy.
    Able,
    /// Recovered recently, and this request is not in its share.
    Ramping,
    /// Its circuit is open, or it has asked for a pause.
    Away,
    /// Healthy, and not named by the client.
    Upgrade,
    /// Not named by the client, with an open circuit or in a pause.
    UpgradeAway,
}

impl Tier {
    /// The name that explanations show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Explored => "explored",
            Self::Able => "able",
            Self::Ramping => "ramping",
            Self::Away => "away",
            Self::Upgrade => "upgrade",
            Self::UpgradeAway => "upgrade_away",
        }
    }
}

/// The named terms of a score.
#[derive(Clone, Copy, Debug)]
pub struct ScoreTerms {
    /// Names the terms.
    strategy: Strategy,
    terms: Terms,
}

impl ScoreTerms {
    /// The known terms, each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        let known = formula::names(self.strategy).iter().copied().zip(self.terms);
        known.filter(|(_, value)| !value.is_nan())
    }
}

/// A candidate in an order.
#[derive(Clone, Copy, Debug)]
pub struct Scored {
    /// The candidate's index among the facts.
    pub index: usize,
    /// Lower is better; infinite when a figure that it needs is unknown. The sum of `parts`.
    pub score: f64,
    /// Sorted by before the score.
    pub tier: Tier,
    /// The terms of the score.
    pub parts: ScoreTerms,
}

/// Maximum number of candidates that a sort key can number. More candidates stay in the given order.
const MAX_CANDIDATES: usize = 1 << 24;
/// The bits of a sort key that hold the position in the given order.
const INDEX: u128 = 0xff_ffff;
/// One decision in this many measures a candidate that was not called recently.
const EXPLORE_EVERY: u64 = 64;
/// A candidate with fewer recent calls than this was not called recently: 70 s after a single call.
const MIN_RECENT_CALLS: f64 = 0.1;

/// The order in which candidates are tried: a permutation of all of them.
///
/// Healthy candidates come first, by group, then by score. Candidates that have recovered recently follow if this request
/// is not in their share, then those with an open circuit or in a pause, by group, the soonest back first, and last the
/// upgrades in their given order. Unknown figures sort last; ties keep the given order. `turn` counts decisions:
/// `round_robin` depends on it and random choices are drawn from it, so the same turn gives the same order.
#[must_use]
pub fn order(strategy: Strategy, weights: &Weights, facts: &[Facts], turn: u64) -> Vec<Scored> {
    let mut rows = scored(strategy, weights, facts, turn);
    if rows.len() < 2 || rows.len() > MAX_CANDIDATES {
        return rows;
    }
    if strategy == Strategy::RoundRobin {
        take_turns(&mut rows, facts, turn);
    }
    explore(strategy, &mut rows, facts, turn);
    let keyed = rows.iter().zip(facts);
    let mut keys: Vec<u128> = keyed.map(|(row, its)| key(row, its, formula::tie(strategy, its))).collect();
    keys.sort_unstable();
    let mut ordered = Vec::with_capacity(rows.len());
    for key in &keys {
        // Indexing with `get` copies the row once; `copied()` would copy it through an Option.
        if let Some(row) = rows.get((*key & INDEX) as usize) {
            ordered.push(*row);
        }
    }
    ordered
}

/// Tier and score of each candidate, in the given order.
fn scored(strategy: Strategy, weights: &Weights, facts: &[Facts], turn: u64) -> Vec<Scored> {
    let common = Common::of(facts);
    let balanced = strategy == Strategy::Balanced;
    let mut ranges = Ranges::EMPTY;
    let mut rows: Vec<Scored> = Vec::with_capacity(facts.len());
    for (index, facts) in facts.iter().enumerate() {
        let terms = formula::terms(strategy, facts, common, index);
        if balanced {
            ranges.extend(&terms);
        }
        let tier = tier(facts, turn, index as u64);
        rows.push(Scored { index, score: 0.0, tier, parts: ScoreTerms { strategy, terms } });
    }
    let scale = ranges.scale(weights);
    for row in &mut rows {
        row.score = if balanced {
            scale.weigh(&mut row.parts.terms)
        } else {
            formula::sum(strategy, &row.parts.terms)
        };
    }
    rows
}

fn tier(facts: &Facts, turn: u64, index: u64) -> Tier {
    match (facts.status, facts.is_upgrade) {
        (HealthStatus::Ramping { share }, false) if rng::fraction(turn, index) >= share => Tier::Ramping,
        (status, false) if status.is_served() => Tier::Able,
        (_, false) => Tier::Away,
        (status, true) if status.is_served() => Tier::Upgrade,
        (_, true) => Tier::UpgradeAway,
    }
}

/// `round_robin`: in each group, positions are counted from the candidate whose turn it is.
///
/// With `W` the sum of the weights, each run of `W` turns gives every candidate exactly its weight, spread evenly: turn
/// `i` falls on slot `i × k mod W`, with `k` near 0.618 `W` and coprime to `W`. Candidates of equal weight alternate.
fn take_turns(rows: &mut [Scored], facts: &[Facts], turn: u64) {
    let mut next = facts.iter().map(|facts| facts.group).min();
    while let Some(group) = next {
        let members = || rows.iter().zip(facts).filter(|(_, facts)| facts.group == group);
        let weight = |(row, facts): (&Scored, &Facts)| {
            if row.tier == Tier::Able { u64::from(facts.weight) } else { 0 }
        };
        let slots: u64 = members().map(weight).sum();
        let count = members().count();
        let mut slot = slot(turn, slots);
        let mut first = 0;
        for (at, weight) in members().map(weight).enumerate() {
            if slot < weight {
                first = at;
                break;
            }
            slot -= weight;
        }
        let mine = rows.iter_mut().zip(facts).filter(|(_, facts)| facts.group == group);
        for (at, (row, _)) in mine.enumerate() {
            let away = (at + count - first) % count;
            let [turn, warm, ..] = &mut row.parts.terms;
            *turn = away as f64;
            if !warm.is_nan() {
                *warm = formula::lead(away);
            }
            row.score = formula::sum(Strategy::RoundRobin, &row.parts.terms);
        }
        next = facts.iter().map(|facts| facts.group).filter(|other| *other > group).min();
    }
}

/// The slot of a turn among this many slots.
fn slot(turn: u64, slots: u64) -> u64 {
    if slots < 2 {
        return 0;
    }
    let near = (slots as f64 * 0.618) as u64;
    let step = (near.max(1)..).find(|step| gcd(*step, slots) == 1).unwrap_or(1);
    // Configured weights of 32 bits could overflow 64 bits here; 128 bits avoid a panic.
    (u128::from(turn % slots) * u128::from(step)).rem_euclid(u128::from(slots)) as u64
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Puts a candidate that was not called recently first, in one of 64 turns. Without it a candidate that was slow once (or
/// was never called and has no prior) would never be measured again. Only strategies that use measured speed need it, and
/// only where the first group has a choice.
fn explore(strategy: Strategy, rows: &mut [Scored], facts: &[Facts], turn: u64) {
    if !matches!(strategy, Strategy::Fastest | Strategy::Throughput | Strategy::Balanced) {
        return;
    }
    // At a varying turn in the second half of each 64: a request that always takes every 64th turn must not be the only one.
    let half = EXPLORE_EVERY / 2;
    if turn % EXPLORE_EVERY != half + rng::mix(turn / EXPLORE_EVERY, 0) % half {
        return;
    }
    let able = || rows.iter().zip(facts).filter(|(row, _)| row.tier == Tier::Able);
    let Some(group) = able().map(|(_, facts)| facts.group).min() else { return };
    let mut unmeasured = able().filter(|(_, facts)| {
        facts.group == group && facts.averages.recent < MIN_RECENT_CALLS && facts.averages.in_flight == 0
    });
    let Some(first) = unmeasured.next() else { return };
    let oldest = |a: (&Scored, &Facts), b: (&Scored, &Facts)| b.1.averages.recent < a.1.averages.recent;
    let first = unmeasured.fold(first, |a, b| if oldest(a, b) { b } else { a }).0.index;
    if let Some(row) = rows.get_mut(first) {
        row.tier = Tier::Explored;
    }
}

/// The sort criteria packed into one number, because comparisons dominate the sort of many candidates: 3 bits of the
/// tier, 13 of the group, 64 of the score (for candidates that are away: the time until they are back), 24 of the tie
/// break and 24 of the position in the given order.
fn key(row: &Scored, facts: &Facts, tie: f64) -> u128 {
    let group = facts.group.min(0x1fff);
    let (group, main, tie) = match row.tier {
        Tier::Explored | Tier::Able | Tier::Ramping => (group, ascending(row.score), tie),
        Tier::Away => (group, away_nanos(facts.status), row.score),
        Tier::Upgrade | Tier::UpgradeAway => (0, 0, 0.0),
    };
    let upper = u64::from(row.tier as u8) << 13 | u64::from(group);
    // Sign, exponent and 12 bits of the fraction: a resolution of one in four thousand.
    let tie = ascending(tie) >> 40;
    u128::from(upper) << 112 | u128::from(main) << 48 | u128::from(tie) << 24 | row.index as u128
}

/// Nanoseconds until the candidate can be called again.
fn away_nanos(status: HealthStatus) -> u64 {
    match status {
        HealthStatus::Resting { left } | HealthStatus::Open { left } => {
            u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)
        }
        HealthStatus::Probing | HealthStatus::Able | HealthStatus::Ramping { .. } | HealthStatus::Ready => 0,
    }
}

/// Bits that sort like the number: IEEE 754's order, with the negative half reversed.
const fn ascending(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

#[cfg(test)]
mod tests;
