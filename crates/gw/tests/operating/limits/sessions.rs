//! Sessions: where a request names one, and how the ledger, the log and the reports show it.

use gw_testkit::Launch;
use serde_json::{Value, json};

use crate::harness::{ADMIN, World, binary, chat, chat_with, logged, with, world};

const CHAT: &str = "/v1/chat/completions";

/// The row of a chat with these headers and this body.
async fn row(world: &World, headers: &[(&str, &str)], body: &Value) -> Value {
    let client =
        headers.iter().fold(world.client.clone(), |client, (name, value)| client.with_header(name, value));
    let answer = client.post_json(CHAT, body).await.ok();
    let id = answer.header("x-request-id").expect("an id").to_owned();
    logged(&world.gateway.client().with_key(ADMIN), &id).await
}

#[tokio::test]
async fn a_session_is_named_by_a_header_or_by_the_body() {
    let world = world().await;
    let keyed =
        chat_with("acme/plain", json!({ "prompt_cache_key": "cache", "metadata": { "user_id": "user" } }));
    let user = chat_with("acme/plain", json!({ "metadata": { "user_id": "user" } }));
    let claude = ("x-claude-code-session-id", "claude");
    for (headers, body, expected) in [
        (vec![("x-gateway-session", "ours"), claude], &keyed, json!("ours")),
        (vec![claude, ("session_id", "codex")], &keyed, json!("claude")),
        (vec![("session_id", "codex")], &keyed, json!("codex")),
        (vec![("conversation-id", "codex 2")], &keyed, json!("codex 2")),
        (vec![], &keyed, json!("cache")),
        (vec![], &user, json!("user")),
        (vec![], &chat("acme/plain"), Value::Null),
    ] {
        let row = row(&world, &headers, body).await;
        assert_eq!((&row["session"], &row["surface"]), (&expected, &json!("chat")), "{headers:?}");
    }
}

#[tokio::test]
async fn a_long_name_counts_by_its_digest() {
    let world = world().await;
    let exact = "a".repeat(128);
    assert_eq!(row(&world, &[("session-id", &exact)], &chat("acme/plain")).await["session"], json!(exact));
    let long = "a".repeat(129);
    let by_header = row(&world, &[("x-gateway-session", &long)], &chat("acme/plain")).await;
    let session = by_header["session"].as_str().expect("a session");
    assert_eq!(session, "c12cb024a2e5551cca0e08fce8f1c5e314555cc3fef6329ee994a3db752166ae");
    let by_body = row(&world, &[], &chat_with("acme/plain", json!({ "prompt_cache_key": long }))).await;
    assert_eq!(by_body["session"], by_header["session"]);
}

#[tokio::test]
async fn a_session_in_a_large_body_is_found() {
    let world = world().await;
    let long = json!([{ "role": "user", "content": "x".repeat(600_000) }]);
    let body = with(chat("acme/fast"), json!({ "messages": long, "prompt_cache_key": "large" }));
    assert_eq!(row(&world, &[], &body).await["session"], "large");
}

#[tokio::test]
async fn the_log_and_the_usage_are_filtered_and_grouped_by_session_and_surface() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    row(&world, &[("x-gateway-session", "run-1")], &chat("acme/plain")).await;
    row(&world, &[("x-gateway-session", "run-1")], &chat("acme/fast")).await;
    row(&world, &[("x-gateway-session", "run-2")], &chat("acme/plain")).await;
    row(&world, &[], &chat("acme/plain")).await;
    let client = world.client.with_header("x-gateway-session", "run-2");
    let text =
        client.post_json("/v1/completions", &json!({ "model": "acme/fast", "prompt": "x" })).await.ok();
    let text = logged(&admin, text.header("x-request-id").expect("an id")).await;
    assert_eq!((&text["operation"], &text["surface"]), (&json!("completion"), &json!("completions")));
    for (query, expected) in [
        ("session=run-1", 2),
        ("session=run-2", 2),
        ("session=run-2&surface=chat", 1),
        ("surface=completions", 1),
        ("surface=chat", 4),
        ("session=run-3", 0),
        ("surface=embeddings", 0),
    ] {
        let found = admin.get(&format!("/admin/v1/requests?{query}")).await.ok().json();
        assert_eq!(found["data"].as_array().map(Vec::len), Some(expected), "{query}");
        let total = admin.get(&format!("/admin/v1/usage?{query}")).await.ok().json();
        assert_eq!(total["total"]["requests"], json!(expected), "{query}");
    }
    assert_eq!(admin.get("/admin/v1/requests?surface=completion").await.status, 400);
    let groups = async |by: &str| {
        let report = admin.get(&format!("/admin/v1/usage?by={by}")).await.ok().json();
        let rows = report["data"].as_array().cloned().unwrap_or_default();
        let mut groups: Vec<(Option<String>, u64)> = rows
            .iter()
            .map(|row| (row[by].as_str().map(str::to_owned), row["requests"].as_u64().unwrap_or_default()))
            .collect();
        groups.sort();
        groups
    };
    let named = |name: &str, count: u64| (Some(name.to_owned()), count);
    assert_eq!(groups("session").await, [(None, 1), named("run-1", 2), named("run-2", 2)]);
    assert_eq!(groups("surface").await, [named("chat", 4), named("completions", 1)]);
    let url = format!("http://{}", world.gateway.addr);
    let launch = Launch::new(binary()).env("MODEL_GATEWAY_ADMIN_KEY", ADMIN);
    let args = ["requests", "--session", "run-2", "--url", &url];
    let output = args.iter().fold(launch, |launch, arg| launch.arg(*arg)).run();
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(table.lines().filter(|line| line.contains("run-2")).count(), 2, "{table}");
    assert!(table.contains("completions") && table.lines().count() == 3, "{table}");
}
