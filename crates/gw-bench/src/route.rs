//! `gw-bench route`: time and memory of a routing decision, for each strategy and several numbers of candidates.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use allocation_counter::AllocationInfo;
use clap::Args;
use gw_routing::{Averages, Facts, HealthStatus, Prior, PromptCache, Strategy, Weights, order};

/// Options of `gw-bench route`.
#[derive(Args, Debug)]
pub(crate) struct RouteOptions {
    /// Numbers of candidates to measure with.
    #[arg(long, value_delimiter = ',', default_value = "1,3,10,1000")]
    candidates: Vec<usize>,
    /// Number of rounds per figure. A round takes about 50 µs, so most rounds are not interrupted.
    #[arg(long, default_value_t = 4_000)]
    rounds: usize,
}

/// Returns a table of microseconds, allocations and bytes.
pub(crate) fn run(options: &RouteOptions) -> String {
    let mut report = String::from(
        "| strategy | candidates | µs, median | µs, fastest | allocations | bytes |\n|---|---|---|---|---|---|\n",
    );
    for strategy in Strategy::ALL {
        for count in &options.candidates {
            let facts = candidates(*count);
            let decisions = (1_000 / (*count).max(2)).max(1);
            let mut rounds: Vec<_> =
                (0..options.rounds.max(1)).map(|round| time(strategy, &facts, decisions, round)).collect();
            rounds.sort_unstable();
            let micros = |at: usize| {
                rounds.get(at).copied().unwrap_or_default().as_secs_f64() * 1e6 / decisions as f64
            };
            let memory = memory(strategy, &facts);
            // Writing to a string cannot fail.
            let _ = writeln!(
                report,
                "| {} | {count} | {:.3} | {:.3} | {} | {} |",
                strategy.as_str(),
                micros(rounds.len() / 2),
                micros(0),
                memory.count_total,
                memory.bytes_total
            );
        }
    }
    report
}

/// The time that this many decisions take.
fn time(strategy: Strategy, facts: &[Facts], decisions: usize, round: usize) -> Duration {
    let begun = Instant::now();
    for decision in 0..decisions {
        let turn = (round * decisions + decision) as u64;
        black_box(order(strategy, &Weights::default(), black_box(facts), turn));
    }
    begun.elapsed()
}

fn memory(strategy: Strategy, facts: &[Facts]) -> AllocationInfo {
    allocation_counter::measure(|| {
        black_box(order(strategy, &Weights::default(), facts, 1));
    })
}

/// Candidates of all kinds in four groups, in random order.
fn candidates(count: usize) -> Vec<Facts> {
    let mut state = 7_u64;
    let mut draw = move |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(state >> 33).unwrap_or(0) % below
    };
    let candidate = |number: usize| {
        let price = f64::from(draw(1_000) + 1);
        let averages = Averages {
            ttft_ms: Some(f64::from(draw(3_000) + 50)),
            tokens_per_second: Some(f64::from(draw(300) + 5)),
            error_rate: f64::from(draw(100)) / 1_000.0,
            recent: f64::from(draw(400)),
            in_flight: draw(50),
            samples: 256,
        };
        let left = Duration::from_millis(u64::from(draw(10_000)));
        Facts {
            group: u32::try_from(number * 4 / count.max(1)).unwrap_or(0),
            cost_usd: (draw(10) > 0).then_some(price * 1e-5),
            usd_per_million: Some(price * 0.02),
            quality: (draw(5) > 0).then(|| f64::from(draw(100))),
            weight: draw(4) + 1,
            prior: Prior { ttft_ms: Some(400.0), availability: Some(99.9) },
            averages,
            status: match draw(12) {
                0 => HealthStatus::Open { left },
                1 => HealthStatus::Resting { left },
                2 => HealthStatus::Ramping { share: 0.5 },
                _ => HealthStatus::Able,
            },
            prompt_cache: (number == 1).then_some(PromptCache { saved_usd: 0.001, prompt_tokens: 4_000 }),
            ..Facts::default()
        }
    };
    (0..count).map(candidate).collect()
}
