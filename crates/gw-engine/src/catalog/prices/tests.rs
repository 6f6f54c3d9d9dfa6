//! Charges of a usage by its prices.

use gw_wire::usage::{Units, small};
use proptest::prelude::*;

use super::*;

fn price(text: &str) -> Option<Price> {
    Some(Price::parse(text).unwrap())
}

fn usage(prompt: u64, cached: u64, cache_write: u64, completion: u64) -> Usage {
    Usage { prompt, completion, cached: Some(cached), cache_write: Some(cache_write), ..Usage::default() }
}

fn tools(prices: &[(HostedTool, &str)]) -> ToolPrices {
    let of = |tool| prices.iter().find(|(known, _)| *known == tool).map(|(_, text)| *text);
    ToolPrices::of_each(|tool| of(tool).and_then(price))
}

fn sample() -> Prices {
    let gateway = Rates {
        input: price("2"),
        output: price("10"),
        cached_input: price("0.1"),
        cache_write: price("2.5"),
        ..Rates::default()
    };
    let above = Rates {
        input: price("4"),
        output: price("15"),
        cached_input: price("0.2"),
        cache_write: price("5"),
        ..Rates::default()
    };
    Prices {
        official: gateway,
        gateway,
        tiers: vec![Tier { above_input_tokens: 272_000, official: above, gateway: above }],
        tools: tools(&[(HostedTool::WebSearch, "0.01"), (HostedTool::CodeInterpreter, "0.03")]),
        currency: "USD".into(),
    }
}

#[test]
fn each_kind_of_token_has_its_price() {
    for (usage, shown) in [
        (usage(0, 0, 0, 0), "0"),
        (usage(1_000_000, 1_000_000, 0, 0), "0.2"),
        (usage(100_000, 0, 0, 0), "0.2"),
        (usage(1000, 400, 100, 50), "0.00179"),
        (usage(272_000, 0, 0, 1_000_000), "10.544"),
        (usage(272_001, 0, 0, 1_000_000), "16.088004"),
        // More tokens are cached than the prompt has, so the prompt is the bound.
        (usage(10, 25, 30, 0), "0.000001"),
        (usage(10, 4, 30, 0), "0.0000154"),
    ] {
        assert_eq!(sample().cost(&usage).unwrap().to_string(), shown, "{usage:?}");
    }
}

#[test]
fn unstated_cache_prices_are_the_input_price() {
    let gateway = Rates { input: price("2"), output: price("10"), ..Rates::default() };
    let prices = Prices { gateway, currency: "USD".into(), ..Prices::default() };
    assert_eq!(prices.cost(&usage(1000, 400, 100, 0)), prices.cost(&usage(1000, 0, 0, 0)));
}

#[test]
fn writes_for_an_hour_cost_twice_the_input_or_their_own_price() {
    let write = |hour| Usage { cache_write_1h: Some(hour), ..usage(1000, 0, 500, 0) };
    let rates = |cache_write_1h| Rates { cache_write: price("2.5"), cache_write_1h, ..sample().gateway };
    let cost = |rates: Rates, hour| rates.charge(&write(hour)).known.to_string();
    // 500 × 2 + 500 × 2.5, then 500 × 2 + 100 × 2.5 + 400 × 4, and with an own price 400 × 3.
    assert_eq!(cost(rates(None), 0), "0.00225");
    assert_eq!(cost(rates(None), 400), "0.00285");
    assert_eq!(cost(rates(price("3")), 400), "0.00245");
    // No more is written for an hour than is written.
    assert_eq!(cost(rates(None), 9_999), "0.003");
    // A write for an hour is never cheaper than one for five minutes.
    let dear = Rates { cache_write: price("9"), ..sample().gateway };
    assert_eq!(cost(dear, 500), "0.0055");
}

#[test]
fn what_has_no_price_is_marked_and_counts_as_text() {
    let audio = Usage { audio_prompt: Some(400), ..usage(1000, 0, 0, 0) };
    let image = Usage { image_completion: Some(40), ..usage(1000, 0, 0, 100) };
    for (usage, known) in [(audio, "0.002"), (image, "0.003")] {
        let charge = sample().charge(&usage);
        assert_eq!((charge.known.to_string().as_str(), charge.is_complete), (known, false));
    }
    let priced = Rates {
        audio_input: price("10"),
        image_output: price("100"),
        per_query: price("0.005"),
        ..sample().gateway
    };
    assert_eq!(priced.charge(&audio).known.to_string(), "0.0102");
    assert_eq!(priced.charge(&image).known.to_string(), "0.0116");
    assert!(priced.charge(&audio).is_complete && priced.charge(&image).is_complete);
}

#[test]
fn a_needed_price_that_is_unknown_makes_the_cost_unknown() {
    let input_only = Rates { input: price("2"), ..Rates::default() };
    let prices = Prices { gateway: input_only, currency: "USD".into(), ..Prices::default() };
    assert_eq!(prices.cost(&usage(5, 0, 0, 0)).unwrap().to_string(), "0.00001");
    assert_eq!(prices.cost(&usage(5, 0, 0, 1)), None);
    assert_eq!(Prices { currency: "EUR".into(), ..sample() }.cost(&usage(5, 0, 0, 1)), None);
    assert_eq!(prices.sum(), None);
}

#[test]
fn hosted_tools_are_charged_by_the_call() {
    let hosted = |web_search, file_search, code_interpreter| HostedCalls {
        web_search,
        file_search,
        code_interpreter,
        ..HostedCalls::default()
    };
    for (calls, shown) in
        [(hosted(3, 0, 0), "0.032"), (hosted(3, 0, 2), "0.092"), (hosted(u32::MAX, 0, 0), "42949672.952")]
    {
        let used = Usage { hosted: calls, ..usage(1000, 0, 0, 0) };
        assert_eq!(sample().cost(&used).unwrap().to_string(), shown, "{calls:?}");
    }
    // Calls of a tool without a price make the cost unknown. The rest of it is known.
    let unpriced = Usage { hosted: hosted(0, 9, 0), ..usage(1000, 0, 0, 0) };
    assert_eq!(sample().cost(&unpriced), None);
    assert_eq!(sample().charge(&unpriced).known.to_string(), "0.002");
}

#[test]
fn searches_are_charged_in_the_way_that_has_a_price() {
    let grounded = HostedCalls { web_search: 3, search_answers: 1, ..HostedCalls::default() };
    let sized = HostedCalls { web_search: 2, search_high: 1, ..HostedCalls::default() };
    let (query, answer, high) = (HostedTool::WebSearch, HostedTool::SearchAnswer, HostedTool::SearchHigh);
    for (prices, calls, known, is_complete) in [
        (tools(&[(query, "0.014")]), grounded, "0.042", true),
        (tools(&[(answer, "0.035")]), grounded, "0.035", true),
        (tools(&[(high, "0.012")]), sized, "0.012", true),
        (tools(&[(high, "0.012"), (query, "0.005")]), sized, "0.022", true),
        (tools(&[(HostedTool::SearchLow, "0.005")]), sized, "0", false),
        (tools(&[(HostedTool::CodeRun, "0.005")]), grounded, "0", false),
    ] {
        let charge = prices.charge(&calls);
        assert_eq!(
            (charge.known.to_string().as_str(), charge.is_complete),
            (known, is_complete),
            "{calls:?}"
        );
    }
}

#[test]
fn search_units_are_charged_by_what_has_a_price() {
    let of = |input, per_query, per_search_unit| {
        let rates = Rates { input, per_query, per_search_unit, ..Rates::default() };
        let used = Usage { units: Units::new(Unit::Search, 3), ..usage(1000, 0, 0, 0) };
        let charge = rates.charge(&used);
        (charge.known.to_string(), charge.is_complete)
    };
    assert_eq!(of(None, None, price("0.002")), ("0.006".to_owned(), true));
    assert_eq!(of(price("2"), None, None), ("0.002".to_owned(), true));
    assert_eq!(of(None, price("0.005"), None), ("0.005".to_owned(), true));
    assert_eq!(of(price("2"), price("0.005"), price("0.002")), ("0.013".to_owned(), true));
    // An unknown price is never zero.
    assert_eq!(of(None, None, None), ("0".to_owned(), false));
    let without_units = Rates { per_search_unit: price("0.002"), ..Rates::default() };
    assert!(!without_units.charge(&usage(1000, 0, 0, 0)).is_complete);
}

proptest! {
    #[test]
    fn the_cost_is_the_formula(
        nanos in proptest::array::uniform4(0u64..1_000_000_000_000),
        tokens in proptest::array::uniform4(0u64..10_000_000),
    ) {
        let [input, output, cached_input, cache_write] = nanos.map(|n| Some(Price::from_nanos(n)));
        let prices = Prices {
            gateway: Rates { input, output, cached_input, cache_write, ..Rates::default() },
            currency: "USD".into(),
            ..Prices::default()
        };
        let [prompt, cached, written, completion] = tokens;
        let cached_paid = i128::from(cached.min(prompt));
        let written_paid = i128::from(written).min(i128::from(prompt) - cached_paid);
        let [i, o, c, w] = nanos.map(i128::from);
        let expected = (i128::from(prompt) - cached_paid - written_paid) * i
            + cached_paid * c + written_paid * w + i128::from(completion) * o;
        let cost = prices.cost(&usage(prompt, cached, written, completion)).unwrap();
        prop_assert_eq!(cost.femtos(), expected);
    }

    #[test]
    fn no_usage_and_no_price_overflows_or_goes_below_zero(
        nanos in any::<[u64; 4]>(), tokens in any::<[u64; 4]>(),
    ) {
        let [input, output, cached_input, cache_write] = nanos.map(|n| Some(Price::from_nanos(n)));
        let rates = Rates { input, output, cached_input, cache_write, per_query: input, ..Rates::default() };
        let [prompt, cached, written, completion] = tokens;
        let usage = Usage {
            cache_write_1h: Some(small(written)),
            audio_prompt: Some(small(prompt)),
            image_completion: Some(small(completion)),
            ..usage(prompt, cached, written, completion)
        };
        prop_assert!(rates.charge(&usage).known >= Money::ZERO);
    }
}
