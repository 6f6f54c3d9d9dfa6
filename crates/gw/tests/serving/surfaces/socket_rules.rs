//! Each rule of a request holds for a turn of a WebSocket, with its own error, and nothing is sent.

use serde_json::{Value, json};

use super::response;
use crate::harness::management::create;
use crate::harness::socket::with_key;
use crate::harness::{ADMIN, Setup, with};

const RULES: &str = r#"
[[budgets]]
name = "spent"
match = { key = "ruled" }
budget_usd = 0.000000001

[[budgets]]
name = "quiet"
match = { key = "shadowed" }
mode = "shadow"
budget_usd = 0.000000001

[[guards]]
match = { keys = ["guarded"] }
max_calls = 1
"#;

fn turn(more: Value) -> Value {
    with(response("acme/fast"), with(json!({ "type": "response.create", "store": false }), more))
}

#[tokio::test]
async fn each_rule_of_a_request_holds_for_a_turn() {
    let world = Setup { extra: RULES.to_owned(), ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let image = json!({ "input": [{ "role": "user", "content": [
        { "type": "input_image", "image_url": "http://169.254.169.254/latest/meta-data" },
    ] }] });
    for (key, more, status, code) in [
        (json!({ "name": "poor", "budget_usd": 0.000000001 }), json!({}), 429, "insufficient_quota"),
        (json!({ "name": "ruled" }), json!({}), 429, "insufficient_quota"),
        (json!({ "name": "slow", "tpm": 1 }), json!({}), 429, "rate_limit_exceeded"),
        (json!({ "name": "narrow", "models": ["beta/fast"] }), json!({}), 403, "model_not_allowed"),
        (
            json!({ "name": "careful", "unpriced": "refuse", "budget_usd": 1 }),
            json!({ "model": "acme/unpriced" }),
            429,
            "insufficient_quota",
        ),
        (
            json!({ "name": "steers" }),
            json!({ "api_base": "https://dear.example" }),
            400,
            "unsupported_value",
        ),
        (json!({ "name": "reaches" }), image, 400, "unsupported_value"),
        (json!({ "name": "presets" }), json!({ "preset": "none" }), 404, "model_not_found"),
        (json!({ "name": "wrong" }), json!({ "temperature": 9 }), 400, "decimal_above_max_value"),
    ] {
        let (secret, _) = create(&admin, key.clone()).await;
        let mut socket = with_key(world.gateway.addr, &secret).await;
        let event = socket.ask(&turn(more)).await;
        let found = (&event["type"], &event["status"], &event["error"]["code"]);
        assert_eq!(found, (&json!("error"), &json!(status), &json!(code)), "{key}: {event}");
        let rule = (key["name"] == "ruled").then_some("spent");
        assert_eq!(event["headers"]["x-gateway-rule"].as_str(), rule, "{key}: {event}");
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_rule_in_shadow_mode_warns_a_turn_and_a_guard_ends_a_session() {
    let world = Setup { extra: RULES.to_owned(), ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({ "name": "shadowed" })).await;
    let event = with_key(world.gateway.addr, &secret).await.ask(&turn(json!({}))).await;
    let warnings = &event["response"]["gateway"]["warnings"];
    assert_eq!(warnings, &json!(["budget_shadow:quiet"]), "{event}");
    let (secret, _) = create(&admin, json!({ "name": "guarded" })).await;
    let mut socket = with_key(world.gateway.addr, &secret).await;
    let run = json!({ "prompt_cache_key": "run-1" });
    assert_eq!(socket.ask(&turn(run.clone())).await["type"], "response.completed");
    let refused = socket.ask(&turn(run)).await;
    assert_eq!(refused["error"]["code"], "session_limit_reached", "{refused}");
}
