//! A question that the cache has answered before is neither read nor hashed again. Nobody can tell, and nothing else changes.

use gw_testkit::{Client, Response};
use serde_json::{Value, json};

use super::{ask, cached, delete};
use crate::harness::answers::cache_result;
use crate::harness::{ADMIN, Setup, assert_error, logged, world};

/// Asks so often that the question is known, and returns the last answer.
async fn make_known(client: &Client, body: &Value) -> Response {
    assert_eq!(cache_result(&ask(client, body).await.ok()), "MISS");
    let mut last = ask(client, body).await.ok();
    for _ in 0..4 {
        last = ask(client, body).await.ok();
        assert_eq!(cache_result(&last), "HIT");
    }
    last
}

/// An answer without the members that differ for every request, and those members.
fn split(answer: &Response) -> (Value, [String; 2]) {
    let mut document = answer.json();
    let own = [&document["id"], &document["gateway"]["request_id"]].map(ToString::to_string);
    for (path, value) in [("/id", Value::Null), ("/created", Value::Null)] {
        *document.pointer_mut(path).expect(path) = value;
    }
    for name in ["request_id", "latency_ms"] {
        document["gateway"][name] = Value::Null;
    }
    (document, own)
}

#[tokio::test]
async fn a_known_question_is_answered_like_any_hit() {
    let world = world().await;
    let body = cached(json!({ "user": "someone" }));
    ask(&world.client, &body).await.ok();
    let (first, mut ids) = split(&ask(&world.client, &body).await.ok());
    for round in 0..6 {
        let answer = ask(&world.client, &body).await.ok();
        let (document, own) = split(&answer);
        assert_eq!((cache_result(&answer), &document), ("HIT", &first), "{round}");
        assert!(own[0] != ids[0] && own[1] != ids[1], "{own:?}");
        ids = own;
    }
    assert_eq!(world.upstream.hits(), 1);
    // The row has what the body says.
    let admin = world.client.with_key(ADMIN);
    let row = logged(&admin, ids[1].trim_matches('"')).await;
    assert_eq!(
        (&row["cache_hit"], &row["requested_model"], &row["user"]),
        (&json!(true), &json!("acme/fast"), &json!("someone")),
        "{row}"
    );
}

#[tokio::test]
async fn a_known_question_of_one_key_is_a_miss_for_another() {
    let world = world().await;
    let body = cached(json!({}));
    make_known(&world.client, &body).await;
    make_known(&world.client.with_key(ADMIN), &body).await;
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn a_known_question_with_other_directives_is_another_body() {
    let world = world().await;
    make_known(&world.client, &cached(json!({}))).await;
    let written = cached(json!({ "cache": { "enabled": true, "mode": "write" } }));
    assert_eq!(cache_result(&ask(&world.client, &written).await.ok()), "MISS");
    // The directive of a header is none of the body's.
    let unread = world.client.with_header("cache-control", "no-cache");
    assert_eq!(cache_result(&ask(&unread, &cached(json!({}))).await.ok()), "MISS");
}

#[tokio::test]
async fn a_purge_forgets_a_known_question() {
    let world = world().await;
    let body = cached(json!({}));
    make_known(&world.client, &body).await;
    delete(&world.client.with_key(ADMIN), "/admin/v1/cache").await.ok();
    make_known(&world.client, &body).await;
    assert_eq!(world.upstream.hits(), 2);
}

/// The limits of a request hold for a known question, too.
#[tokio::test]
async fn a_known_question_is_refused_once_its_limits_are_smaller() {
    let settings = |server| Setup { server, ..Setup::default() };
    let world = settings("reload_on_change = false").start().await;
    let message = json!({ "role": "user", "content": "Hello" });
    let body = cached(json!({ "messages": [message.clone(), message] }));
    make_known(&world.client, &body).await;
    let smaller = settings("reload_on_change = false\nrequest_limits = { max_messages = 1 }");
    let text = smaller.config(&world.upstream.base_url(), &world.second.base_url());
    std::fs::write(world.gateway.dir().join("gateway.toml"), text).expect("the test's directory is writable");
    world.client.with_key(ADMIN).post_json("/admin/v1/reload", &json!({})).await.ok();
    let refused = ask(&world.client, &body).await;
    assert_error("limits", &refused, 400, "invalid_request_error", "array_above_max_length");
}
