//! `GET /v1/me`: the holder of a key sees its own limits, spending, models and errors.

use gw_testkit::redis::Redis;
use gw_testkit::wait::{eventually_async, eventually_true};
use gw_testkit::{Answer, Client};
use serde_json::{Value, json};

use crate::harness::management::{ask, create, worlds};
use crate::harness::{ADMIN, LIMITED, Setup, World, chat, chat_with};

const ME: &str = "/v1/me";
const CHAT: &str = "/v1/chat/completions";
/// A text of the prompt, which the answer must not hold.
const CANARY: &str = "canary-of-me-71";

/// A key of the team `blue` with limits of its own, and one answered and one refused request.
async fn used(world: &World) -> (Client, Value) {
    let admin = world.gateway.client().with_key(ADMIN);
    let team = ask(&admin, "PUT", "/admin/v1/teams/blue", &json!({ "rpm": 50, "budget_usd": 1 })).await;
    assert_eq!(team.status, 201, "{}", team.text());
    let members = json!({ "name": "mine", "team": "blue", "models": ["acme/plain"], "rpm": 10, "tpm": 100_000,
        "max_in_flight": 4, "budget_usd": "0.00005", "budget_period": "day" });
    let (secret, key) = create(&admin, members).await;
    let client = world.gateway.client().with_key(&secret);
    let said = |max_tokens: u64| {
        let messages = json!([{ "role": "user", "content": CANARY }]);
        chat_with("acme/plain", json!({ "max_tokens": max_tokens, "messages": messages }))
    };
    client.post_json(CHAT, &said(5)).await.ok();
    let refused = client.post_json(CHAT, &said(8_000)).await;
    assert_eq!(refused.code(), "insufficient_quota");
    let id = refused.header("x-request-id").expect("an id").to_owned();
    let mut key = key;
    key["refused"] = json!(id);
    (client, key)
}

/// The answer, as soon as the ledger has both requests.
async fn settled(client: &Client) -> Value {
    eventually_async("both requests are in the ledger", async || {
        let me = client.get(ME).await.ok().json();
        if me["spend"]["day"]["requests"] == 2 {
            return Some(me);
        }
        None
    })
    .await
}

#[tokio::test]
async fn the_holder_of_a_key_sees_its_limits_spending_models_and_errors() {
    for world in worlds().await {
        let (client, key) = used(&world).await;
        let me = settled(&client).await;
        let owner = json!({ "id": key["id"], "name": "mine", "team": "blue", "role": "inference" });
        assert_eq!((&me["object"], &me["key"]), (&json!("me"), &owner));
        for period in ["day", "month"] {
            let spent = json!({ "cost_usd": 0.00002, "requests": 2, "failed": 1, "tokens": 15, "unpriced_requests": 0 });
            assert_eq!(me["spend"][period], spent, "{period}");
        }
        let [own, team] = me["limits"].as_array().expect("two subjects").as_slice() else { panic!("{me}") };
        assert_eq!((&own["scope"], &own["id"]), (&json!("key"), &key["id"]));
        assert_eq!((&team["scope"], &team["id"]), (&json!("team"), &json!("blue")));
        assert_eq!(
            (&own["requests_per_minute"]["limit"], &own["requests_per_minute"]["used"]),
            (&json!(10), &json!(2))
        );
        assert_eq!(
            (&team["requests_per_minute"]["limit"], &team["requests_per_minute"]["left"]),
            (&json!(50), &json!(48))
        );
        assert_eq!(own["tokens_per_minute"]["limit"], 100_000);
        assert_eq!(own["in_flight"], json!({ "limit": 4, "used": 0, "left": 4, "resets_in_seconds": null }));
        let budget = &own["budget"];
        assert_eq!((&budget["limit_usd"], &budget["spent_usd"]), (&json!(0.00005), &json!(0.00002)));
        assert_eq!((&budget["reserved_usd"], &budget["left_usd"]), (&json!(0), &json!(0.00003)));
        assert!(budget["resets_at"].as_str().is_some_and(|at| at.ends_with("T00:00:00Z")), "{budget}");
        assert_eq!((&team["tokens_per_minute"], &team["in_flight"]), (&Value::Null, &Value::Null));
        let binding = json!({ "scope": "key", "limit": "budget", "left": 0.00003, "left_percent": 60.0 });
        assert_eq!(me["binding_limit"], binding);
        assert_eq!(me["models"], json!(["acme/plain"]));
        let [error] = me["recent_errors"].as_array().expect("errors").as_slice() else { panic!("{me}") };
        assert_eq!((&error["code"], &error["model"]), (&json!("insufficient_quota"), &json!("acme/plain")));
        assert_eq!(error["request_id"], key["refused"]);
        assert!(error["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{error}");
        assert!(!me.to_string().contains(CANARY), "{me}");
    }
}

#[tokio::test]
async fn a_request_in_flight_is_reserved_and_looking_counts_nothing() {
    let world = crate::harness::world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let members = json!({ "name": "mine", "rpm": 2, "max_in_flight": 3, "budget_usd": 1 });
    let (secret, _) = create(&admin, members).await;
    let client = world.gateway.client().with_key(&secret);
    for _ in 0..5 {
        assert_eq!(client.get(ME).await.ok().json()["limits"][0]["requests_per_minute"]["left"], 2);
    }
    world.upstream.enqueue(Answer::sse().hang());
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.post_json(CHAT, &chat("acme/plain")).await })
    };
    eventually_true("the request is in flight", async || {
        let own = client.get(ME).await.ok().json()["limits"][0].clone();
        if own["budget"]["reserved_usd"].as_f64().is_some_and(|reserved| reserved > 0.0) {
            assert_eq!(
                (&own["in_flight"]["used"], &own["requests_per_minute"]["used"]),
                (&json!(1), &json!(1))
            );
            return true;
        }
        false
    })
    .await;
    waiting.abort();
}

#[tokio::test]
async fn limits_that_replicas_share_are_read_from_redis() {
    let redis = Redis::start().await;
    let extra = format!("[redis]\nurl = \"{}\"\ntimeout_ms = 2000\n", redis.url());
    let world = Setup { extra, ..Setup::default() }.start().await;
    let (client, _) = used(&world).await;
    let me = settled(&client).await;
    let own = &me["limits"][0];
    assert_eq!((&own["requests_per_minute"]["used"], &own["in_flight"]["used"]), (&json!(2), &json!(0)));
    assert_eq!((&own["budget"]["spent_usd"], &own["budget"]["left_usd"]), (&json!(0.00002), &json!(0.00003)));
    assert_eq!(me["binding_limit"]["limit"], "budget");
    // The limits are unknown without Redis. All else is still answered.
    drop(redis);
    eventually_true("the gateway notices that Redis is away", async || {
        client.get(ME).await.ok().json()["limits"].is_null()
    })
    .await;
    assert_eq!(client.get(ME).await.ok().json()["spend"]["day"]["requests"], 2);
}

#[tokio::test]
async fn a_key_without_limits_has_no_binding_limit_and_sees_nobody_elses_errors() {
    let world = crate::harness::world().await;
    let (client, _) = used(&world).await;
    settled(&client).await;
    let other = world.gateway.client().with_key(LIMITED).get(ME).await.ok();
    assert_eq!(other.header("cache-control"), Some("no-store"));
    let other = other.json();
    assert_eq!((&other["key"]["name"], &other["binding_limit"]), (&json!("limited"), &Value::Null));
    assert_eq!((&other["recent_errors"], &other["spend"]["month"]["requests"]), (&json!([]), &json!(0)));
    assert_eq!(other["models"], json!(["acme/plain"]));
}
