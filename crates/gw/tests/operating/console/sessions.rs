//! The sign-in with a key, and what its session may do.

use gw_testkit::Client;
use serde_json::json;

use crate::harness::browser::{page, page_with, session, session_of, sign_in};
use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, EXPIRED, KEY, METERED, Setup, World, assert_error, chat, world};

async fn status(world: &World, session: &str) -> u16 {
    page_with(&world.gateway, session).get("/v1/me").await.status
}

#[tokio::test]
async fn k07_a_key_signs_in_without_public_url_and_the_page_learns_what_it_may() {
    let world = world().await;
    let anonymous = session(&page(&world.gateway)).await;
    assert_eq!(anonymous["signed_in"], false);
    assert_eq!(anonymous["ways"], json!({ "key": true, "link": true, "oidc": null }));
    assert_eq!((&anonymous["host_is_known"], &anonymous["can_keep_cookie"]), (&json!(true), &json!(true)));
    for secret in ["version", "api", "role"] {
        assert!(anonymous.get(secret).is_none(), "{secret} is for those who are signed in");
    }
    let answer =
        page(&world.gateway).post_json("/auth/key", &json!({ "key": format!(" {ADMIN}\n") })).await.ok();
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let (id, attributes) = session_of(&answer).expect("a session");
    assert_eq!(attributes, "Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict");
    let who = session(&page_with(&world.gateway, &id)).await;
    assert_eq!(who, answer.json());
    assert_eq!((&who["kind"], &who["role"]), (&json!("key"), &json!("admin")));
    let all =
        json!({ "read": true, "operate": true, "configure": true, "read_payloads": true, "generate": true });
    assert_eq!(who["rights"], all);
    assert!(!who.to_string().contains(ADMIN) && !world.gateway.stderr().join("\n").contains(&id));
    let audit =
        world.gateway.client().with_key(ADMIN).get("/admin/v1/audit?action=session.").await.ok().json();
    assert_eq!(audit["data"][0]["action"], "session.create");
}

#[tokio::test]
async fn k06_wrong_keys_begin_no_session_and_count_as_guesses() {
    let world = Setup { server: "bad_keys_per_minute = 6", ..Setup::default() }.start().await;
    let page = page(&world.gateway);
    for key in ["", "x", EXPIRED, "sk-gw-0000000000000000000000000000000000000000000000", &"k".repeat(2000)] {
        let refused = page.post_json("/auth/key", &json!({ "key": key })).await;
        assert_error(key, &refused, 401, "authentication_error", "invalid_api_key");
        assert_eq!(session_of(&refused), None, "{key}");
    }
    for (body, code) in [
        (json!({}), "missing_required_parameter"),
        (json!({ "key": 1 }), "invalid_type"),
        (json!({ "key": KEY, "role": "admin" }), "unsupported_parameter"),
    ] {
        assert_eq!(page.post_json("/auth/key", &body).await.code(), code, "{body}");
    }
    let link = json!({ "token": "x" });
    assert_eq!(page.post_json("/auth/link", &link).await.status, 403);
    for (url, body) in [
        ("/auth/key", &json!({ "key": "x" })),
        ("/auth/link", &link),
        ("/auth/links", &json!({ "key": "x" })),
    ] {
        assert_eq!(page.post_json(url, body).await.code(), "rate_limit_exceeded", "{url}");
    }
    assert_eq!(
        page.post_json("/auth/key", &json!({ "key": KEY })).await.status,
        200,
        "a correct key is served"
    );
}

#[tokio::test]
async fn c24_an_ended_session_that_asks_again_is_no_guess_of_a_key() {
    let world = Setup { server: "bad_keys_per_minute = 3", ..Setup::default() }.start().await;
    let id = sign_in(&world.gateway, ADMIN).await;
    page_with(&world.gateway, &id).post_json("/auth/logout", &json!({})).await;
    for cookie in [&*id, &"A".repeat(43)] {
        for _ in 0..5 {
            let refused = page_with(&world.gateway, cookie).get("/admin/v1/keys").await;
            assert_error(cookie, &refused, 401, "authentication_error", "invalid_api_key");
        }
    }
    let wrong = world.gateway.client().with_key("sk-wrong");
    for expected in [401, 401] {
        assert_eq!(wrong.get("/v1/me").await.status, expected);
    }
    let guesses = ["x", &"A".repeat(42), &format!("{}+", "A".repeat(42))]
        .map(|cookie| page_with(&world.gateway, cookie));
    let mut answers = Vec::new();
    for guess in guesses {
        answers.push(guess.get("/admin/v1/keys").await.status);
    }
    assert_eq!(answers, [401, 429, 429], "what no session can have counts beside wrong keys");
    assert_eq!(wrong.get("/v1/me").await.status, 429);
}

#[tokio::test]
async fn k08_only_own_pages_sign_in_and_use_sessions() {
    let world = world().await;
    let (own, client) = (page(&world.gateway), world.gateway.client());
    let id = sign_in(&world.gateway, ADMIN).await;
    let origin = format!("http://{}", world.gateway.addr);
    let strangers: [(&str, Client); 7] = [
        ("no origin", client.clone()),
        ("another site", client.with_header("origin", "https://evil.example")),
        ("another port", client.with_header("origin", "http://127.0.0.1:1")),
        (
            "a sandboxed page",
            client.with_header("origin", "null").with_header("sec-fetch-site", "same-origin"),
        ),
        ("another name", client.with_header("origin", &origin.replace("127.0.0.1", "localhost"))),
        (
            "a cross-site fetch",
            client.with_header("origin", &origin).with_header("sec-fetch-site", "cross-site"),
        ),
        (
            "a same-site fetch",
            client.with_header("origin", &origin).with_header("sec-fetch-site", "same-site"),
        ),
    ];
    for (label, client) in &strangers {
        let with_session =
            client.with_header("cookie", &format!("{}={id}", crate::harness::browser::SESSION));
        for (client, url, body) in [
            (client, "/auth/key", json!({ "key": ADMIN })),
            (client, "/auth/link", json!({ "token": "x" })),
            (&with_session, "/auth/logout", json!({})),
            (&with_session, "/admin/v1/keys", json!({ "name": "evil" })),
            (&with_session, "/v1/chat/completions", chat("acme/fast")),
        ] {
            let refused = client.post_json(url, &body).await;
            assert_error(&format!("{label}: {url}"), &refused, 403, "permission_error", "cross_site_request");
            assert_eq!(session_of(&refused), None, "{label}: {url}");
        }
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let body = json!({ "key": ADMIN }).to_string();
        let refused = own.send("POST", "/auth/key", Some(kind), Some(body.as_bytes())).await;
        assert_eq!(refused.code(), "unsupported_media_type", "{kind}");
        let chat = chat("acme/fast").to_string();
        let page = page_with(&world.gateway, &id);
        let refused = page.send("POST", "/v1/chat/completions", Some(kind), Some(chat.as_bytes())).await;
        assert_eq!(refused.code(), "unsupported_media_type", "{kind}");
    }
    assert_eq!((world.upstream.hits(), status(&world, &id).await), (0, 200), "the session still lives");
}

#[tokio::test]
async fn i18_a_host_that_a_stranger_named_gets_no_session() {
    let world = world().await;
    let id = sign_in(&world.gateway, ADMIN).await;
    let rebound = |host: &str| {
        let origin = format!("http://{host}");
        let client = world.gateway.client().with_header("host", host).with_header("origin", &origin);
        client.with_header("sec-fetch-site", "same-origin")
    };
    for host in ["evil.example", "evil.example:4000", "localhost.evil.example", "192.0.2.7:4000"] {
        let client = rebound(host);
        let refused = client.post_json("/auth/key", &json!({ "key": ADMIN })).await;
        assert_error(host, &refused, 403, "permission_error", "cross_site_request");
        assert!(refused.message().contains("server.console_origins"), "{}", refused.message());
        let with_session =
            client.with_header("cookie", &format!("{}={id}", crate::harness::browser::SESSION));
        assert_eq!(with_session.get("/admin/v1/keys").await.code(), "cross_site_request", "{host}");
        let report = session(&with_session).await;
        assert_eq!((&report["signed_in"], &report["host_is_known"]), (&json!(false), &json!(false)));
    }
    let port = world.gateway.addr.port();
    for host in [format!("localhost:{port}"), "localhost:1".to_owned(), "[::1]:4000".to_owned()] {
        let answer = rebound(&host).post_json("/auth/key", &json!({ "key": ADMIN })).await;
        assert_eq!(answer.status, 200, "{host}: {}", answer.text());
    }
}

#[tokio::test]
async fn i19_a_session_ends_with_its_key_its_role_and_its_sign_out() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let begin = async |body: serde_json::Value| {
        let (secret, key) = create(&admin, body).await;
        let session = sign_in(&world.gateway, &secret).await;
        assert_eq!(status(&world, &session).await, 200);
        (format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id")), session)
    };
    let (url, session) = begin(json!({ "name": "revoked" })).await;
    assert_eq!(ask(&admin, "DELETE", &url, &json!({})).await.status, 200);
    let ended = page_with(&world.gateway, &session).get("/v1/me").await;
    assert_error("revoked", &ended, 401, "authentication_error", "invalid_api_key");
    for (name, change) in [
        ("demoted", json!({ "role": "viewer" })),
        ("promoted", json!({ "role": "admin" })),
        ("expired", json!({ "expires_at": "2020-01-01T00:00:00Z" })),
    ] {
        let (url, session) = begin(json!({ "name": name, "role": "operator" })).await;
        assert_eq!(ask(&admin, "PATCH", &url, &change).await.status, 200, "{name}");
        assert_eq!(status(&world, &session).await, 401, "{name}");
    }
    let (url, session) = begin(json!({ "name": "rotated" })).await;
    let rotated = ask(&admin, "POST", &format!("{url}/rotate"), &json!({ "grace_seconds": 0 })).await;
    assert_eq!((rotated.status, status(&world, &session).await), (200, 401));
    let (_, session) = begin(json!({ "name": "signs out" })).await;
    let out = page_with(&world.gateway, &session).post_json("/auth/logout", &json!({})).await;
    assert_eq!((out.status, status(&world, &session).await), (204, 401));
    let cleared = ("".to_owned(), "Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict".to_owned());
    assert_eq!(session_of(&out), Some(cleared));
}

#[tokio::test]
async fn k07_a_planted_session_is_not_the_session_after_the_sign_in() {
    let world = world().await;
    let planted = sign_in(&world.gateway, KEY).await;
    let answer =
        page_with(&world.gateway, &planted).post_json("/auth/key", &json!({ "key": ADMIN })).await.ok();
    let (own, _) = session_of(&answer).expect("a session");
    assert_ne!(own, planted);
    assert_eq!(
        (status(&world, &planted).await, status(&world, &own).await),
        (401, 200),
        "the planted one has ended"
    );
    let fixed = "f".repeat(43);
    let answer =
        page_with(&world.gateway, &fixed).post_json("/auth/key", &json!({ "key": ADMIN })).await.ok();
    assert_ne!(session_of(&answer).expect("a session").0, fixed);
    assert_eq!(status(&world, &fixed).await, 401);
}

#[tokio::test]
async fn a_session_generates_within_the_limits_of_its_key_and_sees_no_more_than_it() {
    let world = world().await;
    let id = sign_in(&world.gateway, METERED).await;
    let page = page_with(&world.gateway, &id);
    assert_eq!(page.get("/admin/v1/keys").await.code(), "admin_required");
    assert_eq!(page.get("/metrics").await.code(), "admin_required");
    assert_eq!(page.get("/v1/models").await.status, 200);
    for expected in [200, 200, 429] {
        let answer = page.post_json("/v1/chat/completions", &chat("acme/fast")).await;
        assert_eq!(answer.status, expected, "{}", answer.text());
    }
    let me = page.get("/v1/me").await.ok().json();
    assert_eq!(me["key"]["name"], "metered");
    assert_eq!(page.get("/v1/responses/resp_none").await.status, 401, "stored responses are for programs");
    let admin = world.gateway.client().with_key(ADMIN);
    let (viewer, _) = create(&admin, json!({ "name": "v", "role": "viewer" })).await;
    let id = sign_in(&world.gateway, &viewer).await;
    let page = page_with(&world.gateway, &id);
    assert_eq!(page.post_json("/v1/chat/completions", &chat("acme/fast")).await.code(), "role_not_allowed");
    let refused = page.post_json("/admin/v1/keys", &json!({ "name": "x" })).await;
    assert_error("a viewer", &refused, 403, "permission_error", "role_not_allowed");
}
