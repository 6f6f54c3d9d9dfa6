//! From facts to an order: [`order`].

use crate::dice;
use crate::facts::Facts;
use crate::formula::{self, Common, Ranges, Values};
use crate::health::Standing;
use crate::strategy::Strategy;

/// The weights of `balanced`. Each part of its score is a distance from the best candidate in doublings, so that
/// dollars, milliseconds and points can be added: twice the price, twice the time to the first token, twice the
/// requests under way, ten points of quality, ten percent of failures each count 1, times its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Of the price: `log2` of it over the lowest.
    pub price: f64,
    /// Of the time to the first token: `log2` of it over the shortest.
    pub latency: f64,
    /// Of the benchmark score: tenths of the points below the highest.
    pub quality: f64,
    /// Of failures: tenths of the percent expected.
    pub availability: f64,
    /// Of load: `log2` of requests under way (and 8) over the fewest (and 8).
    pub load: f64,
}

impl Default for Weights {
    /// Everything 1, load half: how busy a candidate is shows in its times soon enough.
    fn default() -> Self {
        Self { price: 1.0, latency: 1.0, quality: 1.0, availability: 1.0, load: 0.5 }
    }
}

/// Why a candidate stands where it stands, before its score is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Ahead of all: it was not heard of lately, and this is the turn to find out.
    Explored,
    /// By the strategy's order.
    Able,
    /// Recovered lately, and this request is not in its share.
    Ramping,
    /// Its circuit is open, or it has asked for a pause.
    Away,
    /// Not named by the client, able.
    Upgrade,
    /// Not named by the client, and away.
    UpgradeAway,
}

impl Place {
    /// In words, for explanations.
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

/// What a score is the sum of, by name.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Names the values.
    strategy: Strategy,
    values: Values,
}

impl Parts {
    /// The parts that are known.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        let known = formula::names(self.strategy).iter().copied().zip(self.values);
        known.filter(|(_, value)| !value.is_nan())
    }
}

/// A candidate in an order.
#[derive(Clone, Copy, Debug)]
pub struct Scored {
    /// Which of the facts.
    pub index: usize,
    /// Lower is better; infinite when what it needs is not known. The sum of the parts.
    pub score: f64,
    /// What comes before the score.
    pub place: Place,
    /// What the score is the sum of.
    pub parts: Parts,
}

/// Candidates that a key has room for; nobody has more, and if, they stay in the given order.
const MOST: usize = 1 << 24;
/// The place in the given order, within a key.
const INDEX: u128 = 0xff_ffff;
/// One decision in so many is for finding out about a candidate that was not heard of lately.
const EXPLORE_EVERY: u64 = 64;
/// Calls lately below which a candidate counts as not heard of: 70 s after a single one.
const HEARD: f64 = 0.1;

/// The order in which candidates are tried: a permutation of all of them.
///
/// First who can be asked, by group, then by score; then who has recovered lately and is not in this request's share;
/// then who is away, by group, the soonest back first; then upgrades in their given order. Missing data sorts last,
/// equals keep the given order. `turn` counts decisions: `round_robin` goes by it, and what is left to chance is drawn
/// from it, so that the same turn gives the same order.
#[must_use]
pub fn order(strategy: Strategy, weights: &Weights, facts: &[Facts], turn: u64) -> Vec<Scored> {
    let mut rows = scored(strategy, weights, facts, turn);
    if rows.len() < 2 || rows.len() > MOST {
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
        // Not `copied()`: a row is copied once, not by way of an Option.
        if let Some(row) = rows.get((*key & INDEX) as usize) {
            ordered.push(*row);
        }
    }
    ordered
}

/// Place and score of each, in the given order.
fn scored(strategy: Strategy, weights: &Weights, facts: &[Facts], turn: u64) -> Vec<Scored> {
    let common = Common::of(facts);
    let balanced = strategy == Strategy::Balanced;
    let mut ranges = Ranges::EMPTY;
    let mut rows: Vec<Scored> = Vec::with_capacity(facts.len());
    for (index, facts) in facts.iter().enumerate() {
        let values = formula::parts(strategy, facts, common, index);
        if balanced {
            ranges.take(&values);
        }
        let place = place(facts, turn, index as u64);
        rows.push(Scored { index, score: 0.0, place, parts: Parts { strategy, values } });
    }
    let scale = ranges.scale(weights);
    for row in &mut rows {
        row.score = if balanced {
            scale.weigh(&mut row.parts.values)
        } else {
            formula::sum(strategy, &row.parts.values)
        };
    }
    rows
}

fn place(facts: &Facts, turn: u64, index: u64) -> Place {
    match (facts.standing, facts.upgrade) {
        (Standing::Ramping { share }, false) if dice::fraction(turn, index) >= share => Place::Ramping,
        (standing, false) if standing.is_served() => Place::Able,
        (_, false) => Place::Away,
        (standing, true) if standing.is_served() => Place::Upgrade,
        (_, true) => Place::UpgradeAway,
    }
}

/// Of `round_robin`: in each group, places are counted from the one whose turn it is.
///
/// With the weights' sum `W`, each run of `W` turns gives everyone exactly its weight, spread evenly: turn `i` of a run
/// falls on slot `i × k mod W`, `k` near 0.618 `W` and without a common divisor. Each run begins at a slot of its own,
/// so a counter shared with other traffic that takes every second turn does not always meet the same candidate.
fn take_turns(rows: &mut [Scored], facts: &[Facts], turn: u64) {
    let mut next = facts.iter().map(|facts| facts.group).min();
    while let Some(group) = next {
        let members = || rows.iter().zip(facts).filter(|(_, facts)| facts.group == group);
        let weight = |(row, facts): (&Scored, &Facts)| {
            if row.place == Place::Able { u64::from(facts.weight) } else { 0 }
        };
        let slots: u64 = members().map(weight).sum();
        let many = members().count();
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
            let away = (at + many - first) % many;
            let [turn, warm, ..] = &mut row.parts.values;
            *turn = away as f64;
            if !warm.is_nan() {
                *warm = formula::lead(away);
            }
            row.score = formula::sum(Strategy::RoundRobin, &row.parts.values);
        }
        next = facts.iter().map(|facts| facts.group).filter(|other| *other > group).min();
    }
}

/// The slot of a turn among so many.
fn slot(turn: u64, slots: u64) -> u64 {
    if slots < 2 {
        return 0;
    }
    let near = (slots as f64 * 0.618) as u64;
    let step = (near.max(1)..).find(|step| gcd(*step, slots) == 1).unwrap_or(1);
    let begin = dice::mix(turn / slots, slots) % slots;
    // Weights are 32 bits and candidates are few: below 2^63, but whoever configures such weights gets no panic.
    (u128::from(turn % slots) * u128::from(step) + u128::from(begin)).rem_euclid(u128::from(slots)) as u64
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Lets a candidate go first of which nothing was heard lately, in one of 64 turns: without it, who was slow once (or
/// was never asked and has no prior) would never be measured again. Only strategies that live on measured speed need
/// it, and only where there is a choice in the first group.
fn explore(strategy: Strategy, rows: &mut [Scored], facts: &[Facts], turn: u64) {
    if !matches!(strategy, Strategy::Fastest | Strategy::Throughput | Strategy::Balanced) {
        return;
    }
    // In the second half of each 64, at a place that changes: see `take_turns` on shared counters.
    let half = EXPLORE_EVERY / 2;
    if turn % EXPLORE_EVERY != half + dice::mix(turn / EXPLORE_EVERY, 0) % half {
        return;
    }
    let able = || rows.iter().zip(facts).filter(|(row, _)| row.place == Place::Able);
    let Some(group) = able().map(|(_, facts)| facts.group).min() else { return };
    let mut unheard = able()
        .filter(|(_, facts)| facts.group == group && facts.seen.recent < HEARD && facts.seen.in_flight == 0);
    let Some(first) = unheard.next() else { return };
    let first = unheard.fold(first, |a, b| if b.1.seen.recent < a.1.seen.recent { b } else { a }).0.index;
    if let Some(row) = rows.get_mut(first) {
        row.place = Place::Explored;
    }
}

/// What is sorted by, packed into one number, because comparing those is what a sort of many candidates consists of:
/// 3 bits of place, 13 of the group, 64 of the score (of who is away: the time), 24 of what decides between equals, 24
/// of the place in the given order.
fn key(row: &Scored, facts: &Facts, tie: f64) -> u128 {
    let group = facts.group.min(0x1fff);
    let (group, main, tie) = match row.place {
        Place::Explored | Place::Able | Place::Ramping => (group, ascending(row.score), tie),
        Place::Away => (group, away_nanos(facts.standing), row.score),
        Place::Upgrade | Place::UpgradeAway => (0, 0, 0.0),
    };
    let upper = u64::from(row.place as u8) << 13 | u64::from(group);
    // Sign, exponent and 12 bits of the fraction: one in four thousand.
    let tie = ascending(tie) >> 40;
    u128::from(upper) << 112 | u128::from(main) << 48 | u128::from(tie) << 24 | row.index as u128
}

/// Nanoseconds until it is back.
fn away_nanos(standing: Standing) -> u64 {
    match standing {
        Standing::Resting { left } | Standing::Open { left } => {
            u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)
        }
        Standing::Probing | Standing::Able | Standing::Ramping { .. } | Standing::Ready => 0,
    }
}

/// Bits that order like the number: IEEE 754's own order, the negative half turned over.
const fn ascending(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

#[cfg(test)]
mod tests;
