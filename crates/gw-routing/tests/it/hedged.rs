//! Hedging on a virtual clock: two providers with an occasional late first token, with and without hedges.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_routing::{CallMetrics, HedgeBudget, HedgeDelay, HedgeSettings, RetryBudget, hedge_after};
use gw_wire::money::Money;

use crate::world::Draw;

const REQUESTS: u64 = 20_000;
/// The time between requests: 20 a second.
const APART: Duration = Duration::from_millis(50);
/// Femto-USD: reading the prompt, and the whole answer on top of it. Two cents together, so that the cent with which a
/// hedge budget begins is soon gone.
const PROMPT: i128 = 5_000_000_000_000;
const ANSWER: i128 = 15_000_000_000_000;

/// The figures of a simulation.
pub(crate) struct Report {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Percent of requests that were hedged.
    pub(crate) hedged_percent: f64,
    /// Cost of the attempts that lost, in percent of the cost of served calls.
    pub(crate) extra_percent: f64,
}

/// Time to the first token: about 400 ms; one in 25 takes seconds.
fn ttft(draw: &mut Draw) -> Duration {
    let body = 0.4 * draw.log_normal(0.25);
    let late = if draw.next() < 0.04 { 2.0 + 6.0 * draw.next() } else { 0.0 };
    Duration::from_secs_f64(body + late)
}

/// Simulates requests with this cap on the cost of hedges. The second attempt goes to a similar provider.
pub(crate) fn simulate(max_extra_cost_percent: f64) -> Report {
    let settings = HedgeSettings { after: HedgeDelay::P95, max_extra_cost_percent };
    let start = Instant::now();
    let (hedge_budget, retry_budget) = (Arc::new(HedgeBudget::new(&settings)), RetryBudget::new(start));
    let (first, second) = (CallMetrics::default(), CallMetrics::default());
    let mut draw = Draw(7);
    let mut times = Vec::new();
    let (mut hedges, mut extra) = (0_u64, 0);
    for request in 0..REQUESTS {
        let now = start + APART * u32::try_from(request).unwrap_or(0);
        retry_budget.record_request(now);
        let (own, other) = (ttft(&mut draw), ttft(&mut draw));
        let wait = hedge_after(&settings, &first).filter(|wait| *wait < own);
        // A hedge costs at most the loser's prompt.
        let hedge = wait.and_then(|wait| Some((wait, hedge_budget.allow(Money::from_femtos(PROMPT))?)));
        let hedge = hedge.filter(|_| retry_budget.allow(now));
        let took = match hedge {
            None => {
                first.record_first_token(own, now);
                own
            }
            Some((wait, hedge)) => {
                hedges += 1;
                // The loser is dropped before its first token: its prompt was read.
                hedge.settle(Money::from_femtos(PROMPT));
                extra += PROMPT;
                let took = own.min(wait + other);
                // The loser's time to the first token is only known to be longer than this.
                first.record_first_token(took, now);
                second.record_first_token(other.min(took.saturating_sub(wait)), now);
                took
            }
        };
        hedge_budget.record_served_cost(Money::from_femtos(PROMPT + ANSWER));
        times.push(took);
    }
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
    let served = (PROMPT + ANSWER) * i128::from(REQUESTS);
    Report {
        p50_ms: at(50),
        p99_ms: at(99),
        hedged_percent: hedges as f64 / REQUESTS as f64 * 100.0,
        extra_percent: extra as f64 / served as f64 * 100.0,
    }
}

#[test]
fn hedging_takes_a_third_off_the_99th_percentile_within_its_cap() {
    let (without, with) = (simulate(0.0), simulate(5.0));
    assert!(without.hedged_percent == 0.0 && without.extra_percent == 0.0);
    assert!(with.p99_ms <= without.p99_ms * 0.7, "{} ms instead of {}", with.p99_ms, without.p99_ms);
    assert!(with.extra_percent <= 5.0, "{} %", with.extra_percent);
    // A cap that allows only some of the hedges holds too.
    let tight = simulate(0.5);
    assert!(tight.extra_percent <= 0.5 && tight.hedged_percent > 0.0, "{} %", tight.extra_percent);
}
