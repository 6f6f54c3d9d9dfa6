//! Management beside a running engine: what is in force when, and what happens when the store is away.

use std::time::Instant;

use gw_engine::engine::Stored;
use gw_engine::settings::EngineSettings;
use gw_store::Role;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;

async fn running(configured: Vec<KeySettings>) -> (Arc<Management>, Arc<Engine>, Store) {
    let settings = EngineSettings { keys: configured, ..EngineSettings::default() };
    let engine =
        Engine::new(settings, Vec::new(), Vec::new(), Stored::default(), &mut Registry::default()).unwrap();
    let store = Store::in_memory().await.unwrap();
    let management = Management::new(store.clone(), Arc::clone(&engine), Handle::current());
    management.refresh().await.unwrap();
    (management, engine, store)
}

async fn create(management: &Arc<Management>, members: Value) -> Value {
    let document = management.answer(Ask::CreateKey(members.to_string().into())).await.unwrap();
    assert!(document.is_new && !document.is_csv);
    serde_json::from_slice(&document.body).unwrap()
}

fn status(engine: &Engine, key: &str) -> u16 {
    let header = format!("Bearer {key}");
    engine
        .identify(std::iter::once(header.as_bytes()), std::iter::empty())
        .map_or_else(|error| error.status(), |_| 200)
}

#[tokio::test]
async fn a_change_is_in_force_when_its_answer_is_there() {
    let (management, engine, _) = running(Vec::new()).await;
    let key = create(&management, json!({ "name": "k" })).await;
    let (secret, id) = (key["key"].as_str().unwrap(), key["id"].as_str().unwrap());
    assert_eq!(status(&engine, secret), 200);
    management.answer(Ask::RevokeKey(id.to_owned())).await.unwrap();
    assert_eq!(status(&engine, secret), 401);
}

#[tokio::test]
async fn a_change_goes_on_when_nobody_waits_for_it() {
    let (management, engine, store) = running(Vec::new()).await;
    let mut answering =
        Box::pin(management.answer(Ask::CreateKey(json!({ "name": "k" }).to_string().into())));
    // Dropped after its first poll, as when the client goes away.
    let mut is_pending = |cx: &mut std::task::Context<'_>| answering.as_mut().poll(cx).is_pending();
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(is_pending(cx))).await);
    drop(answering);
    let start = Instant::now();
    while store.keys().await.unwrap().is_empty() || engine.has_no_keys() {
        assert!(start.elapsed() < Duration::from_secs(5));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn s_questions_are_503_in_bounded_time_and_keys_go_on_when_the_store_is_away() {
    let (management, engine, store) = running(Vec::new()).await;
    let key = create(&management, json!({ "name": "k" })).await;
    store.close().await;
    let id = key["id"].as_str().unwrap().to_owned();
    let body = Bytes::from_static(b"{\"name\":\"n\"}");
    for ask in [
        Ask::CreateKey(body.clone()),
        Ask::Keys(String::new()),
        Ask::Key(id.clone()),
        Ask::ChangeKey(id.clone(), body),
        Ask::RevokeKey(id.clone()),
        Ask::RotateKey(id.clone(), Bytes::new()),
        Ask::Teams,
        Ask::Team("t".to_owned()),
        Ask::PutTeam("t".to_owned(), Bytes::new()),
        Ask::DeleteTeam("t".to_owned()),
        Ask::Usage { query: String::new(), csv: false },
        Ask::Requests(String::new()),
        Ask::Request("req_1".to_owned()),
    ] {
        let start = Instant::now();
        let error = management.answer(ask.clone()).await.unwrap_err();
        assert_eq!((error.status(), error.code()), (503, "store_unavailable"), "{ask:?}");
        assert!(!error.message.contains("memory"), "no word of the store's own: {}", error.message);
        assert!(start.elapsed() < PATIENCE + Duration::from_secs(2), "{ask:?}");
    }
    assert!(management.refresh().await.is_err());
    assert_eq!(status(&engine, key["key"].as_str().unwrap()), 200, "a known key goes on");
}

#[tokio::test]
async fn c24_bad_keys_never_reach_the_store() {
    let (management, engine, store) = running(Vec::new()).await;
    create(&management, json!({ "name": "k" })).await;
    // A lookup would fail from here on, and be a 503.
    store.close().await;
    for n in 0..100_000 {
        assert_eq!(status(&engine, &format!("sk-gw-{n:046}")), 401);
    }
}

#[tokio::test]
async fn two_admins_cannot_revoke_each_other_at_once() {
    let (management, _, store) = running(Vec::new()).await;
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let key = create(&management, json!({ "name": name, "role": "admin" })).await;
        ids.push(key["id"].as_str().unwrap().to_owned());
    }
    let both = ids.iter().map(|id| management.answer(Ask::RevokeKey(id.clone())));
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
        expires_at: None,
    };
    let (management, engine, _) = running(vec![boss]).await;
    let key = create(&management, json!({ "name": "a", "role": "admin" })).await;
    management.answer(Ask::RevokeKey(key["id"].as_str().unwrap().to_owned())).await.unwrap();
    assert_eq!(status(&engine, "sk-boss"), 200);
}
