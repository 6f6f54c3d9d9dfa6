//! Tokens of an issuer in the place of a gateway key.

use gw_testkit::wait::eventually_true;
use gw_testkit::{Client, Response};
use serde_json::{Value, json};

use super::issuer::{SigningKey, TestIssuer, now, symmetric_token, token, token_with, unsigned_token};
use crate::harness::management::ask;
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

/// An issuer whose tokens are of RS256 alone, its key `a`, and a key of another kind that its set has, too.
struct Issued {
    issuer: TestIssuer,
    key: SigningKey,
    other_kind: SigningKey,
}

/// A case: its label, the token, and a part of the message that refuses it.
type Case = (&'static str, String, &'static str);

impl Issued {
    async fn start() -> Self {
        let (key, other_kind) = (SigningKey::rs256(), SigningKey::es256());
        let issuer = TestIssuer::start(&[key.jwk("a"), other_kind.jwk("ec")]).await;
        Self { issuer, key, other_kind }
    }

    fn claims(&self) -> Value {
        self.issuer.claims(json!({}))
    }

    fn with(&self, more: Value) -> String {
        token(&self.key, "a", &self.issuer.claims(more))
    }

    fn without(&self, name: &str) -> String {
        let mut claims = self.claims();
        claims.as_object_mut().expect("an object").remove(name);
        token(&self.key, "a", &claims)
    }

    /// Tokens that the issuer did not sign.
    fn forged(&self) -> Vec<Case> {
        let (claims, forger) = (self.claims(), SigningKey::rs256());
        let good = self.with(json!({}));
        let (head, signature) = good.rsplit_once('.').expect("three parts");
        let other = self.with(json!({ "sub": "somebody-else", "roles": ["root"] }));
        let other_head = other.rsplit_once('.').expect("three parts").0;
        let first = if signature.starts_with('A') { "B" } else { "A" };
        let own_key = json!({ "alg": "RS256", "jwk": forger.jwk("a") });
        let critical = json!({ "alg": "RS256", "kid": "a", "crit": ["x"], "x": 1 });
        let wrong_kind = json!({ "alg": "RS256", "kid": "ec" });
        let jwk = self.key.jwk("a").to_string();
        vec![
            ("alg none", unsigned_token("none", &claims), "algorithm"),
            ("alg NonE", unsigned_token("NonE", &claims), "algorithm"),
            ("unsigned", unsigned_token("RS256", &claims), "signature"),
            ("HS256 with the public key", symmetric_token(&self.key.public(), "a", &claims), "algorithm"),
            ("HS256 with the JWK", symmetric_token(jwk.as_bytes(), "a", &claims), "algorithm"),
            ("an algorithm that is not accepted", token(&self.other_kind, "ec", &claims), "algorithm"),
            ("a key of another kind", token_with(&self.other_kind, &wrong_kind, &claims), "signature"),
            ("a forger's key", token(&forger, "a", &claims), "signature"),
            ("a header with its own key", token_with(&forger, &own_key, &claims), "signature"),
            ("an unknown key id", token(&self.key, "z", &claims), "no such key"),
            ("a changed signature", format!("{head}.{first}{}", &signature[1..]), "signature"),
            ("the signature of another token", format!("{other_head}.{signature}"), "signature"),
            ("an unknown extension", token_with(&self.key, &critical, &claims), "not a signed"),
            ("half a token", head.to_owned(), "Incorrect"),
        ]
    }

    /// Tokens of the issuer that are not for the gateway, or not now.
    fn misused(&self) -> Vec<Case> {
        let slash = json!({ "iss": format!("{}/", self.issuer.url) });
        vec![
            ("another issuer", self.with(json!({ "iss": "https://idp.example" })), "issuer"),
            ("an issuer with a slash more", self.with(slash), "issuer"),
            ("no issuer", self.without("iss"), "issuer"),
            ("another audience", self.with(json!({ "aud": "other" })), "audience"),
            ("no audience", self.without("aud"), "audience"),
            ("expired", self.with(json!({ "exp": now() - 60 })), "expired"),
            ("never expires", self.without("exp"), "expired"),
            ("not valid yet", self.with(json!({ "nbf": now() + 120 })), "not valid yet"),
            ("issued in the future", self.with(json!({ "iat": now() + 120 })), "not valid yet"),
            ("no subject", self.without("sub"), "claim"),
            ("a team that does not exist", self.with(json!({ "team": "red" })), "team"),
            ("limits that cannot be read", self.with(json!({ "limits": { "rpm": "x" } })), "claim"),
        ]
    }

    /// Sends the tokens. Each is refused, and none reaches an upstream.
    async fn refuses(&self, cases: Vec<Case>) {
        let world = world_of(&self.issuer, &format!("{ROLES}\nalgorithms = [\"RS256\"]")).await;
        with_token(&world, &self.with(json!({}))).await.ok();
        for (label, token, reason) in cases {
            let answer = with_token(&world, &token).await;
            assert_error(label, &answer, 401, "authentication_error", "invalid_api_key");
            assert!(answer.message().contains(reason), "{label}: {}", answer.message());
            let signature = token.rsplit('.').find(|part| part.len() > 8).unwrap_or("-");
            assert!(!answer.text().contains(signature), "{label}");
            let client = world.gateway.client().with_key(&token);
            assert_eq!(
                client.post_json("/v1/chat/completions", &chat("acme/fast")).await.status,
                401,
                "{label}"
            );
        }
        assert_eq!(world.upstream.hits(), 0);
        with_token(&world, &self.with(json!({}))).await.ok();
    }
}

#[tokio::test]
async fn tokens_that_the_issuer_did_not_sign_are_401() {
    let issued = Issued::start().await;
    issued.refuses(issued.forged()).await;
}

#[tokio::test]
async fn tokens_that_are_not_for_the_gateway_or_not_now_are_401() {
    let issued = Issued::start().await;
    issued.refuses(issued.misused()).await;
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
    eventually_true("the new key is fetched", async || with_token(&world, &new).await.status == 200).await;
    assert_eq!(
        with_token(&world, &old).await.status,
        401,
        "a key that is gone verifies no token that was seen before"
    );
    issuer.go_down();
    let stranger = token(&first, "3", &issuer.claims(json!({})));
    let hits = issuer.hits();
    eventually_true("the issuer is asked and does not answer", async || {
        assert_eq!(with_token(&world, &stranger).await.status, 401);
        issuer.hits() > hits
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
    eventually_true("the token has expired", async || with_token(&world, &ending).await.status == 401).await;
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
