//! Aliases that serve because of a rule: when it has no room, and from a part of its budget on.

use serde_json::json;

use super::{CHAT, ask, assert_refused, message, trusted};
use crate::harness::{ADMIN, Setup, World, with};

async fn world(rules: &str) -> World {
    let keys = "[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n\
        [[keys]]\nname = \"narrow\"\nkey = \"sk-narrow\"\nmodels = [\"acme/plain\"]\n";
    let aliases = "\"cheap\" = \"beta/fast\"\n\"vectors\" = \"acme/embed\"";
    Setup { aliases, extra: format!("{keys}{rules}"), ..Setup::default() }.start().await
}

#[tokio::test]
async fn a_rule_without_room_falls_back_to_its_alias_and_does_not_count_it() {
    let rules = "[[budgets]]\nname = \"shop\"\nbudget_usd = 0.00003\non_limit = \"fallback:cheap\"\n\
        [[budgets]]\nname = \"all\"\nrpm = 4\n";
    let world = world(rules).await;
    let client = trusted(&world);
    client.post_json(CHAT, &ask()).await.ok();
    let dry = client.clone().with_header("x-gateway-dry-run", "true");
    let dry = dry.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!((&dry["would"], &dry["candidates"][0]["model"]), (&json!("serve"), &json!("beta/fast")));
    assert_eq!(dry["warnings"], json!(["budget_fallback:shop"]));
    let answer = client.post_json(CHAT, &ask()).await.ok().json();
    let gateway = &answer["gateway"];
    assert_eq!((&gateway["model_used"], &gateway["fallback_used"]), (&json!("beta/fast"), &json!(true)));
    assert_eq!(gateway["warnings"], json!(["budget_fallback:shop"]));
    client.post_json("/v1/messages", &message()).await.ok();
    client.post_json(CHAT, &with(ask(), json!({"stream": true}))).await.ok();
    let admin = world.gateway.client().with_key(ADMIN);
    let rules = admin.get("/admin/v1/budgets").await.ok().json();
    assert_eq!(rules["data"][0]["counters"][0]["spent_usd"], json!(0.00002), "the fallback does not count");
    assert_eq!(rules["data"][1]["counters"][0]["requests_left"], 0, "it counts in all other rules");
    // The alias must fit all other rules.
    let refused = client.post_json(CHAT, &ask()).await;
    assert_refused("the refusal stays", &refused, "insufficient_quota", "shop");
    assert_eq!((world.upstream.hits(), world.second.hits()), (1, 3));
}

#[tokio::test]
async fn a_fallback_that_cannot_serve_is_the_refusal() {
    let rules = "[[budgets]]\nname = \"narrow\"\nmatch = { key = \"narrow\" }\nrpm = 1\non_limit = \"fallback:cheap\"\n\
        [[budgets]]\nname = \"vectors\"\nmatch = { key = \"trusted\" }\nbudget_usd = 0\non_limit = \"fallback:vectors\"\n";
    let world = world(rules).await;
    let narrow = world.gateway.client().with_key("sk-narrow");
    narrow.post_json(CHAT, &ask()).await.ok();
    let refused = narrow.post_json(CHAT, &ask()).await;
    assert_refused("not the key's", &refused, "rate_limit_exceeded", "narrow");
    let refused = trusted(&world).post_json(CHAT, &ask()).await;
    assert_refused("cannot chat", &refused, "insufficient_quota", "vectors");
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn a_target_without_room_falls_back_to_the_alias_of_its_rule() {
    let rules = "[[budgets]]\nname = \"plain\"\nmatch = { model = \"acme/plain\" }\nrpm = 1\non_limit = \"fallback:cheap\"\n";
    let world = world(rules).await;
    trusted(&world).post_json(CHAT, &ask()).await.ok();
    let answer = trusted(&world).post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], "beta/fast");
    assert_eq!(answer["gateway"]["warnings"], json!(["budget_fallback:plain"]));
}

#[tokio::test]
async fn from_a_threshold_on_the_alias_serves() {
    let rules = "[[budgets]]\nname = \"shop\"\nbudget_usd = 0.00005\nthresholds = [{ at = 0.8, use = \"cheap\" }, { at = 0.9, use = \"vectors\" }]\n";
    let world = world(rules).await;
    let client = trusted(&world);
    for _ in 0..2 {
        let answer = client.post_json(CHAT, &ask()).await.ok().json();
        assert_eq!(
            (&answer["gateway"]["model_used"], &answer["gateway"]["warnings"]),
            (&json!("acme/plain"), &json!([]))
        );
    }
    let dry = client.clone().with_header("x-gateway-dry-run", "true");
    let dry = dry.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(
        (&dry["candidates"][0]["model"], &dry["warnings"]),
        (&json!("beta/fast"), &json!(["budget_taper:shop:0.8"]))
    );
    let answer = client.post_json(CHAT, &ask()).await.ok().json();
    let gateway = &answer["gateway"];
    assert_eq!((&gateway["model_used"], &gateway["fallback_used"]), (&json!("beta/fast"), &json!(true)));
    assert_eq!(gateway["warnings"], json!(["budget_taper:shop:0.8"]));
    // 0.000049 USD are spent. The alias of 0.9 has no chat, and nothing else fits.
    let refused = client.post_json(CHAT, &ask()).await;
    assert_refused("spent", &refused, "insufficient_quota", "shop");
}

#[tokio::test]
async fn a_taper_without_a_target_stays_with_the_asked_model() {
    let rules = "[[budgets]]\nname = \"shop\"\nbudget_usd = 1\nthresholds = [{ at = 0.00001, use = \"vectors\" }]\n\
        [[budgets]]\nname = \"dear\"\nmatch = { key = \"trusted\" }\nbudget_usd = 1\nthresholds = [{ at = 0.00001, use = \"cheap\" }]\n\
        [[budgets]]\nname = \"beta\"\nmatch = { provider = \"beta\" }\nrpm = 1\n";
    let world = world(rules).await;
    let client = trusted(&world);
    client.post_json(CHAT, &ask()).await.ok();
    let answer = client.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["budget_taper:dear:0.00001"]));
    // The alias has no room.
    let answer = client.post_json(CHAT, &ask()).await.ok().json();
    assert_eq!(
        (&answer["gateway"]["model_used"], &answer["gateway"]["fallback_used"]),
        (&json!("acme/plain"), &json!(false))
    );
    assert_eq!(answer["gateway"]["warnings"], json!([]));
}
