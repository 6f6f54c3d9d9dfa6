//! Tokens of an issuer in the place of a gateway key.

use gw_testkit::wait::within;
use gw_testkit::{Client, Response};
use serde_json::{Value, json};

use super::issuer::{SigningKey, TestIssuer, now, symmetric_token, token, token_with, unsigned_token};
use crate::admin::keys::ask;
use crate::harness::{ADMIN, Setup, World, assert_error, chat, logged};

const ROLES: &str = "role_claim = \"roles\"\ndefault_role = \"inference\"\nteam_claim = \"team\"\nmodels_claim = \"models\"\n\
    limits_claim = \"limits\"\nroles = { admin = [\"root\"], operator = [\"oncall\"], viewer = [\"staff\"] }";

async fn world_of(issuer: &TestIssuer, more: &str) -> World {
    let world = Setup { extra: issuer.config(more), ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    assert_eq!(ask(&admin, "PUT", "/admin/v1/teams/blue", &json!({ "rpm": 50 })).await.status, 201);
    world
}

async fn with_token(world: &World, token: &str) -> Response {
    world.gateway.client().with_key(token).get("/v1/me").await
}

#[tokio::test]
async fn tokens_of_every_accepted_algorithm_identify_their_holder() {
    let keys = [SigningKey::rs256(), SigningKey::ps256(), SigningKey::es256(), SigningKey::eddsa()];
    let jwks: Vec<Value> = keys.iter().map(|key| key.jwk(key.algorithm())).collect();
    let issuer = TestIssuer::start(&jwks).await;
    let world = world_of(&issuer, ROLES).await;
    let mut ids = std::collections::BTreeSet::new();
    for key in &keys {
        let claims = issuer
            .claims(json!({ "preferred_username": "ann", "team": "blue", "models": ["acme/plain"],
            "limits": { "rpm": 70, "budget_usd": 2.5 } }));
        let token = token(key, key.algorithm(), &claims);
        let me = with_token(&world, &token).await.ok().json();
        let key = &me["key"];
        assert_eq!(
            (&key["name"], &key["team"], &key["role"]),
            (&json!("ann"), &json!("blue"), &json!("inference"))
        );
        assert_eq!(me["models"], json!(["acme/plain"]));
        assert_eq!(me["limits"][0]["requests_per_minute"]["limit"], 70);
        assert_eq!(me["limits"][0]["budget"]["limit_usd"], 2.5);
        assert_eq!(me["limits"][1]["requests_per_minute"]["limit"], 50);
        ids.insert(key["id"].as_str().expect("an id").to_owned());
        let client = world.gateway.client().with_key(&token);
        let answer = client.post_json("/v1/chat/completions", &chat("acme/plain")).await.ok();
        let refused = client.post_json("/v1/chat/completions", &chat("acme/fast")).await;
        assert_eq!(refused.code(), "model_not_allowed");
        let id = answer.header("x-request-id").expect("an id");
        let row = logged(&world.gateway.client().with_key(ADMIN), id).await;
        assert_eq!(
            (&row["key"], &row["key_name"], &row["team"]),
            (&key["id"], &json!("ann"), &json!("blue"))
        );
    }
    assert_eq!(ids.len(), 1, "the id is the subject's, whatever the token: {ids:?}");
}

/// Every token here is refused, and none of them reaches an upstream.
#[tokio::test]
async fn tokens_that_nobody_may_believe_are_401() {
    let (key, forger) = (SigningKey::rs256(), SigningKey::rs256());
    let small = SigningKey::es256();
    let issuer = TestIssuer::start(&[key.jwk("a"), small.jwk("only-rsa")]).await;
    let world = world_of(&issuer, &format!("{ROLES}\nalgorithms = [\"RS256\"]")).await;
    let claims = |more: Value| issuer.claims(more);
    let good = token(&key, "a", &claims(json!({})));
    with_token(&world, &good).await.ok();
    let (head, signature) = good.rsplit_once('.').expect("three parts");
    let other = token(&key, "a", &claims(json!({ "sub": "somebody-else", "roles": ["root"] })));
    let other_head = other.rsplit_once('.').expect("three parts").0;
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let changed = format!("{head}.{first}{}", &signature[1..]);
    let without = |name: &str| {
        let mut claims = claims(json!({}));
        claims.as_object_mut().expect("an object").remove(name);
        token(&key, "a", &claims)
    };
    let public = key.public();
    let pem_like = key.jwk("a").to_string();
    let cases: [(&str, String, &str); 26] = [
        ("alg none", unsigned_token("none", &claims(json!({}))), "algorithm"),
        ("alg NONE", unsigned_token("NonE", &claims(json!({}))), "algorithm"),
        ("without a signature", unsigned_token("RS256", &claims(json!({}))), "signature"),
        ("HS256 with the public key", symmetric_token(&public, "a", &claims(json!({}))), "algorithm"),
        ("HS256 with the JWK", symmetric_token(pem_like.as_bytes(), "a", &claims(json!({}))), "algorithm"),
        ("an algorithm that is not accepted", token(&small, "only-rsa", &claims(json!({}))), "algorithm"),
        (
            "a key of another kind",
            token_with(&small, &json!({ "alg": "RS256", "kid": "only-rsa" }), &claims(json!({}))),
            "signature",
        ),
        ("a forger's key", token(&forger, "a", &claims(json!({}))), "signature"),
        (
            "the header brings its own key",
            token_with(&forger, &json!({ "alg": "RS256", "jwk": forger.jwk("a") }), &claims(json!({}))),
            "signature",
        ),
        ("an unknown key id", token(&key, "z", &claims(json!({}))), "no such key"),
        ("a changed signature", changed, "signature"),
        ("the signature of another token", format!("{other_head}.{signature}"), "signature"),
        (
            "an extension that must be understood",
            token_with(
                &key,
                &json!({ "alg": "RS256", "kid": "a", "crit": ["x"], "x": 1 }),
                &claims(json!({})),
            ),
            "not a signed",
        ),
        ("another issuer", token(&key, "a", &claims(json!({ "iss": "https://idp.example" }))), "issuer"),
        (
            "an issuer with a slash more",
            token(&key, "a", &claims(json!({ "iss": format!("{}/", issuer.url) }))),
            "issuer",
        ),
        ("no issuer", without("iss"), "issuer"),
        ("another audience", token(&key, "a", &claims(json!({ "aud": "other" }))), "audience"),
        ("no audience", without("aud"), "audience"),
        ("expired", token(&key, "a", &claims(json!({ "exp": now() - 60 }))), "expired"),
        ("never expires", without("exp"), "expired"),
        ("not valid yet", token(&key, "a", &claims(json!({ "nbf": now() + 120 }))), "not valid yet"),
        ("issued in the future", token(&key, "a", &claims(json!({ "iat": now() + 120 }))), "not valid yet"),
        ("no subject", without("sub"), "claim"),
        ("a team that does not exist", token(&key, "a", &claims(json!({ "team": "red" }))), "team"),
        (
            "limits that cannot be read",
            token(&key, "a", &claims(json!({ "limits": { "rpm": "x" } }))),
            "claim",
        ),
        ("half a token", head.to_owned(), "Incorrect"),
    ];
    for (label, token, reason) in cases {
        let answer = with_token(&world, &token).await;
        assert_error(label, &answer, 401, "authentication_error", "invalid_api_key");
        assert!(answer.message().contains(reason), "{label}: {}", answer.message());
        let chat = world
            .gateway
            .client()
            .with_key(&token)
            .post_json("/v1/chat/completions", &chat("acme/fast"))
            .await;
        assert_eq!(chat.status, 401, "{label}");
        assert!(
            !answer.text().contains(token.rsplit('.').find(|part| part.len() > 8).unwrap_or("-")),
            "{label}"
        );
    }
    assert_eq!(world.upstream.hits(), 0);
    with_token(&world, &good).await.ok();
}

#[tokio::test]
async fn identities_without_a_role_are_refused_by_default() {
    let key = SigningKey::es256();
    let issuer = TestIssuer::start(&[key.jwk("a")]).await;
    let world = world_of(&issuer, "role_claim = \"roles\"\nroles = { viewer = [\"staff\"] }").await;
    let refused = with_token(&world, &token(&key, "a", &issuer.claims(json!({ "roles": ["other"] })))).await;
    assert_error("no role", &refused, 401, "authentication_error", "invalid_api_key");
    let seen =
        with_token(&world, &token(&key, "a", &issuer.claims(json!({ "roles": "other staff" })))).await.ok();
    assert_eq!(seen.json()["key"]["role"], "viewer");
}

#[tokio::test]
async fn a_token_of_a_role_has_its_rights_in_the_management_api() {
    let key = SigningKey::es256();
    let issuer = TestIssuer::start(&[key.jwk("a")]).await;
    let world = world_of(&issuer, ROLES).await;
    let client = |role: &str| -> Client {
        let claims = issuer.claims(json!({ "roles": [role], "sub": role, "preferred_username": role }));
        world.gateway.client().with_key(&token(&key, "a", &claims))
    };
    for (role, read, purge) in
        [("none", 403, 403), ("staff", 200, 403), ("oncall", 200, 200), ("root", 200, 200)]
    {
        assert_eq!(client(role).get("/admin/v1/keys").await.status, read, "{role}");
        assert_eq!(client(role).send("DELETE", "/admin/v1/cache", None, None).await.status, purge, "{role}");
    }
    let log = client("staff").get("/admin/v1/audit?action=cache.purge&order=asc").await.ok().json();
    for (row, name) in log["data"].as_array().expect("rows").iter().zip(["oncall", "root"]) {
        let actor = &row["actor"];
        assert_eq!((&actor["kind"], &actor["name"]), (&json!("oidc"), &json!(name)));
        assert!(actor["id"].as_str().is_some_and(|id| id.starts_with("oidc-")), "{row}");
    }
}

#[tokio::test]
async fn limits_of_claims_hold_for_all_tokens_of_a_subject() {
    let key = SigningKey::es256();
    let issuer = TestIssuer::start(&[key.jwk("a")]).await;
    let world = world_of(&issuer, ROLES).await;
    let ask = async |n: u32| {
        let claims = issuer.claims(json!({ "limits": { "rpm": 2 }, "jti": n }));
        let client = world.gateway.client().with_key(&token(&key, "a", &claims));
        client.post_json("/v1/chat/completions", &chat("acme/fast")).await.status
    };
    assert_eq!([ask(1).await, ask(2).await, ask(3).await], [200, 200, 429]);
}

#[tokio::test]
async fn keys_are_rotated_and_an_issuer_that_is_down_stops_no_known_key() {
    let (first, second) = (SigningKey::es256(), SigningKey::es256());
    let issuer = TestIssuer::start(&[first.jwk("1")]).await;
    let world = world_of(&issuer, ROLES).await;
    let old = token(&first, "1", &issuer.claims(json!({})));
    let new = token(&second, "2", &issuer.claims(json!({})));
    with_token(&world, &old).await.ok();
    assert_eq!(with_token(&world, &new).await.status, 401);
    issuer.publish(&[second.jwk("2")]);
    within("the new key is fetched", async {
        while with_token(&world, &new).await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(
        with_token(&world, &old).await.status,
        401,
        "a key that is gone verifies no token that was seen before"
    );
    issuer.go_down();
    let stranger = token(&first, "3", &issuer.claims(json!({})));
    let hits = issuer.hits();
    within("the issuer is asked and does not answer", async {
        while issuer.hits() == hits {
            assert_eq!(with_token(&world, &stranger).await.status, 401);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    with_token(&world, &new).await.ok();
    let fresh = token(&second, "2", &issuer.claims(json!({ "sub": "user-2" })));
    with_token(&world, &fresh).await.ok();
}

#[tokio::test]
async fn before_the_first_keys_a_token_is_503_and_gateway_keys_work() {
    let key = SigningKey::es256();
    let issuer = TestIssuer::start(&[]).await;
    issuer.go_down();
    let world = Setup { extra: issuer.config(ROLES), ..Setup::default() }.start().await;
    let answer = with_token(&world, &token(&key, "a", &issuer.claims(json!({})))).await;
    assert_error("no keys", &answer, 503, "server_error", "store_unavailable");
    world.client.get("/v1/me").await.ok();
}

#[tokio::test]
async fn a_token_that_was_accepted_ends_when_it_expires() {
    let key = SigningKey::es256();
    let issuer = TestIssuer::start(&[key.jwk("a")]).await;
    let world = world_of(&issuer, ROLES).await;
    // The clocks may differ by 30 seconds, so this token ends in a few seconds.
    let ending = token(&key, "a", &issuer.claims(json!({ "exp": now() - 26 })));
    with_token(&world, &ending).await.ok();
    within("the token has expired", async {
        while with_token(&world, &ending).await.status != 401 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn keys_in_a_file_need_no_issuer() {
    let key = SigningKey::rs256();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.json");
    std::fs::write(&file, json!({ "keys": [key.jwk("a")] }).to_string()).expect("a file");
    let issuer = TestIssuer::start(&[]).await;
    let more = format!("{ROLES}\njwks_file = \"{}\"", file.display());
    let world = world_of(&issuer, &more).await;
    with_token(&world, &token(&key, "a", &issuer.claims(json!({})))).await.ok();
    assert_eq!(issuer.hits(), 0);
}
