//! Each strategy on one catalogue, what warm caches and missing data do, and what holds of any order whatever.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use super::*;
use crate::facts::{Prior, Warm};
use crate::measured::Seen;
use crate::strategy::Strategy;

fn first(strategy: Strategy, facts: &[Facts]) -> usize {
    order(strategy, &Weights::default(), facts, 0)[0].index
}

fn indices(rows: &[Scored]) -> Vec<usize> {
    rows.iter().map(|row| row.index).collect()
}

/// Someone of whom everything is known, and who is busy.
fn someone() -> Facts {
    let seen = Seen {
        ttft_ms: Some(800.0),
        tokens_per_second: Some(50.0),
        error_rate: 0.01,
        recent: 100.0,
        in_flight: 12,
        samples: 256,
    };
    Facts { cost: Some(0.01), per_million: Some(10.0), quality: Some(60.0), seen, ..Facts::default() }
}

fn seen(change: impl FnOnce(&mut Seen)) -> Facts {
    let mut facts = someone();
    change(&mut facts.seen);
    facts
}

#[test]
fn each_strategy_picks_its_own_winner_from_one_catalogue() {
    let dear = Some(0.04);
    let catalogue = [
        // Named first, with nothing else to say for itself.
        Facts { cost: dear, ..someone() },
        // Cheap, and slow.
        Facts { cost: Some(0.001), quality: Some(30.0), ..seen(|seen| seen.ttft_ms = Some(6_000.0)) },
        // Quick to begin, slow to go on, dear.
        Facts { cost: dear, quality: Some(40.0), ..seen(|seen| seen.ttft_ms = Some(300.0)) },
        Facts { cost: dear, ..seen(|seen| seen.tokens_per_second = Some(250.0)) },
        Facts { cost: dear, quality: Some(90.0), ..seen(|seen| seen.ttft_ms = Some(4_000.0)) },
        // Second best in all.
        Facts { cost: Some(0.005), quality: Some(75.0), ..seen(|seen| seen.ttft_ms = Some(400.0)) },
        // Does not fail.
        Facts { cost: dear, ..seen(|seen| seen.error_rate = 0.0) },
        Facts { cost: dear, ..seen(|seen| seen.in_flight = 3) },
        Facts { cost: dear, ..someone() },
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
    let cheap = Facts { cost: Some(0.001), ..someone() };
    let fast = seen(|seen| seen.ttft_ms = Some(100.0));
    let good = Facts { quality: Some(95.0), ..someone() };
    let sound = seen(|seen| seen.error_rate = 0.0);
    let idle = seen(|seen| seen.in_flight = 0);
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

/// Twice the price counts as much as twice the time, or ten points, or ten percent.
#[test]
fn balanced_measures_everything_in_doublings() {
    let price = |row: &Scored, name| row.parts.iter().find(|(known, _)| *known == name).unwrap().1;
    let facts = [
        Facts {
            cost: Some(0.5),
            prior: Prior { ttft_ms: Some(1e5), availability: None },
            ..Facts::default()
        },
        Facts {
            cost: Some(1.0),
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
    // Not known: one further away than the furthest.
    assert!((price(&rows[2], "price") - 2.0).abs() < 0.001);
    assert!((price(&rows[0], "quality") - 2.0).abs() < 0.001);
}

#[test]
fn the_price_is_that_of_this_request_unless_its_size_is_not_known() {
    // One is cheap to ask, the other cheap to listen to: which is cheaper depends on the request.
    let reader = Facts { cost: Some(0.01), per_million: Some(20.0), ..Facts::default() };
    let writer = Facts { cost: Some(0.02), per_million: Some(10.0), ..Facts::default() };
    assert_eq!(first(Strategy::Cheapest, &[writer, reader]), 1);
    let unknown = Facts { cost: None, per_million: Some(15.0), ..Facts::default() };
    let rows = order(Strategy::Cheapest, &Weights::default(), &[reader, writer, unknown], 0);
    assert_eq!(indices(&rows), [1, 2, 0]);
    // Equal for this request: the lower list price.
    let dearer = Facts { per_million: Some(30.0), ..reader };
    assert_eq!(first(Strategy::Cheapest, &[dearer, reader]), 1);
    let unpriced = Facts::default();
    assert_eq!(first(Strategy::Cheapest, &[unpriced, dearer]), 1);
}

#[test]
fn live_figures_outweigh_the_prior_and_fade_back_to_it() {
    let mut facts = Facts { prior: Prior { ttft_ms: Some(200.0), availability: None }, ..someone() };
    let other = Facts { prior: Prior { ttft_ms: Some(300.0), availability: None }, ..Facts::default() };
    assert_eq!(first(Strategy::Fastest, &[facts, other]), 1);
    facts.seen.error_rate = 0.0;
    facts.seen.recent = 0.01;
    assert_eq!(first(Strategy::Fastest, &[facts, other]), 0);
}

#[test]
fn who_fails_fast_is_not_fast_and_not_idle() {
    let broken = seen(|seen| {
        (seen.ttft_ms, seen.error_rate, seen.in_flight) = (Some(20.0), 0.3, 0);
    });
    assert_eq!(first(Strategy::Fastest, &[broken, someone()]), 1);
    assert_eq!(first(Strategy::LeastBusy, &[broken, someone()]), 1);
    assert_eq!(first(Strategy::Throughput, &[broken, seen(|seen| seen.tokens_per_second = Some(49.0))]), 1);
}

#[test]
fn missing_data_sorts_last_and_equals_keep_their_order() {
    for strategy in Strategy::ALL {
        let known = Facts { prior: Prior { ttft_ms: None, availability: Some(50.0) }, ..someone() };
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
    let warm = Some(Warm { saved_usd: 0.004, prompt_tokens: 8_000 });
    let equal = [someone(), Facts { warm, ..someone() }];
    for strategy in Strategy::ALL {
        assert_eq!(first(strategy, &equal), 1, "{strategy:?}: of equals the warm one");
        let away = Facts { warm, standing: Standing::Ready, ..someone() };
        assert_eq!(first(strategy, &[someone(), away]), 0, "{strategy:?}: not when it is unwell");
        assert!(
            (first(strategy, &[Facts { group: 0, ..someone() }, Facts { group: 1, warm, ..someone() }])) == 0
        );
    }
    // Worth leaving the cache: 8,000 tokens take two seconds to read, and 0.004 USD.
    let slow = Facts { warm, ..seen(|seen| seen.ttft_ms = Some(3_000.0)) };
    assert_eq!(first(Strategy::Fastest, &[someone(), slow]), 0);
    let slower = Facts { warm, ..seen(|seen| seen.ttft_ms = Some(2_700.0)) };
    assert_eq!(first(Strategy::Fastest, &[someone(), slower]), 1);
    let dear = |cost| Facts { warm, cost: Some(cost), ..someone() };
    assert_eq!(first(Strategy::Cheapest, &[someone(), dear(0.0141)]), 0);
    assert_eq!(first(Strategy::Cheapest, &[someone(), dear(0.0139)]), 1);
    // And no order is turned over by it that is about something else.
    let worse = Facts { warm, quality: Some(59.0), ..someone() };
    assert_eq!(first(Strategy::BestQuality, &[someone(), worse]), 0);
    assert_eq!(
        first(Strategy::LeastBusy, &[someone(), Facts { warm, ..seen(|seen| seen.in_flight = 15) }]),
        0
    );
    let failing = Facts { warm, ..seen(|seen| seen.error_rate = 0.03) };
    assert_eq!(first(Strategy::Availability, &[someone(), failing]), 0);
}

#[test]
fn groups_are_never_mixed_and_who_is_away_comes_after_all_of_them() {
    let open = |seconds| Standing::Open { left: Duration::from_secs(seconds) };
    let at = |group, standing| Facts { group, standing, ..someone() };
    let facts = [
        at(0, open(9)),
        at(0, Standing::Resting { left: Duration::from_secs(3) }),
        at(1, Standing::Able),
        Facts { upgrade: true, ..at(0, open(1)) },
        Facts { upgrade: true, cost: Some(0.0), ..at(0, Standing::Able) },
        at(0, Standing::Able),
        at(1, Standing::Probing),
        at(2, Standing::Ramping { share: 0.0 }),
    ];
    for strategy in Strategy::ALL {
        let rows = order(strategy, &Weights::default(), &facts, 0);
        assert_eq!(indices(&rows), [5, 2, 7, 1, 0, 6, 4, 3], "{strategy:?}");
    }
}

#[test]
fn a_recovered_one_gets_its_share_and_no_more() {
    let facts = [Facts { standing: Standing::Ramping { share: 0.25 }, ..someone() }, someone()];
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
    // A counter that is shared with traffic that takes every second turn.
    let every_second = led(&mut (0..8_000).step_by(2));
    for (led, weight) in every_second.into_iter().zip(weights) {
        assert!(led.abs_diff(weight * 500) < 150, "{every_second:?}");
    }
    // Who is away has no turn: the others share it.
    let mut facts = facts;
    facts[0].standing = Standing::Open { left: Duration::from_secs(1) };
    let mut led = [0; 4];
    for turn in 0..300 {
        led[order(Strategy::RoundRobin, &Weights::default(), &facts, turn)[0].index] += 1;
    }
    assert_eq!(led, [0, 0, 200, 100]);
}

#[test]
fn what_was_not_heard_of_is_asked_now_and_then_and_nothing_else_is() {
    let quiet = Facts { seen: Seen::default(), ..someone() };
    for strategy in [Strategy::Fastest, Strategy::Throughput, Strategy::Balanced] {
        let leads = |facts: &[Facts], index| {
            let turns = (0..6_400).filter(|turn| {
                let row = order(strategy, &Weights::default(), facts, *turn)[0];
                row.index == index && row.place == Place::Explored
            });
            turns.count()
        };
        assert_eq!(leads(&[someone(), quiet], 1), 100, "{strategy:?}");
        assert_eq!(leads(&[someone(), someone()], 1), 0, "{strategy:?}");
        // One request finds out; a fallback is no matter of speed; who is away is left in peace.
        let busy = Facts { seen: Seen { in_flight: 1, ..Seen::default() }, ..quiet };
        assert_eq!(leads(&[someone(), busy], 1), 0, "{strategy:?}");
        assert_eq!(leads(&[someone(), Facts { group: 1, ..quiet }], 1), 0, "{strategy:?}");
        let open = Standing::Open { left: Duration::from_secs(1) };
        assert_eq!(leads(&[someone(), Facts { standing: open, ..quiet }], 1), 0, "{strategy:?}");
    }
}

#[test]
fn one_candidate_and_none_are_orders_too() {
    for strategy in Strategy::ALL {
        assert!(order(strategy, &Weights::default(), &[], 7).is_empty());
        assert_eq!(indices(&order(strategy, &Weights::default(), &[someone()], 7)), [0]);
        let away = Facts { standing: Standing::Probing, ..Facts::default() };
        assert_eq!(indices(&order(strategy, &Weights::default(), &[away], 7)), [0]);
    }
}

/// Any number, the awkward ones often.
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

fn standing() -> impl proptest::strategy::Strategy<Value = Standing> {
    let left = || (0_u64..100_000).prop_map(Duration::from_millis);
    prop_oneof![
        4 => Just(Standing::Able),
        1 => (0.0..1.0).prop_map(|share| Standing::Ramping { share }),
        1 => left().prop_map(|left| Standing::Resting { left }),
        1 => left().prop_map(|left| Standing::Open { left }),
        1 => Just(Standing::Probing),
        1 => Just(Standing::Ready),
    ]
}

fn facts() -> impl proptest::strategy::Strategy<Value = Facts> {
    let figures = (number(), number(), number(), number(), number(), number(), number());
    let seen = (any::<bool>(), 0_u32..3, number(), number());
    (0_u32..4, prop::bool::weighted(0.2), figures, 0_u32..4, seen, standing(), prop::bool::weighted(0.2))
        .prop_map(
            |(group, upgrade, figures, weight, (known, in_flight, error_rate, recent), standing, warm)| {
                let (cost, per_million, quality, ttft, availability, seen_ttft, speed) = figures;
                let seen = Seen {
                    ttft_ms: seen_ttft,
                    tokens_per_second: speed,
                    error_rate: error_rate.filter(|_| known).unwrap_or(0.0),
                    recent: recent.filter(|_| known).unwrap_or(0.0),
                    in_flight,
                    samples: 0,
                };
                let warm = warm.then_some(Warm { saved_usd: cost.unwrap_or(0.1), prompt_tokens: 1_000 });
                let prior = Prior { ttft_ms: ttft, availability };
                Facts { group, upgrade, cost, per_million, quality, weight, prior, seen, standing, warm }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever the facts: everyone is there once, upgrades last, who is away after who can be asked, groups unmixed,
    /// by score, equals as they came, and the same again for the same turn.
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
            prop_assert_eq!(matches!(row.place, Place::Upgrade | Place::UpgradeAway), its.upgrade);
            prop_assert!(!row.score.is_nan());
            let sum: f64 = row.parts.iter().map(|(_, value)| value).sum();
            prop_assert!(row.score.is_infinite() || (row.score - sum).abs() <= sum.abs() * 1e-9 + 1e-9);
        }
        for pair in rows.windows(2) {
            let [a, b] = pair else { continue };
            let (before, after) = (&facts[a.index], &facts[b.index]);
            prop_assert!(a.place <= b.place);
            if a.place != b.place {
                continue;
            }
            if before.upgrade {
                prop_assert!(a.index < b.index);
                continue;
            }
            prop_assert!(before.group <= after.group);
            if before.group == after.group && a.place != Place::Away {
                prop_assert!(a.score <= b.score);
                let no_tie = !matches!(strategy, Strategy::Cheapest | Strategy::BestQuality);
                prop_assert!(a.score < b.score || !no_tie || a.index < b.index);
            }
        }
    }

    /// Nobody who is away is asked before somebody who is able, and one who is able leads.
    #[test]
    fn an_able_one_leads(facts in prop::collection::vec(facts(), 1..20), turn in any::<u64>(), which in 0_usize..9) {
        let rows = order(Strategy::ALL[which], &Weights::default(), &facts, turn);
        let able = facts.iter().any(|facts| !facts.upgrade && facts.standing == Standing::Able);
        prop_assert!(!able || matches!(rows[0].place, Place::Able | Place::Explored));
    }
}
