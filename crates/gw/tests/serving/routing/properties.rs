//! Properties of every route: hundreds of random requests against upstreams that fail at random. The seed is fixed, so every run
//! is equal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gw_store::ledger::Entry;
use gw_testkit::upstream::{Step, default_answer};
use gw_testkit::{Answer, Recorded, Response};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{LIMITED, Setup, World, chat, with};
use crate::routing::failover::row_attempts;
use crate::routing::strategies::THREE;

const REQUESTS: usize = 300;
const MAX_ATTEMPTS: usize = 4;

/// The models of a name.
const NAMES: [(&str, &[&str]); 9] = [
    ("acme/fast", &["acme/fast"]),
    ("smart", &["acme/fast"]),
    ("fast", &["acme/fast", "beta/fast"]),
    ("plain", &["acme/plain"]),
    ("acme/plain", &["acme/plain"]),
    ("m", &["acme/m", "beta/m", "gamma/m"]),
    ("gamma/m", &["gamma/m"]),
    ("acme/unpriced", &["acme/unpriced"]),
    ("beta/spare", &["beta/spare"]),
];

/// Models whose catalogue entry says that they have no tools.
const WITHOUT_TOOLS: [&str; 3] = ["acme/plain", "acme/m", "gamma/m"];

/// The cost of 10 input and 5 output tokens, in femto-USD.
fn cost(model: &str) -> i128 {
    let (input, output) = match model {
        "acme/fast" => (150, 600),
        "beta/fast" => (300, 1_200),
        "acme/plain" => (1_000, 2_000),
        "beta/spare" => (3_000, 15_000),
        "acme/m" => (2_000, 4_000),
        "beta/m" => (9_000, 20_000),
        "gamma/m" => (500, 1_000),
        _ => (0, 0),
    };
    (10 * input + 5 * output) * 1_000_000
}

/// Marsaglia's xorshift.
#[derive(Clone)]
struct Dice(Arc<Mutex<u64>>);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    /// 0 or more, below `most`.
    fn below(&self, most: usize) -> usize {
        let mut state = self.0.lock().expect("no panic while locked");
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        usize::try_from(*state >> 33).expect("31 bits") % most
    }

    fn percent(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The behaviour of an upstream.
    fn answer(&self, request: &Recorded) -> Answer {
        match self.below(100) {
            0..25 => Answer::error(500, "x", "down"),
            25..32 => Answer::json_with(429, &[("retry-after", "1")], &json!({})),
            32..37 => Answer::error(503, "x", "busy"),
            37..42 => Answer::default().reset(),
            42..47 => Answer::full(200, &[], "<html>"),
            47..52 => Answer::default().close(),
            52..72 => default_answer(request).after(Step::Pause(Duration::from_millis(60))),
            _ => default_answer(request),
        }
    }
}

/// A request and its possible outcomes.
struct Case {
    body: Value,
    limited: bool,
    upgrade: bool,
    /// The models that the client named, and those of them that can serve the request.
    named: BTreeSet<&'static str>,
    able: BTreeSet<&'static str>,
    /// The models of the requested name only.
    requested: BTreeSet<&'static str>,
}

fn case(dice: &Dice) -> Case {
    let (name, requested) = dice.one(&NAMES);
    let fallback: Vec<_> = (0..dice.below(4)).map(|_| dice.one(&NAMES)).collect();
    let strategies =
        ["default", "cheapest", "fastest", "throughput", "best_quality", "balanced", "round_robin"];
    let (tools, limited, upgrade) = (dice.percent(30), dice.percent(10), dice.percent(30));
    let routing = json!({
        "strategy": dice.one(&strategies),
        "fallback": fallback.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "allow_upgrade": upgrade,
    });
    let mut body = with(chat(name), json!({ "routing": routing, "stream": dice.percent(60) }));
    if tools {
        body["tools"] = json!([{ "type": "function", "function": { "name": "f" } }]);
    }
    let requested: BTreeSet<_> = requested.iter().copied().collect();
    let more = fallback.iter().flat_map(|(_, models)| models.iter().copied());
    let named: BTreeSet<_> = requested.iter().copied().chain(more).collect();
    let may = |model: &str| !limited || model == "acme/plain";
    let can = |model: &str| !tools || !WITHOUT_TOOLS.contains(&model);
    let able = named.iter().copied().filter(|model| may(model) && can(model)).collect();
    Case { body, limited, upgrade, named, able, requested }
}

/// Sends the request; gives its id.
async fn ask(world: &World, case: &Case) -> String {
    let client = if case.limited { world.client.with_key(LIMITED) } else { world.client.clone() };
    let path = "/v1/chat/completions";
    let head = match client.try_stream(path, &case.body).await {
        Ok(mut stream) => {
            stream.rest().await;
            stream.head.header("x-request-id").map(str::to_owned)
        }
        Err(answer) => {
            check_answer(case, &answer);
            answer.header("x-request-id").map(str::to_owned)
        }
    };
    head.expect("every answer has an id")
}

fn check_answer(case: &Case, answer: &Response) {
    if answer.status != 200 {
        return;
    }
    let body = answer.json();
    let model = body["gateway"]["model_used"].as_str().expect("a model");
    let is_upgrade = !case.named.contains(model);
    let said = body["gateway"]["warnings"].to_string().contains("upgraded_for_");
    assert_eq!(is_upgrade, said, "an upgrade is reported: {body}");
    let is_fallback = body["gateway"]["fallback_used"] == true;
    assert_eq!(is_fallback, !case.requested.contains(model), "{body}");
}

fn check_row(case: &Case, row: &Entry) {
    let told = format!("{} -> {row:?}", case.body);
    let tried = row_attempts(row);
    assert!(tried.len() <= MAX_ATTEMPTS, "{told}");
    let models: BTreeSet<&str> = tried.iter().map(|(model, _)| model.as_str()).collect();
    for model in &models {
        let is_named = case.able.contains(model);
        let is_upgrade = case.upgrade && !case.named.contains(model) && !case.limited;
        assert!(is_named || is_upgrade, "{model} was not to be asked: {told}");
    }
    // Each target is called once; only a single target may be tried again.
    assert!(models.len() == tried.len() || (models.len() == 1 && tried.len() == 2), "{told}");
    let served: Vec<_> = tried.iter().filter(|(_, status)| status == "ok").collect();
    assert_eq!(served.len(), usize::from(row.status == "ok"), "{told}");
    let Some((model, _)) = served.first() else { return };
    // Only a hedge begins after the attempt that served.
    assert!(tried.iter().rev().take(2).any(|(_, status)| status == "ok"), "{told}");
    assert_eq!((&**model, row.fallback), (&*row.model, !case.requested.contains(model.as_str())), "{told}");
    if model.starts_with("demo/") {
        return;
    }
    // The cost is that of the serving model, plus the prompts that failed targets may have read.
    let is_served = |status: &str| status == "ok";
    let (served, others): (Vec<_>, Vec<_>) =
        row.attempts.iter().partition(|attempt| is_served(&attempt.status));
    let is_priced = model != "acme/unpriced";
    assert_eq!(served[0].cost, is_priced.then(|| cost(model)), "{told}");
    assert_eq!(
        row.cost,
        cost(model) + others.iter().filter_map(|attempt| attempt.cost).sum::<i128>(),
        "{told}"
    );
    for other in others {
        let may_be_billed =
            ["cancelled", "upstream_timeout", "upstream_unreachable", "upstream_invalid_response"];
        assert!(other.cost.is_none_or(|cost| cost == 0) || may_be_billed.contains(&&*other.status), "{told}");
    }
    let dearest = case.requested.iter().map(|model| cost(model)).max().unwrap_or_default();
    if cost(model) > dearest {
        assert!(case.upgrade || case.named.contains(model.as_str()), "dearer without a word: {told}");
    }
}

#[tokio::test]
async fn a_route_asks_only_who_may_serve_each_once_and_never_dearer_unasked() {
    let routing =
        "max_attempts = 4\n[routing.breaker]\ncooldown_ms = 100\nramp_ms = 100\n[routing.hedge]\nafter = 25";
    let world = Setup { routing, extra: THREE.to_owned(), ..Setup::default() }.start().await;
    let (dice, faults) = (Dice::new(0x5eed_2026), Dice::new(0xfa17_0005));
    for upstream in [&world.upstream, &world.second] {
        let faults = faults.clone();
        upstream.respond_with(move |request| faults.answer(request));
    }
    let mut cases = BTreeMap::new();
    for _ in 0..REQUESTS {
        let case = case(&dice);
        cases.insert(ask(&world, &case).await, case);
    }
    let found = rows(&world.gateway, REQUESTS).await;
    assert_eq!(found.len(), REQUESTS, "one row a request");
    let (mut calls, mut given_up, mut served, mut several) = (0, 0, 0, 0);
    for row in &found {
        check_row(&cases[&*row.request_id], row);
        let tried = row_attempts(row);
        calls += tried.iter().filter(|(model, _)| !model.starts_with("demo/")).count();
        given_up += tried.iter().filter(|(_, status)| status == "cancelled").count();
        served += usize::from(row.status == "ok");
        several += usize::from(tried.len() > 1);
    }
    // Every call is listed, and every listed call was made, unless it was cancelled before.
    let hits = world.upstream.hits() + world.second.hits();
    assert!(hits <= calls && hits + given_up >= calls, "{hits} of {calls}, {given_up} given up");
    assert!(served > REQUESTS / 3 && several > REQUESTS / 5, "chance made too little: {served}, {several}");
}
