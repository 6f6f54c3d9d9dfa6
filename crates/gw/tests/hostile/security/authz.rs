//! Access rights: every route of the router's own table, with every kind of key and every method.

use gw_server::{Guard, ROUTES, Route};
use gw_store::Role;
use gw_testkit::measured::at_most;
use gw_testkit::{Answer, Client};
use serde_json::json;

use crate::harness::management::{ask, create, worlds};
use crate::harness::roles;
use crate::harness::{ADMIN, EXPIRED, KEY, Setup, assert_error};

/// A URL of each route, and the status of each of its methods for a caller with the rights, in the order of the route's
/// own list (without OPTIONS). The body is an empty object. A new route without a row fails the test.
pub(super) const URLS: [(&str, &str, &[u16]); 78] = [
    ("/v1/completions", "/v1/completions", &[400]),
    ("/v1/chat/completions", "/v1/chat/completions", &[400]),
    ("/v1/embeddings", "/v1/embeddings", &[400]),
    ("/v1/rerank", "/v1/rerank", &[400]),
    ("/v1/score", "/v1/score", &[400]),
    ("/v1/moderations", "/v1/moderations", &[400]),
    ("/v1/images/generations", "/v1/images/generations", &[400]),
    ("/v1/images/edits", "/v1/images/edits", &[415]),
    ("/v1/images/variations", "/v1/images/variations", &[415]),
    ("/v1/audio/speech", "/v1/audio/speech", &[400]),
    ("/v1/audio/transcriptions", "/v1/audio/transcriptions", &[415]),
    ("/v1/audio/translations", "/v1/audio/translations", &[415]),
    ("/v1beta/models/{id}:generateContent", "/v1beta/models/acme/fast:generateContent", &[400]),
    ("/v1beta/models/{id}:streamGenerateContent", "/v1/models/acme/fast:streamGenerateContent", &[400]),
    ("/v1beta/models/{id}:countTokens", "/v1beta/models/acme/fast:countTokens", &[400]),
    ("/v1beta/models/{id}:embedContent", "/v1beta/models/acme/embed:embedContent", &[400]),
    ("/v1beta/models/{id}:batchEmbedContents", "/v1beta/models/acme/embed:batchEmbedContents", &[400]),
    ("/v1beta/models", "/v1beta/models", &[200, 200]),
    ("/v1beta/models/{id}", "/v1beta/models/acme/fast", &[200, 200]),
    ("/v1beta/*", "/v1beta/files", &[]),
    ("/v1/messages", "/v1/messages", &[400]),
    ("/v1/messages/count_tokens", "/v1/messages/count_tokens", &[400]),
    ("/v1/responses", "/v1/responses", &[426, 426, 400]),
    ("/v1/realtime", "/v1/realtime?model=demo/realtime", &[426, 426]),
    ("/v1/responses/input_tokens", "/v1/responses/input_tokens", &[400]),
    ("/v1/responses/compact", "/v1/responses/compact", &[400]),
    ("/v1/responses/{id}", "/v1/responses/resp_none", &[404, 404, 404]),
    ("/v1/responses/{id}/cancel", "/v1/responses/resp_none/cancel", &[404]),
    ("/v1/responses/{id}/input_items", "/v1/responses/resp_none/input_items", &[404, 404]),
    ("/v1/models", "/v1/models", &[200, 200]),
    ("/v1/models/compare", "/v1/models/compare?models=acme/fast,beta/fast", &[200, 200]),
    ("/v1/models/{id}", "/v1/models/acme/fast", &[200, 200]),
    ("/v1/me", "/v1/me", &[200, 200]),
    ("/v1/*", "/v1/files", &[]),
    ("/healthz", "/healthz", &[200, 200]),
    ("/readyz", "/readyz", &[200, 200]),
    ("/metrics", "/metrics", &[200, 200]),
    ("/admin/v1/*", "/admin/v1/nothing", &[]),
    ("/auth/login", "/auth/login", &[404, 404]),
    ("/auth/callback", "/auth/callback", &[404, 404]),
    ("/auth/session", "/auth/session", &[200, 200]),
    ("/auth/logout", "/auth/logout", &[403]),
    ("/auth/key", "/auth/key", &[403]),
    ("/auth/link", "/auth/link", &[403]),
    ("/auth/links", "/auth/links", &[400]),
    ("/openapi.json", "/openapi.json", &[200, 200]),
    ("/docs", "/docs", &[200, 200]),
    ("unknown", "/nothing", &[]),
    ("/admin/v1/providers", "/admin/v1/providers", &[200, 200]),
    ("/admin/v1/budgets", "/admin/v1/budgets", &[200, 200]),
    ("/admin/v1/keys", "/admin/v1/keys", &[200, 200, 400]),
    ("/admin/v1/keys/{id}", "/admin/v1/keys/<id>", &[200, 200, 200, 200]),
    ("/admin/v1/keys/{id}/rotate", "/admin/v1/keys/<id>/rotate", &[200]),
    ("/admin/v1/teams", "/admin/v1/teams", &[200, 200]),
    ("/admin/v1/teams/{id}", "/admin/v1/teams/blue", &[200, 200, 200, 200]),
    ("/admin/v1/usage", "/admin/v1/usage", &[200, 200]),
    ("/admin/v1/overview", "/admin/v1/overview?compare=true", &[200, 200]),
    ("/admin/v1/requests", "/admin/v1/requests", &[200, 200]),
    ("/admin/v1/requests/live", "/admin/v1/requests/live?limit=1", &[400, 400]),
    ("/admin/v1/requests/{id}", "/admin/v1/requests/req_none", &[404, 404]),
    ("/admin/v1/requests/{id}/payload", "/admin/v1/requests/req_none/payload", &[404]),
    ("/admin/v1/routing/explain", "/admin/v1/routing/explain", &[400]),
    ("/admin/v1/routing/drill", "/admin/v1/routing/drill", &[400]),
    ("/admin/v1/providers/{id}/probe", "/admin/v1/providers/nobody/probe", &[400]),
    ("/admin/v1/alerts", "/admin/v1/alerts", &[200, 200]),
    ("/admin/v1/alerts/{id}/test", "/admin/v1/alerts/nobody/test", &[404]),
    ("/admin/v1/audit", "/admin/v1/audit", &[200, 200]),
    ("/admin/v1/cache", "/admin/v1/cache", &[200, 200, 200]),
    ("/admin/v1/config", "/admin/v1/config", &[200, 200]),
    ("/admin/v1/config/history", "/admin/v1/config/history", &[200, 200]),
    ("/admin/v1/config/export", "/admin/v1/config/export", &[200, 200]),
    ("/admin/v1/config/undo", "/admin/v1/config/undo", &[404]),
    ("/admin/v1/config/{id}", "/admin/v1/config/timeouts", &[200, 200, 201, 200, 200]),
    ("/admin/v1/config/{id}/{id}", "/admin/v1/config/aliases/blue", &[404, 404, 400, 404, 404]),
    ("/admin/v1/reload", "/admin/v1/reload", &[200]),
    ("/", "/", &[200, 200]),
    ("/ui/*", "/ui/requests", &[200, 200]),
    ("passthrough", "/passed/x", &[200, 200, 200, 200, 200, 200]),
];

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"];

/// The URLs that cost money, which a viewer may not use.
const GENERATION: [&str; 24] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/score",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/images/variations",
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1beta/models/{id}:generateContent",
    "/v1beta/models/{id}:streamGenerateContent",
    "/v1beta/models/{id}:countTokens",
    "/v1beta/models/{id}:embedContent",
    "/v1beta/models/{id}:batchEmbedContents",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/v1/realtime",
    "/v1/responses/input_tokens",
    "/v1/responses/compact",
    "passthrough",
];

/// Whether a role may send this method to a URL with this guard.
fn has_rights(guard: Guard, method: &str, role: Option<Role>) -> bool {
    let is_read = matches!(method, "GET" | "HEAD");
    match (guard, role) {
        (Guard::Open | Guard::Key, _) | (_, Some(Role::Admin)) => true,
        (_, None | Some(Role::Inference)) => false,
        (Guard::ViewerKey, _) => true,
        (Guard::OperatorKey, Some(role)) => is_read || role == Role::Operator,
        (Guard::AdminKey, _) => is_read,
    }
}

/// The status, and the code of a refusal, by the order of checks: the key first, then the role, the URL and the method.
/// The endpoint answers with one of `statuses`.
fn expected(
    route: &Route,
    statuses: &[u16],
    method: &str,
    role: Option<Role>,
) -> (u16, Option<&'static str>) {
    if method == "OPTIONS" {
        return (204, None);
    }
    let has_socket = ["/v1/responses", "/v1/realtime"].contains(&route.pattern);
    if has_socket && matches!(method, "GET" | "HEAD") {
        return (426, Some("upgrade_required"));
    }
    if route.guard != Guard::Open && role.is_none() {
        return (401, Some("invalid_api_key"));
    }
    if !has_rights(route.guard, method, role) {
        let is_inference = role == Some(Role::Inference);
        return (403, Some(if is_inference { "admin_required" } else { "role_not_allowed" }));
    }
    let Some(methods) = route.methods else { return (404, Some("unknown_url")) };
    let methods: Vec<&str> = methods.split(", ").filter(|method| *method != "OPTIONS").collect();
    assert_eq!(methods.len(), statuses.len(), "{}: a status for each of {methods:?}", route.pattern);
    match methods.iter().position(|allowed| *allowed == method) {
        Some(_) if role == Some(Role::Viewer) && GENERATION.contains(&route.pattern) => {
            (403, Some("role_not_allowed"))
        }
        Some(place) => (statuses[place], None),
        None => (405, Some("method_not_allowed")),
    }
}

#[tokio::test]
async fn i09_every_route_role_and_method_answers_as_its_guard_says() {
    let extra = roles::keys() + "[[passthrough]]\npath = \"/passed\"\nprovider = \"beta\"\n";
    // The requests without a correct key are more than an address may send in a minute.
    let server = "bad_keys_per_minute = 0";
    let world = Setup { server, extra, ..Setup::default() }.start().await;
    world.second.always(Answer::json(200, &json!({})));
    let admin = world.gateway.client().with_key(ADMIN);
    let nobody = world.gateway.client();
    let callers: [(&str, Client, Option<Role>); 7] = [
        ("nobody", nobody.clone(), None),
        ("a stranger", nobody.with_key("sk-gw-stranger"), None),
        ("an expired key", nobody.with_key(EXPIRED), None),
        ("an inference key", nobody.with_key(KEY), Some(Role::Inference)),
        ("a viewer", nobody.with_key(roles::VIEWER), Some(Role::Viewer)),
        ("an operator", nobody.with_key(roles::OPERATOR), Some(Role::Operator)),
        ("an admin", admin.clone(), Some(Role::Admin)),
    ];
    let mut urls: std::collections::BTreeMap<_, _> =
        URLS.map(|(pattern, url, statuses)| (pattern, (url, statuses))).into();
    for route in ROUTES {
        let (pattern_url, statuses) = urls
            .remove(route.pattern)
            .unwrap_or_else(|| panic!("{} has no entry in the matrix", route.pattern));
        for (caller, client, role) in &callers {
            // A caller with the rights may change and revoke the key, and delete the team.
            ask(&admin, "PUT", "/admin/v1/teams/blue", &json!({})).await;
            let (_, key) = create(&admin, json!({ "name": "victim" })).await;
            let id = key["id"].as_str().expect("an id").to_owned();
            let url = pattern_url.replace("<id>", &id);
            for method in METHODS {
                let label = format!("{method} {url} by {caller}");
                let body = (!matches!(method, "GET" | "HEAD" | "OPTIONS")).then_some(&b"{}"[..]);
                let answer = client.send(method, &url, Some("application/json"), body).await;
                let (status, code) = expected(route, statuses, method, *role);
                assert_eq!(answer.status, status, "{label}: {}", answer.text());
                match code {
                    _ if method == "HEAD" || status == 204 => assert!(answer.body.is_empty(), "{label}"),
                    // Errors of Anthropic's API have no code.
                    Some(_) if url.starts_with("/v1/messages") => {
                        assert_eq!(answer.json()["type"], "error", "{label}");
                    }
                    Some(code) => assert_eq!(answer.code(), code, "{label}"),
                    None if status == 404 => {
                        assert_ne!(answer.code(), "unknown_url", "{label}: the row is not dispatched");
                    }
                    None => {}
                }
                assert!(answer.header("x-request-id").is_some(), "{label}");
            }
            if !matches!(role, Some(Role::Operator | Role::Admin)) {
                let kept = admin.get(&format!("/admin/v1/keys/{id}")).await.ok().json();
                assert!(
                    kept["revoked_at"].is_null() && kept["rotated"].is_null(),
                    "{caller} on {url}: {kept}"
                );
            }
        }
    }
    assert!(urls.is_empty(), "of no route: {urls:?}");
}

/// Texts with a meaning in SQL, paths, shells, HTML pages or logs.
const PAYLOADS: [&str; 28] = [
    "'",
    "''",
    "\"",
    "`",
    "\\",
    ";",
    "--",
    "/*",
    "%",
    "_",
    "%25",
    "' OR '1'='1",
    "' OR 1=1--",
    "\" OR \"\"=\"",
    "'; DROP TABLE keys;--",
    "'; UPDATE keys SET role='admin';--",
    "x' UNION SELECT id, hash FROM keys--",
    "' || (SELECT hex(hash) FROM keys) || '",
    "' OR pg_sleep(8)--",
    "1;SELECT pg_sleep(8)",
    "' AND randomblob(1000000000)--",
    "key_id",
    "key_id; DELETE FROM ledger",
    "../../v1/models",
    "<img src=x onerror=alert(1)>",
    "$(id)",
    "a\u{202e}b",
    "é'ß",
];

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn i02_payloads_in_filters_sorts_groups_and_ids_are_only_text() {
    for world in worlds().await {
        let admin = world.gateway.client().with_key(ADMIN);
        create(&admin, json!({ "name": "kept" })).await;
        let before = admin.get("/admin/v1/keys").await.ok().body;
        let places = [
            ("/admin/v1/usage?by=", 400),
            ("/admin/v1/usage?format=", 400),
            ("/admin/v1/usage?since=", 400),
            ("/admin/v1/usage?until=", 400),
            ("/admin/v1/usage?key=", 404),
            ("/admin/v1/usage?team=", 404),
            ("/admin/v1/usage?model=", 200),
            ("/admin/v1/usage?provider=", 200),
            ("/admin/v1/usage?by=key&model=", 200),
            ("/admin/v1/usage?order=", 400),
            ("/admin/v1/usage?", 400),
            ("/admin/v1/requests?key=", 404),
            ("/admin/v1/requests?team=", 404),
            ("/admin/v1/requests?model=", 200),
            ("/admin/v1/requests?provider=", 200),
            ("/admin/v1/requests?status=", 200),
            ("/admin/v1/requests?since=", 400),
            ("/admin/v1/requests?limit=", 400),
            ("/admin/v1/requests?after=", 400),
            ("/admin/v1/requests?sort=", 400),
            ("/admin/v1/keys?team=", 404),
            ("/admin/v1/keys?name=", 200),
            ("/admin/v1/keys?after=", 404),
            ("/admin/v1/keys?limit=", 400),
            ("/admin/v1/keys/", 404),
            ("/admin/v1/teams/", 404),
            ("/admin/v1/requests/", 404),
        ];
        for (place, status) in places {
            for payload in PAYLOADS {
                let start = std::time::Instant::now();
                let answer = admin.get(&format!("{place}{}", encode(payload))).await;
                assert_eq!(answer.status, status, "{place}{payload}: {}", answer.text());
                at_most(
                    "i02_payloads_in_filters_sorts_groups_and_ids_are_only_text",
                    start.elapsed().as_secs(),
                    5,
                );
                let text = answer.text();
                for inside in
                    ["sqlite", "SQLite", "postgres", "ostgreSQL", "SELECT id", "syntax error", ".rs:"]
                {
                    let echoed = payload.contains(inside);
                    assert!(echoed || !text.contains(inside), "{place}{payload}: {text}");
                }
            }
        }
        for payload in PAYLOADS {
            let made = ask(&admin, "POST", "/admin/v1/keys", &json!({ "name": payload })).await;
            assert_eq!((made.status, &made.json()["name"]), (201, &json!(payload)));
            let id = made.json()["id"].as_str().expect("an id").to_owned();
            admin.send("DELETE", &format!("/admin/v1/keys/{id}"), None, None).await.ok();
        }
        assert_eq!(admin.get("/admin/v1/keys").await.ok().body, before, "the payload had no effect");
    }
}

#[tokio::test]
async fn k11_ids_of_nobody_and_crafted_ids_are_404_for_every_method() {
    for world in worlds().await {
        let admin = world.gateway.client().with_key(ADMIN);
        let (_, key) = create(&admin, json!({ "name": "kept" })).await;
        let id = key["id"].as_str().expect("an id");
        let crafted = [
            "sk-gw-000000".to_owned(),
            "cfg-000000000000".to_owned(),
            id.to_lowercase().replace("sk-gw", "SK-GW"),
            format!("{id}x"),
            id[..11].to_owned(),
            format!("{id}%00"),
            format!("{id}%20"),
            format!("%20{id}"),
            format!("{id}%2F"),
            format!("x%2F..%2F{id}"),
            format!("{id}%25"),
            "%ff".to_owned(),
            "%".to_owned(),
            "%2e%2e".to_owned(),
            encode("' OR '1'='1"),
            "x".repeat(4000),
            "null".to_owned(),
            "*".to_owned(),
        ];
        for id in &crafted {
            let urls: [(&str, String); 8] = [
                ("GET", format!("/admin/v1/keys/{id}")),
                ("PATCH", format!("/admin/v1/keys/{id}")),
                ("DELETE", format!("/admin/v1/keys/{id}")),
                ("POST", format!("/admin/v1/keys/{id}/rotate")),
                ("GET", format!("/admin/v1/teams/{id}")),
                ("DELETE", format!("/admin/v1/teams/{id}")),
                ("GET", format!("/admin/v1/requests/{id}")),
                ("GET", format!("/admin/v1/keys/{id}/../{id}")),
            ];
            for (method, url) in urls {
                let body = if method == "PATCH" { json!({ "role": "admin" }) } else { json!({}) };
                let answer = ask(&admin, method, &url, &body).await;
                let code = if url.contains("/../") { "unknown_url" } else { "not_found" };
                assert_error(&format!("{method} {url}"), &answer, 404, "invalid_request_error", code);
            }
            let query = if id.len() > 500 { "sk-gw-000000" } else { id };
            for url in
                ["usage?key=", "usage?team=", "requests?key=", "requests?team=", "keys?team=", "keys?after="]
            {
                let answer = admin.get(&format!("/admin/v1/{url}{query}")).await;
                let names_a_key = ["key=", "after="].iter().any(|end| url.ends_with(end));
                let status = match () {
                    () if query.contains("%00") => 400,
                    // A filter's value is trimmed, so spaces around an id do not change it.
                    () if names_a_key && query.trim_start_matches("%20").trim_end_matches("%20") != query => {
                        200
                    }
                    () => 404,
                };
                assert_eq!(answer.status, status, "{url}{query}: {}", answer.text());
            }
        }
        let mut made = key.clone();
        made.as_object_mut().expect("an object").remove("key");
        let mut kept = admin.get(&format!("/admin/v1/keys/{id}")).await.ok().json();
        kept.as_object_mut().expect("an object").remove("binding_limit").expect("it is read from the engine");
        assert_eq!(kept, made);
    }
}
