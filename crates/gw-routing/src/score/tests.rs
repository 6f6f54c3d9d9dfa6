//! Each strategy on one catalogue, the effect of warm caches and missing data, and properties of every order.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use super::*;
use crate::facts::{Prior, PromptCache};
use crate::metrics::Averages;
use gw_wire::strategy::Strategy;

fn first(strategy: Strategy, facts: &[Facts]) -> usize {
    order(strategy, &Weights::default(), facts, 0)[0].index
}

fn indices(rows: &[Scored]) -> Vec<usize> {
    rows.iter().map(|row| row.index).collect()
}

/// A busy candidate of which everything is known.
fn busy_candidate() -> Facts {
    let averages = Averages {
        ttft_ms: Some(800.0),
        tokens_per_second: Some(50.0),
        error_rate: 0.01,
        recent: 100.0,
        in_flight: 12,
        samples: 256,
    };
    Facts {
        cost_usd: Some(0.01),
        usd_per_million: Some(10.0),
        quality: Some(60.0),
        averages,
        ..Facts::default()
    }
}

fn averages(change: impl FnOnce(&mut Averages)) -> Facts {
    let mut facts = busy_candidate();
    change(&mut facts.averages);
    facts
}

#[test]
fn each_strategy_picks_its_own_winner_from_one_catalogue() {
    let expensive = Some(0.04);
    let catalogue = [
        // First in the given order, with no other advantage.
        Facts { cost_usd: expensive, ..busy_candidate() },
        // Cheap and slow.
        Facts {
            cost_usd: Some(0.001),
            quality: Some(30.0),
            ..averages(|averages| averages.ttft_ms = Some(6_000.0))
        },
        // A quick first token, then slow; expensive.
        Facts {
            cost_usd: expensive,
            quality: Some(40.0),
            ..averages(|averages| averages.ttft_ms = Some(300.0))
        },
        Facts { cost_usd: expensive, ..averages(|averages| averages.tokens_per_second = Some(250.0)) },
        Facts {
            cost_usd: expensive,
            quality: Some(90.0),
            ..averages(|averages| averages.ttft_ms = Some(4_000.0))
        },
        // Second best in every respect.
        Facts {
            cost_usd: Some(0.005),
            quality: Some(75.0),
            ..averages(|averages| averages.ttft_ms = Some(400.0))
        },
        // Never fails.
        Facts { cost_usd: expensive, ..averages(|averages| averages.error_rate = 0.0) },
        Facts { cost_usd: expensive, ..averages(|averages| averages.in_flight = 3) },
        Facts { cost_usd: expensive, ..busy_candidate() },
    ];
    let turn = (0..9).find(|turn| slot(*turn, 9) == 8).unwrap();
    for (strategy, winner) in [
        (Strategy::Default, 0),
        (Strategy::Cheapest, 1),
        (Strategy::Fastest, 2),
        (Strategy::Throughput, 3),
        (Strategy::BestQuality, 4),
        (Strategy::Balanced, 5),
        (Strategy::Availability, 6),
        (Strategy::LeastBusy, 7),
        (Strategy::RoundRobin, 8),
    ] {
        let rows = order(strategy, &Weights::default(), &catalogue, turn);
        assert_eq!(rows[0].index, winner, "{strategy:?}");
    }
}

#[test]
fn the_weights_decide_what_balanced_is() {
    let cheap = Facts { cost_usd: Some(0.001), ..busy_candidate() };
    let fast = averages(|averages| averages.ttft_ms = Some(100.0));
    let good = Facts { quality: Some(95.0), ..busy_candidate() };
    let sound = averages(|averages| averages.error_rate = 0.0);
    let idle = averages(|averages| averages.in_flight = 0);
    let none = Weights { price: 0.0, latency: 0.0, quality: 0.0, availability: 0.0, load: 0.0 };
    for (weights, winner) in [
        (Weights { price: 1.0, ..none }, 0),
        (Weights { latency: 1.0, ..none }, 1),
        (Weights { quality: 1.0, ..none }, 2),
        (Weights { availability: 1.0, ..none }, 3),
        (Weights { load: 1.0, ..none }, 4),
        (none, 0),
        (Weights { price: f64::NAN, latency: 1.0, ..none }, 1),
    ] {
        let rows = order(Strategy::Balanced, &weights, &[cheap, fast, good, sound, idle], 0);
        assert_eq!(rows[0].index, winner, "{weights:?}");
    }
}

/// Twice the price counts as much as twice the time, ten points or ten percent.
#[test]
fn balanced_measures_everything_in_doublings() {
    let price = |row: &Scored, name| row.parts.iter().find(|(known, _)| *known == name).unwrap().1;
    let facts = [
        Facts {
            cost_usd: Some(0.5),
            prior: Prior { ttft_ms: Some(1e5), availability: None },
            ..Facts::default()
        },
        Facts {
            cost_usd: Some(1.0),
            prior: Prior { ttft_ms: Some(2e5), availability: None },
            ..Facts::default()
        },
        Facts { quality: Some(70.0), ..Facts::default() },
        Facts { quality: Some(60.0), ..Facts::default() },
    ];
    let mut rows = order(Strategy::Balanced, &Weights::default(), &facts, 0);
    rows.sort_by_key(|row| row.index);
    assert!((price(&rows[1], "price") - 1.0).abs() < 0.001);
    assert!((price(&rows[1], "latency") - 1.0).abs() < 0.001);
    assert!((price(&rows[3], "quality") - 1.0).abs() < 0.001);
    // Unknown: one unit further away than the worst.
    assert!((price(&rows[2], "price") - 2.0).abs() < 0.001);
    assert!((price(&rows[0], "quality") - 2.0).abs() < 0.001);
}

#[test]
fn the_price_is_that_of_this_request_unless_its_size_is_not_known() {
    // One has cheap input, the other cheap output: the cheaper one depends on the request.
    let reader = Facts { cost_usd: Some(0.01), usd_per_million: Some(20.0), ..Facts::default() };
    let writer = Facts { cost_usd: Some(0.02), usd_per_million: Some(10.0), ..Facts::default() };
    assert_eq!(first(Strategy::Cheapest, &[writer, reader]), 1);
    let unknown = Facts { cost_usd: None, usd_per_million: Some(15.0), ..Facts::default() };
    let rows = order(Strategy::Cheapest, &Weights::default(), &[reader, writer, unknown], 0);
    assert_eq!(indices(&rows), [1, 2, 0]);
    // Equal for this request: the lower list price decides.
    let dearer = Facts { usd_per_million: Some(30.0), ..reader };
    assert_eq!(first(Strategy::Cheapest, &[dearer, reader]), 1);
    let unpriced = Facts::default();
    assert_eq!(first(Strategy::Cheapest, &[unpriced, dearer]), 1);
}

#[test]
fn live_figures_outweigh_the_prior_and_fade_back_to_it() {
    let mut facts = Facts { prior: Prior { ttft_ms: Some(200.0), availability: None }, ..busy_candidate() };
    let other = Facts { prior: Prior { ttft_ms: Some(300.0), availability: None }, ..Facts::default() };
    assert_eq!(first(Strategy::Fastest, &[facts, other]), 1);
    facts.averages.error_rate = 0.0;
    facts.averages.recent = 0.01;
    assert_eq!(first(Strategy::Fastest, &[facts, other]), 0);
}

#[test]
fn a_candidate_that_fails_fast_is_neither_fast_nor_idle() {
    let broken = averages(|averages| {
        (averages.ttft_ms, averages.error_rate, averages.in_flight) = (Some(20.0), 0.3, 0);
    });
    assert_eq!(first(Strategy::Fastest, &[broken, busy_candidate()]), 1);
    assert_eq!(first(Strategy::LeastBusy, &[broken, busy_candidate()]), 1);
    assert_eq!(
        first(Strategy::Throughput, &[broken, averages(|averages| averages.tokens_per_second = Some(49.0))]),
        1
    );
}

#[test]
fn missing_data_sorts_last_and_equals_keep_their_order() {
    for strategy in Strategy::ALL {
        let known = Facts { prior: Prior { ttft_ms: None, availability: Some(50.0) }, ..busy_candidate() };
        let rows = order(strategy, &Weights::default(), &[Facts::default(), known, known], 0);
        let expected: &[usize] = match strategy {
            Strategy::Default | Strategy::LeastBusy => &[0, 1, 2],
            Strategy::RoundRobin => continue,
            _ => &[1, 2, 0],
        };
        assert_eq!(indices(&rows), expected, "{strategy:?}");
    }
}

#[test]
fn a_warm_cache_leads_where_it_costs_nothing_and_is_weighed_where_it_does() {
    let warm = Some(PromptCache { saved_usd: 0.004, prompt_tokens: 8_000 });
    let equal = [busy_candidate(), Facts { prompt_cache: warm, ..busy_candidate() }];
    for strategy in Strategy::ALL {
        assert_eq!(first(strategy, &equal), 1, "{strategy:?}: the warm one wins a tie");
        let away = Facts { prompt_cache: warm, status: HealthStatus::Ready, ..busy_candidate() };
        assert_eq!(first(strategy, &[busy_candidate(), away]), 0, "{strategy:?}: not when it is unhealthy");
        assert!(
            (first(
                strategy,
                &[
                    Facts { group: 0, ..busy_candidate() },
                    Facts { group: 1, prompt_cache: warm, ..busy_candidate() }
                ]
            )) == 0
        );
    }
    // Leaving the cache costs two seconds for reading 8,000 tokens, and 0.004 USD.
    let slow = Facts { prompt_cache: warm, ..averages(|averages| averages.ttft_ms = Some(3_000.0)) };
    assert_eq!(first(Strategy::Fastest, &[busy_candidate(), slow]), 0);
    let slower = Facts { prompt_cache: warm, ..averages(|averages| averages.ttft_ms = Some(2_700.0)) };
    assert_eq!(first(Strategy::Fastest, &[busy_candidate(), slower]), 1);
    let dear = |cost| Facts { prompt_cache: warm, cost_usd: Some(cost), ..busy_candidate() };
    assert_eq!(first(Strategy::Cheapest, &[busy_candidate(), dear(0.0141)]), 0);
    assert_eq!(first(Strategy::Cheapest, &[busy_candidate(), dear(0.0139)]), 1);
    // A cache does not change an order that is about something else.
    let worse = Facts { prompt_cache: warm, quality: Some(59.0), ..busy_candidate() };
    assert_eq!(first(Strategy::BestQuality, &[busy_candidate(), worse]), 0);
    assert_eq!(
        first(
            Strategy::LeastBusy,
            &[busy_candidate(), Facts { prompt_cache: warm, ..averages(|averages| averages.in_flight = 15) }]
        ),
        0
    );
    let failing = Facts { prompt_cache: warm, ..averages(|averages| averages.error_rate = 0.03) };
    assert_eq!(first(Strategy::Availability, &[busy_candidate(), failing]), 0);
}

#[test]
fn groups_are_never_mixed_and_candidates_that_are_away_come_after_all_groups() {
    let open = |seconds| HealthStatus::Open { left: Duration::from_secs(seconds) };
    let at = |group, status| Facts { group, status, ..busy_candidate() };
    let facts = [
        at(0, open(9)),
        at(0, HealthStatus::Resting { left: Duration::from_secs(3) }),
        at(1, HealthStatus::Able),
        Facts { is_upgrade: true, ..at(0, open(1)) },
        Facts { is_upgrade: true, cost_usd: Some(0.0), ..at(0, HealthStatus::Able) },
        at(0, HealthStatus::Able),
        at(1, HealthStatus::Probing),
        at(2, HealthStatus::Ramping { share: 0.0 }),
    ];
    for strategy in Strategy::ALL {
        let rows = order(strategy, &Weights::default(), &facts, 0);
        assert_eq!(indices(&rows), [5, 2, 7, 1, 0, 6, 4, 3], "{strategy:?}");
    }
}

#[test]
fn a_recovered_candidate_gets_its_share_and_no_more() {
    let facts =
        [Facts { status: HealthStatus::Ramping { share: 0.25 }, ..busy_candidate() }, busy_candidate()];
    let led =
        (0..4_000).filter(|turn| order(Strategy::Default, &Weights::default(), &facts, *turn)[0].index == 0);
    let led = led.count();
    assert!((900..1_100).contains(&led), "{led} of 4,000");
}

#[test]
fn turns_follow_the_weights_exactly_and_evenly() {
    let weights = [5, 0, 2, 1];
    let facts = weights.map(|weight| Facts { weight, ..Facts::default() });
    let led = |turns: &mut dyn Iterator<Item = u64>| {
        let mut led = [0; 4];
        for turn in turns {
            led[order(Strategy::RoundRobin, &Weights::default(), &facts, turn)[0].index] += 1;
        }
        led
    };
    for run in 0..10 {
        assert_eq!(led(&mut (run * 8..run * 8 + 8)), weights, "each run of eight turns");
    }
    // Candidates of equal weight alternate.
    let equals = [Facts::default(); 3];
    let first = |turn| order(Strategy::RoundRobin, &Weights::default(), &equals, turn)[0].index;
    assert_eq!((0..7).map(first).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
    // A candidate that is away has no turn: the others share it.
    let mut facts = facts;
    facts[0].status = HealthStatus::Open { left: Duration::from_secs(1) };
    let mut led = [0; 4];
    for turn in 0..300 {
        led[order(Strategy::RoundRobin, &Weights::default(), &facts, turn)[0].index] += 1;
    }
    assert_eq!(led, [0, 0, 200, 100]);
}

#[test]
fn only_a_candidate_without_recent_calls_is_explored_now_and_then() {
    let quiet = Facts { averages: Averages::default(), ..busy_candidate() };
    for strategy in [Strategy::Fastest, Strategy::Throughput, Strategy::Balanced] {
        let leads = |facts: &[Facts], index| {
            let turns = (0..6_400).filter(|turn| {
                let row = order(strategy, &Weights::default(), facts, *turn)[0];
                row.index == index && row.tier == Tier::Explored
            });
            turns.count()
        };
        assert_eq!(leads(&[busy_candidate(), quiet], 1), 100, "{strategy:?}");
        assert_eq!(leads(&[busy_candidate(), busy_candidate()], 1), 0, "{strategy:?}");
        // Not explored: a candidate with a request in flight, a fallback, and one that is away.
        let busy = Facts { averages: Averages { in_flight: 1, ..Averages::default() }, ..quiet };
        assert_eq!(leads(&[busy_candidate(), busy], 1), 0, "{strategy:?}");
        assert_eq!(leads(&[busy_candidate(), Facts { group: 1, ..quiet }], 1), 0, "{strategy:?}");
        let open = HealthStatus::Open { left: Duration::from_secs(1) };
        assert_eq!(leads(&[busy_candidate(), Facts { status: open, ..quiet }], 1), 0, "{strategy:?}");
    }
}

#[test]
fn one_candidate_and_no_candidate_can_be_ordered() {
    for strategy in Strategy::ALL {
        assert!(order(strategy, &Weights::default(), &[], 7).is_empty());
        assert_eq!(indices(&order(strategy, &Weights::default(), &[busy_candidate()], 7)), [0]);
        let away = Facts { status: HealthStatus::Probing, ..Facts::default() };
        assert_eq!(indices(&order(strategy, &Weights::default(), &[away], 7)), [0]);
    }
}

/// Any number, often an awkward one.
fn number() -> impl proptest::strategy::Strategy<Value = Option<f64>> {
    let awkward =
        [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE];
    prop_oneof![
        2 => Just(None),
        4 => (0.0..100.0).prop_map(Some),
        2 => prop::sample::select(awkward.to_vec()).prop_map(Some),
        1 => any::<f64>().prop_map(Some),
    ]
}

fn status() -> impl proptest::strategy::Strategy<Value = HealthStatus> {
    let left = || (0_u64..100_000).prop_map(Duration::from_millis);
    prop_oneof![
        4 => Just(HealthStatus::Able),
        1 => (0.0..1.0).prop_map(|share| HealthStatus::Ramping { share }),
        1 => left().prop_map(|left| HealthStatus::Resting { left }),
        1 => left().prop_map(|left| HealthStatus::Open { left }),
        1 => Just(HealthStatus::Probing),
        1 => Just(HealthStatus::Ready),
    ]
}

fn facts() -> impl proptest::strategy::Strategy<Value = Facts> {
    let figures = (number(), number(), number(), number(), number(), number(), number());
    let averages = (any::<bool>(), 0_u32..3, number(), number());
    (0_u32..4, prop::bool::weighted(0.2), figures, 0_u32..4, averages, status(), prop::bool::weighted(0.2))
        .prop_map(
            |(group, is_upgrade, figures, weight, (known, in_flight, error_rate, recent), status, warm)| {
                let (cost_usd, usd_per_million, quality, ttft, availability, measured_ttft, speed) = figures;
                let averages = Averages {
                    ttft_ms: measured_ttft,
                    tokens_per_second: speed,
                    error_rate: error_rate.filter(|_| known).unwrap_or(0.0),
                    recent: recent.filter(|_| known).unwrap_or(0.0),
                    in_flight,
                    samples: 0,
                };
                let warm =
                    warm.then_some(PromptCache { saved_usd: cost_usd.unwrap_or(0.1), prompt_tokens: 1_000 });
                let prior = Prior { ttft_ms: ttft, availability };
                Facts {
                    group,
                    is_upgrade,
                    cost_usd,
                    usd_per_million,
                    quality,
                    weight,
                    prior,
                    averages,
                    status,
                    prompt_cache: warm,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// For any facts: each candidate appears once, upgrades come last, candidates that are away follow the healthy ones,
    /// groups are not mixed, scores ascend, ties keep their order, and the same turn gives the same order.
    #[test]
    fn an_order_is_a_permutation_that_keeps_the_rules(
        facts in prop::collection::vec(facts(), 0..20),
        turn in any::<u64>(),
        which in 0_usize..9,
    ) {
        let strategy = Strategy::ALL[which];
        let rows = order(strategy, &Weights::default(), &facts, turn);
        let mut sorted = indices(&rows);
        prop_assert_eq!(&indices(&order(strategy, &Weights::default(), &facts, turn)), &sorted);
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..facts.len()).collect::<Vec<_>>());
        for row in &rows {
            let its = &facts[row.index];
            prop_assert_eq!(matches!(row.tier, Tier::Upgrade | Tier::UpgradeAway), its.is_upgrade);
            prop_assert!(!row.score.is_nan());
            let sum: f64 = row.parts.iter().map(|(_, value)| value).sum();
            prop_assert!(row.score.is_infinite() || (row.score - sum).abs() <= sum.abs() * 1e-9 + 1e-9);
        }
        for pair in rows.windows(2) {
            let [a, b] = pair else { continue };
            let (before, after) = (&facts[a.index], &facts[b.index]);
            prop_assert!(a.tier <= b.tier);
            if a.tier != b.tier {
                continue;
            }
            if before.is_upgrade {
                prop_assert!(a.index < b.index);
                continue;
            }
            prop_assert!(before.group <= after.group);
            if before.group == after.group && a.tier != Tier::Away {
                prop_assert!(a.score <= b.score);
                let no_tie = !matches!(strategy, Strategy::Cheapest | Strategy::BestQuality);
                prop_assert!(a.score < b.score || !no_tie || a.index < b.index);
            }
        }
    }

    /// A healthy candidate leads whenever there is one.
    #[test]
    fn an_able_one_leads(facts in prop::collection::vec(facts(), 1..20), turn in any::<u64>(), which in 0_usize..9) {
        let rows = order(Strategy::ALL[which], &Weights::default(), &facts, turn);
        let able = facts.iter().any(|facts| !facts.is_upgrade && facts.status == HealthStatus::Able);
        prop_assert!(!able || matches!(rows[0].tier, Tier::Able | Tier::Explored));
    }
}
