//! Encoded entries are read again, and entries in the old format are still read.

use std::sync::Arc;

use gw_wire::attribution::Attribution;
use gw_wire::charges::{ChargeLine, Charges};
use gw_wire::money::Money;
use gw_wire::usage::{Unit, UnitCount, Units};
use proptest::prelude::*;

use super::super::{Attempt, Decision, Entry, Sums, Tokens};
use super::{Line, Names, read};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/-]{0,12}", any::<String>()].prop_map(|text| text.replace('\0', "0"))
}

prop_compose! {
    fn tokens()(prompt in 0..1_u64 << 39, completion in 0..1_u64 << 39, seldom in any::<[bool; 3]>()) -> Tokens {
        let [cached, cache_write, reasoning] = seldom.map(|is_some| u64::from(is_some) * 77);
        Tokens { prompt, completion, cached, cache_write, reasoning }
    }
}

prop_compose! {
    fn calls()(calls in prop::collection::vec(
        (text(), text(), text(), any::<u64>(), prop::option::of(text()), prop::option::of(0..1_i128 << 90)), 0..3)) -> Vec<Attempt> {
        let call = |(provider, model, status, latency_ms, reason, cost): (String, String, String, u64, Option<String>, Option<i128>)| Attempt {
            provider: provider.into(), model: model.into(), status: status.into(), latency_ms, cost,
            started_ms: latency_ms % 3,
            image_fetch_ms: latency_ms % 5,
            known_part: if cost.is_none() { i128::from(latency_ms) } else { 0 }, reason,
        };
        calls.into_iter().map(call).collect()
    }
}

prop_compose! {
    fn attributions()(names in prop::array::uniform4(prop::option::of(text())), tags in prop::collection::vec(text(), 0..3)) -> Arc<Attribution> {
        let [end_user, repository, branch, pull_request] = names.map(|name| name.map(String::into_boxed_str));
        let tags = tags.into_iter().map(String::into_boxed_str).collect();
        Arc::new(Attribution { end_user, tags, repository, branch, pull_request })
    }
}

/// A charge with this many lines, at most three.
fn charges(latency_ms: u64, amount: i128) -> Box<Charges> {
    let line = |number: u64| ChargeLine {
        unit: format!("\"{number}").into(),
        count: UnitCount::from_millionths(latency_ms + number),
        price: Money::from_femtos(amount),
        cost: Money::from_femtos(-amount),
    };
    let price_as_of = latency_ms.is_multiple_of(2).then(|| "2026-11-20".into());
    Box::new(Charges {
        lines: (0..latency_ms % 4).map(line).collect(),
        other: Money::from_femtos(amount),
        price_as_of,
    })
}

prop_compose! {
    fn entries()(
        texts in prop::array::uniform9(text()),
        maybe in prop::array::uniform4(prop::option::of(text())),
        at in any::<i64>(),
        switches in any::<[bool; 5]>(),
        tokens in tokens(),
        cost in -1_000_000_000_000_000_000_000_i128..1_000_000_000_000_000_000_000,
        saved in prop_oneof![Just(0_i128), 0..1_i128 << 60],
        ttft_ms in prop::option::of(0..1_u64 << 39),
        latency_ms in 0..1_u64 << 39,
        mut attempts in calls(),
        is_usual in any::<bool>(),
        cache_write_1h in prop_oneof![Just(0_u64), 0..1_u64 << 39],
        search_units in prop_oneof![Just(0_u64), 1..1_u64 << 20],
        attribution in prop::option::of(attributions()),
    ) -> Entry {
        let [request_id, key_id, key_name, operation, requested_model, model, provider, status, strategy] = texts;
        let [team, user, client, session] = maybe;
        let [stream, cache_hit, fallback, estimated, unpriced] = switches;
        if let Some(first) = attempts.first_mut().filter(|_| is_usual) {
            (first.provider, first.model) = (provider.as_str().into(), model.as_str().into());
        }
        if let [only] = attempts.as_mut_slice()
            && is_usual
        {
            (only.cost, only.known_part) = (Some(cost), 0);
        }
        let warnings = vec!["parameter_dropped:\"x\"".to_owned()];
        let decision = (at % 2 == 0).then(|| Box::new(Decision { warnings, left_out: 3, ..Decision::default() }));
        Entry {
            request_id: request_id.into(), at, key_id: key_id.into(), key_name: key_name.into(), team: team.map(Arc::from),
            operation: operation.into(), requested_model, model: model.into(), provider: provider.into(),
            status: status.into(), strategy: strategy.into(),
            stream, cache_hit, fallback, tokens, cache_write_1h, estimated, cost, unpriced, saved, unknown_saved: cache_hit && unpriced, ttft_ms, latency_ms, attempts, user, client,
            session, decision, units: Units::new(Unit::Search, search_units), attribution, prompt_cache: None,
            provider_cost: (latency_ms % 3 == 0).then_some(saved), charges: (latency_ms % 5 == 0).then(|| charges(latency_ms, saved)),
        }
    }
}

proptest! {
    #[test]
    fn a_line_reads_back_as_written(entry in entries()) {
        let line = Line::new(entry.clone());
        prop_assert_eq!(&read(line.json()).unwrap(), &entry);
        prop_assert_eq!(line.journal_line(), format!("\nE{}", line.json()));
        prop_assert!(!line.json().contains('\n'), "one line of the journal");
        let begun = Line::begun(&entry);
        prop_assert_eq!(begun.journal_line().strip_prefix("\nB"), Some(line.json()));
        let after = Line::after(Some(&begun), entry);
        prop_assert_eq!(after.journal_line(), line.journal_line());
        prop_assert_eq!((after.shared_part(), after.rest()), (line.shared_part(), line.rest()));
    }

    #[test]
    fn values_that_a_later_version_adds_at_the_end_are_skipped(entry in entries()) {
        let line = Line::new(Entry { session: Some("s".to_owned()), cache_write_1h: 1, decision: Some(Box::default()), units: Units::new(Unit::Search, 1), attribution: Some(Arc::default()), prompt_cache: Some(Arc::default()), provider_cost: Some(7), charges: Some(Box::default()), request_id: "req_1".into(), ..entry });
        let later = format!("{},\"later\",[7],null]", line.json().strip_suffix(']').expect("an array"));
        prop_assert_eq!(read(&later).unwrap(), read(line.json()).unwrap());
        prop_assert_eq!(super::read_prefix(later.as_bytes()).map(|(_, length)| length), Ok(later.len()));
    }

    #[test]
    fn joined_parts_of_a_line_equal_the_line(entry in entries()) {
        let line = Line::new(entry.clone());
        let names = Names::read(line.shared_part()).unwrap();
        prop_assert_eq!((&*names.key_id, names.team.as_deref()), (&*entry.key_id, entry.team.as_deref()));
        prop_assert_eq!((&*names.model, &*names.provider), (&*entry.model, &*entry.provider));
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let status = line.failure.as_deref().unwrap_or("ok");
        let (id, status) = (quoted(&line.request_id), quoted(status));
        let again = format!("[{id},{},{},{status},{}]", line.at, line.shared_part(), line.rest());
        prop_assert_eq!(again, line.json());
        let mut sums = Sums::default();
        sums.add(&entry);
        // The entry's share and those of other models add up to the entry.
        let mut parts = line.sums;
        line.others.iter().for_each(|other| parts.join(&other.sums));
        prop_assert_eq!(parts, sums);
    }
}

#[test]
fn a_typical_line_is_short() {
    let entry = Entry {
        request_id: "req_01kaktb2mhf0t8w1qv9n2x4c7d".into(),
        at: 1_795_000_000_000,
        key_id: "sk-gw-aaaaaa".into(),
        key_name: "ci".into(),
        operation: "chat".into(),
        requested_model: "acme/fast".to_owned(),
        model: "acme/fast".into(),
        provider: "acme".into(),
        status: "ok".into(),
        strategy: "default".into(),
        tokens: Tokens { prompt: 900, completion: 120, ..Tokens::default() },
        cost: 1_234_567_000,
        latency_ms: 1_432,
        attempts: vec![Attempt {
            provider: "acme".into(),
            model: "acme/fast".into(),
            status: "ok".into(),
            latency_ms: 1_431,
            cost: Some(1_234_567_000),
            started_ms: 0,
            image_fetch_ms: 0,
            known_part: 0,
            reason: None,
        }],
        client: Some("203.0.113.7".to_owned()),
        ..Entry::default()
    };
    let line = Line::new(entry);
    assert_eq!(
        line.json(),
        "[\"req_01kaktb2mhf0t8w1qv9n2x4c7d\",1795000000000,\"sk-gw-aaaaaa\",\"ci\",null,\"chat\",\"acme/fast\",\"acme\",\
         \"default\",\"ok\",\"acme/fast\",1432,900,120,1234567000,null,[[\"ok\",1431]],null,\"203.0.113.7\"]"
    );
    assert_eq!(
        line.shared_part(),
        "\"sk-gw-aaaaaa\",\"ci\",null,\"chat\",\"acme/fast\",\"acme\",\"default\""
    );
    assert_eq!(
        line.rest(),
        "\"acme/fast\",1432,900,120,1234567000,null,[[\"ok\",1431]],null,\"203.0.113.7\""
    );
}

#[test]
fn a_line_of_the_older_format_is_read() {
    let old = r#"{"request_id":"req_1","at":7,"key_id":"k","key_name":"n","team":"t","operation":"chat","requested_model":"m",
        "model":"a/m","provider":"a","status":"ok","strategy":"default","stream":true,"tokens":{"prompt":3,"completion":4,"cached":1},
        "cost":123456789012345678901,"latency_ms":9,
        "attempts":"[{\"provider\":\"a\",\"model\":\"a/m\",\"status\":\"ok\",\"latency_ms\":8}]","end_user":"u"}"#;
    let entry = read(old).unwrap();
    assert_eq!(
        (entry.at, entry.stream, entry.cost, entry.tokens.cached),
        (7, true, 123_456_789_012_345_678_901, 1)
    );
    assert_eq!(entry.attempts.len(), 1);
    assert_eq!((&*entry.attempts[0].model, entry.attempts[0].latency_ms), ("a/m", 8));
    assert_eq!(read(Line::new(entry.clone()).json()).unwrap(), entry);
    assert!(read("{\"request_id\":").is_err() && read("[1]").is_err() && read("").is_err());
}

#[test]
fn a_line_of_an_older_version_has_no_session() {
    let entry = Entry { request_id: "req_1".into(), operation: "chat".into(), ..Entry::default() };
    let line = Line::new(entry.clone());
    let with = Line::new(Entry { session: Some("run 7".to_owned()), ..entry.clone() });
    assert!(with.json().ends_with(",0,0,0,0,0,\"run 7\"]"), "{}", with.json());
    assert_eq!(read(line.json()).unwrap(), entry);
    assert_eq!(read(with.json()).unwrap().session.as_deref(), Some("run 7"));
}

#[test]
fn an_attempt_of_an_older_version_has_a_known_cost() {
    let one =
        r#"["req_1",7,"k","n",null,"chat","a/m","a","default","ok","m",9,3,4,55,null,[["ok",8]],null,null]"#;
    assert_eq!(read(one).unwrap().attempts[0].cost, Some(55));
    let two = r#"["req_1",7,"k","n",null,"chat","a/m","a","default","ok","m",9,3,4,55,null,
        [["upstream_timeout",5,"b","b/m",null,15],["ok",8]],null,null]"#;
    let costs: Vec<_> = read(two).unwrap().attempts.iter().map(|attempt| attempt.cost).collect();
    assert_eq!(costs, [Some(15), Some(0)]);
}

#[test]
fn a_request_with_an_unknown_price_counts_where_the_price_is_missing() {
    let attempt = |provider: &str, cost, known_part| Attempt {
        provider: provider.into(),
        model: format!("{provider}/m").into(),
        status: "ok".into(),
        latency_ms: 1,
        cost,
        started_ms: 0,
        image_fetch_ms: 0,
        known_part,
        reason: None,
    };
    let entry = Entry {
        model: "b/m".into(),
        provider: "b".into(),
        status: "ok".into(),
        cost: 75,
        unpriced: true,
        attempts: vec![attempt("a", Some(30), 0), attempt("c", None, 5), attempt("b", Some(40), 0)],
        ..Entry::default()
    };
    let line = Line::new(entry.clone());
    assert_eq!((line.sums.cost, line.sums.unpriced, line.sums.requests), (40, 0, 1));
    let others: Vec<_> =
        line.others.iter().map(|other| (&*other.model, other.sums.cost, other.sums.unpriced)).collect();
    assert_eq!(others, [("a/m", 30, 0), ("c/m", 5, 1)]);
    assert_eq!(read(line.json()).unwrap(), entry);
}

#[test]
fn a_line_after_another_target_has_its_own_head() {
    let entry = |names: [&str; 4]| {
        let [request_id, model, provider] = [names[0], names[1], names[2]].map(Arc::from);
        Entry {
            request_id,
            model,
            provider,
            strategy: names[3].to_owned().into(),
            operation: "chat".into(),
            ..Entry::default()
        }
    };
    let texts = ["m", "p", "s", "", "\"", "m\",\"p", "p\",\"s", "chat", "\\", "\0"];
    for (first, second, third) in
        texts.iter().flat_map(|one| texts.iter().flat_map(move |two| texts.map(|three| (*one, *two, three))))
    {
        let begun = Line::begun(&entry(["req_1", first, second, third]));
        for later in [
            [first, second, third],
            [second, third, first],
            ["m", "p", "s"],
            ["chat", "m\",\"p", "s"],
            [first, "p", "s"],
        ] {
            let [model, provider, strategy] = later;
            let alone = Line::new(entry(["req_1", model, provider, strategy]));
            let after = Line::after(Some(&begun), entry(["req_1", model, provider, strategy]));
            assert_eq!(after.journal_line(), alone.journal_line());
        }
    }
}
