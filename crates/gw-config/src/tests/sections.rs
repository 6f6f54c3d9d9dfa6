//! The rules of `[routing]`, `[redis]`, `[cache]`, `[aliases]`, `[[reconcile]]` and others: a text, and its settings or its exact problems.

use std::time::Duration;

use gw_cache::SimilarityMode;
use gw_limits::WhenAway;
use gw_routing::hedge::HedgeDelay;
use secrecy::ExposeSecret;

use super::{check, good};

const MS: Duration = Duration::from_millis(1);

#[test]
fn routing_is_what_is_written() {
    let usual = good("").engine.routing;
    assert_eq!(
        (usual.breaker.failures, usual.breaker.cooldown, usual.breaker.ramp),
        (5, MS * 10_000, MS * 10_000)
    );
    assert_eq!((usual.hedge, usual.upgrade_max_price_ratio), (None, None));
    let text = "[routing]\nupgrade_max_price_ratio = 3\n[routing.breaker]\nfailures = 2\ncooldown_ms = 300\nramp_ms = 0\n\
                [routing.hedge]\n[routing.balanced]\nprice = 2.5\nload = 0";
    let routing = good(text).engine.routing;
    assert_eq!(
        (routing.breaker.failures, routing.breaker.cooldown, routing.breaker.ramp),
        (2, MS * 300, Duration::ZERO)
    );
    let hedge = routing.hedge.unwrap();
    assert_eq!((hedge.after, hedge.max_extra_cost_percent), (HedgeDelay::P95, 5.0));
    assert_eq!(
        (routing.weights.price, routing.weights.load, routing.weights.latency),
        (2.5, 0.0, usual.weights.latency)
    );
    assert_eq!(routing.upgrade_max_price_ratio, Some(3.0));
    let hedge =
        good("[routing.hedge]\nafter = 80\nmax_extra_cost_percent = 50").engine.routing.hedge.unwrap();
    assert_eq!((hedge.after, hedge.max_extra_cost_percent), (HedgeDelay::Fixed(MS * 80), 50.0));
}

#[test]
fn redis_is_what_is_written_and_its_leases_outlast_every_request() {
    assert!(good("").redis.is_none());
    let plain = good("[redis]\nurl = \"redis://h\"").redis.unwrap();
    assert_eq!((plain.prefix.as_str(), plain.timeout, plain.when_away), ("gw:", MS * 50, WhenAway::Local));
    assert_eq!(plain.lease, MS * 1_200_000);
    let text = "[redis]\nurl = \"rediss://:p@h:1/2\"\nprefix = \"a:\"\ntimeout_ms = 20\nwhen_away = \"closed\"\n\
                [[providers]]\nname = \"x\"\napi = \"openai\"\nbase_url = \"http://a\"\ntimeouts = { total_ms = 1_200_000 }";
    let all = good(text).redis.unwrap();
    assert_eq!((all.prefix.as_str(), all.timeout, all.when_away), ("a:", MS * 20, WhenAway::Closed));
    assert_eq!(all.lease, MS * 2_400_000);
    assert_eq!(all.url.expose_secret(), "rediss://:p@h:1/2");
}

#[test]
fn sections_that_need_each_other() {
    check("[redis]", &["1:2: redis.url: is missing"]);
    check("[redis]\nurl = \"redis://h/notanumber\"", &["2:7: redis.url: is not a Redis address"]);
    check("[cache]\nbackend = \"redis\"", &["2:11: cache.backend: needs the section [redis]"]);
}

#[test]
fn aliases_whose_similar_questions_are_compared() {
    let entry = |more: &str| format!("[[cache.semantic]]\n{more}\n[aliases]\nhelp = \"openai/x\"\n");
    let whole = "alias = \"help\"\nembedding_model = \"openai/text-embedding-3-small\"\n";
    let read = good(&entry(whole)).cache.semantic;
    assert_eq!(
        (read[0].alias.as_str(), read[0].similar.threshold, read[0].timeout),
        ("help", 0.97, MS * 1000)
    );
    assert_eq!(read[0].similar.mode, SimilarityMode::Shadow);
    check(
        &entry("alias = \"helps\"\nembedding_model = \"opneai/x\""),
        &[
            "2:9: cache.semantic[0].alias: is not in [aliases]; did you mean 'help'?",
            "3:19: cache.semantic[0].embedding_model: begins with an unknown provider",
        ],
    );
    check(
        &entry(&format!("{whole}[[cache.semantic]]\n{whole}")),
        &["5:9: cache.semantic[1].alias: already has an entry"],
    );
    check(
        &entry(&format!("{whole}threshold = 0.2\nmode = \"on\"")),
        &[
            "4:13: cache.semantic[0].threshold: out of range; expected a number from 0.5 to 1",
            "5:8: cache.semantic[0].mode: unknown word; expected one of \"shadow\", \"answer\"",
        ],
    );
}

#[test]
fn an_alias_has_at_most_64_targets() {
    let text = |count: usize| {
        let targets: Vec<String> = (0..count).map(|at| format!("\"demo/m{at}\"")).collect();
        format!("[aliases]\nall = [{}]\n", targets.join(","))
    };
    assert_eq!(good(&text(64)).engine.aliases["all"].targets.len(), 64);
    for count in [65, 100_000] {
        check(&text(count), &["2:7: aliases.all: has more than 64 targets"]);
    }
    check(
        &text(65).replace("[aliases]", "[[aliases]]\nname = \"x\"").replace("all =", "targets ="),
        &["3:11: aliases[0].targets: has more than 64 targets"],
    );
}

#[test]
fn a_nightly_comparison_needs_reports_that_the_gateway_reads() {
    let text = |name: &str, nightly: bool| {
        format!(
            "[[providers]]\nname = \"{name}\"\napi_key = \"k\"\n[[reconcile]]\nprovider = \"{name}\"\nadmin_key = \"k\"\nnightly = {nightly}"
        )
    };
    let fault = "7:11: reconcile[0].nightly: needs a provider whose reports the gateway can read: OpenAI, Anthropic or OpenRouter";
    check(&text("gemini", true), &[fault]);
    good(&text("gemini", false));
    for name in ["openai", "anthropic", "openrouter"] {
        good(&text(name, true));
    }
}

#[test]
fn a_budget_below_zero_is_no_price() {
    let text = "[[budgets]]\nname = \"b\"\nbudget_usd = -1";
    check(text, &["3:14: budgets[0].budget_usd: cannot be negative"]);
}

#[test]
fn a_key_of_many_sections_gets_no_place() {
    check(
        "[[guards]]\nname = \"g\"\nmax_calls = 1",
        &[
            "2:1: guards[0].name: unknown key; known here: match, max_calls, max_cost_usd, max_minutes, max_repeats, action",
        ],
    );
}

#[test]
fn quotes_are_advised_where_they_help() {
    check(
        "[server]\ntls = { cert = 5, key = 'Cargo.toml' }",
        &[
            "2:16: server.tls.cert: expected a string: a path, relative to the configuration file, found an integer; put it in quotes",
        ],
    );
}
