//! The formula of each strategy: a number for each candidate, lower is better, and the parts that it is the sum of.
//!
//! With `N` = calls lately ([`Seen::recent`]), `F` = failures lately, each fading, in these formulas:
//!
//! | | |
//! |---|---|
//! | failures | `e = F / (N + ½)` |
//! | time to first token | `t = (N × seen + ½ × prior) / (N + ½)`, or the one of both that there is |
//! | a warm prompt cache | spares reading the prompt: `prompt_tokens / 4` ms (4,000 tokens a second) |
//!
//! | strategy | score |
//! |---|---|
//! | default | place in the given order; a warm one leads its group |
//! | cheapest | USD of this request − USD that its prompt cache saves. Without a size: USD per million, in and out. Of equals the lower per million |
//! | fastest | `t` + 5,000 ms × `e` − prompt reading spared, in ms |
//! | throughput | 500 tokens ÷ tokens a second + 5 s × `e` − prompt reading spared, in s |
//! | best_quality | 100 − benchmark score; of equals a warm one leads |
//! | balanced | the sum of five distances, each times its weight: see [`Weights`] |
//! | availability | expected failures in percent, `100 × (F + ½ × (1 − prior)) / (N + ½)`; a warm one is forgiven 1 |
//! | least_busy | requests under way + 50 × `e`; a warm one is forgiven 2 |
//! | round_robin | places from the one whose turn it is; a warm one leads its group |
//!
//! What is not known makes a score infinite, so that it sorts last; in `balanced` it counts as one worse than the worst.

use std::f64::consts::{LOG2_E, SQRT_2};

use crate::facts::{Facts, Warm};
use crate::measured::Seen;
use crate::score::Weights;
use crate::strategy::Strategy;

/// Observations that a prior is worth.
const PRIOR: f64 = 0.5;
/// What a failed attempt is worth in milliseconds: it costs its own time, and a fifth of the retries of five requests.
const FAILURE_MS: f64 = 5_000.0;
/// What a failed attempt is worth in requests under way: else who fails at once would look idle.
const FAILURE_LOAD: f64 = 50.0;
/// Milliseconds to read a token of a prompt.
const PREFILL_MS: f64 = 0.25;
/// Tokens of the answer that `throughput` reckons with.
const ANSWER_TOKENS: f64 = 500.0;
/// Percent of failures, and requests under way, that a warm cache is worth.
const WARM_PERCENT: f64 = 1.0;
const WARM_LOAD: f64 = 2.0;
/// What `balanced` adds before it takes a logarithm: differences below it are not noticed.
const BARELY_USD: f64 = 1e-5;
const BARELY_PER_MILLION: f64 = 0.01;
const BARELY_MS: f64 = 50.0;
const BARELY_LOAD: f64 = 8.0;

/// Parts of a score.
pub(crate) const PARTS: usize = 5;

/// What a score is the sum of; NaN = not known, or not a part.
pub(crate) type Values = [f64; PARTS];

const NONE: f64 = f64::NAN;

/// The names of a strategy's parts.
pub(crate) const fn names(strategy: Strategy) -> &'static [&'static str] {
    match strategy {
        Strategy::Default => &["position", "warm"],
        Strategy::Cheapest => &["cost_usd", "usd_per_million", "saved_usd"],
        Strategy::Fastest => &["ttft_ms", "failures_ms", "warm_ms"],
        Strategy::Throughput => &["answer_s", "failures_s", "warm_s"],
        Strategy::BestQuality => &["quality_gap"],
        Strategy::Balanced => &["price", "latency", "quality", "availability", "load"],
        Strategy::Availability => &["failures_percent", "warm_percent"],
        Strategy::LeastBusy => &["in_flight", "failures", "warm"],
        Strategy::RoundRobin => &["turn", "warm"],
    }
}

/// What all candidates of a decision share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// Prices are of this request; otherwise per million tokens.
    pub(crate) sized: bool,
}

impl Common {
    /// A price of this request compares with nothing when another candidate only has one per million.
    pub(crate) fn of(facts: &[Facts]) -> Self {
        let sized = |facts: &Facts| finite(facts.cost).is_some() || finite(facts.per_million).is_none();
        Self { sized: facts.iter().all(sized) }
    }
}

/// The parts of a candidate's score; for `balanced` still without distance and weight ([`Scale`]), for `round_robin`
/// still without its turn. `position` is the candidate's place in the given order.
pub(crate) fn parts(strategy: Strategy, facts: &Facts, common: Common, position: usize) -> Values {
    let seen = &facts.seen;
    let warm = warm(facts);
    let spared_ms = warm.map_or(NONE, |warm| -(warm.prompt_tokens as f64 * PREFILL_MS));
    let known = |value: Option<f64>| value.unwrap_or(NONE);
    match strategy {
        Strategy::Default | Strategy::RoundRobin => {
            [position as f64, warm.map_or(NONE, |_| lead(position)), NONE, NONE, NONE]
        }
        Strategy::Cheapest => {
            let saved = warm.filter(|_| common.sized).map(|warm| -saved(warm));
            let (cost, per_million) =
                if common.sized { (facts.cost, None) } else { (None, facts.per_million) };
            [known(finite(cost)), known(finite(per_million)), known(saved), NONE, NONE]
        }
        Strategy::Fastest => [known(ttft(facts)), FAILURE_MS * failures(seen), spared_ms, NONE, NONE],
        Strategy::Throughput => {
            let speed = finite(seen.tokens_per_second).filter(|speed| *speed > 0.0);
            let answer = speed.map(|speed| ANSWER_TOKENS / speed);
            [known(answer), FAILURE_MS / 1e3 * failures(seen), spared_ms / 1e3, NONE, NONE]
        }
        Strategy::BestQuality => [100.0 - known(finite(facts.quality)), NONE, NONE, NONE, NONE],
        Strategy::Availability => {
            let known_at_all = seen.recent > 0.0 || finite(facts.prior.availability).is_some();
            let percent = if known_at_all { 100.0 * expected_failures(facts) } else { NONE };
            [percent, warm.map_or(NONE, |_| -WARM_PERCENT), NONE, NONE, NONE]
        }
        Strategy::LeastBusy => {
            let forgiven = warm.map_or(NONE, |_| -WARM_LOAD);
            [f64::from(seen.in_flight), FAILURE_LOAD * failures(seen), forgiven, NONE, NONE]
        }
        Strategy::Balanced => {
            let saved = warm.map_or(0.0, saved);
            let price = if common.sized {
                finite(facts.cost).map(|cost| (cost - saved).max(0.0) + BARELY_USD)
            } else {
                finite(facts.per_million).map(|price| price.max(0.0) + BARELY_PER_MILLION)
            };
            let spared = warm.map_or(0.0, |warm| warm.prompt_tokens as f64 * PREFILL_MS);
            let latency = ttft(facts).map(|ttft| (ttft - spared).max(0.0) + BARELY_MS);
            [
                log2(known(price)),
                log2(known(latency)),
                known(finite(facts.quality)) / -10.0,
                10.0 * expected_failures(facts),
                log2(f64::from(seen.in_flight) + BARELY_LOAD),
            ]
        }
    }
}

/// The best and the worst known of each part, over all candidates: what `balanced` measures distances from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranges {
    low: Values,
    high: Values,
}

impl Ranges {
    /// Nothing seen yet.
    pub(crate) const EMPTY: Self = Self { low: [f64::INFINITY; PARTS], high: [f64::NEG_INFINITY; PARTS] };

    /// Takes a candidate in.
    pub(crate) fn take(&mut self, values: &Values) {
        for ((low, high), value) in self.low.iter_mut().zip(&mut self.high).zip(values) {
            // What is not known (NaN) is neither smaller nor larger.
            *low = if value < low { *value } else { *low };
            *high = if value > high { *value } else { *high };
        }
    }

    /// What the parts are weighed by.
    pub(crate) fn scale(mut self, weights: &Weights) -> Scale {
        // Failures are a distance already, from none.
        if let Some(low) = self.low.get_mut(FAILURES) {
            *low = 0.0;
        }
        let weights = [weights.price, weights.latency, weights.quality, weights.availability, weights.load];
        let mut scale = Scale { low: self.low, weight: [0.0; PARTS], unknown: [0.0; PARTS] };
        let ranges = self.low.iter().zip(&self.high).zip(weights);
        for ((weight, unknown), ((low, high), its)) in
            scale.weight.iter_mut().zip(&mut scale.unknown).zip(ranges)
        {
            // What is known of nobody does not count, neither does a weight that is no number.
            if low <= high && its.is_finite() {
                (*weight, *unknown) = (its, (high - low + 1.0) * its);
            }
        }
        scale
    }
}

/// Of each part of `balanced`: the best, the weight, and what counts when it is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: Values,
    weight: Values,
    unknown: Values,
}

impl Scale {
    /// Each part becomes its distance from the best one, times its weight; their sum is the score. What is not known is
    /// one further away than the furthest.
    pub(crate) fn weigh(&self, values: &mut Values) -> f64 {
        let mut sum = 0.0;
        let scale = self.low.iter().zip(&self.weight).zip(&self.unknown);
        for (value, ((low, weight), unknown)) in values.iter_mut().zip(scale) {
            let known = (*value - low) * weight;
            *value = if known.is_nan() { *unknown } else { known };
            sum += *value;
        }
        sum
    }
}

/// Where `balanced` has its failures among the parts.
const FAILURES: usize = 3;

/// The sum of the parts; infinite when the first that counts is not known.
pub(crate) fn sum(strategy: Strategy, values: &Values) -> f64 {
    let missing = match (strategy, values) {
        (Strategy::Cheapest, [cost, per_million, ..]) => cost.is_nan() && per_million.is_nan(),
        (_, [first, ..]) => first.is_nan(),
    };
    if missing {
        return f64::INFINITY;
    }
    // The addition of 0 makes one of the two zeros.
    values.iter().filter(|value| !value.is_nan()).sum::<f64>() + 0.0
}

/// What decides between equal scores, lower is better.
pub(crate) fn tie(strategy: Strategy, facts: &Facts) -> f64 {
    match strategy {
        Strategy::Cheapest => finite(facts.per_million).unwrap_or(f64::INFINITY),
        Strategy::BestQuality if warm(facts).is_some() => -1.0,
        _ => 0.0,
    }
}

/// A prompt cache counts only with who is well.
fn warm(facts: &Facts) -> Option<Warm> {
    facts.warm.filter(|_| facts.standing == crate::health::Standing::Able)
}

fn saved(warm: Warm) -> f64 {
    finite(Some(warm.saved_usd)).unwrap_or(0.0).max(0.0)
}

/// What takes a candidate from its place to one before all others of its group.
pub(crate) fn lead(place: usize) -> f64 {
    -1.0 - place as f64
}

/// The share of calls that failed lately.
fn failures(seen: &Seen) -> f64 {
    let calls = seen.recent.max(0.0);
    (failed(seen) / (calls + PRIOR)).clamp(0.0, 1.0)
}

/// The share of calls that are expected to fail, the prior taken in.
fn expected_failures(facts: &Facts) -> f64 {
    let calls = facts.seen.recent.max(0.0);
    let prior = finite(facts.prior.availability).map_or(0.0, |percent| 1.0 - percent / 100.0);
    ((failed(&facts.seen) + PRIOR * prior) / (calls + PRIOR)).clamp(0.0, 1.0)
}

/// Failures lately: what the error rate was made of (`Seen::error_rate`).
fn failed(seen: &Seen) -> f64 {
    seen.error_rate * (seen.recent.max(0.0) + 1.0)
}

/// Milliseconds to the first token that are expected.
fn ttft(facts: &Facts) -> Option<f64> {
    let calls = facts.seen.recent.max(0.0);
    match (finite(facts.seen.ttft_ms), finite(facts.prior.ttft_ms)) {
        (Some(seen), Some(prior)) => Some((calls * seen + PRIOR * prior) / (calls + PRIOR)),
        (seen, prior) => seen.or(prior),
    }
}

/// The binary logarithm of a positive number, to five decimals; NaN stays NaN. Three of them are a third of what a
/// candidate of `balanced` costs when they are the C library's.
///
/// The number is m × 2^e with m from 1 to 2, and with q = (m − √2) / (m + √2) the natural logarithm of m / √2 is Gregory's
/// series 2 (q + q³/3 + q⁵/5 + …), of which three terms are enough: |q| is below 0.172.
fn log2(value: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = value.to_bits();
    let m = f64::from_bits(bits & FRACTION | 1023 << 52);
    let q = (m - SQRT_2) / (m + SQRT_2);
    let square = q * q;
    let series = q * (1.0 + square * (1.0 / 3.0 + square * (1.0 / 5.0)));
    // The exponent's 11 bits; half of it is √2's.
    let exponent = f64::from((bits >> 52) as u32) - 1022.5;
    if value.is_nan() { value } else { exponent + series * (2.0 * LOG2_E) }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::log2;

    proptest! {
        #[test]
        fn the_logarithm_is_right_to_five_decimals(exponent in -40.0..40.0_f64) {
            let value = exponent.exp2();
            prop_assert!((log2(value) - value.log2()).abs() < 1e-5);
        }
    }

    #[test]
    fn what_is_not_known_has_no_logarithm_and_powers_of_two_are_no_steps() {
        assert!(log2(f64::NAN).is_nan());
        for exponent in -20..40 {
            let value = f64::from(exponent).exp2();
            assert!((log2(value) - f64::from(exponent)).abs() < 1e-5);
            assert!((log2(value) - log2(value * 0.999_999_9)).abs() < 1e-5, "no step at {value}");
        }
    }
}
