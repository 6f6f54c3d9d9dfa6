//! Stored configuration that an earlier release accepted: a later release starts with it, although it takes a name in it for a
//! misspelling.

use gw_testkit::{Gateway, eventually};
use serde_json::{Value, json};
use sqlx::Connection;

use super::configuration::{CANARY, CONFIG, Place, admin, put, show};
use crate::harness::assert_error;
use crate::harness::management::ask;

/// A name that this release refuses in a new entry.
const OLD: &str = "plugns";
const NOTE: &str = "provider 'gamma': allow_members names 'plugns', which this release does not know";

fn provider(place: &Place, members: &[&str]) -> Value {
    json!({ "api": "openai", "base_url": place.upstream.base_url(), "api_key": CANARY, "allow_private_network": true,
        "allow_members": members })
}

/// Writes the name into the stored entry, as an earlier release did, which accepted it.
async fn accept_old_name(place: &Place) {
    let mut database = place.database().await;
    let update = sqlx::query("UPDATE configuration SET value = replace(value, 'next_month', $1)").bind(OLD);
    assert_eq!(update.execute(&mut database).await.expect("an update").rows_affected(), 1);
    database.close().await.expect("closed");
}

/// Waits for the note in the log.
async fn is_noted(gateway: &Gateway) {
    let is_there = || gateway.stderr().iter().any(|line| line.contains(NOTE)).then_some(());
    eventually("the log has the note", is_there).await;
}

#[tokio::test]
async fn a_gateway_starts_with_a_stored_name_that_it_would_refuse_today() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    assert_eq!(put(&boss, "providers/gamma", provider(&place, &["next_month"])).await.status, 201);
    let refused = put(&boss, "providers/other", provider(&place, &[OLD])).await;
    assert_error("a new entry", &refused, 400, "invalid_request_error", "invalid_configuration");
    assert!(refused.message().contains("did you mean 'plugins'?"), "{}", refused.message());
    accept_old_name(&place).await;
    // The entry comes from another replica while this gateway runs.
    boss.post_json("/admin/v1/reload", &json!({})).await.ok();
    is_noted(&gateway).await;
    drop(gateway.stop());

    let gateway = place.start().await;
    is_noted(&gateway).await;
    let boss = admin(&gateway);
    assert_eq!(show(&boss, "providers/gamma").await["value"]["allow_members"], json!([OLD]));
    // Other entries, and other members of the entry, can be changed.
    let answer = put(&boss, "aliases/swift", json!({ "targets": ["demo/chat"] })).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert!(answer.json()["notes"].to_string().contains(NOTE), "{}", answer.text());
    let path = format!("{CONFIG}/providers/gamma");
    ask(&boss, "PATCH", &path, &json!({ "discover": true })).await.ok();
    // The name is accepted in this entry alone, and no other misspelling is.
    let refused = put(&boss, "providers/other", provider(&place, &[OLD])).await;
    assert_error("another entry", &refused, 400, "invalid_request_error", "invalid_configuration");
    let more = json!({ "allow_members": [OLD, "servce_tier"] });
    let refused = ask(&boss, "PATCH", &path, &more).await;
    assert_error("another name", &refused, 400, "invalid_request_error", "invalid_configuration");
    assert!(!refused.message().contains(OLD), "{}", refused.message());
    // The entry leaves, and `undo` brings it back as it was.
    ask(&boss, "DELETE", &path, &json!({})).await.ok();
    let refused = put(&boss, "providers/gamma", provider(&place, &[OLD])).await;
    assert_error("a new entry", &refused, 400, "invalid_request_error", "invalid_configuration");
    ask(&boss, "POST", &format!("{CONFIG}/undo"), &json!({})).await.ok();
    assert_eq!(show(&boss, "providers/gamma").await["value"]["allow_members"], json!([OLD]));
    let mended = json!({ "allow_members": ["plugins"] });
    let answer = ask(&boss, "PATCH", &path, &mended).await.ok().json();
    assert!(!answer["notes"].to_string().contains("allow_members"), "{answer}");
}
