//! Tenants are separated: no request, answer, spending or model of one tenant is visible to another one.

use std::collections::BTreeSet;

use gw_testkit::wait::eventually_true;
use gw_testkit::{Client, Response};
use serde_json::{Value, json};

use crate::harness::answers::cache_result;
use crate::harness::management::create;
use crate::harness::tenants::{Tenants, tenants};
use crate::harness::{ADMIN, LIMITED, World, assert_error, chat_with, logged, with, world};

const PATH: &str = "/v1/chat/completions";
/// A text that `a` sends in every place where it may send one.
const CANARY: &str = "canary-of-a-20571";

fn said_by_a(more: Value) -> Value {
    let body = json!({ "messages": [{ "role": "user", "content": CANARY }], "cache": { "enabled": true },
        "user": CANARY, "metadata": { "case": CANARY } });
    with(chat_with("acme/fast", body), more)
}

/// `a` sends a request of each kind; gives their ids.
async fn traffic(world: &World, a: &Client) -> Vec<String> {
    let a = a.with_header("x-client-request-id", CANARY);
    let mut ids = Vec::new();
    for (path, body) in [
        (PATH, said_by_a(json!({}))),
        (PATH, said_by_a(json!({}))),
        (PATH, said_by_a(json!({ "stream": true }))),
        (PATH, said_by_a(json!({ "model": format!("acme/{CANARY}") }))),
        ("/v1/completions", json!({ "model": "acme/fast", "prompt": CANARY, "user": CANARY })),
        ("/v1/embeddings", json!({ "model": "acme/embed", "input": CANARY, "user": CANARY })),
        (
            "/v1beta/models/acme/fast:generateContent",
            json!({ "contents": [{ "parts": [{ "text": CANARY }] }], "user": CANARY }),
        ),
        ("/v1/moderations", json!({ "model": "acme/moderation", "input": CANARY, "user": CANARY })),
        ("/v1/images/generations", json!({ "model": "acme/paint", "prompt": CANARY, "user": CANARY })),
        ("/v1/audio/speech", json!({ "model": "acme/speak", "input": CANARY, "voice": "v", "user": CANARY })),
        ("/v1/score", json!({ "model": "acme/rerank", "text_1": CANARY, "text_2": CANARY, "user": CANARY })),
        (
            "/v1/rerank",
            json!({ "model": "acme/rerank", "query": CANARY, "documents": [CANARY], "user": CANARY }),
        ),
    ] {
        let answer = a.post_json(path, &body).await;
        let id = answer.header("x-request-id").expect("an id").to_owned();
        logged(&world.client.with_key(ADMIN), &id).await;
        ids.push(id);
        let is_json = answer.header("content-type") == Some("application/json");
        if body["stream"] != true && is_json {
            ids.extend(answer.json()["id"].as_str().map(str::to_owned));
        }
    }
    assert!(ids.len() >= 8, "{ids:?}");
    ids
}

/// An answer without its own ids and times, and without the id of the URL.
fn shape(answer: &Response, id: &str) -> (u16, Vec<String>, String) {
    let names = answer.headers.iter().map(|(name, _)| name.clone()).collect();
    (answer.status, names, String::from_utf8_lossy(&answer.body).replace(id, "<id>"))
}

/// Every URL and method that takes the id of a request, a key or a team.
const PLACES: [(&str, &str); 29] = [
    ("GET", "/admin/v1/requests/<id>"),
    ("GET", "/admin/v1/requests/<id>/payload"),
    ("DELETE", "/admin/v1/requests/<id>/payload"),
    ("GET", "/admin/v1/requests?key=<id>"),
    ("GET", "/admin/v1/requests?team=<id>"),
    ("GET", "/admin/v1/requests?after=<id>"),
    ("GET", "/admin/v1/usage?key=<id>"),
    ("GET", "/admin/v1/usage?team=<id>"),
    ("GET", "/admin/v1/keys/<id>"),
    ("PATCH", "/admin/v1/keys/<id>"),
    ("DELETE", "/admin/v1/keys/<id>"),
    ("POST", "/admin/v1/keys/<id>/rotate"),
    ("GET", "/admin/v1/keys?team=<id>"),
    ("GET", "/admin/v1/keys?after=<id>"),
    ("GET", "/admin/v1/teams/<id>"),
    ("PUT", "/admin/v1/teams/<id>"),
    ("DELETE", "/admin/v1/teams/<id>"),
    ("DELETE", "/admin/v1/cache?key=<id>"),
    ("DELETE", "/admin/v1/cache?model=<id>"),
    ("GET", "/v1/chat/completions/<id>"),
    ("DELETE", "/v1/chat/completions/<id>"),
    ("GET", "/v1/chat/completions/<id>/messages"),
    ("GET", "/v1/completions/<id>"),
    ("GET", "/v1/responses/<id>"),
    ("GET", "/v1/requests/<id>"),
    ("GET", "/v1/files/<id>"),
    ("GET", "/v1/models/<id>"),
    ("GET", "/v1/models?after=<id>"),
    ("GET", "/v1/models/compare?models=<id>,acme/plain"),
];

#[tokio::test]
async fn t06_ids_of_another_tenant_are_like_ids_of_nobody() {
    let world = world().await;
    let Tenants { a, a_key, others: [stranger, mate, (_, admin)] } = tenants(&world).await;
    let mut ids = traffic(&world, &a).await;
    ids.push(a_key["id"].as_str().expect("an id").to_owned());
    ids.extend(["team-of-a", "tenant-a"].map(str::to_owned));
    let limited = ("limited", world.client.with_key(LIMITED));
    for (who, other) in [&stranger, &mate, &limited] {
        for id in &ids {
            // An id of equal length and letters.
            let nobodys: String = id.chars().rev().collect();
            for (method, place) in PLACES {
                let label = format!("{method} {place} of {id} by {who}");
                let ask = async |id: &str| {
                    let body = matches!(method, "POST" | "PUT" | "PATCH").then_some(&b"{}"[..]);
                    let url = place.replace("<id>", id);
                    shape(&other.send(method, &url, Some("application/json"), body).await, id)
                };
                let (theirs, nobodys) = (ask(id).await, ask(&nobodys).await);
                assert_eq!(theirs, nobodys, "{label}");
                let expected = match place {
                    _ if place.starts_with("/admin") => &[403][..],
                    _ if place.contains("after=") => &[400],
                    _ => &[404, 405],
                };
                assert!(expected.contains(&theirs.0), "{label}: {theirs:?}");
                assert!(!theirs.2.contains(CANARY), "{label}: {theirs:?}");
            }
        }
        for (method, place) in [
            ("GET", "/admin/v1/cache"),
            ("DELETE", "/admin/v1/cache"),
            ("GET", "/admin/v1/requests"),
            ("GET", "/admin/v1/usage?by=key"),
            ("GET", "/metrics"),
        ] {
            let answer = other.send(method, place, None, None).await;
            assert_error(place, &answer, 403, "permission_error", "admin_required");
        }
    }
    // No request changed anything.
    assert_eq!(cache_result(&a.post_json(PATH, &said_by_a(json!({}))).await.ok()), "HIT");
    eventually_true("the text is still stored", async || {
        let row = logged(&admin, &ids[0]).await;
        row["payload"]["request"].as_str().is_some_and(|said| said.contains(CANARY))
    })
    .await;
    let kept = admin.get(&format!("/admin/v1/keys/{}", ids[ids.len() - 3])).await.ok().json();
    assert!(kept["revoked_at"].is_null() && kept["rotated"].is_null(), "{kept}");
    assert_eq!((&kept["team"], &kept["name"]), (&json!("team-of-a"), &json!("tenant-a")));
}

#[tokio::test]
async fn t06_no_header_or_member_makes_a_request_another_tenants() {
    let world = world().await;
    let Tenants { a, a_key, others: [(_, b), _, (_, admin)] } = tenants(&world).await;
    let first = a.post_json(PATH, &said_by_a(json!({}))).await.ok();
    let (request, key) = (first.header("x-request-id").expect("an id"), a_key["id"].as_str().expect("an id"));
    for (name, value) in [
        ("x-request-id", request),
        ("x-client-request-id", request),
        ("openai-organization", "team-of-a"),
        ("openai-project", key),
        ("x-gateway-key", key),
        ("x-forwarded-user", "tenant-a"),
        ("cookie", &format!("key={key}")),
        ("idempotency-key", request),
        ("if-none-match", "*"),
        ("cache-control", "only-if-cached, max-stale=99999"),
    ] {
        let body = said_by_a(json!({ "messages": [{ "role": "user", "content": name }] }));
        assert_eq!(
            cache_result(&a.with_header(name, value).post_json(PATH, &body).await.ok()),
            "MISS",
            "{name}"
        );
        assert_eq!(cache_result(&a.post_json(PATH, &body).await.ok()), "HIT", "{name}");
        let answer = b.with_header(name, value).post_json(PATH, &body).await.ok();
        assert_eq!(cache_result(&answer), "MISS", "{name}");
        let id = answer.header("x-request-id").expect("an id");
        assert_ne!(id, request, "{name}");
        assert_eq!(logged(&admin, id).await["key"], b_id(&admin).await, "{name}");
    }
    for more in [json!({ "key": key }), json!({ "team": "team-of-a" }), json!({ "request_id": request })] {
        let before = world.upstream.hits();
        let answer = b.post_json(PATH, &said_by_a(more.clone())).await.ok();
        assert_eq!((cache_result(&answer), world.upstream.hits()), ("MISS", before + 1), "{more}");
    }
}

async fn b_id(admin: &Client) -> Value {
    admin.get("/admin/v1/keys?name=tenant-b").await.ok().json()["data"][0]["id"].clone()
}

#[tokio::test]
async fn t06_spending_rows_and_log_lines_are_of_the_key_that_asked() {
    let world = world().await;
    let Tenants { a, a_key, others: [(_, b), _, (_, admin)] } = tenants(&world).await;
    let (of_a, of_b) = (a_key["id"].clone(), b_id(&admin).await);
    let mut ids = [BTreeSet::new(), BTreeSet::new()];
    // Both tenants send one question twice, so that each has a cache hit.
    for (n, client) in [&a, &b, &a, &b, &b].into_iter().enumerate() {
        let answer = client.post_json(PATH, &said_by_a(json!({}))).await.ok();
        assert_eq!(cache_result(&answer), if n < 2 { "MISS" } else { "HIT" });
        let id = answer.header("x-request-id").expect("an id").to_owned();
        let (row, line) = (logged(&admin, &id).await, world.gateway.log_of(&id).await);
        let is_b = std::ptr::eq(client, &b);
        let (own, name) = if is_b { (&of_b, "tenant-b") } else { (&of_a, "tenant-a") };
        assert_eq!((&row["key"], &line["key"]), (own, &json!(name)), "{row} {line}");
        let told = format!("{row}{line}");
        let foreign = [of_a.as_str().expect("an id"), "tenant-a", "team-of-a"];
        assert!(!is_b || !foreign.iter().any(|foreign| told.contains(foreign)), "{told}");
        ids[usize::from(is_b)].insert(id);
    }
    for (key, ids, hits) in [(&of_a, &ids[0], 1), (&of_b, &ids[1], 2)] {
        let key = key.as_str().expect("an id");
        let page = admin.get(&format!("/admin/v1/requests?key={key}")).await.ok().json();
        let listed: BTreeSet<String> = page["data"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| row["request_id"].as_str().expect("an id").to_owned())
            .collect();
        assert_eq!(&listed, ids, "{page}");
        let usage = admin.get(&format!("/admin/v1/usage?by=key&key={key}")).await.ok().json();
        assert_eq!(
            (&usage["data"][0]["requests"], &usage["data"][0]["cache_hits"]),
            (&json!(hits + 1), &json!(hits))
        );
        assert_eq!(usage["data"].as_array().map(Vec::len), Some(1), "{usage}");
    }
    let logs = world.gateway.stdout().into_iter().chain(world.gateway.stderr()).collect::<String>();
    assert!(!logs.contains(CANARY), "{logs}");
}

/// The metrics' labels. None of them has a tenant's value: `key` is the place of a provider's key in the configuration, and
/// `name` is a key of the configuration with a limit.
const LABELS: [&str; 23] = [
    "action",
    "code",
    "component",
    "error_type",
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "gen_ai_token_type",
    "key",
    "kind",
    "le",
    "limit",
    "log",
    "method",
    "model",
    "name",
    "operation",
    "priced",
    "provider",
    "result",
    "route",
    "usage",
    "worker",
];

#[tokio::test]
async fn t06_no_metric_has_a_label_of_a_tenant() {
    let world = world().await;
    let Tenants { a, a_key, others: [(_, b), _, (_, admin)] } = tenants(&world).await;
    let mut secrets = traffic(&world, &a).await;
    secrets.extend(traffic(&world, &b).await);
    a.send("GET", &format!("/v1/{CANARY}?{CANARY}"), None, None).await;
    a.send(&CANARY.to_uppercase(), PATH, None, None).await;
    secrets.extend([&a_key["id"], &b_id(&admin).await].map(|id| id.as_str().expect("an id").to_owned()));
    secrets.extend([CANARY, "CANARY", "tenant-", "team-of-a", "sk-", "req_"].map(str::to_owned));
    let text = admin.get("/metrics").await.ok().text();
    for secret in &secrets {
        assert!(!text.contains(secret.as_str()), "{secret}: {text}");
    }
    let models = admin.get("/v1/models").await.ok().json();
    let models: Vec<&str> =
        models["data"].as_array().expect("models").iter().filter_map(|model| model["id"].as_str()).collect();
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((_, labels)) = line.split_once('{') else { continue };
        let labels = labels.split_once('}').expect("a brace that closes").0;
        for label in labels.split(',') {
            let (name, value) = label.split_once('=').expect("a label");
            seen.insert(name);
            assert!(LABELS.contains(&name) || name == "status", "{line}");
            let value = value.trim_matches('"');
            assert!(
                name != "name" || (line.starts_with("gateway_limit_left{") && value == "metered"),
                "{line}"
            );
            assert!(!["model", "gen_ai_request_model"].contains(&name) || models.contains(&value), "{line}");
        }
    }
    // The metrics contain the model.
    assert!(
        ["model", "provider", "route", "operation", "status"].iter().all(|name| seen.contains(name)),
        "{seen:?}"
    );
}

/// The answers about existing models that a key may not use.
#[tokio::test]
async fn t06_models_outside_of_a_keys_list_are_like_models_that_are_not_there() {
    let world = world().await;
    let admin = world.client.with_key(ADMIN);
    let (secret, _) =
        create(&admin, json!({ "name": "beta-only", "models": ["beta/*", "acme/plain"] })).await;
    let key = world.client.with_key(&secret);
    let list = key.get("/v1/models").await.ok().json();
    let ids: Vec<&str> =
        list["data"].as_array().expect("models").iter().filter_map(|m| m["id"].as_str()).collect();
    assert!(ids.iter().all(|id| id.starts_with("beta/") || *id == "acme/plain"), "{ids:?}");
    assert!(ids.contains(&"beta/fast") && list["total"] == json!(ids.len()), "{list}");
    // Hidden models, and as many models that do not exist.
    for (hidden, none) in [
        ("acme/fast", "acme/none"),
        ("acme/embed", "acme/ember"),
        ("smart", "smert"),
        ("demo/chat", "demo/chit"),
    ] {
        for place in [
            "/v1/models/<id>",
            "/v1/models?after=<id>",
            "/v1/models?search=<id>",
            "/v1/models/compare?models=<id>,beta/fast",
        ] {
            let ask = async |id: &str| shape(&key.get(&place.replace("<id>", id)).await, id);
            assert_eq!(ask(hidden).await, ask(none).await, "{place} of {hidden}");
        }
    }
    for query in [
        "provider=demo",
        "search=Quick",
        "feature=vision",
        "category=embedding&provider=acme",
        "modality=image&provider=acme",
    ] {
        let list = key.get(&format!("/v1/models?{query}")).await.ok().json();
        assert_eq!(
            (&list["data"], &list["total"], &list["has_more"]),
            (&json!([]), &json!(0), &json!(false)),
            "{query}"
        );
    }
    // A shared bare name leads to the key's own model. Other names get a refusal without details.
    assert_eq!(key.get("/v1/models/fast").await.ok().json()["id"], "beta/fast");
    let answer = key.post_json(PATH, &chat_with("fast", json!({}))).await.ok();
    assert_eq!(answer.json()["gateway"]["model_used"], "beta/fast");
    let hidden = [("smart", 403), ("acme/fast:floor", 403), ("embed", 403)];
    for (name, status) in hidden {
        let answer = key.post_json(PATH, &chat_with(name, json!({}))).await;
        let text = answer.text().replace(name, "<name>");
        assert_eq!(answer.status, status, "{name}: {text}");
        assert!(!text.contains("acme") && !text.contains("Quick"), "{name}: {text}");
    }
    for fallback in ["acme/fast", "smart"] {
        let body = chat_with("beta/spare", json!({ "routing": { "fallback": [fallback] } }));
        assert_eq!(key.post_json(PATH, &body).await.status, 403, "{fallback}");
    }
    assert_eq!(world.upstream.hits(), 0, "acme was never called");
}
