//! `export`: a new gateway that starts from the exported file answers every read of the API as the first one did.

use std::path::Path;

use gw_testkit::{Client, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};

use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, Setup, UPSTREAM_KEY, binary, chat};

const STORED: &str = "sk-stored-provider-key";
const SEALING: &str = "0303030303030303030303030303030303030303030303030303030303030303";

fn launch(config: &str, data: &Path) -> Launch {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch
        .env("MODEL_GATEWAY_DATA_DIR", &data.display().to_string())
        .env("MODEL_GATEWAY_ENCRYPTION_KEY", SEALING)
}

/// Makes teams, keys of every kind, and configuration over the API. Returns the secret of a key.
async fn fill(admin: &Client, upstream: &FakeUpstream) -> String {
    let team =
        json!({ "rpm": 600, "burst": 10, "budget_usd": 100.25, "budget_period": "30d", "on_budget": "cut" });
    for (id, limits) in [("blue", team), ("red", json!({}))] {
        assert_eq!(ask(admin, "PUT", &format!("/admin/v1/teams/{id}"), &limits).await.status, 201);
    }
    let members = json!({
        "name": "search é \"x\" ${HOME}", "team": "blue", "models": ["acme/*", "swift"], "rpm": 50, "tpm": 90000, "max_in_flight": 5,
        "budget_usd": 12.000000001, "log_payloads": true, "expires_at": "2031-05-06T07:08:09Z",
        "metadata": { "a": [1, "é"], "${HOME}": ["${GATEWAY_BOSS_KEY}", "$${HOME}"] },
    });
    let (secret, _) = create(admin, members).await;
    let (_, rotated) = create(admin, json!({ "name": "rotated", "role": "admin" })).await;
    let id = rotated["id"].as_str().expect("an id");
    ask(admin, "POST", &format!("/admin/v1/keys/{id}/rotate"), &json!({ "grace_seconds": 600_000 }))
        .await
        .ok();
    create(admin, json!({ "name": "priced", "unpriced": "refuse" })).await;
    // The team of a revoked key may be gone.
    ask(admin, "PUT", "/admin/v1/teams/gone", &json!({})).await;
    let (_, revoked) = create(admin, json!({ "name": "revoked", "team": "gone" })).await;
    let id = revoked["id"].as_str().expect("an id");
    admin.send("DELETE", &format!("/admin/v1/keys/{id}"), None, None).await.ok();
    admin.send("DELETE", "/admin/v1/teams/gone", None, None).await.ok();
    let provider = json!({ "api": "openai", "base_url": upstream.base_url(), "api_keys": [STORED, { "key": "sk-2", "weight": 3 }],
        "headers": { "x-team": "header-secret" }, "allow_private_network": true });
    for (path, body) in [
        ("providers/gamma", provider),
        (
            "models/gamma/deep/model",
            json!({ "pricing": { "official_input_per_m": 0.15, "official_output_per_m": 2 }, "weight": 4 }),
        ),
        ("aliases/swift", json!({ "targets": ["gamma/deep/model", "acme/fast"], "agent": true })),
        ("routing", json!({ "strategy": "round_robin", "breaker": { "failures": 9 } })),
        ("cache", json!({ "default_ttl_seconds": 77 })),
        ("timeouts", json!({ "total_ms": 123_456 })),
    ] {
        let answer = ask(admin, "PUT", &format!("/admin/v1/config/{path}"), &body).await;
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    }
    secret
}

/// Every read of the API that does not depend on the process or on the place of a setting.
async fn reads(gateway: &Gateway) -> Vec<(String, Value)> {
    let admin = gateway.client().with_key(ADMIN);
    let mut all = Vec::new();
    for path in [
        "/admin/v1/keys?include_revoked=true",
        "/admin/v1/keys?team=blue",
        "/admin/v1/teams",
        "/admin/v1/providers",
        "/admin/v1/usage",
        "/admin/v1/requests",
        "/v1/models",
        "/v1/models/gamma/deep/model",
        "/v1/models/compare?models=acme/fast,gamma/deep/model",
    ] {
        let answer = admin.get(path).await.ok().json();
        for key in answer["data"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|_| path == "/admin/v1/keys?include_revoked=true")
        {
            let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
            all.push((path.clone(), admin.get(&path).await.ok().json()));
        }
        all.push((path.to_owned(), answer));
    }
    // The keys of the store stand in the file now, and the paths of the file are those of its directory.
    let mut settings = admin.get("/admin/v1/config").await.ok().json();
    settings.as_object_mut().expect("an object").remove("state");
    if let Some(settings) = settings["settings"].as_object_mut() {
        settings.remove("store");
        let aliases = settings["aliases"].as_array_mut().expect("aliases");
        aliases.sort_by_key(|alias| alias["name"].to_string());
    }
    all.push(("/admin/v1/config".to_owned(), settings));
    for section in ["providers", "models", "aliases", "routing", "cache", "timeouts", "responses"] {
        let path = format!("/admin/v1/config/{section}");
        let answer = admin.get(&path).await.ok().json();
        let mut values: Vec<Value> = match answer["data"].as_array() {
            Some(data) => data.iter().map(|entry| json!([entry["name"], entry["value"]])).collect(),
            None => vec![answer["value"].clone()],
        };
        values.sort_by_key(Value::to_string);
        all.push((path, json!(values)));
    }
    all
}

/// The variables of an export, with the secrets that belong to them.
fn with_variables(launch: Launch) -> Launch {
    [
        ("GATEWAY_ACME_API_KEY", UPSTREAM_KEY),
        ("GATEWAY_BETA_API_KEY", UPSTREAM_KEY),
        ("GATEWAY_GAMMA_API_KEYS_0", STORED),
        ("GATEWAY_GAMMA_API_KEYS_1__KEY", "sk-2"),
        ("GATEWAY_GAMMA_HEADERS_X_TEAM", "header-secret"),
        ("GATEWAY_CI_KEY", crate::harness::KEY),
        ("GATEWAY_BOSS_KEY", ADMIN),
        ("GATEWAY_LIMITED_KEY", crate::harness::LIMITED),
        ("GATEWAY_METERED_KEY", crate::harness::METERED),
        ("GATEWAY_EXPIRED_KEY", crate::harness::EXPIRED),
    ]
    .into_iter()
    .fold(launch, |launch, (name, value)| launch.env(name, value))
}

#[tokio::test]
async fn an_export_of_a_state_made_by_calls_makes_the_same_state() {
    let (acme, beta) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let file = Setup { aliases: "other = [\"acme/fast\", \"beta/fast\"]", ..Setup::default() };
    let config = file.config(&acme.base_url(), &beta.base_url());
    let (data, fresh) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let first = launch(&config, data.path()).arg("serve").start().await;
    let secret = fill(&first.client().with_key(ADMIN), &acme).await;
    drop(first.stop());
    let second = launch(&config, data.path()).arg("serve").start().await;
    let expected = reads(&second).await;
    let over_api = second.client().with_key(ADMIN).get("/admin/v1/config/export").await.ok();
    assert_eq!(over_api.header("content-type"), Some("application/toml; charset=utf-8"));
    let output = launch(&config, data.path()).arg("export").run();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let exported = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(exported, over_api.text());
    for hidden in [STORED, "sk-2\"", "header-secret", UPSTREAM_KEY, ADMIN, &secret] {
        assert!(!exported.contains(hidden), "{hidden} in {exported}");
    }
    drop(second.stop());

    let checked = with_variables(launch(&exported, fresh.path())).arg("check").run();
    assert_eq!(checked.status.code(), Some(0), "{}\n{exported}", String::from_utf8_lossy(&checked.stdout));
    let third = with_variables(launch(&exported, fresh.path())).arg("serve").start().await;
    let found = reads(&third).await;
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found);
    }
    let answer = third.client().with_key(&secret).post_json("/v1/chat/completions", &chat("swift")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    drop(third.stop());

    // A second export of the new gateway is the same file.
    let again = with_variables(launch(&exported, fresh.path())).arg("export").run();
    let again = String::from_utf8(again.stdout).expect("UTF-8");
    let body = |text: &str| text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let keys = |text: &str| body(text).replace("GATEWAY_", "");
    assert_eq!(keys(&again), keys(&exported));
}

#[tokio::test]
async fn the_secrets_are_written_on_request_alone() {
    let (acme, beta) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let config = Setup::default().config(&acme.base_url(), &beta.base_url());
    let data = tempfile::tempdir().expect("a directory");
    let gateway = launch(&config, data.path()).arg("serve").start().await;
    fill(&gateway.client().with_key(ADMIN), &acme).await;
    drop(gateway.stop());
    let output = launch(&config, data.path()).arg("export").arg("--secrets").run();
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for secret in [STORED, "header-secret", UPSTREAM_KEY, ADMIN] {
        assert!(text.contains(secret), "{secret} in {text}");
    }
    let fresh = tempfile::tempdir().expect("a directory");
    assert_eq!(launch(&text, fresh.path()).arg("check").run().status.code(), Some(0), "it needs no variable");
}
