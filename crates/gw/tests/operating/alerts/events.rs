//! Events other than budgets.

use gw_testkit::Answer;
use serde_json::json;

use super::{CHAT, alert, ask, heard, receiver, verified};
use crate::harness::{KEY, Setup};

#[tokio::test]
async fn a_dead_provider_and_a_dead_key_are_told() {
    let receiver = receiver().await;
    let extra = alert("ops", "\"provider_down\", \"key_dead\"", &receiver);
    let routing = "retries = 0\n[routing.breaker]\nfailures = 3\ncooldown_ms = 60000";
    let world = Setup { extra, routing, ..Setup::default() }.start().await;
    let client = world.gateway.client().with_key(KEY);
    world.upstream.always(Answer::error(500, "broken", "broken"));
    for _ in 0..4 {
        client.post_json(CHAT, &ask()).await;
    }
    // Two refusals kill the key, and are too few for the provider's breaker.
    world.second.always(Answer::error(401, "invalid_api_key", "no"));
    let body = json!({ "model": "beta/fast", "messages": [{ "role": "user", "content": "Hello!" }] });
    for _ in 0..2 {
        client.post_json(CHAT, &body).await;
    }
    let mut told: Vec<_> = heard(&receiver, 2).await.iter().map(|message| verified(message)).collect();
    told.sort_by_key(|body| body["event"].to_string());
    let of = |index: usize| (told[index]["event"].clone(), told[index]["data"].clone());
    assert_eq!(of(0), (json!("key_dead"), json!({ "kind": "provider", "name": "beta" })));
    assert_eq!(of(1), (json!("provider_down"), json!({ "kind": "provider", "name": "acme" })));
}

#[tokio::test]
async fn an_unknown_price_and_a_stopped_session_are_told() {
    let receiver = receiver().await;
    let guard = "[[guards]]\nmax_calls = 1\naction = \"stop\"\n[[models]]\nid = \"acme/free\"\ncategory = [\"chat\"]\n";
    let extra = format!("{guard}{}", alert("ops", "\"price_unknown\", \"session_stopped\"", &receiver));
    let world = Setup { extra, ..Setup::default() }.start().await;
    let client = world.gateway.client().with_key(KEY);
    let mut body = ask();
    body["model"] = json!("acme/free");
    client.post_json(CHAT, &body).await.ok();
    client.post_json(CHAT, &body).await.ok();
    let session = client.with_header("x-gateway-session", "run-7");
    session.post_json(CHAT, &ask()).await.ok();
    let stopped = session.post_json(CHAT, &ask()).await;
    assert_eq!(stopped.code(), "session_limit_reached");
    let mut told: Vec<_> = heard(&receiver, 2).await.iter().map(|message| verified(message)).collect();
    told.sort_by_key(|body| body["event"].to_string());
    assert_eq!(told[0]["data"], json!({ "kind": "model", "name": "acme/free" }), "{told:?}");
    assert_eq!(told[1]["data"], json!({ "kind": "session", "name": "run-7" }), "{told:?}");
}
