//! Charges of a usage by its prices.

use gw_wire::usage::{ImageForm, Units, small};
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
        ..Prices::default()
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
    let cost = |rates: Rates, hour| rates.charge(&write(hour), &mut ()).known.to_string();
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
    let priced = Rates { audio_input: price("10"), image_output: price("100"), ..sample().gateway };
    let priced = with_units(priced, &[(Unit::Query, "0.005")]);
    assert_eq!(charged(&priced, &audio), ("0.0102".to_owned(), true));
    assert_eq!(charged(&priced, &image), ("0.0116".to_owned(), true));
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
        let charge = prices.charge(&calls, &mut ());
        assert_eq!(
            (charge.known.to_string().as_str(), charge.is_complete),
            (known, is_complete),
            "{calls:?}"
        );
    }
}

fn unit_price(text: &str) -> UnitPrice {
    UnitPrice::parse(text).unwrap()
}

/// The known part of a charge, and whether it is complete.
fn charged(prices: &Prices, usage: &Usage) -> (String, bool) {
    let charge = prices.charge(usage);
    (charge.known.to_string(), charge.is_complete)
}

fn with_units(rates: Rates, units: &[(Unit, &str)]) -> Prices {
    let mut prices = Prices { gateway: rates, currency: "USD".into(), ..Prices::default() };
    units.iter().for_each(|(unit, text)| prices.units.set(*unit, unit_price(text)));
    prices
}

#[test]
fn search_units_are_charged_by_what_has_a_price() {
    let of = |input, units: &[(Unit, &str)]| {
        let used = Usage { units: Units::new(Unit::Search, 3), ..usage(1000, 0, 0, 0) };
        charged(&with_units(Rates { input, ..Rates::default() }, units), &used)
    };
    assert_eq!(of(None, &[(Unit::Search, "0.002")]), ("0.006".to_owned(), true));
    assert_eq!(of(price("2"), &[]), ("0.002".to_owned(), true));
    assert_eq!(of(None, &[(Unit::Query, "0.005")]), ("0.005".to_owned(), true));
    let both = [(Unit::Query, "0.005"), (Unit::Search, "0.002")];
    assert_eq!(of(price("2"), &both), ("0.013".to_owned(), true));
    // An unknown price is never zero.
    assert_eq!(of(None, &[]), ("0".to_owned(), false));
    let without_units = with_units(Rates::default(), &[(Unit::Search, "0.002")]);
    assert_eq!(charged(&without_units, &usage(1000, 0, 0, 0)), ("0".to_owned(), false));
}

#[test]
fn a_fee_alone_is_the_whole_price_of_a_request() {
    let fee = with_units(Rates::default(), &[(Unit::Query, "0.005")]);
    assert_eq!(charged(&fee, &usage(1000, 0, 0, 20)), ("0.005".to_owned(), true));
    // Where tokens have a price, a missing one is missing.
    let half = with_units(Rates { input: price("2"), ..Rates::default() }, &[(Unit::Query, "0.005")]);
    assert_eq!(charged(&half, &usage(1000, 0, 0, 20)), ("0.007".to_owned(), false));
}

#[test]
fn images_are_charged_by_tokens_or_by_their_form() {
    let form = |size, quality| ImageForm::of(Some(size), Some(quality));
    let row = |form, text| ImagePrice { form, official: None, gateway: Some(unit_price(text)) };
    let mut prices = with_units(Rates::default(), &[(Unit::Image, "0.1")]);
    prices.images = vec![
        row(form("1024x1024", "auto"), "0.03"),
        row(form("1024x1024", "high"), "0.04"),
        row(form("auto", "high"), "0.05"),
    ];
    let made = |form| Usage { units: Units::images(2, form), ..usage(9, 0, 0, 0) };
    for (form, shown) in [
        (form("1024x1024", "high"), "0.08"),
        (form("1024x1024", "low"), "0.06"),
        (form("1024x1536", "high"), "0.1"),
        (form("1024x1536", "low"), "0.2"),
        (ImageForm::default(), "0.2"),
    ] {
        assert_eq!(charged(&prices, &made(form)), (shown.to_owned(), true), "{form:?}");
    }
    // A call that broke off made none.
    assert_eq!(charged(&prices, &usage(9, 0, 0, 0)), ("0".to_owned(), true));
    prices.units = UnitPrices::default();
    assert_eq!(charged(&prices, &made(ImageForm::default())), ("0".to_owned(), false));
    prices.images.clear();
    prices.units.set(Unit::Pixel, unit_price("0.00000003751"));
    // 2 × 1,048,576 × 0.00000003751
    assert_eq!(charged(&prices, &made(form("1024x1024", "low"))), ("0.07866417152".to_owned(), true));
    assert!(!charged(&prices, &made(ImageForm::default())).1);
    prices.units = UnitPrices::default();
    // Tokens that the upstream reported come first: 9 × 5 + 272 × 40 per million.
    prices.gateway = Rates { input: price("5"), image_output: price("40"), ..Rates::default() };
    let tokens = Usage { completion: 272, image_completion: Some(272), ..made(form("1024x1024", "low")) };
    assert_eq!(charged(&prices, &tokens), ("0.010925".to_owned(), true));
    // Images in the prompt need their own price.
    let edit = Usage { prompt: 1009, image_prompt: Some(1000), ..tokens };
    assert!(!charged(&prices, &edit).1);
    prices.gateway.image_input = price("10");
    assert_eq!(charged(&prices, &edit), ("0.020925".to_owned(), true));
}

#[test]
fn seconds_and_characters_are_charged_where_tokens_do_not_tell() {
    let seconds = |millionths| Units::counted(Unit::Second, UnitCount::from_millionths(millionths));
    let minute = with_units(Rates::default(), &[(Unit::Second, "0.0001")]);
    let heard = Usage { units: seconds(12_345_000), ..Usage::default() };
    assert_eq!(charged(&minute, &heard), ("0.0012345".to_owned(), true));
    let rates =
        Rates { input: price("2.5"), output: price("10"), audio_input: price("6"), ..Rates::default() };
    let both = with_units(rates, &[(Unit::Second, "0.0001")]);
    let reported = Usage { audio_prompt: Some(1000), ..usage(1000, 0, 0, 100) };
    let reported = Usage { units: seconds(12_345_000), ..reported };
    assert_eq!(charged(&both, &reported), ("0.007".to_owned(), true));
    assert_eq!(
        charged(&both, &Usage { prompt: 0, completion: 0, audio_prompt: None, ..reported }),
        ("0.0012345".to_owned(), true)
    );
    let spoken = Usage { units: Units::new(Unit::Character, 100), ..Usage::estimate(34, 0) };
    let voice = with_units(Rates::default(), &[(Unit::Character, "0.000015")]);
    assert_eq!(charged(&voice, &spoken), ("0.0015".to_owned(), true));
    assert!(!charged(&minute, &spoken).1);
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
        let rates = Rates { input, output, cached_input, cache_write, ..Rates::default() };
        let [prompt, cached, written, completion] = tokens;
        let usage = Usage {
            cache_write_1h: Some(small(written)),
            audio_prompt: Some(small(prompt)),
            image_completion: Some(small(completion)),
            ..usage(prompt, cached, written, completion)
        };
        prop_assert!(rates.charge(&usage, &mut ()).known >= Money::ZERO);
    }
}
