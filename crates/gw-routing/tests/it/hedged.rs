//! Hedging on a virtual clock: two providers whose first tokens are late now and then, with and without a second attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_routing::{After, HedgePurse, HedgeSettings, Measured, RetryBudget, hedge_after};
use gw_wire::money::Money;

use crate::world::Draw;

const REQUESTS: u64 = 20_000;
/// 20 a second.
const APART: Duration = Duration::from_millis(50);
/// Femto-USD: reading the prompt, and the whole answer on top of it. Two cents together, so that the cent with which a
/// purse begins is soon gone.
const PROMPT: i128 = 5_000_000_000_000;
const ANSWER: i128 = 15_000_000_000_000;

/// What many requests came to.
pub(crate) struct Report {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Percent of requests that were hedged.
    pub(crate) hedged_percent: f64,
    /// What the attempts that lost have cost, in percent of what was served.
    pub(crate) extra_percent: f64,
}

/// Time to the first token: 400 ms or so; one in 25 takes seconds.
fn ttft(draw: &mut Draw) -> Duration {
    let body = 0.4 * draw.log_normal(0.25);
    let late = if draw.next() < 0.04 { 2.0 + 6.0 * draw.next() } else { 0.0 };
    Duration::from_secs_f64(body + late)
}

/// Requests with this cap on what hedges may cost; the second attempt goes to a provider like the first.
pub(crate) fn simulate(max_extra_cost_percent: f64) -> Report {
    let settings = HedgeSettings { after: After::P95, max_extra_cost_percent };
    let start = Instant::now();
    let (purse, budget) = (Arc::new(HedgePurse::new(&settings)), RetryBudget::new(start));
    let (first, second) = (Measured::default(), Measured::default());
    let mut draw = Draw(7);
    let mut times = Vec::new();
    let (mut hedges, mut extra) = (0_u64, 0);
    for request in 0..REQUESTS {
        let now = start + APART * u32::try_from(request).unwrap_or(0);
        budget.request(now);
        let (own, other) = (ttft(&mut draw), ttft(&mut draw));
        let wait = hedge_after(&settings, &first).filter(|wait| *wait < own);
        // The worst that a hedge can cost is the loser's prompt.
        let hedge = wait.and_then(|wait| Some((wait, purse.allow(Money::from_femtos(PROMPT))?)));
        let hedge = hedge.filter(|_| budget.allow(now));
        let took = match hedge {
            None => {
                first.first_token(own, now);
                own
            }
            Some((wait, hedge)) => {
                hedges += 1;
                // The loser is dropped before it has said a word: its prompt was read.
                hedge.spent(Money::from_femtos(PROMPT));
                extra += PROMPT;
                let took = own.min(wait + other);
                // Of a loser is known only that it takes longer than this.
                first.first_token(took, now);
                second.first_token(other.min(took.saturating_sub(wait)), now);
                took
            }
        };
        purse.served(Money::from_femtos(PROMPT + ANSWER));
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
    // A cap that is too small for all of them is kept all the same.
    let tight = simulate(0.5);
    assert!(tight.extra_percent <= 0.5 && tight.hedged_percent > 0.0, "{} %", tight.extra_percent);
}
