//! The sign-in of a browser against a scripted issuer, and the sessions that it begins. `tests/clients/node/sign-in.test.mjs` has a real
//! issuer and a real browser.

use gw_testkit::{Client, Response};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::issuer::{SigningKey, TestIssuer, now, token, unsigned_token};
use crate::harness::management::ask;
use crate::harness::{ADMIN, Setup, World, assert_error};

const ORIGIN: &str = "https://gw.example";
const SESSION: &str = "__Host-gateway-session";
const LOGIN: &str = "__Host-gateway-sign-in";

struct Site {
    issuer: TestIssuer,
    key: SigningKey,
    world: World,
}

/// A sign-in that a browser has begun.
struct Begun {
    cookie: String,
    state: String,
    nonce: String,
    challenge: String,
}

fn parameter(url: &str, name: &str) -> String {
    let query = url.split_once('?').expect("a query").1;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == name).unwrap_or_else(|| panic!("{name} in {url}")).1.to_owned()
}

/// The value of a cookie that an answer sets, and its attributes.
fn set_cookie(answer: &Response, name: &str) -> Option<(String, String)> {
    let cookies = answer.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case("set-cookie"));
    let mut cookies = cookies.filter_map(|(_, value)| value.strip_prefix(name)?.strip_prefix('='));
    let (value, attributes) = cookies.next()?.split_once(';')?;
    Some((value.to_owned(), attributes.trim().to_owned()))
}

impl Site {
    async fn start() -> Self {
        let key = SigningKey::es256();
        let issuer = TestIssuer::start(&[key.jwk("a")]).await;
        let lines = "client_id = \"gw\"\nclient_secret = \"p w\"\nrole_claim = \"roles\"\n\
            roles = { admin = [\"root\"], viewer = [\"staff\"] }";
        let extra = format!("[identity]\npublic_url = \"{ORIGIN}\"\n{}", issuer.config(lines));
        let world = Setup { extra, ..Setup::default() }.start().await;
        Self { issuer, key, world }
    }

    fn browser(&self) -> Client {
        self.world.gateway.client()
    }

    async fn begin(&self) -> Begun {
        let answer = self.browser().get("/auth/login").await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        let location = answer.header("location").expect("the issuer's page").to_owned();
        assert!(
            location.starts_with(&format!("{}/authorize?response_type=code&client_id=gw&", self.issuer.url))
        );
        let (cookie, attributes) = set_cookie(&answer, LOGIN).expect("a cookie");
        assert_eq!(attributes, "Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax");
        Begun {
            cookie,
            state: parameter(&location, "state"),
            nonce: parameter(&location, "nonce"),
            challenge: parameter(&location, "code_challenge"),
        }
    }

    /// The claims of a good ID token.
    fn claims(&self, begun: &Begun, more: Value) -> Value {
        let own =
            json!({ "aud": "gw", "nonce": begun.nonce, "preferred_username": "ann", "roles": ["root"] });
        crate::harness::with(self.issuer.claims(own), more)
    }

    /// Comes back from the issuer, whose ID token is this.
    async fn come_back(&self, begun: &Begun, id_token: String) -> Response {
        self.issuer.give(id_token);
        let client = self.browser().with_header("cookie", &format!("{LOGIN}={}", begun.cookie));
        client.get(&format!("/auth/callback?code=c-1&state={}", begun.state)).await
    }

    /// Signs in, and gives the id of the session.
    async fn sign_in(&self, more: Value) -> String {
        let begun = self.begin().await;
        let id_token = token(&self.key, "a", &self.claims(&begun, more));
        let answer = self.come_back(&begun, id_token).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let (id, attributes) = set_cookie(&answer, SESSION).expect("a session");
        assert_eq!(attributes, "Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict");
        id
    }

    /// A page of the gateway, in a browser with this session.
    fn page(&self, session: &str) -> Client {
        self.browser()
            .with_header("cookie", &format!("{SESSION}={session}"))
            .with_header("origin", ORIGIN)
            .with_header("sec-fetch-site", "same-origin")
    }

    async fn status(&self, session: &str) -> u16 {
        self.page(session).get("/admin/v1/keys").await.status
    }

    async fn database(&self) -> SqliteConnection {
        let file = self.world.gateway.dir().join("data/gateway.db");
        SqliteConnectOptions::new().filename(file).connect().await.expect("the store")
    }

    async fn execute(&self, sql: &'static str) {
        let mut store = self.database().await;
        sqlx::query(sql).execute(&mut store).await.expect(sql);
        store.close().await.expect("closed");
    }
}

#[tokio::test]
async fn k07_a_sign_in_begins_a_session_with_256_random_bits_that_the_store_does_not_hold() {
    let site = Site::start().await;
    let begun = site.begin().await;
    let id_token = token(&site.key, "a", &site.claims(&begun, json!({})));
    let answer = site.come_back(&begun, id_token).await.ok();
    let (form, authorization) = site.issuer.token_request();
    assert_eq!(authorization.as_deref(), Some("Basic Z3c6cCUyMHc="), "RFC 6749, 2.3.1: gw:p%20w");
    assert!(form.starts_with(
        "grant_type=authorization_code&code=c-1&redirect_uri=https%3A%2F%2Fgw.example%2Fauth%2Fcallback&"
    ));
    let verifier = parameter(&format!("?{form}"), "code_verifier");
    use base64::Engine as _;
    use sha2::Digest as _;
    let challenge = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(verifier));
    assert_eq!(challenge, begun.challenge, "PKCE");
    let (id, _) = set_cookie(&answer, SESSION).expect("a session");
    assert_eq!(base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(&id).expect("base64url").len(), 32);
    assert_eq!(site.status(&id).await, 200);
    let page = site.page(&id).get("/auth/session").await.ok();
    assert!(page.text().contains("Signed in as <strong>ann</strong> (admin)"), "{}", page.text());
    assert!(!page.text().contains("<script"), "no script");
    let mut store = site.database().await;
    let rows: Vec<(Vec<u8>, String, String)> =
        sqlx::query_as("SELECT hash, subject, identity FROM gateway_sessions")
            .fetch_all(&mut store)
            .await
            .expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].0, sha2::Sha256::digest(&id).to_vec());
    assert!(!format!("{rows:?}").contains(&id));
    assert!(!site.world.gateway.stderr().join("\n").contains(&id));
    let others = [site.sign_in(json!({})).await, site.sign_in(json!({})).await];
    assert!(others[0] != others[1] && !others.contains(&id));
}

#[tokio::test]
async fn k07_a_session_ends_when_it_is_idle_too_old_or_logged_out_and_rotates_at_a_sign_in() {
    let site = Site::start().await;
    let idle = site.sign_in(json!({})).await;
    site.execute("UPDATE gateway_sessions SET seen_at = seen_at - 1700").await;
    assert_eq!(site.status(&idle).await, 200, "28 minutes");
    site.execute("UPDATE gateway_sessions SET seen_at = seen_at - 1800").await;
    assert_eq!(site.status(&idle).await, 401, "30 minutes");
    let old = site.sign_in(json!({})).await;
    site.execute("UPDATE gateway_sessions SET created_at = created_at - 43000").await;
    assert_eq!(site.status(&old).await, 200, "almost 12 hours");
    site.execute("UPDATE gateway_sessions SET created_at = created_at - 200").await;
    assert_eq!(site.status(&old).await, 401, "12 hours, although it is in use");

    let first = site.sign_in(json!({})).await;
    let begun = site.begin().await;
    site.issuer.give(token(&site.key, "a", &site.claims(&begun, json!({}))));
    let cookies = format!("{LOGIN}={}; {SESSION}={first}", begun.cookie);
    let client = site.browser().with_header("cookie", &cookies);
    let answer = client.get(&format!("/auth/callback?code=c&state={}", begun.state)).await.ok();
    let (second, _) = set_cookie(&answer, SESSION).expect("a session");
    assert_eq!((site.status(&first).await, site.status(&second).await), (401, 200));
    let out = ask(&site.page(&second), "POST", "/auth/logout", &json!({})).await;
    assert_eq!(out.status, 204);
    let cleared = ("".to_owned(), "Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict".to_owned());
    assert_eq!(set_cookie(&out, SESSION), Some(cleared));
    assert_eq!(site.status(&second).await, 401);
    for planted in ["", "x", &"p".repeat(43), &"p".repeat(4000)] {
        assert_eq!(site.status(planted).await, 401, "{planted}");
    }
}

#[tokio::test]
async fn k07_a_changed_role_ends_the_sessions_of_the_old_one() {
    let site = Site::start().await;
    let admin = site.sign_in(json!({})).await;
    let beside = site.sign_in(json!({})).await;
    assert_eq!((site.status(&admin).await, site.status(&beside).await), (200, 200));
    let other = site.sign_in(json!({ "sub": "user-2" })).await;
    let viewer = site.sign_in(json!({ "roles": ["staff"] })).await;
    assert_eq!((site.status(&admin).await, site.status(&beside).await), (401, 401));
    assert_eq!((site.status(&viewer).await, site.status(&other).await), (200, 200));
    let refused = ask(&site.page(&viewer), "POST", "/admin/v1/keys", &json!({ "name": "x" })).await;
    assert_error("a viewer", &refused, 403, "permission_error", "role_not_allowed");
    // The rules that gave the role are others now, as after a change of the configuration.
    site.execute("UPDATE gateway_sessions SET identity = replace(identity, '\"rules\":\"', '\"rules\":\"0')")
        .await;
    assert_eq!((site.status(&viewer).await, site.status(&other).await), (401, 401));
}

#[tokio::test]
async fn k08_a_session_is_for_own_pages_and_a_key_is_never_a_cookie() {
    let site = Site::start().await;
    let session = site.sign_in(json!({})).await;
    let cookie = format!("{SESSION}={session}");
    let foreign =
        |name: &str, value: &str| site.browser().with_header("cookie", &cookie).with_header(name, value);
    let body = json!({ "name": "evil" });
    for client in [
        foreign("origin", "https://evil.example"),
        foreign("sec-fetch-site", "cross-site"),
        foreign("sec-fetch-site", "same-site"),
        site.browser().with_header("cookie", &cookie),
        foreign("origin", ORIGIN).with_header("sec-fetch-site", "cross-site"),
    ] {
        let refused = ask(&client, "POST", "/admin/v1/keys", &body).await;
        assert_error("foreign", &refused, 403, "permission_error", "cross_site_request");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let refused = site
            .page(&session)
            .send("POST", "/admin/v1/keys", Some(kind), Some(b"{\"name\":\"evil\"}"))
            .await;
        assert_error(kind, &refused, 415, "invalid_request_error", "unsupported_media_type");
    }
    let refused = site.page(&session).send("DELETE", "/admin/v1/cache", None, None).await;
    assert_eq!(refused.status, 415, "a change without a body, too");
    assert_eq!(
        ask(&site.page(&session), "POST", "/admin/v1/keys", &json!({ "name": "own" })).await.status,
        201
    );
    let keys = site.world.gateway.client().with_key(ADMIN).get("/admin/v1/keys").await.ok().text();
    assert!(keys.contains("\"own\"") && !keys.contains("evil"));
    for name in [SESSION, "authorization", "x-api-key"] {
        let client =
            site.browser().with_header("cookie", &format!("{name}={ADMIN}")).with_header("origin", ORIGIN);
        assert_eq!(client.get("/admin/v1/keys").await.status, 401, "{name}");
    }
    // A key in its header counts, whatever the cookie says.
    let with_key = site.page("x").with_key(ADMIN).get("/admin/v1/keys").await;
    assert_eq!(with_key.status, 200);
    let spent =
        site.page(&session).post_json("/v1/chat/completions", &crate::harness::chat("acme/fast")).await;
    assert_eq!((spent.status, site.world.upstream.hits()), (200, 1), "{}", spent.text());
    let admin = site.world.gateway.client().with_key(ADMIN);
    let row = crate::harness::logged(&admin, spent.header("x-request-id").expect("an id")).await;
    assert_eq!(
        (&row["key_name"], &row["status"]),
        (&json!("ann"), &json!("ok")),
        "it is charged to the person"
    );
}

#[tokio::test]
async fn id_tokens_that_nobody_may_believe_begin_no_session() {
    let site = Site::start().await;
    let forger = SigningKey::es256();
    let cases: [(&str, Value, &str); 9] = [
        ("another nonce", json!({ "nonce": "x" }), "another sign-in"),
        ("no nonce", json!({ "nonce": null }), "another sign-in"),
        ("another issuer", json!({ "iss": "https://idp.example" }), "issuer"),
        ("another audience", json!({ "aud": "model-gateway" }), "audience"),
        ("another party", json!({ "aud": ["gw", "x"], "azp": "x" }), "audience"),
        ("expired", json!({ "exp": now() - 60 }), "expired"),
        ("not valid yet", json!({ "nbf": now() + 90 }), "not valid yet"),
        ("no role", json!({ "roles": [] }), "no role"),
        ("no subject", json!({ "sub": null }), "claim"),
    ];
    for (label, more, reason) in cases {
        let begun = site.begin().await;
        let id_token = token(&site.key, "a", &site.claims(&begun, more));
        let answer = site.come_back(&begun, id_token).await;
        assert_error(label, &answer, 403, "permission_error", "sign_in_failed");
        assert!(answer.message().contains(reason), "{label}: {}", answer.message());
        assert_eq!(set_cookie(&answer, SESSION), None, "{label}");
    }
    let begun = site.begin().await;
    let claims = site.claims(&begun, json!({}));
    for (label, id_token) in [
        ("alg none", unsigned_token("none", &claims)),
        ("unsigned", unsigned_token("ES256", &claims)),
        ("a forger", token(&forger, "a", &claims)),
        ("an unknown key", token(&site.key, "b", &claims)),
        ("no token", "x".to_owned()),
    ] {
        let answer = site.come_back(&begun, id_token).await;
        assert_error(label, &answer, 403, "permission_error", "sign_in_failed");
    }
    let other = site.begin().await;
    let good = token(&site.key, "a", &site.claims(&begun, json!({})));
    let mixed = Begun { cookie: other.cookie, ..begun };
    let answer = site.come_back(&mixed, good).await;
    assert_error("the state of another browser", &answer, 403, "permission_error", "sign_in_failed");
}
