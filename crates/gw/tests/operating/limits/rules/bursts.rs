//! Bursts of 200 requests at each kind of rule: chats, embeddings and responses together never cross it, and use up all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use gw_store::ledger::Entry;
use gw_testkit::upstream::{Recorded, Step, default_answer};
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Response, Signal, eventually};
use gw_wire::money::Money;
use serde_json::{Value, json};

use super::{CHAT, ask, assert_refused, response};
use crate::harness::ledger::rows;
use crate::harness::management::{self, create};
use crate::harness::{ADMIN, Setup, World};

pub(super) const REQUESTS: usize = 200;
/// A `match` of each kind. All of them match the requests of [`client_of`].
const KINDS: [&str; 6] = [
    "key = \"shopper\"",
    "team = \"search\"",
    "model = [\"acme/plain\", \"acme/embed\"]",
    "provider = \"acme\"",
    "tag = \"shop:*\"",
    "end_user = \"ann\"",
];

/// A gateway with a rule of this kind and this limit, and a client whose requests it matches.
async fn world(kind: &str, limit: &str) -> (World, Client) {
    let rule = format!("[[budgets]]\nname = \"five\"\nmatch = {{ {kind} }}\n{limit}\n");
    let acme = "responses = false".to_owned();
    let world = Setup { acme, extra: rule, ..Setup::default() }.start().await;
    let client = client_of(&world, "search").await;
    (world, client)
}

/// A client with a new key `shopper` of this team, whose requests are for the end user `ann` and have the tag `shop:red`.
async fn client_of(world: &World, team: &str) -> Client {
    let admin = world.gateway.client().with_key(ADMIN);
    let made = management::ask(&admin, "PUT", &format!("/admin/v1/teams/{team}"), &json!({})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let name = if team == "search" { "shopper" } else { "stranger" };
    let (secret, _) = create(&admin, json!({ "name": name, "team": team, "trust_attribution": true })).await;
    named(&world.gateway.client().with_key(&secret))
}

pub(super) fn named(client: &Client) -> Client {
    client.with_header("x-gateway-user", "ann").with_header("x-gateway-tags", "shop:red")
}

/// The upstream counts 8 tokens, and the input is estimated at more.
fn embeddings() -> Value {
    json!({ "model": "acme/embed", "input": "Hello, hello, hello, hello, hello, hello, hello, hello, hello, hello, hello!" })
}

/// The request of this number: a chat, embeddings or a response.
pub(super) async fn post(client: &Client, number: usize) -> Response {
    match number % 3 {
        0 => client.post_json(CHAT, &ask()).await,
        1 => client.post_json("/v1/embeddings", &embeddings()).await,
        _ => client.post_json("/v1/responses", &response()).await,
    }
}

async fn burst(client: &Client) -> Vec<Response> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..REQUESTS {
        let client = client.clone();
        tasks.spawn(async move { post(&client, number).await });
    }
    tasks.join_all().await
}

/// The number of requests that were served. All others were refused by the rule.
pub(super) fn served(what: &str, answers: &[Response], code: &str) -> usize {
    let (served, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    for answer in &refused {
        // An error of the Responses API has one member more than others.
        let found = (answer.status, answer.code(), answer.header("x-gateway-rule"));
        assert_eq!(found, (429, code.to_owned(), Some("five")), "{what}: {}", answer.text());
        assert!(answer.message().contains("rule 'five'"), "{what}: {}", answer.message());
    }
    assert_eq!(served.len() + refused.len(), REQUESTS, "{what}");
    served.len()
}

/// The counter of the rule, and what it has spent as the gateway writes it.
pub(super) async fn counter(admin: &Client) -> (Value, String) {
    let answer = admin.get("/admin/v1/budgets").await.ok();
    let text = answer.text();
    let (_, spent) = text.split_once("\"spent_usd\":").expect("an amount");
    let spent = spent.split([',', '}']).next().unwrap_or_default().to_owned();
    (answer.json()["data"][0]["counters"][0].clone(), spent)
}

pub(super) fn cost_of(rows: &[Entry]) -> Money {
    rows.iter().map(|row| Money::from_femtos(row.cost)).sum()
}

#[tokio::test]
async fn money_of_every_kind_of_rule_is_never_crossed_and_all_of_it_can_be_spent() {
    // Five chats of 0.00002 USD.
    let budget = Money::parse_rounded("0.0001", 0).expect("an amount");
    for kind in KINDS {
        let (world, client) = world(kind, "budget_usd = 0.0001").await;
        let admin = world.gateway.client().with_key(ADMIN);
        let first = served(kind, &burst(&client).await, "insufficient_quota");
        assert_eq!(world.upstream.hits(), first, "{kind}: a refusal sends nothing");
        let spent = cost_of(&rows(&world.gateway, REQUESTS).await);
        assert!(first > 0 && spent <= budget, "{kind}: {first} requests for {spent} USD");
        let (state, written) = counter(&admin).await;
        assert_eq!((&state["reserved_usd"], written), (&json!(0), spent.to_string()), "{kind}");
        let mut more = 0;
        while client.post_json(CHAT, &ask()).await.status == 200 {
            more += 1;
        }
        let spent = cost_of(&rows(&world.gateway, REQUESTS + more + 1).await);
        let left = budget - spent;
        let of_a_chat = Money::parse_rounded("0.00002", 0).expect("an amount");
        assert!(left >= Money::ZERO && left < of_a_chat, "{kind}: {left} USD are left");
    }
}

#[tokio::test]
async fn requests_a_minute_of_every_kind_of_rule_are_exactly_as_many() {
    for kind in KINDS {
        let (world, client) = world(kind, "rpm = 5").await;
        let first = served(kind, &burst(&client).await, "rate_limit_exceeded");
        assert_eq!((first, world.upstream.hits()), (5, 5), "{kind}");
        let (state, _) = counter(&world.gateway.client().with_key(ADMIN)).await;
        assert_eq!(state["requests_left"], 0, "{kind}");
    }
}

#[tokio::test]
async fn tokens_a_minute_of_every_kind_of_rule_are_never_crossed() {
    for kind in KINDS {
        let (world, client) = world(kind, "tpm = 75").await;
        let began = Instant::now();
        let first = served(kind, &burst(&client).await, "rate_limit_exceeded");
        assert_eq!(world.upstream.hits(), first, "{kind}");
        let tokens: u64 = rows(&world.gateway, REQUESTS)
            .await
            .iter()
            .map(|row| row.tokens.prompt + row.tokens.completion)
            .sum();
        let (state, _) = counter(&world.gateway.client().with_key(ADMIN)).await;
        let left = state["tokens_left"].as_u64().expect("tokens");
        let room = 75 + come_back(75, began);
        assert!(first > 0 && tokens <= room, "{kind}: {tokens} tokens");
        assert!(left + tokens >= 75 && left + tokens <= room, "{kind}: {left} are left of {tokens} tokens");
    }
}

/// The tokens that a limit has given back since this time. They come back one by one.
pub(super) fn come_back(limit: u64, began: Instant) -> u64 {
    limit * began.elapsed().as_millis() as u64 / 60_000 + 1
}

/// The refusals in the access log.
pub(super) fn refusals(gateway: &Gateway, code: &str) -> usize {
    gateway.logs().iter().filter(|line| line.get("status").is_some() && line["code"] == code).count()
}

/// Holds each answer of an upstream until its signal.
pub(super) fn hold(upstream: &FakeUpstream, count: usize) -> Vec<Signal> {
    let signals: Vec<Signal> = (0..count).map(|_| Signal::new()).collect();
    let (held, next) = (signals.clone(), Arc::new(AtomicUsize::new(0)));
    upstream.respond_with(move |request: &Recorded| -> Answer {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let answer = default_answer(request);
        held.get(number).map_or(answer.clone(), |signal| answer.after(Step::Wait(signal.clone())))
    });
    signals
}

#[tokio::test]
async fn requests_in_flight_of_every_kind_of_rule_are_never_more_and_have_no_new_beginning() {
    for kind in KINDS {
        let (world, client) = world(kind, "in_flight = 5").await;
        let signals = hold(&world.upstream, 5);
        let answers = tokio::spawn({
            let client = client.clone();
            async move { burst(&client).await }
        });
        eventually("five requests wait and all others are refused", || {
            (refusals(&world.gateway, "rate_limit_exceeded") == REQUESTS - 5).then_some(())
        })
        .await;
        let admin = world.gateway.client().with_key(ADMIN);
        let (state, _) = counter(&admin).await;
        assert_eq!((&state["in_flight_left"], &state["resets_at"]), (&json!(0), &Value::Null), "{kind}");
        signals.iter().for_each(Signal::fire);
        let answers = answers.await.expect("the burst ends");
        assert_eq!((served(kind, &answers, "rate_limit_exceeded"), world.upstream.hits()), (5, 5), "{kind}");
        for refused in answers.iter().filter(|answer| answer.status == 429) {
            assert_eq!(refused.header("x-gateway-rule-resets-at"), None, "{kind}: {}", refused.message());
            assert!(refused.header("retry-after").is_some(), "{kind}");
        }
        let (state, _) = counter(&admin).await;
        assert_eq!(state["in_flight_left"], 5, "{kind}");
        post(&client, 0).await.ok();
    }
}

#[tokio::test]
async fn a_rule_of_a_team_has_the_keys_of_the_team_and_no_others() {
    let rules = "[[budgets]]\nname = \"five\"\nmatch = { team = \"search\" }\nrpm = 1\n\
        [[budgets]]\nname = \"each\"\nsplit_by = \"team\"\nbudget_usd = 0.00005\nperiod = \"total\"\n";
    let world = Setup { extra: rules.to_owned(), ..Setup::default() }.start().await;
    let (search, other) = (client_of(&world, "search").await, client_of(&world, "other").await);
    search.post_json(CHAT, &ask()).await.ok();
    let refused = search.post_json(CHAT, &ask()).await;
    assert_refused("of the team", &refused, "rate_limit_exceeded", "five");
    for _ in 0..2 {
        other.post_json(CHAT, &ask()).await.ok();
    }
    let refused = other.post_json(CHAT, &ask()).await;
    assert_refused("another team", &refused, "insufficient_quota", "each");
    world.client.post_json(CHAT, &ask()).await.ok();
    let admin = world.gateway.client().with_key(ADMIN);
    let list = admin.get("/admin/v1/budgets").await.ok().json();
    let counters = list["data"][1]["counters"].as_array().expect("counters");
    let mut of_teams: Vec<_> = counters
        .iter()
        .map(|counter| (counter["split"]["team"].to_string(), counter["spent_usd"].clone()))
        .collect();
    of_teams.sort_by_key(|(team, _)| team.clone());
    let expected = [("\"other\"", 0.00004), ("\"search\"", 0.00002), ("null", 0.00002)];
    assert_eq!(of_teams, expected.map(|(team, spent)| (team.to_owned(), json!(spent))));
    let mine = search.get("/v1/me").await.ok().json();
    assert_eq!((&mine["rules"][0]["name"], &mine["rules"][0]["requests_left"]), (&json!("five"), &json!(0)));
    let names = other.get("/v1/me").await.ok().json();
    assert_eq!(names["rules"].as_array().map(Vec::len), Some(1), "{names}");
}
