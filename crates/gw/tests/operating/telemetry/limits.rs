//! The metrics of the limits and budgets that are left: labels come from the configuration and the teams, never from stored keys.

use gw_testkit::wait::within;
use serde_json::json;

use crate::harness::management::ask;
use crate::harness::{ADMIN, Setup, World, chat};

/// The value of a metric with these labels.
async fn value(world: &World, series: &str) -> Option<f64> {
    let text = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|number| number.parse().expect("a number"))
}

async fn until(world: &World, series: &str, holds: impl Fn(f64) -> bool) {
    within(series, async { while !value(world, series).await.is_some_and(&holds) {} }).await;
}

#[tokio::test]
async fn what_keys_and_teams_have_left_is_shown_without_stored_keys() {
    let extra =
        "[[keys]]\nname = \"payer\"\nkey = \"sk-payer\"\nbudget_usd = 1\ntpm = 5000\nmax_in_flight = 3\n";
    let world = Setup { extra: extra.to_owned(), ..Setup::default() }.start().await;
    until(&world, "gateway_budget_left_usd{kind=\"key\",name=\"payer\"}", |left| left == 1.0).await;
    let admin = world.client.with_key(ADMIN);
    let team = ask(&admin, "PUT", "/admin/v1/teams/blue", &json!({ "rpm": 5 })).await;
    assert_eq!(team.status, 201, "{}", team.text());
    let made = admin
        .post_json("/admin/v1/keys", &json!({ "name": "stored-canary", "rpm": 7, "team": "blue" }))
        .await;
    assert_eq!(made.status, 201, "{}", made.text());
    world.client.with_key("sk-payer").post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    until(&world, "gateway_budget_left_usd{kind=\"key\",name=\"payer\"}", |left| left > 0.99 && left < 1.0)
        .await;
    let limit = |kind: &str, name: &str, limit: &str| {
        format!("gateway_limit_left{{kind=\"{kind}\",name=\"{name}\",limit=\"{limit}\"}}")
    };
    until(&world, &limit("key", "payer", "tpm"), |left| (4_900.0..=5_000.0).contains(&left)).await;
    until(&world, &limit("key", "payer", "max_in_flight"), |left| left == 3.0).await;
    until(&world, &limit("key", "metered", "rpm"), |left| left == 2.0).await;
    until(&world, &limit("team", "blue", "rpm"), |left| left == 5.0).await;
    let text = admin.get("/metrics").await.ok().text();
    assert!(!text.contains("stored-canary"), "a stored key is no label");
    assert!(!text.contains("name=\"boss\""), "a key without limits has no figures");
}
