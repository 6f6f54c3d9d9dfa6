//! Several keys of one provider: weights, refused keys that are disabled, limited keys that cool down, and their status for operators.

use gw_testkit::{Answer, Recorded};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Setup, World, assert_error, chat, chat_with};

/// `acme` with three keys, the second of double weight.
async fn three_keys() -> World {
    let acme = r#"api_keys = ["sk-one-11111111", { key = "sk-two-22222222", weight = 2 }, "sk-three-3333"]"#;
    let routing = "retries = 0\nmax_attempts = 10";
    Setup { acme: acme.to_owned(), routing, ..Setup::default() }.start().await
}

fn used(request: &Recorded) -> String {
    let bearer = request.header("authorization").unwrap_or_default();
    bearer.trim_start_matches("Bearer sk-").split('-').next().unwrap_or_default().to_owned()
}

fn keys_used(world: &World) -> Vec<String> {
    world.upstream.requests().iter().map(|request| used(request)).collect()
}

async fn states(world: &World) -> Vec<(String, Value)> {
    let admin = world.gateway.client().with_key(ADMIN);
    let answer = admin.get("/admin/v1/providers").await.ok();
    assert!(!answer.text().contains("sk-"), "{}", answer.text());
    let body = answer.json();
    let acme = body["data"]
        .as_array()
        .expect("as documented")
        .iter()
        .find(|entry| entry["name"] == "acme")
        .expect("as documented")
        .clone();
    assert_eq!(acme["api"], "openai");
    let keys = acme["keys"].as_array().expect("as documented");
    keys.iter()
        .map(|key| (key["state"].as_str().expect("as documented").to_owned(), key["status"].clone()))
        .collect()
}

#[tokio::test]
async fn keys_are_used_by_weight() {
    let world = three_keys().await;
    for _ in 0..8 {
        world.chat_ok(&chat("acme/fast")).await;
    }
    let used = keys_used(&world);
    let count = |name: &str| used.iter().filter(|used| *used == name).count();
    assert_eq!((count("one"), count("two"), count("three")), (2, 4, 2), "{used:?}");
}

#[tokio::test]
async fn a_refused_key_is_set_aside_and_the_call_goes_on_with_another() {
    for (status, code) in
        [(401, "upstream_auth_error"), (402, "upstream_billing_error"), (403, "upstream_auth_error")]
    {
        let world = three_keys().await;
        world.upstream.respond_with(move |request| match &*used(request) {
            "two" => Answer::error(status, "x", "no"),
            _ => gw_testkit::upstream::default_answer(request),
        });
        for _ in 0..6 {
            world.chat_ok(&chat("acme/fast")).await;
        }
        let refused = keys_used(&world).iter().filter(|used| *used == "two").count();
        assert_eq!(refused, 1, "asked once: {:?}", keys_used(&world));
        let alive = ("alive".to_owned(), Value::Null);
        assert_eq!(
            states(&world).await,
            [alive.clone(), ("dead".to_owned(), json!(status)), alive],
            "{code}"
        );
    }
}

#[tokio::test]
async fn after_a_limit_without_a_time_another_key_is_asked() {
    let acme = r#"api_keys = ["sk-one-11111111", { key = "sk-two-22222222", weight = 9 }]"#;
    let routing = "retries = 0\nmax_attempts = 10";
    let world = Setup { acme: acme.to_owned(), routing, ..Setup::default() }.start().await;
    world.upstream.respond_with(|request| match &*used(request) {
        "two" => Answer::error(429, "x", "slow down"),
        _ => gw_testkit::upstream::default_answer(request),
    });
    for _ in 0..8 {
        world.chat_ok(&chat("acme/fast")).await;
    }
}

#[tokio::test]
async fn a_limited_key_rests_for_its_retry_after() {
    let world = three_keys().await;
    world.upstream.respond_with(|request| match &*used(request) {
        "one" => {
            Answer::json_with(429, &[("retry-after", "60")], &json!({"error": {"message": "slow down"}}))
        }
        _ => gw_testkit::upstream::default_answer(request),
    });
    for _ in 0..6 {
        let body = world.chat_ok(&chat("acme/fast")).await;
        assert_eq!(body["gateway"]["fallback_used"], false);
    }
    assert_eq!(keys_used(&world).iter().filter(|used| *used == "one").count(), 1);
    assert_eq!(states(&world).await[0].0, "resting");
}

#[tokio::test]
async fn when_every_key_is_set_aside_nobody_is_asked_and_the_answer_says_so() {
    let world = three_keys().await;
    world.upstream.always(Answer::error(401, "x", "no"));
    let first = world.chat(&chat("acme/fast")).await;
    assert_error("every key refused", &first, 502, "upstream_error", "upstream_auth_error");
    assert_eq!(first.header("x-should-retry"), Some("false"));
    assert_eq!(world.upstream.hits(), 3, "each key once");
    let second = world.chat(&chat("acme/fast")).await;
    assert_error("no key left", &second, 503, "upstream_error", "no_available_provider");
    assert!(second.header("retry-after").is_some());
    assert_eq!(world.upstream.hits(), 3, "no upstream is called");
    let body = chat_with("acme/fast", json!({"routing": {"fallback": ["beta/spare"]}}));
    let body = world.chat_ok(&body).await;
    assert_eq!(body["gateway"]["model_used"], "beta/spare");
    assert_eq!(
        body["gateway"]["attempts"].as_array().map(Vec::len),
        Some(1),
        "what was not asked is no attempt"
    );
}

#[tokio::test]
async fn an_only_key_is_shown_as_dead_and_still_asked() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::error(401, "x", "no"));
    assert_eq!(world.chat(&chat("acme/fast")).await.status, 502);
    assert_eq!(states(&world).await[0].0, "dead");
    world.chat_ok(&chat("acme/fast")).await;
    assert_eq!(states(&world).await[0].0, "alive");
}
