//! Requests that several limits have no room for, or that are tried more than once: what is named, told, noted and shown.

use gw_testkit::{Answer, FakeUpstream, eventually};
use serde_json::{Value, json};

use super::{CHAT, ask, assert_refused, trusted};
use crate::harness::{ADMIN, Setup, World, assert_error, chat, logged, with};

async fn world(rules: &str) -> World {
    let keys = "[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n\
        [[keys]]\nname = \"cutter\"\nkey = \"sk-cutter\"\nbudget_usd = 1\non_budget = \"cut\"\n\
        [[keys]]\nname = \"narrow\"\nkey = \"sk-narrow\"\nbudget_usd = 0.0001\n\
        [[keys]]\nname = \"empty\"\nkey = \"sk-empty\"\nbudget_usd = 0.00001\n\
        [[keys]]\nname = \"bare\"\nkey = \"sk-bare\"\nbudget_usd = 0.00001\n";
    let aliases =
        "\"cheap\" = \"beta/fast\"\n\"dear\" = \"beta/spare\"\n\"both\" = [\"acme/fast\", \"beta/spare\"]";
    let extra = format!("{keys}{rules}");
    Setup { aliases, extra, routing: "strategy = \"cheapest\"", ..Setup::default() }.start().await
}

async fn dry_run(world: &World, key: &str, body: &Value) -> Value {
    let client = world.gateway.client().with_key(key).with_header("x-gateway-dry-run", "true");
    client.post_json(CHAT, body).await.ok().json()
}

async fn counter(world: &World, rule: usize) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    admin.get("/admin/v1/budgets").await.ok().json()["data"][rule]["counters"][0].clone()
}

#[tokio::test]
async fn the_first_rule_of_the_file_is_named_and_its_alias_serves() {
    let rules = "[[budgets]]\nname = \"whole\"\nmatch = { key = \"trusted\" }\nrpm = 1\non_limit = \"fallback:cheap\"\n\
        [[budgets]]\nname = \"plain\"\nmatch = { model = \"acme/plain\" }\nrpm = 1\n";
    let world = world(rules).await;
    trusted(&world).post_json(CHAT, &ask()).await.ok();
    let dry = dry_run(&world, "sk-trusted", &ask()).await;
    assert_eq!((&dry["would"], &dry["warnings"]), (&json!("serve"), &json!(["budget_fallback:whole"])));
    let answer = trusted(&world).post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], "beta/fast");
    assert_eq!(answer["gateway"]["warnings"], json!(["budget_fallback:whole"]));
}

#[tokio::test]
async fn of_rules_of_requests_and_of_targets_the_first_is_named() {
    let whole = "[[budgets]]\nname = \"whole\"\nmatch = { key = \"trusted\" }\nrpm = 1\n";
    let money = "[[budgets]]\nname = \"money\"\nmatch = { key = \"trusted\" }\nbudget_usd = 0.00003\n";
    let plain = "[[budgets]]\nname = \"plain\"\nmatch = { model = \"acme/plain\" }\nrpm = 1\n";
    let cases = [
        (format!("{whole}{plain}"), "rate_limit_exceeded", "whole"),
        (format!("{plain}{whole}"), "rate_limit_exceeded", "plain"),
        (format!("{money}{plain}"), "insufficient_quota", "money"),
        (format!("{plain}{money}"), "rate_limit_exceeded", "plain"),
    ];
    for (rules, code, named) in cases {
        let world = world(&rules).await;
        trusted(&world).post_json(CHAT, &ask()).await.ok();
        for _ in 0..2 {
            let dry = dry_run(&world, "sk-trusted", &ask()).await;
            assert_eq!(dry["error"]["code"], code, "{dry}");
            let message = dry["error"]["message"].as_str().expect("a message");
            assert!(message.contains(&format!("rule '{named}'")), "{message}");
            let refused = trusted(&world).post_json(CHAT, &ask()).await;
            assert_refused(&rules, &refused, code, named);
        }
        for rule in [0, 1] {
            let state = counter(&world, rule).await;
            assert!([json!(0), Value::Null].contains(&state["reserved_usd"]), "{state}");
        }
        assert_eq!(world.upstream.hits(), 1);
    }
}

#[tokio::test]
async fn operators_are_not_told_of_a_budget_whose_request_is_served_in_the_end() {
    let receiver = FakeUpstream::start().await;
    receiver.respond_with(|_| Answer::full(204, &[], ""));
    let rules = format!(
        "[[budgets]]\nname = \"taper\"\nmatch = {{ key = \"narrow\" }}\nbudget_usd = 1\nthresholds = [{{ at = 0.00001, use = \"dear\" }}]\n\
        [[alerts]]\nname = \"ops\"\non = [\"budget:1\"]\nurl = \"http://{}/\"\nsecret = \"{}\"\n",
        receiver.addr,
        crate::alerts::SECRET
    );
    let world = world(&rules).await;
    let narrow = world.gateway.client().with_key("sk-narrow");
    narrow.post_json(CHAT, &ask()).await.ok();
    // The alias of the threshold costs more than the key has left.
    let answer = narrow.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(
        (&answer["gateway"]["model_used"], &answer["gateway"]["warnings"]),
        (&json!("acme/plain"), &json!([]))
    );
    // Events are told in their order, and these two come later.
    for (count, key) in [(1, "sk-empty"), (2, "sk-bare")] {
        let refused = world.gateway.client().with_key(key).post_json(CHAT, &ask()).await;
        assert_error(key, &refused, 429, "insufficient_quota", "insufficient_quota");
        eventually("an alert", || (receiver.hits() >= count).then_some(())).await;
    }
    let named = |message: &Value| message["data"]["name"].as_str().map(str::to_owned);
    let names: Vec<_> = receiver.requests().iter().filter_map(|request| named(&request.json())).collect();
    assert_eq!(names, ["empty", "bare"]);
}

#[tokio::test]
async fn a_shadow_rule_does_not_count_a_target_that_does_not_serve() {
    let rules = "[[budgets]]\nname = \"quiet\"\nmode = \"shadow\"\nmatch = { model = \"acme/plain\" }\nrpm = 1\n\
        [[budgets]]\nname = \"whole\"\nmatch = { key = \"trusted\" }\nrpm = 1\non_limit = \"fallback:cheap\"\n";
    let world = world(rules).await;
    trusted(&world).post_json(CHAT, &ask()).await.ok();
    for _ in 0..2 {
        let answer = trusted(&world).post_json(CHAT, &ask()).await.ok().json();
        assert_eq!(answer["gateway"]["model_used"], "beta/fast");
        assert_eq!(answer["gateway"]["warnings"], json!(["budget_fallback:whole"]));
    }
    assert_eq!(counter(&world, 0).await["would_refuse"], 0);
    // Another key has room, and its request counts.
    let answer = world.client.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["budget_shadow:quiet"]));
    assert_eq!(counter(&world, 0).await["would_refuse"], 1);
}

#[tokio::test]
async fn a_dry_run_shows_that_the_rule_of_a_fallback_has_no_room() {
    let rules = "[[budgets]]\nname = \"whole\"\nmatch = { key = \"trusted\" }\nbudget_usd = 0.00003\non_limit = \"fallback:cheap\"\n\
        [[budgets]]\nname = \"plain\"\nmatch = { key = \"cutter\", model = \"acme/plain\" }\nrpm = 1\non_limit = \"fallback:cheap\"\n";
    let world = world(rules).await;
    for (key, rule) in [("sk-trusted", "whole"), ("sk-cutter", "plain")] {
        world.gateway.client().with_key(key).post_json(CHAT, &ask()).await.ok();
        let dry = dry_run(&world, key, &ask()).await;
        assert_eq!(dry["warnings"], json!([format!("budget_fallback:{rule}")]));
        assert_eq!(dry["candidates"][0]["model"], "beta/fast");
        let state = &dry["rules"][0];
        assert_eq!(
            (&state["name"], &state["fits"], &state["binds"]),
            (&json!(rule), &json!(false), &json!(true)),
            "{dry}"
        );
    }
}

#[tokio::test]
async fn the_row_of_a_refused_request_names_the_model_that_it_asks_for() {
    let rules = "[[budgets]]\nname = \"first\"\nmatch = { key = \"trusted\" }\nrpm = 1\non_limit = \"fallback:both\"\n\
        [[budgets]]\nname = \"second\"\nmatch = { key = \"trusted\" }\nrpm = 1\n\
        [[budgets]]\nname = \"fast\"\nmatch = { model = \"acme/fast\" }\nrpm = 1\n";
    let world = world(rules).await;
    world.client.post_json(CHAT, &chat("acme/fast")).await.ok();
    trusted(&world).post_json(CHAT, &ask()).await.ok();
    let refused = trusted(&world).post_json(CHAT, &ask()).await;
    assert_refused("the alias has no room", &refused, "rate_limit_exceeded", "first");
    let admin = world.gateway.client().with_key(ADMIN);
    let row = logged(&admin, refused.header("x-request-id").expect("an id")).await;
    assert_eq!(
        (&row["requested_model"], &row["model"], &row["provider"]),
        (&json!("acme/plain"), &json!("acme/plain"), &json!("acme")),
        "{row}"
    );
    assert!(!row.to_string().contains("acme/fast"), "nothing is left of the alias: {row}");
}

#[tokio::test]
async fn rules_need_the_whole_worst_case_of_a_key_whose_answers_are_cut() {
    let rules = "[[budgets]]\nname = \"firm\"\nmatch = { key = \"cutter\" }\nbudget_usd = 0.0001\n";
    let firm = world(rules).await;
    let cutter = firm.gateway.client().with_key("sk-cutter");
    cutter.post_json(CHAT, &ask()).await.ok();
    cutter.post_json(CHAT, &with(ask(), json!({"stream": true}))).await.ok();
    let state = counter(&firm, 0).await;
    assert_eq!((&state["spent_usd"], &state["reserved_usd"]), (&json!(0.00004), &json!(0)));
    let long = with(ask(), json!({"stream": true, "max_tokens": 100}));
    let dry = dry_run(&firm, "sk-cutter", &long).await;
    assert!(dry["error"]["message"].as_str().expect("a message").contains("rule 'firm'"), "{dry}");
    let refused = cutter.post_json(CHAT, &long).await;
    assert_refused("no part of it", &refused, "insufficient_quota", "firm");
    assert_eq!(counter(&firm, 0).await["reserved_usd"], json!(0));

    let falling = world(&format!("{rules}on_limit = \"fallback:cheap\"\n")).await;
    let cutter = falling.gateway.client().with_key("sk-cutter");
    let answer = cutter.post_json(CHAT, &with(ask(), json!({"max_tokens": 100}))).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["budget_fallback:firm"]));
}

#[tokio::test]
async fn a_client_that_asks_for_the_alias_of_a_threshold_gets_no_fallback() {
    let rules =
        "[[budgets]]\nname = \"shop\"\nbudget_usd = 1\nthresholds = [{ at = 0.00001, use = \"cheap\" }]\n";
    let world = world(rules).await;
    let client = trusted(&world);
    client.post_json(CHAT, &ask()).await.ok();
    for model in ["cheap", "beta/fast"] {
        let answer = client.post_json(CHAT, &with(ask(), json!({"model": model}))).await.ok().json();
        let gateway = &answer["gateway"];
        assert_eq!((&gateway["fallback_used"], &gateway["warnings"]), (&json!(false), &json!([])), "{model}");
    }
    let answer = client.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["budget_taper:shop:0.00001"]));
}

#[tokio::test]
async fn a_rule_that_refuses_a_model_without_a_price_has_no_fallback() {
    let refusing = "budget_usd = 1\nunpriced = \"refuse\"\non_limit = \"fallback:cheap\"\n";
    for matched in ["key = \"trusted\"", "model = \"acme/*\""] {
        let world =
            world(&format!("[[budgets]]\nname = \"priced\"\nmatch = {{ {matched} }}\n{refusing}")).await;
        let dry = dry_run(&world, "sk-trusted", &chat("acme/unpriced")).await;
        assert_eq!(dry["would"], "refuse", "{matched}");
        let refused = trusted(&world).post_json(CHAT, &chat("acme/unpriced")).await;
        assert_refused(matched, &refused, "insufficient_quota", "priced");
        assert!(refused.message().contains("'acme/unpriced'"), "{}", refused.message());
        assert_eq!((world.upstream.hits(), world.second.hits()), (0, 0));
    }
}
