//! The formula of each strategy. It gives each candidate a score, lower is better, and the terms that add up to it.
//!
//! The formulas use `N` = recent calls ([`Averages::recent`]) and `F` = recent failures, both fading with time:
//!
//! | | |
//! |---|---|
//! | failures | `e = F / (N + ½)` |
//! | time to first token | `t = (N × measured + ½ × prior) / (N + ½)`, or the only one of both that is known |
//! | a warm prompt cache | saves reading the prompt: `prompt_tokens / 4` ms (4,000 tokens a second) |
//!
//! | strategy | score |
//! |---|---|
//! | default | position in the given order; the candidate with a warm cache leads its group |
//! | cheapest | USD of this request − USD that its prompt cache saves. Requests of unknown size: USD per million tokens, input plus output. Ties: the lower price per million |
//! | fastest | `t` + 5,000 ms × `e` − prompt reading saved, in ms |
//! | throughput | 500 tokens ÷ tokens a second + 5 s × `e` − prompt reading saved, in s |
//! | best_quality | 100 − benchmark score; in a tie the candidate with a warm cache leads |
//! | balanced | the sum of five distances, each times its weight: see [`Weights`] |
//! | availability | expected failures in percent, `100 × (F + ½ × (1 − prior)) / (N + ½)`; a warm cache takes off 1 |
//! | least_busy | requests in flight + 50 × `e`; a warm cache takes off 2 |
//! | round_robin | positions after the candidate whose turn it is; the candidate with a warm cache leads its group |
//!
//! An unknown figure makes a score infinite, so the candidate sorts last. In `balanced` it counts as one unit worse than
//! the worst known figure.

use std::f64::consts::{LOG2_E, SQRT_2};

use crate::facts::{Facts, PromptCache};
use crate::metrics::Averages;
use crate::score::Weights;
use gw_wire::strategy::Strategy;

/// The number of observations that a prior counts for.
const PRIOR: f64 = 0.5;
/// Cost of a failed attempt in milliseconds: its own time, and the retry budget of five requests.
const FAILURE_MS: f64 = 5_000.0;
/// Cost of a failed attempt in requests in flight. Without it a candidate that fails at once would look idle.
const FAILURE_LOAD: f64 = 50.0;
/// Milliseconds to read one token of a prompt.
const PREFILL_MS: f64 = 0.25;
/// Tokens of the answer that `throughput` assumes.
const ANSWER_TOKENS: f64 = 500.0;
/// The value of a warm cache in percent of failures, and in requests in flight.
const WARM_PERCENT: f64 = 1.0;
const WARM_LOAD: f64 = 2.0;
/// Added by `balanced` before it takes a logarithm, so that smaller differences hardly count.
const BARELY_USD: f64 = 1e-5;
const BARELY_PER_MILLION: f64 = 0.01;
const BARELY_MS: f64 = 50.0;
const BARELY_LOAD: f64 = 8.0;

/// Maximum number of terms of a score.
pub(crate) const TERMS: usize = 5;

/// The terms of a score; NaN = unknown, or not a term of this strategy.
pub(crate) type Terms = [f64; TERMS];

const NONE: f64 = f64::NAN;

/// The names of a strategy's terms, as `explain` shows them.
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

/// Facts that all candidates of a decision share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// Prices are those of this request; otherwise they are per million tokens.
    pub(crate) is_sized: bool,
}

impl Common {
    /// Prices of this request are used only if every priced candidate has one: they do not compare with prices per million.
    pub(crate) fn of(facts: &[Facts]) -> Self {
        let is_sized =
            |facts: &Facts| finite(facts.cost_usd).is_some() || finite(facts.usd_per_million).is_none();
        Self { is_sized: facts.iter().all(is_sized) }
    }
}

/// The terms of a candidate's score. For `balanced` they still lack distance and weight ([`Scale`]), for `round_robin`
/// the turn. `position` is the candidate's position in the given order.
pub(crate) fn terms(strategy: Strategy, facts: &Facts, common: Common, position: usize) -> Terms {
    let averages = &facts.averages;
    let warm = warm(facts);
    let spared_ms = warm.map_or(NONE, |warm| -(warm.prompt_tokens as f64 * PREFILL_MS));
    let known = |value: Option<f64>| value.unwrap_or(NONE);
    match strategy {
        Strategy::Default | Strategy::RoundRobin => {
            [position as f64, warm.map_or(NONE, |_| lead(position)), NONE, NONE, NONE]
        }
        Strategy::Cheapest => {
            let saved = warm.filter(|_| common.is_sized).map(|warm| -saved(warm));
            let (cost, usd_per_million) =
                if common.is_sized { (facts.cost_usd, None) } else { (None, facts.usd_per_million) };
            [known(finite(cost)), known(finite(usd_per_million)), known(saved), NONE, NONE]
        }
        Strategy::Fastest => [known(ttft(facts)), FAILURE_MS * failures(averages), spared_ms, NONE, NONE],
        Strategy::Throughput => {
            let speed = finite(averages.tokens_per_second).filter(|speed| *speed > 0.0);
            let answer = speed.map(|speed| ANSWER_TOKENS / speed);
            [known(answer), FAILURE_MS / 1e3 * failures(averages), spared_ms / 1e3, NONE, NONE]
        }
        Strategy::BestQuality => [100.0 - known(finite(facts.quality)), NONE, NONE, NONE, NONE],
        Strategy::Availability => {
            let known_at_all = averages.recent > 0.0 || finite(facts.prior.availability).is_some();
            let percent = if known_at_all { 100.0 * expected_failures(facts) } else { NONE };
            [percent, warm.map_or(NONE, |_| -WARM_PERCENT), NONE, NONE, NONE]
        }
        Strategy::LeastBusy => {
            let forgiven = warm.map_or(NONE, |_| -WARM_LOAD);
            [f64::from(averages.in_flight), FAILURE_LOAD * failures(averages), forgiven, NONE, NONE]
        }
        Strategy::Balanced => {
            let saved = warm.map_or(0.0, saved);
            let price = if common.is_sized {
                finite(facts.cost_usd).map(|cost| (cost - saved).max(0.0) + BARELY_USD)
            } else {
                finite(facts.usd_per_million).map(|price| price.max(0.0) + BARELY_PER_MILLION)
            };
            let spared = warm.map_or(0.0, |warm| warm.prompt_tokens as f64 * PREFILL_MS);
            let latency = ttft(facts).map(|ttft| (ttft - spared).max(0.0) + BARELY_MS);
            [
                log2(known(price)),
                log2(known(latency)),
                known(finite(facts.quality)) / -10.0,
                10.0 * expected_failures(facts),
                log2(f64::from(averages.in_flight) + BARELY_LOAD),
            ]
        }
    }
}

/// The best and the worst known value of each term over all candidates: `balanced` measures distances between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranges {
    low: Terms,
    high: Terms,
}

impl Ranges {
    /// Ranges without a value.
    pub(crate) const EMPTY: Self = Self { low: [f64::INFINITY; TERMS], high: [f64::NEG_INFINITY; TERMS] };

    /// Extends the ranges by a candidate's values.
    pub(crate) fn extend(&mut self, values: &Terms) {
        for ((low, high), value) in self.low.iter_mut().zip(&mut self.high).zip(values) {
            // An unknown value (NaN) compares as neither smaller nor larger.
            *low = if value < low { *value } else { *low };
            *high = if value > high { *value } else { *high };
        }
    }

    /// The scale that turns values into weighted distances.
    pub(crate) fn scale(mut self, weights: &Weights) -> Scale {
        // Failures are already a distance: from no failures.
        if let Some(low) = self.low.get_mut(FAILURES) {
            *low = 0.0;
        }
        let weights = [weights.price, weights.latency, weights.quality, weights.availability, weights.load];
        let mut scale = Scale { low: self.low, weight: [0.0; TERMS], unknown: [0.0; TERMS] };
        let ranges = self.low.iter().zip(&self.high).zip(weights);
        for ((weight, unknown), ((low, high), its)) in
            scale.weight.iter_mut().zip(&mut scale.unknown).zip(ranges)
        {
            // A term that no candidate knows does not count, and neither does a weight that is not a number.
            if low <= high && its.is_finite() {
                (*weight, *unknown) = (its, (high - low + 1.0) * its);
            }
        }
        scale
    }
}

/// For each term of `balanced`: the best value, the weight, and the distance that counts when the value is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: Terms,
    weight: Terms,
    unknown: Terms,
}

impl Scale {
    /// Turns each value into its distance from the best one, times its weight, and returns their sum: the score. An
    /// unknown value counts as one unit further away than the worst one.
    pub(crate) fn weigh(&self, values: &mut Terms) -> f64 {
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

/// The index of the failures among the terms of `balanced`.
const FAILURES: usize = 3;

/// The sum of the terms; infinite when the decisive term is unknown.
pub(crate) fn sum(strategy: Strategy, values: &Terms) -> f64 {
    let missing = match (strategy, values) {
        (Strategy::Cheapest, [cost, usd_per_million, ..]) => cost.is_nan() && usd_per_million.is_nan(),
        (_, [first, ..]) => first.is_nan(),
    };
    if missing {
        return f64::INFINITY;
    }
    // Adding 0 turns a negative zero into a positive one.
    values.iter().filter(|value| !value.is_nan()).sum::<f64>() + 0.0
}

/// Decides between equal scores, lower is better.
pub(crate) fn tie(strategy: Strategy, facts: &Facts) -> f64 {
    match strategy {
        Strategy::Cheapest => finite(facts.usd_per_million).unwrap_or(f64::INFINITY),
        Strategy::BestQuality if warm(facts).is_some() => -1.0,
        _ => 0.0,
    }
}

/// The prompt cache, if the candidate is healthy: only then does it count.
fn warm(facts: &Facts) -> Option<PromptCache> {
    facts.prompt_cache.filter(|_| facts.status == crate::health::HealthStatus::Able)
}

fn saved(warm: PromptCache) -> f64 {
    finite(Some(warm.saved_usd)).unwrap_or(0.0).max(0.0)
}

/// The term that moves a candidate from its position to the front of its group.
pub(crate) fn lead(position: usize) -> f64 {
    -1.0 - position as f64
}

/// The share of recent calls that failed.
fn failures(averages: &Averages) -> f64 {
    let calls = averages.recent.max(0.0);
    (failed(averages) / (calls + PRIOR)).clamp(0.0, 1.0)
}

/// The share of calls that are expected to fail, the prior included.
fn expected_failures(facts: &Facts) -> f64 {
    let calls = facts.averages.recent.max(0.0);
    let prior = finite(facts.prior.availability).map_or(0.0, |percent| 1.0 - percent / 100.0);
    ((failed(&facts.averages) + PRIOR * prior) / (calls + PRIOR)).clamp(0.0, 1.0)
}

/// Recent failures: the numerator of `Averages::error_rate`.
fn failed(averages: &Averages) -> f64 {
    averages.error_rate * (averages.recent.max(0.0) + 1.0)
}

/// Expected milliseconds to the first token.
fn ttft(facts: &Facts) -> Option<f64> {
    let calls = facts.averages.recent.max(0.0);
    match (finite(facts.averages.ttft_ms), finite(facts.prior.ttft_ms)) {
        (Some(measured), Some(prior)) => Some((calls * measured + PRIOR * prior) / (calls + PRIOR)),
        (measured, prior) => measured.or(prior),
    }
}

/// The binary logarithm of a positive number, to five decimals; NaN stays NaN. The C library's logarithm is slower: three
/// calls of it would take a third of the time that `balanced` needs for a candidate.
///
/// The number is m × 2^e with m from 1 to 2. With q = (m − √2) / (m + √2) the natural logarithm of m / √2 is Gregory's
/// series 2 (q + q³/3 + q⁵/5 + …). Three terms are enough, because |q| is below 0.172.
fn log2(value: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = value.to_bits();
    let m = f64::from_bits(bits & FRACTION | 1023 << 52);
    let q = (m - SQRT_2) / (m + SQRT_2);
    let square = q * q;
    let series = q * (1.0 + square * (1.0 / 3.0 + square * (1.0 / 5.0)));
    // The exponent is 11 bits; the half belongs to √2.
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
