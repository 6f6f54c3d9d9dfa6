//! Budgets of keys and teams.

use serde_json::json;

use super::{CHAT, alert, ask, by_id, heard, limited, receiver, verified};
use crate::harness::{ADMIN, assert_error};

#[tokio::test]
async fn a_threshold_is_told_once_with_exact_amounts() {
    let receiver = receiver().await;
    let alerts = alert("ops", "\"budget:0.5\", \"budget:0.9\", \"budget:1\"", &receiver);
    let world = limited("0.00005", &alerts).start().await;
    let client = world.gateway.client().with_key("sk-by");
    client.post_json(CHAT, &ask()).await.ok();
    client.post_json(CHAT, &ask()).await.ok();
    let message = heard(&receiver, 1).await.remove(0);
    let body = verified(&message);
    assert_eq!(body["event"], "budget:0.5");
    let text = String::from_utf8_lossy(&message.body).into_owned();
    assert!(
        text.contains("\"spend_usd\":0.00004,\"budget_usd\":0.00005,\"fraction\":0.8,\"threshold\":0.5"),
        "{text}"
    );
    let data = &body["data"];
    assert_eq!(
        (&data["kind"], &data["name"], &data["split"], &data["period"]),
        (&json!("key"), &json!("limited-by"), &json!(null), &json!("month"))
    );
    assert!(data["resets_at"].as_str().is_some_and(|at| at.ends_with("-01T00:00:00Z")), "{data}");
    // A request that is refused for want of money is the event of the whole budget, although less is spent.
    let refused = client.post_json(CHAT, &ask()).await;
    assert_error("spent", &refused, 429, "insufficient_quota", "insufficient_quota");
    heard(&receiver, 2).await;
    let events: Vec<_> = by_id(&receiver).values().map(|of| of[0].json()).collect();
    let whole = events.iter().find(|event| event["event"] == "budget:1").expect("the whole budget");
    assert_eq!((&whole["data"]["fraction"], &whole["data"]["threshold"]), (&json!(0.8), &json!(1)));
    // Nothing is told again.
    client.post_json(CHAT, &ask()).await;
    let list = world.gateway.client().with_key(ADMIN).get("/admin/v1/alerts").await.ok().json();
    assert_eq!(list["data"][0]["waiting"], 0, "{list}");
    heard(&receiver, 2).await;
}

#[tokio::test]
async fn a_request_that_a_rule_refuses_is_the_event_of_its_whole_budget() {
    let receiver = receiver().await;
    let rule = "[[budgets]]\nname = \"shop\"\nmatch = { key = \"limited-by\" }\nsplit_by = \"key\"\nbudget_usd = 0.00005\n";
    let alerts = alert("ops", "\"budget:1\"", &receiver);
    let world = limited("1.0", &format!("{rule}{alerts}")).start().await;
    let client = world.gateway.client().with_key("sk-by");
    for _ in 0..2 {
        client.post_json(CHAT, &ask()).await.ok();
    }
    let refused = client.post_json(CHAT, &ask()).await;
    assert_error("spent", &refused, 429, "insufficient_quota", "insufficient_quota");
    let body = verified(&heard(&receiver, 1).await.remove(0));
    let data = &body["data"];
    assert_eq!(
        (&body["event"], &data["kind"], &data["name"], &data["fraction"]),
        (&json!("budget:1"), &json!("rule"), &json!("shop"), &json!(0.8))
    );
}

#[tokio::test]
async fn a_team_has_its_own_counter() {
    let receiver = receiver().await;
    let world = limited("1.0", &alert("ops", "\"budget:0.25\"", &receiver)).start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let put = admin.send(
        "PUT",
        "/admin/v1/teams/search",
        Some("application/json"),
        Some(br#"{"budget_usd":0.00005,"budget_period":"total"}"#),
    );
    assert_eq!(put.await.status, 201);
    let body = json!({ "name": "k", "team": "search", "budget_usd": 0.00008 });
    let made = admin.post_json("/admin/v1/keys", &body);
    let made = made.await.json();
    let client = world.gateway.client().with_key(made["key"].as_str().expect("a key"));
    client.post_json(CHAT, &ask()).await.ok();
    heard(&receiver, 2).await;
    let mut bodies: Vec<_> = by_id(&receiver).values().map(|of| verified(&of[0])).collect();
    bodies.sort_by_key(|body| body["data"]["kind"].to_string());
    let of = |index: usize| bodies[index]["data"].clone();
    assert_eq!(
        (&of(0)["kind"], &of(0)["name"], &of(0)["fraction"]),
        (&json!("key"), &json!("k"), &json!(0.25))
    );
    assert_eq!(
        (&of(1)["kind"], &of(1)["name"], &of(1)["fraction"]),
        (&json!("team"), &json!("search"), &json!(0.4))
    );
    assert_eq!((&of(1)["period"], &of(1)["resets_at"]), (&json!("total"), &json!(null)));
}
