//! Limits and budgets: never exceeded, never leaked, and named in the refusal.

use std::time::{Duration, Instant};

use gw_store::ledger::Entry;
use gw_testkit::upstream::chat_body;
use gw_testkit::wait::within;
use gw_testkit::{Answer, Client, Redis, Signal, eventually};
use serde_json::json;

use crate::harness::ledger::rows;
use crate::harness::{Setup, World, assert_error, chat_with, with};

/// `acme/plain` costs 1 and 2 USD per million: 10 prompt and 5 completion tokens are 0.00002 USD.
const COST: f64 = 0.000_02;
/// A prompt token of `acme/plain`, in femto-USD.
const TOKEN: i128 = 1_000_000_000;

/// A gateway with the key `sk-by`, with these lines in its entry.
pub(crate) fn key(more: &str) -> Setup {
    let extra = format!("[[keys]]\nname = \"limited-by\"\nkey = \"sk-by\"\n{more}\n");
    Setup { extra, ..Setup::default() }
}

pub(crate) fn client(world: &World) -> Client {
    world.gateway.client().with_key("sk-by")
}

/// A prompt of 6 bytes is estimated at 2 + 8 tokens, and the upstream reports 10.
fn ask(max_tokens: u64) -> serde_json::Value {
    json!({ "model": "acme/plain", "max_tokens": max_tokens, "messages": [{ "role": "user", "content": "Hello!" }] })
}

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_used_up_budget_is_insufficient_quota_and_is_not_retried() {
    let world = key("budget_usd = 0.00005\nbudget_period = \"day\"").start().await;
    let client = client(&world);
    for _ in 0..2 {
        client.post_json(CHAT, &ask(5)).await.ok();
    }
    let refused = client.post_json(CHAT, &ask(5)).await;
    assert_error("spent", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert!(refused.message().contains("this key"), "{}", refused.message());
    assert_eq!(world.upstream.hits(), 2, "the upstream gets no request");
    // A request that fits into the rest still passes.
    client.post_json(CHAT, &ask(0)).await.ok();
}

/// A provider that reads a prompt and hangs up may bill it, so the budget must hold this charge and the next call.
#[tokio::test]
async fn a_failed_call_that_is_charged_and_the_next_one_fit_into_the_budget_together() {
    // About 9,000 tokens: 0.00135 USD at `acme/fast`, and 0.0027 at `beta/fast`.
    let prompt = "word ".repeat(5_400);
    let body = json!({
        "model": "acme/fast", "max_tokens": 10, "messages": [{"role": "user", "content": prompt}],
        "routing": {"fallback": ["beta/fast"]}
    });
    let extra = "[[budgets]]\nname = \"tagged\"\nmatch = { tag = \"over\" }\nbudget_usd = 0.004\n";
    let keys = "[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n";
    for (budget, is_served) in [("0.0035", false), ("0.006", true)] {
        for on_budget in ["refuse", "cut"] {
            let mut setup = key(&format!("budget_usd = {budget}\non_budget = \"{on_budget}\""));
            setup.routing = "retries = 0";
            setup.extra += &format!("{keys}{extra}");
            let world = setup.start().await;
            world.upstream.always(Answer::default().reset());
            let answer = client(&world).post_json(CHAT, &body).await;
            let label = format!("{budget} {on_budget}: {}", answer.text());
            assert_eq!(
                (answer.status == 200, world.second.hits()),
                (is_served, usize::from(is_served)),
                "{label}"
            );
            let spent: i128 = rows(&world.gateway, 1).await.iter().map(|row| row.cost).sum();
            assert!(spent > 0 && spent <= usd(budget), "{label}: {spent}");
            // The rule has room for one of the two calls, and the client states the most that it pays.
            for (name, value) in [("x-gateway-tags", "over"), ("x-gateway-max-cost-usd", "0.0035")] {
                let hits = world.second.hits();
                let asking = world.gateway.client().with_key("sk-trusted").with_header(name, value);
                let answer = asking.post_json(CHAT, &body).await;
                assert_error(name, &answer, 502, "upstream_error", "upstream_unreachable");
                assert_eq!(world.second.hits(), hits, "{name}");
            }
        }
    }
}

/// An amount in femto-USD.
fn usd(text: &str) -> i128 {
    let dollars: f64 = text.parse().expect("a number");
    (dollars * 1e15).round() as i128
}

#[tokio::test]
async fn c25_the_worst_case_is_set_aside_before_the_call() {
    let world = key("budget_usd = 0.001").start().await;
    let client = client(&world);
    // The model writes at most 8,000 of the 2,000,000 tokens: 0.016 USD.
    let refused = client.post_json(CHAT, &ask(2_000_000)).await;
    assert_error("max_tokens", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert!(refused.message().contains("A smaller 'max_tokens' lowers this cost."), "{}", refused.message());
    let many = chat_with("acme/plain", json!({ "n": 128, "max_tokens": 100 }));
    assert_error("n", &client.post_json(CHAT, &many).await, 429, "insufficient_quota", "insufficient_quota");
    let long = json!({ "model": "acme/plain", "max_tokens": 1, "messages": [{ "role": "user", "content": "x".repeat(4_000) }] });
    let refused = client.post_json(CHAT, &long).await;
    assert_error("prompt", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert!(!refused.message().contains("max_tokens"), "the prompt alone costs more: {}", refused.message());
    // The most expensive model of the route counts: beta/spare costs more than acme/plain.
    let mut fallback = ask(100);
    client.post_json(CHAT, &fallback).await.ok();
    fallback["routing"] = json!({ "fallback": ["beta/spare"] });
    assert_error(
        "fallback",
        &client.post_json(CHAT, &fallback).await,
        429,
        "insufficient_quota",
        "insufficient_quota",
    );
    assert_eq!(world.upstream.hits(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_requests_never_spend_more_than_the_budget_and_use_it_up() {
    // 100 × 0.00002.
    let world = key("budget_usd = 0.002").start().await;
    let tasks: Vec<_> = (0..300)
        .map(|_| {
            let client = client(&world);
            tokio::spawn(async move { client.post_json(CHAT, &ask(5)).await.status })
        })
        .collect();
    let mut served = 0;
    for task in tasks {
        match task.await.expect("no panic") {
            200 => served += 1,
            429 => {}
            other => panic!("{other}"),
        }
    }
    assert!((95..=100).contains(&served), "{served} × {COST}");
    assert_eq!(world.upstream.hits(), served);
}

#[tokio::test]
async fn what_was_set_aside_comes_back_whatever_happens() {
    let world = key("budget_usd = 0.00002").start().await;
    let client = client(&world);
    // The upstream refuses or fails: no charge.
    world.upstream.enqueue(Answer::error(400, "bad", "no"));
    assert_eq!(client.post_json(CHAT, &ask(5)).await.status, 400);
    world.upstream.enqueue(Answer::error(500, "bad", "no"));
    world.upstream.enqueue(Answer::error(500, "bad", "no"));
    assert_eq!(client.post_json(CHAT, &ask(5)).await.status, 502);
    // The gateway refuses the request after its reservation.
    assert_eq!(client.post_json(CHAT, &json!({ "model": "acme/plain" })).await.status, 400);
    client.post_json(CHAT, &ask(5)).await.ok();
    assert_eq!(client.post_json(CHAT, &ask(5)).await.code(), "insufficient_quota");
}

/// The row of the request whose client left.
async fn disconnected_row(world: &World) -> Entry {
    let mut count = 1;
    loop {
        let found = rows(&world.gateway, count).await;
        match found.iter().find(|row| row.status == "client_closed_request") {
            Some(row) => return row.clone(),
            None => count = found.len() + 1,
        }
    }
}

#[tokio::test]
async fn c04_a_client_that_leaves_gives_back_what_it_did_not_use() {
    let world = key("budget_usd = 0.00003\nmax_in_flight = 1").start().await;
    let never = Signal::new();
    world.upstream.enqueue(Answer::steps(Vec::new()).wait(&never));
    let asking = tokio::spawn({
        let client = client(&world);
        async move { client.post_json(CHAT, &ask(5)).await }
    });
    let request = world.upstream.request(0).await;
    let busy = client(&world).post_json(CHAT, &ask(5)).await;
    assert_error("in flight", &busy, 429, "rate_limit_error", "rate_limit_exceeded");
    asking.abort();
    request.until_closed().await;
    // The ledger has the row once the reservation is settled: the ten tokens of the prompt are charged.
    let row = disconnected_row(&world).await;
    assert_eq!((row.tokens.prompt, row.tokens.completion, row.cost), (10, 0, 10 * TOKEN), "{row:?}");
    // The remaining 20 tokens' worth pays one request, and the next one is refused.
    client(&world).post_json(CHAT, &ask(5)).await.ok();
    let refused = client(&world).post_json(CHAT, &ask(5)).await;
    assert_error("spent", &refused, 429, "insufficient_quota", "insufficient_quota");
}

#[tokio::test]
async fn tokens_per_minute_are_taken_at_the_worst_and_settled_at_what_was_used() {
    let world = key("tpm = 100").start().await;
    let client = client(&world);
    // 90 tokens are reserved and 15 are used.
    let begun = Instant::now();
    let first = client.post_json(CHAT, &ask(80)).await.ok();
    assert_eq!(first.header("x-ratelimit-limit-tokens"), Some("100"));
    assert_left("its own tokens are counted", first.header(LEFT), 85, begun);
    client.post_json(CHAT, &ask(70)).await.ok();
    let refused = client.post_json(CHAT, &ask(85)).await;
    assert_error("tpm", &refused, 429, "rate_limit_error", "rate_limit_exceeded");
    assert!(refused.message().contains("100 tokens per minute"), "{}", refused.message());
    let never = client.post_json(CHAT, &ask(91)).await;
    assert_error("never", &never, 429, "rate_limit_error", "rate_limit_exceeded");
    assert!(never.message().contains("may need 101"), "{}", never.message());
}

const LEFT: &str = "x-ratelimit-remaining-tokens";

/// Checks the tokens that are left of 100 per minute, of which time has given some back.
#[track_caller]
fn assert_left(label: &str, left: Option<&str>, expected: u64, begun: Instant) {
    let left: u64 = left.and_then(|left| left.parse().ok()).expect("a number");
    let given_back = (begun.elapsed().as_secs_f64() * 100.0 / 60.0).ceil() as u64;
    assert!((expected..=expected + given_back).contains(&left), "{label}: {left} and not {expected}");
}

#[tokio::test]
async fn the_tokens_that_are_left_are_those_after_the_request() {
    let world = key("tpm = 100\nrpm = 50").start().await;
    let (client, begun) = (client(&world), Instant::now());
    for (left, requests) in [(85, "49"), (70, "48"), (55, "47")] {
        let answer = client.post_json(CHAT, &ask(20)).await.ok();
        assert_left("a plain answer has used 15", answer.header(LEFT), left, begun);
        assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some(requests));
        let reset = answer.header("x-ratelimit-reset-tokens").and_then(|reset| reset.strip_suffix('s'));
        let reset: u64 = reset.and_then(|reset| reset.parse().ok()).expect("seconds");
        let whole = (100 - left) * 60 / 100;
        let passed = begun.elapsed().as_secs() + 1;
        assert!((whole.saturating_sub(passed)..=whole).contains(&reset), "{reset} and not {whole}");
    }
    // The usage of a stream is not known yet: 10 + 20 tokens are set aside.
    let body = with(ask(20), json!({ "stream": true }));
    let mut stream = client.stream(CHAT, &body).await;
    assert_left("a stream holds its worst case", stream.head.header(LEFT), 25, begun);
    stream.rest().await;
    let cached = with(ask(20), json!({ "cache": { "enabled": true } }));
    let next = client.post_json(CHAT, &cached).await.ok();
    assert_left("the stream has used 15, too", next.header(LEFT), 25, begun);
    let hit = client.post_json(CHAT, &cached).await.ok();
    assert_left("a hit uses none", hit.header(LEFT), 25, begun);
}

/// The number of requests that pass, without pauses, until 200 others are refused, with the least and the largest duration
/// between the first and the last of them.
async fn hammered(limits: &str) -> (u32, Duration, Duration) {
    let world = key(limits).start().await;
    let client = client(&world);
    let (mut passed, mut refused, mut first) = (0, 0, None);
    let begun = Instant::now();
    while refused < 200 {
        let answer = client.post_json(CHAT, &ask(5)).await;
        match answer.status {
            200 => passed += 1,
            429 => {
                let wait: f64 = answer.header("retry-after").expect("when").parse().expect("seconds");
                assert!((0.0..=60.0).contains(&wait), "{wait}");
                refused += 1;
            }
            other => panic!("{other}: {}", answer.text()),
        }
        first.get_or_insert_with(Instant::now);
    }
    let least = first.expect("at least one").elapsed();
    (passed, least, begun.elapsed())
}

#[tokio::test]
async fn rpm_is_a_limit_in_any_minute() {
    assert_eq!(hammered("rpm = 120").await.0, 120, "after a quiet minute, too");
    let (passed, least, most) = hammered("rpm = 120\nburst = 10").await;
    let evenly = |time: Duration| 10.0 + time.as_secs_f64() * 2.0;
    let passed = f64::from(passed);
    assert!(passed <= evenly(most) + 0.01 && passed >= evenly(least) - 2.0, "{passed} in {most:?}");
}

#[tokio::test]
async fn a_budget_is_remembered_by_the_next_process() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = gw_testkit::FakeUpstream::start().await;
    let config = key("budget_usd = 0.00005\nbudget_period = \"total\"")
        .config(&upstream.base_url(), &upstream.base_url());
    let start = async || {
        let launch = gw_testkit::Launch::new(crate::harness::binary()).file("gateway.toml", &config);
        launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()).start().await
    };
    for expected in [200, 200, 429, 429] {
        let gateway = start().await;
        let answer = gateway.client().with_key("sk-by").post_json(CHAT, &ask(5)).await;
        assert_eq!(answer.status, expected, "{}", answer.text());
        let _ = gateway.stop();
    }
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn what_an_upstream_uses_beyond_the_worst_case_is_counted() {
    let world = key("budget_usd = 0.0001").start().await;
    let mut body = chat_body("m", "x");
    body["usage"] = json!({ "prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105 });
    world.upstream.enqueue(Answer::json(200, &body));
    client(&world).post_json(CHAT, &ask(5)).await.ok();
    assert_eq!(client(&world).post_json(CHAT, &ask(0)).await.code(), "insufficient_quota");
    eventually("one call", || (world.upstream.hits() == 1).then_some(())).await;
}

#[tokio::test]
async fn c25_everything_that_may_be_paid_is_in_the_worst_case() {
    // 0.002 USD pays 2,000 prompt or 1,000 answer tokens of acme/plain, and 13,000 or 3,300 of acme/fast.
    let world = key("budget_usd = 0.002").start().await;
    let client = client(&world);
    let plain = |more: serde_json::Value| chat_with("acme/plain", more);
    let image = json!({ "type": "image_url", "image_url": { "url": "https://example.com/a.png" } });
    let images = json!({ "model": "acme/fast", "max_tokens": 1, "messages": [{ "role": "user", "content": vec![image; 20] }] });
    let properties: serde_json::Map<_, _> =
        (0..500).map(|n| (format!("property_{n}"), json!({ "type": "string" }))).collect();
    let schema = json!({ "name": "s", "schema": { "type": "object", "properties": properties } });
    let requests = [
        (
            "best_of",
            "/v1/completions",
            json!({ "model": "acme/plain", "prompt": "Hi", "max_tokens": 100, "best_of": 20 }),
        ),
        ("images", CHAT, images),
        (
            "messages",
            CHAT,
            plain(
                json!({ "max_tokens": 1, "messages": vec![json!({ "role": "user", "content": "a" }); 300] }),
            ),
        ),
        (
            "a schema",
            CHAT,
            json!({ "model": "acme/fast", "max_tokens": 2_500, "messages": [{ "role": "user", "content": "a" }],
            "response_format": { "type": "json_schema", "json_schema": schema } }),
        ),
    ];
    for (what, path, body) in requests {
        let refused = client.post_json(path, &body).await;
        assert_error(what, &refused, 429, "insufficient_quota", "insufficient_quota");
    }
    assert_eq!(world.upstream.hits(), 0);
    client
        .post_json("/v1/completions", &json!({ "model": "acme/plain", "prompt": "Hi", "max_tokens": 100 }))
        .await
        .ok();
}

#[tokio::test]
async fn an_answer_that_nobody_bounded_fits_into_an_ordinary_limit_of_tokens() {
    let world = key("tpm = 10000").start().await;
    let body = json!({ "model": "demo/chat", "messages": [{ "role": "user", "content": "Hello!" }] });
    client(&world).post_json(CHAT, &body).await.ok();
    // An explicit `max_tokens` is reserved in full.
    let asked = chat_with("demo/chat", json!({ "max_tokens": 20_000 }));
    assert_eq!(client(&world).post_json(CHAT, &asked).await.code(), "rate_limit_exceeded");
}

#[tokio::test]
async fn a_key_that_has_asked_nothing_yet_sees_its_budget_over_redis() {
    let redis = Redis::start().await;
    let extra = format!(
        "[redis]\nurl = \"{}\"\ntimeout_ms = 2000\n[[keys]]\nname = \"limited-by\"\nkey = \"sk-by\"\nbudget_usd = 2.5\n",
        redis.url()
    );
    let world = Setup { extra, ..Setup::default() }.start().await;
    for spent in [0.0, COST] {
        let me = client(&world).get("/v1/me").await.ok().json();
        let budget = &me["limits"][0]["budget"];
        assert_eq!(budget["spent_usd"].as_f64(), Some(spent), "{me}");
        assert_eq!(budget["reserved_usd"].as_f64(), Some(0.0), "{me}");
        assert_eq!(me["binding_limit"]["limit"], "budget", "{me}");
        if spent == 0.0 {
            client(&world).post_json("/v1/chat/completions", &chat_with("acme/plain", json!({}))).await.ok();
            eventually_settled(&world).await;
        }
    }
}

/// Waits until Redis has counted the cost of the key's request.
async fn eventually_settled(world: &World) {
    let settled = async {
        loop {
            let me = client(world).get("/v1/me").await.ok().json();
            if me["limits"][0]["budget"]["reserved_usd"].as_f64() == Some(0.0) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    within("Redis counts the request", settled).await;
}
