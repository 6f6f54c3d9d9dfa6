//! Guards of sessions on pass-through routes.

use gw_testkit::{Answer, Client, Response};
use serde_json::{Value, json};

use super::{row, told, world_with};
use crate::harness::{World, assert_error};

/// `acme/fast` by its name at the provider.
const FAST: &str = "fast-2026-01";

fn asked() -> Value {
    json!({"model": FAST, "messages": []})
}

async fn ask(client: &Client, path: &str) -> Response {
    client.post_json(path, &asked()).await
}

/// Checks that a session was stopped by this limit: its client does not try again, and its row costs nothing.
async fn assert_stopped(world: &World, answer: &Response, limit: &str) {
    assert_error(limit, answer, 429, "rate_limit_error", "session_limit_reached");
    assert_eq!((answer.header("x-should-retry"), answer.header("retry-after")), (Some("false"), None));
    assert!(answer.message().contains(&format!("'{limit}'")), "{}", answer.message());
    let row = row(world, answer).await;
    assert_eq!((&row["status"], &row["operation"]), (&json!("session_limit_reached"), &json!("passthrough")));
    assert_eq!((&row["cost_usd"], &row["attempts"]), (&json!(0), &json!([])), "{row}");
}

#[tokio::test]
async fn a_guard_stops_a_session_on_every_route_and_leaves_others_alone() {
    let world = world_with("[[guards]]\nmax_calls = 3\n").await;
    world.upstream.always(Answer::json(200, &told()));
    let run = world.client.with_header("x-gateway-session", "run-1");
    ask(&run, "/acme/chat/completions").await.ok();
    ask(&run, "/fee/chat").await.ok();
    // A chat is a call of the session, too.
    run.post_json("/v1/chat/completions", &crate::harness::chat("acme/fast")).await.ok();
    let hits = world.upstream.hits();
    for path in ["/acme/chat/completions", "/fee/chat", "/v1/videos"] {
        assert_stopped(&world, &ask(&run, path).await, "max_calls").await;
    }
    assert_eq!(world.upstream.hits(), hits, "a stopped request calls no upstream");
    let other = world.client.with_header("x-claude-code-session-id", "run-2");
    ask(&other, "/acme/chat/completions").await.ok();
    for _ in 0..4 {
        ask(&world.client, "/acme/chat/completions").await.ok();
    }
}

#[tokio::test]
async fn the_costs_of_a_route_count_in_their_session() {
    // Two requests of 0.0125 USD, and tokens.
    let world = world_with("[[guards]]\nmax_cost_usd = 0.025\n").await;
    world.upstream.always(Answer::json(200, &told()));
    let run = world.client.with_header("x-gateway-session", "run-1");
    let first = ask(&run, "/fee/chat").await.ok();
    assert_eq!(row(&world, &first).await["cost_usd"], 0.0125);
    let tokens = ask(&run, "/acme/chat/completions").await.ok();
    assert_eq!(row(&world, &tokens).await["cost_usd"], 0.000_021);
    let second = ask(&run, "/fee/chat").await.ok();
    assert_eq!(row(&world, &second).await["session"], "run-1");
    assert_stopped(&world, &ask(&run, "/fee/chat").await, "max_cost_usd").await;
}

#[tokio::test]
async fn a_guard_matches_keys_and_models_of_a_route_and_may_only_warn() {
    let guards = "[[guards]]\nmatch = { keys = [\"metered\"] }\nmax_calls = 1\n\
        [[guards]]\nmatch = { aliases = [\"smart\"] }\nmax_calls = 1\naction = \"warn\"\n";
    let world = world_with(guards).await;
    world.upstream.always(Answer::json(200, &told()));
    let run = world.client.with_header("x-gateway-session", "run-1");
    // A call that no guard is for does not count.
    for (model, is_warned) in [(FAST, false), ("smart", false), (FAST, false), ("smart", true)] {
        let answer = run.post_json("/acme/chat/completions", &json!({"model": model})).await.ok();
        let row = row(&world, &answer).await;
        let warnings = row["warnings"].as_array().expect("a list");
        assert_eq!(warnings.contains(&json!("session_limit:max_calls")), is_warned, "{model}: {row}");
    }
    // The other guard is for another key.
    let metered = run.with_key(crate::harness::METERED);
    ask(&metered, "/acme/chat/completions").await.ok();
    assert_stopped(&world, &ask(&metered, "/acme/chat/completions").await, "max_calls").await;
}
