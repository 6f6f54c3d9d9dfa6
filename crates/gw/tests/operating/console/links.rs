//! Links that sign in once.

use gw_testkit::Launch;
use gw_testkit::wait::eventually;
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::harness::browser::{page, page_with, session, session_of};
use crate::harness::{ADMIN, KEY, World, assert_error, binary, world};

async fn make(world: &World, key: &str) -> String {
    let made = world.gateway.client().post_json("/auth/links", &json!({ "key": key })).await;
    assert_eq!((made.status, made.header("cache-control")), (201, Some("no-store")));
    let made = made.json();
    assert_eq!(made["object"], "sign_in_link");
    made["token"].as_str().expect("a token").to_owned()
}

async fn execute(world: &World, sql: &'static str) {
    let file = world.gateway.dir().join("data/gateway.db");
    let mut store = SqliteConnectOptions::new().filename(file).connect().await.expect("the store");
    sqlx::query(sql).execute(&mut store).await.expect(sql);
    store.close().await.expect("closed");
}

#[tokio::test]
async fn i19_a_link_signs_in_once_and_tells_why_it_is_refused() {
    let world = world().await;
    let page = page(&world.gateway);
    let token = make(&world, ADMIN).await;
    let answer = page.post_json("/auth/link", &json!({ "token": token })).await.ok();
    assert_eq!(answer.json()["role"], "admin");
    let (id, _) = session_of(&answer).expect("a session");
    assert_eq!(page_with(&world.gateway, &id).get("/admin/v1/keys").await.status, 200);
    let late = make(&world, ADMIN).await;
    execute(&world, "UPDATE gateway_sign_in_links SET expires_at = 1 WHERE used_at IS NULL").await;
    for (token, reason) in [
        (token.as_str(), "was used already"),
        (late.as_str(), "has expired"),
        ("x", "is not valid"),
        ("", "is not valid"),
    ] {
        let refused = page.post_json("/auth/link", &json!({ "token": token })).await;
        assert_error(reason, &refused, 403, "permission_error", "sign_in_failed");
        assert!(refused.message().contains(reason), "{}", refused.message());
        assert!(refused.message().contains("model-gateway login"), "it says what to do");
        assert_eq!(session_of(&refused), None);
    }
    let log = world.gateway.stderr().join("\n");
    assert!(!log.contains(&token) && !log.contains(&late), "the log has no token");
}

#[tokio::test]
async fn a_link_has_the_rights_of_its_key_and_only_a_key_makes_one() {
    let world = world().await;
    let token = make(&world, KEY).await;
    let answer = page(&world.gateway).post_json("/auth/link", &json!({ "token": token })).await.ok();
    let (id, _) = session_of(&answer).expect("a session");
    assert_eq!(page_with(&world.gateway, &id).get("/admin/v1/keys").await.code(), "admin_required");
    let session = page_with(&world.gateway, &id);
    for (label, answer) in [
        ("a session", session.post_json("/auth/links", &json!({})).await),
        ("a stranger", world.gateway.client().post_json("/auth/links", &json!({ "key": "sk-gw-x" })).await),
    ] {
        assert!([400, 401].contains(&answer.status), "{label}: {}", answer.text());
    }
}

#[tokio::test]
async fn the_first_start_prints_a_link_that_signs_in_as_the_admin() {
    let gateway =
        Launch::new(binary()).file("gateway.toml", "[[providers]]\nname = \"demo\"\n").start().await;
    let start = format!("http://{}/ui/#token=", gateway.addr);
    let token = eventually("a link with a token", || {
        let printed = gateway.stdout().join("\n");
        let (_, rest) = printed.split_once(&start)?;
        rest.split_whitespace().next().map(str::to_owned)
    })
    .await;
    let token = token.as_str();
    let answer = page(&gateway).post_json("/auth/link", &json!({ "token": token })).await.ok();
    let (id, _) = session_of(&answer).expect("a session");
    let who = session(&page_with(&gateway, &id)).await;
    assert_eq!(
        (&who["name"], &who["role"], &who["signed_in"]),
        (&json!("admin"), &json!("admin"), &json!(true))
    );
    assert!(!gateway.stderr().join("\n").contains(token), "the log does not have it");
}
