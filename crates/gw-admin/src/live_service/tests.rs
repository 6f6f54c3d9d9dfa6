//! The service of a running gateway: when a change is in force, and the answers while the store is not reachable.

use std::time::Instant;

use bytes::Bytes;
use gw_engine::engine::Stored;
use gw_engine::settings::{EngineSettings, KeySettings};
use gw_store::Role;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::endpoints::{
    CREATE_KEY, DELETE_TEAM, LIST_KEYS, LIST_REQUESTS, LIST_TEAMS, PUT_TEAM, REPORT_USAGE, REVOKE_KEY,
    ROTATE_KEY, SHOW_KEY, SHOW_REQUEST, SHOW_TEAM, UPDATE_KEY,
};

/// The time after which an answer counts as hung.
const WATCH: Duration = Duration::from_secs(120);

fn requester() -> Requester {
    Requester::of_command_line("0".to_owned(), "boss".to_owned())
}

async fn running(configured: Vec<KeySettings>) -> (Arc<LiveAdminService>, Arc<Engine>, Store) {
    let settings = EngineSettings { keys: configured, ..EngineSettings::default() };
    let engine =
        Engine::new(settings, Vec::new(), Vec::new(), Stored::default(), &mut Registry::default()).unwrap();
    let store = Store::in_memory().await.unwrap();
    let service = LiveAdminService::new(store.clone(), Arc::clone(&engine), Handle::current());
    service.refresh().await.unwrap();
    (service, engine, store)
}

async fn create(service: &Arc<LiveAdminService>, members: Value) -> Value {
    let response = service
        .answer(AdminRequest::new(CREATE_KEY).with_body(members.to_string()), requester())
        .await
        .unwrap();
    assert!(response.is_new && !response.is_csv);
    serde_json::from_slice(&response.body).unwrap()
}

fn status(engine: &Engine, key: &str) -> u16 {
    let header = format!("Bearer {key}");
    engine
        .identify(std::iter::once(header.as_bytes()), std::iter::empty())
        .map_or_else(|error| error.status(), |_| 200)
}

#[tokio::test]
async fn a_change_is_in_force_when_its_answer_is_there() {
    let (service, engine, _) = running(Vec::new()).await;
    let key = create(&service, json!({ "name": "k" })).await;
    let (secret, id) = (key["key"].as_str().unwrap(), key["id"].as_str().unwrap());
    assert_eq!(status(&engine, secret), 200);
    service.answer(AdminRequest::new(REVOKE_KEY).with_id(id), requester()).await.unwrap();
    assert_eq!(status(&engine, secret), 401);
}

#[tokio::test]
async fn a_change_goes_on_when_nobody_waits_for_it() {
    let (service, engine, store) = running(Vec::new()).await;
    let mut answering = Box::pin(
        service
            .answer(AdminRequest::new(CREATE_KEY).with_body(json!({ "name": "k" }).to_string()), requester()),
    );
    // The future is dropped after its first poll, as if the client disconnected.
    let mut is_pending = |cx: &mut std::task::Context<'_>| answering.as_mut().poll(cx).is_pending();
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(is_pending(cx))).await);
    drop(answering);
    let start = Instant::now();
    while store.keys().await.unwrap().is_empty() || engine.has_no_keys() {
        assert!(start.elapsed() < WATCH);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn s_questions_are_503_in_bounded_time_and_keys_go_on_when_the_store_is_away() {
    let (service, engine, store) = running(Vec::new()).await;
    let key = create(&service, json!({ "name": "k" })).await;
    store.close().await;
    let id = key["id"].as_str().unwrap().to_owned();
    let body = Bytes::from_static(b"{\"name\":\"n\"}");
    for request in [
        AdminRequest::new(CREATE_KEY).with_body(body.clone()),
        AdminRequest::new(LIST_KEYS),
        AdminRequest::new(SHOW_KEY).with_id(&id),
        AdminRequest::new(UPDATE_KEY).with_id(&id).with_body(body),
        AdminRequest::new(REVOKE_KEY).with_id(&id),
        AdminRequest::new(ROTATE_KEY).with_id(&id),
        AdminRequest::new(LIST_TEAMS),
        AdminRequest::new(SHOW_TEAM).with_id("t"),
        AdminRequest::new(PUT_TEAM).with_id("t"),
        AdminRequest::new(DELETE_TEAM).with_id("t"),
        AdminRequest::new(REPORT_USAGE),
        AdminRequest::new(LIST_REQUESTS),
        AdminRequest::new(SHOW_REQUEST).with_id("req_1"),
    ] {
        let start = Instant::now();
        let error = service.answer(request.clone(), requester()).await.unwrap_err();
        assert_eq!((error.status(), error.code()), (503, "store_unavailable"), "{request:?}");
        assert!(!error.message.contains("memory"), "the message quotes the store's error: {}", error.message);
        assert!(start.elapsed() < WATCH, "{request:?}");
    }
    assert!(service.refresh().await.is_err());
    assert_eq!(status(&engine, key["key"].as_str().unwrap()), 200, "a known key still works");
}

#[tokio::test]
async fn c24_bad_keys_never_reach_the_store() {
    let (service, engine, store) = running(Vec::new()).await;
    create(&service, json!({ "name": "k" })).await;
    // From here on a look into the store would fail with 503.
    store.close().await;
    for n in 0..100_000 {
        assert_eq!(status(&engine, &format!("sk-gw-{n:046}")), 401);
    }
}

#[tokio::test]
async fn two_admins_cannot_revoke_each_other_at_once() {
    let (service, _, store) = running(Vec::new()).await;
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let key = create(&service, json!({ "name": name, "role": "admin" })).await;
        ids.push(key["id"].as_str().unwrap().to_owned());
    }
    let both = ids.iter().map(|id| service.answer(AdminRequest::new(REVOKE_KEY).with_id(id), requester()));
    let done = futures_util::future::join_all(both).await;
    assert_eq!(done.iter().filter(|answer| answer.is_ok()).count(), 1);
    let left = store.keys().await.unwrap();
    assert_eq!(left.iter().filter(|key| key.revoked_at.is_none()).count(), 1);
}

#[tokio::test]
async fn an_admin_of_the_configuration_is_enough() {
    let boss = KeySettings {
        name: "boss".to_owned(),
        key: "sk-boss".into(),
        role: Role::Admin,
        models: None,
        limits: gw_store::Limits::default(),
        log_payloads: false,
        trust_attribution: false,
        expires_at: None,
    };
    let (service, engine, _) = running(vec![boss]).await;
    let key = create(&service, json!({ "name": "a", "role": "admin" })).await;
    service
        .answer(AdminRequest::new(REVOKE_KEY).with_id(key["id"].as_str().unwrap()), requester())
        .await
        .unwrap();
    assert_eq!(status(&engine, "sk-boss"), 200);
}
