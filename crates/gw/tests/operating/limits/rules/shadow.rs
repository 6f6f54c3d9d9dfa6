//! Rules in shadow mode: they serve, warn and count what they would have refused.

use serde_json::{Value, json};

use super::{CHAT, ask, message, trusted, world};
use crate::harness::{ADMIN, World};

async fn rule(world: &World, place: usize) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    admin.get("/admin/v1/budgets").await.ok().json()["data"][place].clone()
}

#[tokio::test]
async fn a_shadow_rule_serves_warns_and_counts() {
    let rules = "[[budgets]]\nname = \"quiet\"\nmode = \"shadow\"\nrpm = 1\n\
        [[budgets]]\nname = \"money\"\nmode = \"shadow\"\nbudget_usd = 0.00003\n";
    let world = world(rules).await;
    let client = trusted(&world);
    let first = client.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(first["gateway"]["warnings"], json!([]));
    for _ in 0..2 {
        let answer = client.post_json(CHAT, &ask()).await.ok();
        assert_eq!(answer.header("x-gateway-rule"), None);
        let warnings = json!(["budget_shadow:quiet", "budget_shadow:money"]);
        assert_eq!(answer.json()["gateway"]["warnings"], warnings);
    }
    client.post_json("/v1/messages", &message()).await.ok();
    assert_eq!(world.upstream.hits(), 4);
    let quiet = rule(&world, 0).await;
    assert_eq!((&quiet["mode"], &quiet["counters"][0]["would_refuse"]), (&json!("shadow"), &json!(3)));
    let money = rule(&world, 1).await;
    let counter = &money["counters"][0];
    assert_eq!((&counter["would_refuse"], &counter["spent_usd"]), (&json!(3), &json!(0.00008)));
    assert_eq!((&counter["reserved_usd"], &counter["fits"]), (&json!(0), &json!(false)));
}

#[tokio::test]
async fn a_shadow_rule_refuses_nothing_in_a_dry_run_and_binds_only_alone() {
    let rules = "[[budgets]]\nname = \"quiet\"\nmode = \"shadow\"\nbudget_usd = 0\n\
        [[budgets]]\nname = \"roomy\"\nrpm = 100\n";
    let world = world(rules).await;
    let client = trusted(&world).with_header("x-gateway-dry-run", "true");
    let dry = client.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(dry["would"], "serve");
    let binding: Vec<_> =
        dry["rules"].as_array().expect("a list").iter().map(|rule| &rule["binds"]).collect();
    assert_eq!(binding, [&json!(false), &json!(true)]);
    assert_eq!((&dry["rules"][0]["mode"], &dry["rules"][0]["fits"]), (&json!("shadow"), &json!(false)));
}

#[tokio::test]
async fn a_shadow_rule_of_a_target_counts_for_it() {
    let rules =
        "[[budgets]]\nname = \"plain\"\nmode = \"shadow\"\nmatch = { model = \"acme/plain\" }\nrpm = 1\n";
    let world = world(rules).await;
    let client = trusted(&world);
    client.post_json(CHAT, &ask()).await.ok();
    let second = client.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(second["gateway"]["warnings"], json!(["budget_shadow:plain"]));
    client.post_json(CHAT, &crate::harness::chat("beta/fast")).await.ok();
    assert_eq!(rule(&world, 0).await["counters"][0]["would_refuse"], 1);
}

#[tokio::test]
async fn a_shadow_rule_warns_of_a_model_without_a_price() {
    let refusing = "mode = \"shadow\"\nbudget_usd = 1\nunpriced = \"refuse\"\n";
    for matched in ["key = \"trusted\"", "model = \"acme/*\""] {
        let world =
            world(&format!("[[budgets]]\nname = \"exact\"\nmatch = {{ {matched} }}\n{refusing}")).await;
        let client = trusted(&world);
        let answer = client.post_json(CHAT, &crate::harness::chat("acme/unpriced")).await.ok().json();
        let warnings = answer["gateway"]["warnings"].as_array().expect("a list");
        assert!(warnings.contains(&json!("budget_shadow:exact")), "{matched}: {warnings:?}");
        let priced = client.post_json(CHAT, &ask()).await.ok().json();
        assert_eq!(priced["gateway"]["warnings"], json!([]), "{matched}");
        assert_eq!(rule(&world, 0).await["counters"][0]["would_refuse"], 1, "{matched}");
    }
}
