//! The roles viewer and operator: they read, operators change, and nobody gives more rights than their own.

use gw_testkit::{Client, Response};
use serde_json::{Value, json};

use crate::harness::management::{ask, create};
use crate::harness::roles::{OPERATOR, VIEWER, keys};
use crate::harness::{ADMIN, Setup, World, assert_error, chat, logged};

async fn world_of_roles() -> World {
    Setup { extra: keys(), ..Setup::default() }.start().await
}

fn refused(answer: &Response) {
    assert_error("rights", answer, 403, "permission_error", "role_not_allowed");
}

#[tokio::test]
async fn k11_nobody_gives_or_changes_a_key_with_more_rights_than_their_own() {
    let world = world_of_roles().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let operator = world.gateway.client().with_key(OPERATOR);
    let (_, boss) = create(&admin, json!({ "name": "b", "role": "admin" })).await;
    let (_, plain) = create(&operator, json!({ "name": "p" })).await;
    for role in ["viewer", "operator"] {
        assert_eq!(create(&operator, json!({ "name": "r", "role": role })).await.1["role"], role);
    }
    let path = |key: &Value| format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    refused(&ask(&operator, "POST", "/admin/v1/keys", &json!({ "name": "x", "role": "admin" })).await);
    refused(&ask(&operator, "PATCH", &path(&plain), &json!({ "role": "admin" })).await);
    refused(&ask(&operator, "PATCH", &path(&boss), &json!({ "name": "x" })).await);
    refused(&ask(&operator, "PATCH", &path(&boss), &json!({ "role": "inference" })).await);
    refused(&ask(&operator, "POST", &format!("{}/rotate", path(&boss)), &json!({})).await);
    refused(&operator.send("DELETE", &path(&boss), None, None).await);
    assert_eq!(admin.get(&path(&boss)).await.ok().json()["name"], "b");
    assert_eq!(admin.get(&path(&plain)).await.ok().json()["role"], "inference");
}

#[tokio::test]
async fn a_viewer_reads_but_sees_no_prompt_and_spends_nothing() {
    let world = world_of_roles().await;
    let client = |key: &str| -> Client { world.gateway.client().with_key(key) };
    let answer = client(OPERATOR).post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    let id = answer.header("x-request-id").expect("an id").to_owned();
    logged(&client(ADMIN), &id).await;
    let path = format!("/admin/v1/requests/{id}");
    gw_testkit::wait::eventually_true("the payload is stored", async || {
        !(client(OPERATOR).get(&path).await.ok().json()["payload"].is_null())
    })
    .await;
    let seen = client(VIEWER).get(&path).await.ok();
    assert!(seen.json().get("payload").is_none() && !seen.text().contains("Hello"), "{}", seen.text());
    assert_eq!(seen.json()["request_id"], id.as_str());
    let hits = world.upstream.hits();
    refused(&client(VIEWER).post_json("/v1/chat/completions", &chat("acme/fast")).await);
    assert_eq!(world.upstream.hits(), hits);
    assert_eq!(client(VIEWER).get("/v1/me").await.ok().json()["key"]["role"], "viewer");
    refused(&client(VIEWER).send("DELETE", "/admin/v1/cache", None, None).await);
    client(OPERATOR).send("DELETE", "/admin/v1/cache", None, None).await.ok();
}
