//! Rules of models and providers: they belong to targets, and count for the target that really served.

use gw_testkit::Answer;
use serde_json::{Value, json};

use super::{CHAT, ask, assert_refused, message, response, trusted, world};
use crate::harness::{ADMIN, World, chat, logged, with};

/// A chat at `acme/plain`, with `beta/fast` as its fallback. There 10 prompt and 5 completion tokens cost 0.000009 USD.
fn with_fallback() -> Value {
    with(ask(), json!({"routing": {"fallback": ["beta/fast"]}}))
}

async fn counters(world: &World, rule: usize) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    admin.get("/admin/v1/budgets").await.ok().json()["data"][rule]["counters"].clone()
}

#[tokio::test]
async fn a_target_without_room_is_left_out_and_the_request_refused_if_none_has_room() {
    let rules = "[[budgets]]\nname = \"plain\"\nmatch = { model = \"acme/p*\" }\nbudget_usd = 0.00003\n\
        [[budgets]]\nname = \"beta\"\nmatch = { provider = \"beta\" }\nrpm = 1\n";
    let world = world(rules).await;
    let client = trusted(&world);
    let first = client.post_json(CHAT, &with_fallback()).await.ok();
    assert_eq!(first.header("x-gateway-budget-left-usd"), Some("0.00001"));
    assert_eq!(first.json()["gateway"]["model_used"], "acme/plain");
    let second = client.post_json(CHAT, &with_fallback()).await.ok().json();
    assert_eq!(second["gateway"]["model_used"], "beta/fast");
    let attempts = second["gateway"]["attempts"].as_array().expect("a list");
    assert_eq!(attempts.len(), 1, "a target that is left out is no attempt");
    let refused = client.post_json(CHAT, &with_fallback()).await;
    assert_refused("none has room", &refused, "insufficient_quota", "plain");
    assert!(refused.header("x-gateway-rule-resets-at").is_some());
    let refused = client.post_json(CHAT, &chat("beta/fast")).await;
    assert_refused("beta", &refused, "rate_limit_exceeded", "beta");
    assert_eq!((world.upstream.hits(), world.second.hits()), (1, 1));
    let spent = counters(&world, 0).await;
    assert_eq!((&spent[0]["spent_usd"], &spent[0]["reserved_usd"]), (&json!(0.00002), &json!(0)));
    // Other models of the provider have no rule.
    client.post_json(CHAT, &chat("acme/fast")).await.ok();
}

#[tokio::test]
async fn a_fallback_counts_where_it_was_served_and_nowhere_else() {
    let rules = "[[budgets]]\nname = \"models\"\nsplit_by = \"model\"\nbudget_usd = 1\nrpm = 10\nin_flight = 5\n\
        [[budgets]]\nname = \"providers\"\nsplit_by = [\"provider\", \"end_user\"]\nbudget_usd = 1\ntpm = 1000000\n";
    let world = world(rules).await;
    world.upstream.always(Answer::error(500, "server_error", "broken"));
    let client = trusted(&world).with_header("x-gateway-user", "ann");
    let asks = [
        (CHAT, with_fallback()),
        (CHAT, with(with_fallback(), json!({"stream": true}))),
        ("/v1/messages", with(message(), json!({"routing": {"fallback": ["beta/fast"]}}))),
        ("/v1/responses", with(response(), json!({"routing": {"fallback": ["beta/fast"]}}))),
    ];
    let mut served = 0;
    let admin = world.gateway.client().with_key(ADMIN);
    for (path, body) in &asks {
        let answer = client.post_json(path, body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        served += 1;
        logged(&admin, answer.header("x-request-id").expect("an id")).await;
        let models = counters(&world, 0).await;
        let of = |name: &str| {
            let all = models.as_array().expect("a list");
            all.iter().find(|counter| counter["split"]["model"] == name).cloned().expect("a counter")
        };
        let (plain, fast) = (of("acme/plain"), of("beta/fast"));
        for counter in [&plain, &fast] {
            assert_eq!(
                (&counter["reserved_usd"], &counter["in_flight_left"]),
                (&json!(0), &json!(5)),
                "{path}"
            );
        }
        assert_eq!((&plain["spent_usd"], &plain["requests_left"]), (&json!(0), &json!(10)), "{path}");
        assert_eq!(fast["requests_left"], json!(10 - served), "{path}");
    }
    let models = counters(&world, 0).await;
    let providers = counters(&world, 1).await;
    let of = |counters: &Value, by: &str, name: &str| {
        let all = counters.as_array().expect("a list");
        all.iter().find(|counter| counter["split"][by] == name).cloned().expect("a counter")
    };
    let spent = of(&models, "model", "beta/fast")["spent_usd"].clone();
    assert_eq!(of(&providers, "provider", "beta")["spent_usd"], spent);
    assert_eq!(of(&providers, "provider", "beta")["split"]["end_user"], "ann");
    let me = client.get("/v1/me").await.ok().json();
    let shown: Vec<_> = me["rules"].as_array().expect("a list").iter().map(|rule| &rule["split"]).collect();
    assert!(shown.contains(&&json!({"model": "beta/fast"})), "{me}");
    let usage = admin.get("/admin/v1/usage?by=model").await.ok().json();
    let row = usage["data"].as_array().expect("rows").iter().find(|row| row["model"] == "beta/fast");
    assert_eq!(row.expect("a row")["cost_usd"], spent, "{usage}");
}

#[tokio::test]
async fn every_surface_is_refused_and_served_by_rules_of_targets() {
    let rules = "[[budgets]]\nname = \"acme\"\nmatch = { provider = \"acme\" }\nbudget_usd = 0\n";
    let world = world(rules).await;
    let client = trusted(&world);
    let requests = [
        (CHAT, ask()),
        (CHAT, with(ask(), json!({"stream": true}))),
        ("/v1/messages", message()),
        ("/v1/responses", response()),
        ("/v1/responses", with(response(), json!({"background": true}))),
        ("/v1/responses/compact", response()),
        ("/v1/completions", json!({"model": "acme/plain", "prompt": "Hello", "max_tokens": 20})),
        ("/v1/embeddings", json!({"model": "acme/embed", "input": "Hello"})),
        ("/v1/rerank", json!({"model": "acme/rerank", "query": "q", "documents": ["a", "b"]})),
        ("/v1/score", json!({"model": "acme/rerank", "text_1": "q", "text_2": ["a", "b"]})),
        ("/v1/moderations", json!({"model": "acme/moderation", "input": "Hello"})),
        ("/v1/images/generations", json!({"model": "acme/paint", "prompt": "a cat"})),
        ("/v1/audio/speech", json!({"model": "acme/speak", "input": "Hello", "voice": "alloy"})),
        (
            "/v1beta/models/acme/plain:generateContent",
            json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}),
        ),
    ];
    for (path, request) in requests {
        let refused = client.post_json(path, &request).await;
        let named = refused.header("x-gateway-rule");
        assert_eq!((refused.status, named), (429, Some("acme")), "{path}: {}", refused.text());
    }
    assert_eq!(world.upstream.hits(), 0);
    client.post_json(CHAT, &chat("beta/fast")).await.ok();
}

#[tokio::test]
async fn a_pass_through_route_counts_for_its_target() {
    let rules = "[[passthrough]]\npath = \"/raw\"\nprovider = \"acme\"\nusage = \"none\"\ncost_per_request = 0.5\n\
        [[budgets]]\nname = \"acme\"\nmatch = { provider = \"acme\" }\nbudget_usd = 0.6\n";
    let world = world(rules).await;
    let client = trusted(&world);
    client.post_json("/raw/chat/completions", &json!({"model": "x", "messages": []})).await.ok();
    let refused = client.post_json("/raw/chat/completions", &json!({"model": "x", "messages": []})).await;
    assert_eq!((refused.status, refused.header("x-gateway-rule")), (429, Some("acme")), "{}", refused.text());
    assert_eq!(counters(&world, 0).await[0]["spent_usd"], json!(0.5));
}

#[tokio::test]
async fn a_refusal_of_another_rule_gives_the_target_back() {
    let rules = "[[budgets]]\nname = \"plain\"\nmatch = { model = \"acme/plain\" }\nrpm = 2\nbudget_usd = 1\n\
        [[budgets]]\nname = \"all\"\nmatch = { key = \"trusted\" }\nrpm = 1\n";
    let world = world(rules).await;
    trusted(&world).post_json(CHAT, &ask()).await.ok();
    for _ in 0..3 {
        let refused = trusted(&world).post_json(CHAT, &ask()).await;
        assert_refused("all", &refused, "rate_limit_exceeded", "all");
    }
    let counter = &counters(&world, 0).await[0];
    assert_eq!((&counter["requests_left"], &counter["reserved_usd"]), (&json!(1), &json!(0)));
    world.gateway.client().with_key("sk-other").post_json(CHAT, &ask()).await.ok();
}

#[tokio::test]
async fn dry_runs_and_explanations_show_the_rules_of_targets() {
    let rules = "[[budgets]]\nname = \"plain\"\nmatch = { model = \"acme/plain\" }\nbudget_usd = 0\n\
        [[budgets]]\nname = \"beta\"\nmatch = { provider = \"beta\" }\nrpm = 5\n";
    let world = world(rules).await;
    let dry = trusted(&world).with_header("x-gateway-dry-run", "true");
    let served = dry.post_json(CHAT, &with_fallback()).await.ok().json();
    assert_eq!((&served["would"], &served["candidates"][0]["model"]), (&json!("serve"), &json!("beta/fast")));
    let refused = dry.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(refused["would"], "refuse");
    assert!(refused["error"]["message"].as_str().expect("a message").contains("rule 'plain'"));
    assert_eq!(
        (&refused["rules"][0]["name"], &refused["rules"][0]["binds"]),
        (&json!("plain"), &json!(true))
    );
    let admin = world.gateway.client().with_key(ADMIN);
    let explained = admin.post_json("/admin/v1/routing/explain", &with_fallback()).await.ok().json();
    let names: Vec<_> =
        explained["rules"].as_array().expect("a list").iter().map(|rule| &rule["name"]).collect();
    assert_eq!(names, [&json!("plain"), &json!("beta")]);
    assert_eq!(explained["rules"][0]["binds"], true);
}
