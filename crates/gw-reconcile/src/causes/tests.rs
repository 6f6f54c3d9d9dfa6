//! Planted differences, each with its cause, and the sum of causes.

use proptest::prelude::*;

use super::*;

/// Femto-USD a token: 3 USD a million in, a tenth of it cached, 3.75 and 6 written, 15 out.
const RATES: TokenRates = TokenRates {
    uncached: 3_000_000_000,
    cached: 300_000_000,
    write_5m: 3_750_000_000,
    write_1h: 6_000_000_000,
    completion: 15_000_000_000,
};
const TOKENS: BilledTokens =
    BilledTokens { uncached: 10_000, cached: 2_000, write_5m: 500, write_1h: 100, completion: 4_000 };

fn own(tokens: BilledTokens) -> OwnDay {
    OwnDay {
        cost: RATES.cost(&tokens),
        requests: 10,
        tokens: Some(tokens),
        has_lifetimes: true,
        ..OwnDay::default()
    }
}

fn bill(tokens: BilledTokens) -> BilledDay {
    BilledDay { token_cost: RATES.cost(&tokens), tokens: Some(tokens), ..BilledDay::default() }
}

fn causes_of(own: OwnDay, bill: Option<&BilledDay>, shifted_hours: Option<i64>) -> Vec<(CauseKind, Money)> {
    let day = ComparedDay { own, bill, rates: Some(RATES), shifted_hours };
    let causes = day.causes();
    let sum: Money = causes.iter().map(|cause| cause.usd).sum();
    assert_eq!(sum, day.difference(), "{causes:?}");
    causes.into_iter().map(|cause| (cause.kind, cause.usd)).collect()
}

#[test]
fn each_planted_difference_has_its_cause_and_no_other() {
    let usd = |text: &str| Money::parse_rounded(text, 0).unwrap();
    let more = BilledTokens { uncached: 11_000, ..TOKENS };
    let moved = BilledTokens { write_5m: 0, write_1h: 600, ..TOKENS };
    let batch = BilledTokens { completion: 1_000, ..BilledTokens::default() };
    let mut with_batch = BilledTokens { completion: 3_000, ..TOKENS };
    let tiered = BilledDay {
        token_cost: RATES.cost(&with_batch),
        tier_cost: Some(usd("0.0075")),
        tokens: Some(with_batch),
        tier_tokens: batch,
        ..BilledDay::default()
    };
    with_batch.add(&batch);
    assert_eq!(with_batch, TOKENS);
    let tools = BilledDay { tool_cost: usd("0.05"), tools: vec!["web search".to_owned()], ..bill(TOKENS) };
    let dearer = BilledDay { token_cost: RATES.cost(&TOKENS) + usd("0.01"), ..bill(TOKENS) };
    let euros = BilledDay { foreign: vec!["7 EUR".to_owned()], ..BilledDay::default() };
    let unlabelled = BilledDay { tokens: None, ..dearer.clone() };
    let nothing = OwnDay::default();
    let summed =
        OwnDay { has_lifetimes: false, ..own(BilledTokens { write_5m: 600, write_1h: 0, ..TOKENS }) };
    let left = OwnDay { cost: RATES.cost(&TOKENS) + usd("0.02"), unserved: usd("0.02"), ..own(TOKENS) };
    let with_tools = OwnDay { cost: RATES.cost(&TOKENS) + usd("0.05"), tools: usd("0.05"), ..own(TOKENS) };
    assert_eq!(causes_of(with_tools, Some(&tools), None), []);
    let unpriced = OwnDay { cost: Money::ZERO, unpriced: 10, ..own(TOKENS) };
    for (label, own, bill, kind, amount) in [
        ("more tokens there", own(TOKENS), Some(bill(more)), CauseKind::MissingHere, "0.003"),
        ("more tokens here", own(more), Some(bill(TOKENS)), CauseKind::MissingThere, "-0.003"),
        ("no row here", nothing, Some(bill(TOKENS)), CauseKind::MissingHere, "0.093075"),
        ("no row there", own(TOKENS), None, CauseKind::MissingThere, "-0.093075"),
        ("another price", own(TOKENS), Some(dearer), CauseKind::Price, "0.01"),
        ("a call that was left", left, Some(bill(TOKENS)), CauseKind::MissingThere, "-0.02"),
        ("purged rows", summed, Some(bill(TOKENS)), CauseKind::Price, "0.000225"),
        ("no price here", unpriced, Some(bill(TOKENS)), CauseKind::Price, "0.093075"),
        ("another lifetime", own(TOKENS), Some(bill(moved)), CauseKind::CacheLifetime, "0.001125"),
        ("another tier", own(TOKENS), Some(tiered), CauseKind::Tier, "-0.0075"),
        ("tools", own(TOKENS), Some(tools), CauseKind::HostedTools, "0.05"),
        ("another currency", own(TOKENS), Some(euros), CauseKind::Currency, "-0.093075"),
        ("no tokens there", own(TOKENS), Some(unlabelled), CauseKind::Unexplained, "0.01"),
    ] {
        assert_eq!(causes_of(own, bill.as_ref(), None), [(kind, usd(amount))], "{label}");
    }
    let shifted = causes_of(own(TOKENS), Some(&bill(more)), Some(-8));
    assert_eq!(shifted, [(CauseKind::TimeZone, usd("0.003"))]);
    assert_eq!(causes_of(own(TOKENS), Some(&bill(TOKENS)), None), []);
}

#[test]
fn a_tier_that_only_the_usage_names_explains_the_price() {
    let tiered =
        BilledDay { tier_tokens: TOKENS, tiers: vec!["flex".to_owned()], tokens: None, ..bill(TOKENS) };
    let half = Money::from_femtos(RATES.cost(&TOKENS).femtos() / 2);
    let tiered = BilledDay { token_cost: half, ..tiered };
    let expected = half - RATES.cost(&TOKENS);
    assert_eq!(causes_of(own(TOKENS), Some(&tiered), None), [(CauseKind::Tier, expected)]);
}

#[test]
fn days_that_begin_at_another_hour_are_found() {
    // One token in hour 0, two in hour 1, and so on.
    let own = |hour: i64| u64::try_from(hour.rem_euclid(100)).unwrap_or_default();
    let day = |day: i64, shift: i64| (day, (day * 24 + shift..day * 24 + 24 + shift).map(own).sum::<u64>());
    for shift in [-14, -8, -1, 1, 9, 14] {
        assert_eq!(shift_of_days(own, &[day(3, shift), day(4, shift)]), Some(shift));
    }
    assert_eq!(shift_of_days(own, &[day(3, 0), day(4, 0)]), None);
    assert_eq!(shift_of_days(own, &[(3, 1)]), None);
    // One day alone proves no shift.
    assert_eq!(shift_of_days(own, &[day(3, 5)]), None);
    assert_eq!(shift_of_days(own, &[(3, 0)]), None);
}

proptest! {
    #[test]
    fn the_causes_are_the_difference_to_the_last_digit(
        here in proptest::array::uniform5(0_u64..1_000_000),
        there in proptest::array::uniform5(0_u64..1_000_000),
        amounts in proptest::array::uniform3(-1_000_000_000_000_i128..1_000_000_000_000),
        (requests, has_tier, has_tokens) in (0_u64..3, any::<bool>(), any::<bool>()),
    ) {
        let tokens = |[uncached, cached, write_5m, write_1h, completion]: [u64; 5]| {
            BilledTokens { uncached, cached, write_5m, write_1h, completion }
        };
        let [cost, tier, tool] = amounts.map(Money::from_femtos);
        let own = OwnDay { requests, cost, tokens: Some(tokens(here)), unserved: tier, tools: tool, ..OwnDay::default() };
        let bill = BilledDay {
            token_cost: cost + tier,
            tier_cost: has_tier.then_some(tier),
            tool_cost: tool,
            tokens: has_tokens.then(|| tokens(there)),
            tier_tokens: if has_tier { tokens(here) } else { BilledTokens::default() },
            ..BilledDay::default()
        };
        causes_of(own, Some(&bill), None);
    }
}
