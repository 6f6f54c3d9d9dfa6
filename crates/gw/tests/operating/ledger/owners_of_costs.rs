//! A cost belongs to the model and the provider of its own call, and the sum stays the sum.

use gw_testkit::Answer;
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, chat, chat_with, with};

/// The groups of a report: the group, its requests, its cost, and its requests with an unknown price.
async fn report(world: &World, query: &str) -> (Vec<(Value, u64, f64, u64)>, (u64, f64, u64)) {
    let admin = world.gateway.client().with_key(ADMIN);
    let by = query.split('&').next().expect("a group").to_owned();
    let body = admin.get(&format!("/admin/v1/usage?by={query}")).await.ok().json();
    let sums = |row: &Value| {
        let count = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
        (count("requests"), row["cost_usd"].as_f64().expect("a cost"), count("unpriced_requests"))
    };
    let rows = body["data"].as_array().expect("rows").iter().map(|row| {
        let (requests, cost, unpriced) = sums(row);
        (row[&by].clone(), requests, cost, unpriced)
    });
    (rows.collect(), sums(&body["total"]))
}

#[tokio::test]
async fn the_cost_of_a_failed_call_stands_with_its_own_model_and_provider() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    // The first call answers what nobody can read, so its provider may charge for the prompt. The second one serves.
    world.upstream.enqueue(Answer::full(200, &[("content-type", "application/json")], "{"));
    let body = chat_with("acme/plain", json!({ "routing": { "fallback": ["beta/spare"] } }));
    let answer = world.chat(&body).await.ok().json();
    let attempts = answer["gateway"]["attempts"].as_array().expect("attempts");
    let [failed, served] = [0, 1].map(|place| attempts[place]["cost_usd"].as_f64().expect("a cost"));
    assert!(failed > 0.0 && served > 0.0, "{attempts:?}");
    rows(&world.gateway, 1).await;
    for (query, own) in [("model", ["acme/plain", "beta/spare"]), ("provider", ["acme", "beta"])] {
        let (mut groups, total) = report(&world, query).await;
        groups.sort_by_key(|group| group.0.to_string());
        let expected = vec![(json!(own[0]), 0, failed, 0), (json!(own[1]), 1, served, 0)];
        assert_eq!(groups, expected, "by {query}");
        assert_eq!((total.0, total.2), (1, 0));
        assert!((total.1 - failed - served).abs() < 1e-15, "{total:?}");
    }
    // One filter, one owner; and the sums by session have the same owners.
    for query in ["surface&provider=acme", "day&model=acme/plain"] {
        let (_, total) = report(&world, query).await;
        assert_eq!(total, (0, failed, 0), "{query}");
    }
}

#[tokio::test]
async fn the_known_part_of_a_failed_calls_cost_stands_with_its_own_model_and_provider() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let broken = || Answer::full(200, &[("content-type", "application/json")], "{");
    // The catalogue has no price for such a part, and has one for the tokens.
    let part = json!({ "type": "next_month", "text": "some words" });
    let fallback = json!({ "routing": { "fallback": ["beta/spare"] } });
    let body = chat_with("acme/plain", json!({ "messages": [{ "role": "user", "content": [part] }] }));
    world.upstream.enqueue(broken());
    assert_eq!(world.chat(&body).await.status, 502);
    let alone = rows(&world.gateway, 1).await.remove(0);
    world.upstream.enqueue(broken());
    world.chat(&with(body, fallback)).await.ok();
    let both = rows(&world.gateway, 2).await.into_iter().max_by_key(|row| row.at).expect("a row");
    assert!(
        alone.unpriced && both.unpriced && both.cost > alone.cost && alone.cost > 0,
        "{alone:?} {both:?}"
    );
    let usd = |femtos: i128| femtos as f64 / 1e15;
    for (query, own) in [("model", ["acme/plain", "beta/spare"]), ("provider", ["acme", "beta"])] {
        let (mut groups, total) = report(&world, query).await;
        groups.sort_by_key(|group| group.0.to_string());
        let costs: Vec<_> = groups.iter().map(|(name, _, cost, _)| (name.clone(), *cost)).collect();
        let expected = [(json!(own[0]), usd(2 * alone.cost)), (json!(own[1]), usd(both.cost - alone.cost))];
        assert_eq!(costs, expected, "by {query}");
        assert_eq!((total.0, total.2), (2, 2));
    }
}

#[tokio::test]
async fn the_metric_of_costs_adds_no_float_errors() {
    let world = Setup::default().start().await;
    for _ in 0..30 {
        world.chat(&chat("acme/fast")).await.ok();
    }
    let admin = world.gateway.client().with_key(ADMIN);
    let page = admin.get("/metrics").await.ok().text();
    let line =
        page.lines().find(|line| line.starts_with("gateway_cost_usd_total{") && line.contains("acme/fast"));
    // Thirty times 0.0000045 by floats is 0.00013499999999999997.
    assert_eq!(line.and_then(|line| line.rsplit(' ').next()), Some("0.000135"), "{page}");
}
