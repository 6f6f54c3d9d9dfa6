//! `/admin/v1/config/…`: configuration over the API beside the file, with checks, versions, history, undo and sealed secrets.

use gw_testkit::{Client, FakeUpstream, Gateway, Launch, Response, eventually};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Row};

use crate::harness::management::ask;
use crate::harness::{ADMIN, KEY, assert_error, binary, chat};

pub(super) const CONFIG: &str = "/admin/v1/config";
pub(super) const CANARY: &str = "sk-made-over-the-api-5521";
const OLD_KEY: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const NEW_KEY: &str = "0202020202020202020202020202020202020202020202020202020202020202";

/// A data directory for several starts, with two upstreams.
pub(super) struct Place {
    data: tempfile::TempDir,
    pub(super) upstream: FakeUpstream,
}

impl Place {
    pub(super) async fn new() -> Self {
        Self { data: tempfile::tempdir().expect("a directory"), upstream: FakeUpstream::start().await }
    }

    fn config(&self) -> String {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 60000\n[routing]\nretries = 0\n[aliases]\nfixed = \"demo/chat\"\n\
             [[providers]]\nname = \"demo\"\n[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"{}\"\napi_key = \
             \"sk-of-the-file\"\n[[models]]\nid = \"acme/fast\"\n[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n[[keys]]\nname = \
             \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n",
            self.upstream.base_url()
        )
    }

    pub(super) fn launch(&self) -> Launch {
        let data = self.data.path().display().to_string();
        let launch =
            Launch::new(binary()).file("gateway.toml", self.config()).env("MODEL_GATEWAY_DATA_DIR", &data);
        launch.arg("serve")
    }

    pub(super) async fn start(&self) -> Gateway {
        self.launch().env("MODEL_GATEWAY_ENCRYPTION_KEY", OLD_KEY).start().await
    }

    pub(super) async fn database(&self) -> sqlx::sqlite::SqliteConnection {
        let file = self.data.path().join("gateway.db");
        SqliteConnectOptions::new().filename(file).connect().await.expect("the store")
    }
}

pub(super) fn admin(gateway: &Gateway) -> Client {
    gateway.client().with_key(ADMIN)
}

pub(super) async fn put(admin: &Client, path: &str, body: Value) -> Response {
    ask(admin, "PUT", &format!("{CONFIG}/{path}"), &body).await
}

pub(super) async fn show(admin: &Client, path: &str) -> Value {
    admin.get(&format!("{CONFIG}/{path}")).await.ok().json()
}

/// Makes the provider `gamma`, its model and the alias `swift`.
async fn make_gamma(place: &Place, admin: &Client) {
    let provider = json!({ "api": "openai", "base_url": place.upstream.base_url(), "api_key": CANARY,
        "allow_private_network": true });
    for (path, body) in [
        ("providers/gamma", provider),
        ("models/gamma/quick", json!({ "upstream_model": "quick-1" })),
        ("aliases/swift", json!({ "targets": ["gamma/quick"] })),
    ] {
        let answer = put(admin, path, body).await;
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
        assert_eq!(answer.json()["applies"], "now", "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn what_the_api_makes_is_used_at_once_and_after_a_restart() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    make_gamma(&place, &boss).await;
    assert_eq!(put(&boss, "routing", json!({ "strategy": "round_robin" })).await.status, 201);
    let made = show(&boss, "providers/gamma").await;
    assert_eq!((&made["source"], &made["version"]), (&json!("api"), &json!(1)));
    assert_eq!(made["value"]["api_key"], "***");
    let answer = gateway.client().with_key(KEY).post_json("/v1/chat/completions", &chat("swift")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(place.upstream.last().header("authorization"), Some(&*format!("Bearer {CANARY}")));
    let removed = ask(&boss, "DELETE", &format!("{CONFIG}/aliases/swift"), &json!({})).await.ok().json();
    assert_eq!(removed["applies"], "now");
    let gone = gateway.client().with_key(KEY).post_json("/v1/chat/completions", &chat("swift")).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "model_not_found"));
    ask(&boss, "POST", &format!("{CONFIG}/undo"), &json!({})).await.ok();
    let large = put(&boss, "cache", json!({ "max_mib": 7 })).await.json();
    assert_eq!(large["applies"], "at_next_start", "{large}");
    assert!(large["reason"].as_str().is_some_and(|reason| reason.contains("cache.max_mib")), "{large}");
    drop(gateway.stop());

    let gateway = place.start().await;
    let answer = gateway.client().with_key(KEY).post_json("/v1/chat/completions", &chat("swift")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let call = place.upstream.last();
    assert_eq!(call.header("authorization"), Some(&*format!("Bearer {CANARY}")));
    assert_eq!(call.json()["model"], "quick-1");
    let settings = admin(&gateway).get(CONFIG).await.ok().json();
    assert_eq!(settings["settings"]["routing"]["strategy"], "round_robin");
    assert!(!settings.to_string().contains(CANARY));
}

#[tokio::test]
async fn a_provider_of_the_api_reaches_private_addresses_only_if_its_entry_says_so() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    let provider = |more: Value| {
        let mut provider =
            json!({ "api": "openai", "base_url": place.upstream.base_url(), "api_key": CANARY });
        provider.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        provider
    };
    let silent = json!({ "allow_private_network": null });
    for more in [json!({}), json!({ "allow_private_network": false }), silent] {
        let refused = put(&boss, "providers/inside", provider(more)).await;
        assert_error("private", &refused, 400, "invalid_request_error", "invalid_configuration");
        assert!(refused.message().contains("allow_private_network = true"), "{}", refused.message());
    }
    let local = put(&boss, "providers/ollama", json!({})).await;
    assert_error("local", &local, 400, "invalid_request_error", "invalid_configuration");
    assert!(local.message().contains("allow_private_network = true"), "{}", local.message());
    let link_local = json!({ "base_url": "http://169.254.169.254/v1", "allow_private_network": true });
    let metadata = put(&boss, "providers/inside", provider(link_local)).await;
    assert_error("metadata", &metadata, 400, "invalid_request_error", "invalid_configuration");
    assert_eq!(
        put(&boss, "providers/inside", provider(json!({ "allow_private_network": true }))).await.status,
        201
    );
    assert_eq!(put(&boss, "models/inside/m", json!({})).await.status, 201);
    let answer = gateway.client().with_key(KEY).post_json("/v1/chat/completions", &chat("inside/m")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    // A public address needs nothing, and a provider of the file keeps its permission.
    let public = json!({ "api": "openai", "base_url": "https://api.example.com/v1", "api_key": CANARY });
    assert_eq!(put(&boss, "providers/outside", public).await.status, 201);
    let answer = gateway.client().with_key(KEY).post_json("/v1/chat/completions", &chat("acme/fast")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let rows = boss.get("/admin/v1/audit?action=config.change&object=providers/inside").await.ok().json();
    assert_eq!(rows["data"][0]["after"]["allow_private_network"], true, "{rows}");
}

#[tokio::test]
async fn the_audit_log_has_an_entry_before_and_after_each_change_without_its_secrets() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    let provider = json!({ "api": "openai", "base_url": "https://api.example.com/v1", "api_key": CANARY });
    assert_eq!(put(&boss, "providers/gamma", provider).await.status, 201);
    ask(&boss, "PATCH", &format!("{CONFIG}/providers/gamma"), &json!({ "price_multiplier": 2 })).await.ok();
    ask(&boss, "DELETE", &format!("{CONFIG}/providers/gamma"), &json!({})).await.ok();
    ask(&boss, "POST", &format!("{CONFIG}/undo"), &json!({})).await.ok();
    ask(&boss, "PUT", &format!("{CONFIG}/routing?dry_run=true"), &json!({ "strategy": "cheapest" }))
        .await
        .ok();
    assert_eq!(put(&boss, "routing", json!({ "strategy": "cheapest" })).await.status, 201);
    let page = boss.get("/admin/v1/audit?action=config.change&order=asc").await.ok().json();
    let first = json!({ "api": "openai", "base_url": "https://api.example.com/v1", "api_key": "***" });
    let mut second = first.clone();
    second["price_multiplier"] = json!(2);
    let expected = [
        ("providers/gamma", Value::Null, first.clone()),
        ("providers/gamma", first, second.clone()),
        ("providers/gamma", second.clone(), Value::Null),
        ("providers/gamma", Value::Null, second),
        ("routing", Value::Null, json!({ "strategy": "cheapest" })),
    ];
    let rows = page["data"].as_array().expect("rows");
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row["target"].as_str().expect("a target"), row["before"].clone(), row["after"].clone()))
        .collect();
    assert_eq!(found, expected);
    assert!(!page.to_string().contains(CANARY));
}

#[tokio::test]
async fn what_the_file_says_is_read_only_and_says_where() {
    let place = Place::new().await;
    let gateway = place.launch().env("MODEL_GATEWAY_CACHE__ENABLED", "false").start().await;
    let boss = admin(&gateway);
    for (method, path, body, wanted) in [
        ("PUT", "providers/acme", json!({ "api": "openai" }), "gateway.toml:10"),
        ("PATCH", "models/acme%2Ffast", json!({ "weight": 2 }), "gateway.toml:15"),
        ("DELETE", "aliases/fixed", json!({}), "gateway.toml:7"),
        ("PUT", "routing", json!({ "retries": 3 }), "gateway.toml:5"),
        (
            "PATCH",
            "cache",
            json!({ "enabled": true }),
            "the environment variable MODEL_GATEWAY_CACHE__ENABLED",
        ),
    ] {
        let answer = ask(&boss, method, &format!("{CONFIG}/{path}"), &body).await;
        assert_error(path, &answer, 409, "invalid_request_error", "configured_in_file");
        assert!(answer.message().contains(wanted), "{path}: {}", answer.message());
    }
    let acme = show(&boss, "providers/acme").await;
    assert_eq!((&acme["source"], &acme["place"]), (&json!("file"), &json!("gateway.toml:10")));
    assert_eq!(acme["value"]["api_key"], "***");
    let routing = show(&boss, "routing").await;
    assert_eq!(routing["places"]["retries"], json!({ "source": "file", "place": "gateway.toml:5" }));
    assert_eq!(
        (&routing["defaults"]["max_attempts"], &routing["defaults"]["retries"]),
        (&json!(4), &json!(null))
    );
    let cache = show(&boss, "cache").await;
    assert_eq!((&cache["defaults"]["max_mib"], &cache["defaults"]["enabled"]), (&json!(256), &json!(null)));
    assert_eq!(show(&boss, "history").await["data"], json!([]));
}

#[tokio::test]
async fn a_configuration_that_check_refuses_is_not_stored() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    for (path, body, word) in [
        ("aliases/broken", json!({ "targets": ["nowhere/none"] }), "nowhere/none"),
        ("providers/gamma", json!({ "api": "opnai" }), "providers/gamma.api"),
        ("providers/gamma", json!({ "api": "openai" }), "base_url"),
        ("models/nobody/x", json!({}), "models/nobody/x"),
        ("models/acme/y", json!({ "wieght": 1 }), "weight"),
        ("timeouts", json!({ "idle_ms": 0 }), "timeouts.idle_ms"),
    ] {
        let answer = put(&boss, path, body.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_configuration"), "{path}");
        assert!(answer.message().contains(word), "{path}: {}", answer.message());
        let tried = put(&boss, &format!("{path}?dry_run=true"), body).await.ok().json();
        assert_eq!((&tried["object"], &tried["is_valid"]), (&json!("config_check"), &json!(false)));
        assert!(tried["problems"].to_string().contains(word), "{path}: {tried}");
    }
    let fine = put(&boss, "timeouts?dry_run=true", json!({ "idle_ms": 5000 })).await.ok().json();
    assert_eq!((&fine["is_valid"], &fine["before"]), (&json!(true), &json!(null)));
    assert_eq!(fine["after"], json!({ "idle_ms": 5000 }));
    assert_eq!(show(&boss, "history").await["data"], json!([]));
    let missing = boss.get(&format!("{CONFIG}/aliases/broken")).await;
    assert_error("nothing was stored", &missing, 404, "invalid_request_error", "not_found");
}

#[tokio::test]
async fn of_two_editors_the_second_must_read_again() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    let first = put(&boss, "aliases/swift", json!({ "targets": ["acme/fast"] })).await;
    assert_eq!((first.status, first.header("etag")), (201, Some("\"1\"")));
    let read = boss.get(&format!("{CONFIG}/aliases/swift")).await.ok();
    let etag = read.header("etag").expect("a version").to_owned();
    let (one, other) = (boss.with_header("if-match", &etag), boss.with_header("if-match", &etag));
    let changed = ask(&one, "PATCH", &format!("{CONFIG}/aliases/swift"), &json!({ "agent": true })).await;
    assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")), "{}", changed.text());
    let late = ask(&other, "PATCH", &format!("{CONFIG}/aliases/swift"), &json!({ "agent": false })).await;
    assert_error("the second editor", &late, 412, "invalid_request_error", "version_mismatch");
    let now = show(&boss, "aliases/swift").await;
    assert_eq!(now["value"], json!({ "targets": ["acme/fast"], "agent": true }));
    let absent = boss.with_header("if-match", "\"0\"");
    let taken = put(&absent, "aliases/swift", json!({ "targets": ["acme/fast"] })).await;
    assert_eq!((taken.status, taken.code().as_str()), (412, "version_mismatch"));
    assert_eq!(put(&absent, "aliases/other", json!({ "targets": ["acme/fast"] })).await.status, 201);
}

#[tokio::test]
async fn the_history_names_each_change_and_undo_walks_back() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    let swift = format!("{CONFIG}/aliases/swift");
    assert_eq!(put(&boss, "aliases/swift", json!({ "targets": ["acme/fast"] })).await.status, 201);
    ask(&boss, "PATCH", &swift, &json!({ "targets": ["demo/chat"] })).await.ok();
    ask(&boss, "DELETE", &swift, &json!({})).await.ok();
    let history = show(&boss, "history").await;
    let changes: Vec<_> = history["data"].as_array().expect("changes").iter().collect();
    let of = |change: &Value| (change["version"].clone(), change["before"].clone(), change["after"].clone());
    let (fast, echo) = (json!({ "targets": ["acme/fast"] }), json!({ "targets": ["demo/chat"] }));
    let expected = [
        (json!(3), echo.clone(), json!(null)),
        (json!(2), fast.clone(), echo.clone()),
        (json!(1), json!(null), fast.clone()),
    ];
    assert_eq!(changes.iter().map(|change| of(change)).collect::<Vec<_>>(), expected);
    let boss_id = gw_engine::auth::configured_id("boss");
    for change in changes {
        assert_eq!(
            (&change["actor"], &change["section"], &change["name"]),
            (&json!(boss_id), &json!("aliases"), &json!("swift"))
        );
        assert!(change["changed_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{change}");
    }
    let undo = || async { ask(&boss, "POST", &format!("{CONFIG}/undo"), &json!({})).await };
    for (undone, after) in [(3, echo), (2, fast), (1, json!(null))] {
        let answer = undo().await.ok().json();
        assert_eq!((&answer["undoes"], &answer["after"]), (&json!(undone), &after), "{answer}");
    }
    assert_eq!(boss.get(&swift).await.status, 404);
    assert_error("nothing is left", &undo().await, 404, "invalid_request_error", "not_found");
    let page = show(&boss, "history?limit=2&before=3").await;
    assert_eq!((page["data"].as_array().map(Vec::len), &page["has_more"]), (Some(2), &json!(false)));
}

#[tokio::test]
async fn values_name_no_files_and_variables_of_the_machine() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    let base = place.upstream.base_url();
    for body in [
        json!({ "api": "openai", "base_url": base, "api_key": "${MODEL_GATEWAY_ENCRYPTION_KEY}" }),
        json!({ "api": "openai", "base_url": base, "api_key": { "file": "/etc/hostname" } }),
        json!({ "api": "openai", "base_url": format!("{base}/${{HOME}}") }),
        json!({ "api": "vertex", "credentials_file": "/etc/hostname" }),
        json!({ "api": "openai", "base_url": base, "api_key": { "$secret": "00" } }),
    ] {
        let answer = put(&boss, "providers/gamma", body.clone()).await;
        assert_error(&body.to_string(), &answer, 400, "invalid_request_error", "invalid_value");
    }
    assert_eq!(show(&boss, "history").await["data"], json!([]));
}

#[tokio::test]
async fn k03_a_stored_key_is_sent_to_no_other_address() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    make_gamma(&place, &boss).await;
    let thief = FakeUpstream::start().await;
    let gamma = format!("{CONFIG}/providers/gamma");
    let moved = json!({ "base_url": thief.base_url() });
    let masked = json!({ "api": "openai", "base_url": thief.base_url(), "api_key": "***" });
    for (method, body) in [("PATCH", &moved), ("PUT", &masked)] {
        let answer = ask(&boss, method, &gamma, body).await;
        assert_error(method, &answer, 400, "invalid_request_error", "invalid_value");
        assert!(answer.text().contains("Write 'api_key' again"), "{}", answer.text());
    }
    ask(&boss, "PATCH", &gamma, &json!({ "base_url": thief.base_url(), "api_key": "sk-of-the-new-server" }))
        .await
        .ok();
    let answer = gateway.client().with_key(KEY).post_json("/v1/chat/completions", &chat("swift")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(thief.last().header("authorization"), Some("Bearer sk-of-the-new-server"));
}

#[tokio::test]
async fn k03_a_dump_of_the_store_holds_no_key_of_a_provider() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    make_gamma(&place, &boss).await;
    let kept = ask(
        &boss,
        "PATCH",
        &format!("{CONFIG}/providers/gamma"),
        &json!({ "api_key": "***", "discover": false }),
    )
    .await;
    assert_eq!(kept.status, 200, "{}", kept.text());
    for path in ["providers", "providers/gamma", "history", "export"] {
        let answer = boss.get(&format!("{CONFIG}/{path}")).await.ok();
        assert!(!answer.text().contains(CANARY), "{path}");
    }
    drop(gateway.stop());
    let mut files = 0;
    for file in std::fs::read_dir(place.data.path()).expect("the data") {
        let path = file.expect("a file").path();
        if path.is_file() {
            files += 1;
            let bytes = std::fs::read(&path).expect("readable");
            let is_found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
            assert!(!is_found, "{}", path.display());
        }
    }
    assert!(files > 0);
}

#[tokio::test]
async fn k03_swapped_ciphertexts_are_an_error() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    for name in ["gamma", "delta"] {
        let body = json!({ "api": "openai", "base_url": place.upstream.base_url(), "api_key": format!("{CANARY}-{name}"),
            "allow_private_network": true });
        assert_eq!(put(&boss, &format!("providers/{name}"), body).await.status, 201);
    }
    let mut database = place.database().await;
    let rows = sqlx::query("SELECT id, sealed FROM configuration_secrets ORDER BY id")
        .fetch_all(&mut database)
        .await;
    let rows: Vec<(String, String)> =
        rows.expect("rows").iter().map(|row| (row.get("id"), row.get("sealed"))).collect();
    let [(first, first_sealed), (second, second_sealed)] = rows.as_slice() else {
        panic!("{} rows", rows.len())
    };
    for (id, sealed) in [(first, second_sealed), (second, first_sealed)] {
        let update =
            sqlx::query("UPDATE configuration_secrets SET sealed = $1 WHERE id = $2").bind(sealed).bind(id);
        update.execute(&mut database).await.expect("swapped");
    }
    database.close().await.expect("closed");
    let answer = boss.get(&format!("{CONFIG}/providers")).await;
    assert_eq!((answer.status, answer.code().as_str()), (500, "internal_error"));
    assert!(answer.message().contains("providers/"), "{}", answer.message());
    drop(gateway.stop());
    let output = place.launch().env("MODEL_GATEWAY_ENCRYPTION_KEY", OLD_KEY).run();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("a secret of the stored configuration of providers/"), "{said}");
    assert!(!said.contains(CANARY));
}

#[tokio::test]
async fn names_that_lead_to_other_urls_and_endless_aliases_are_refused() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    make_gamma(&place, &boss).await;
    let azure = |tenant: &str, deployment: &str| {
        json!({ "api": "azure", "base_url": place.upstream.base_url(), "tenant_id": tenant, "client_id": "c", "allow_private_network": true,
            "api_key": CANARY, "api_version": "2024-10-21", "deployments": { "m": deployment } })
    };
    let vertex = |project: &str, region: &str| json!({ "api": "vertex", "project": project, "region": region, "api_key": CANARY });
    let gemini = json!({ "api": "gemini", "base_url": place.upstream.base_url(), "api_key": CANARY,
        "allow_private_network": true });
    assert_eq!(put(&boss, "providers/google", gemini).await.status, 201);
    let targets = |count: usize| json!({ "targets": vec!["gamma/quick"; count] });
    for (path, body, word) in [
        ("providers/az", azure("../../evil", "d"), "tenant_id"),
        ("providers/az", azure("contoso.example", ".."), "deployments"),
        ("providers/vx", vertex("..", "europe-west4"), "project"),
        ("providers/vx", vertex("p", "evil.example"), "region"),
        ("models/google/m", json!({ "upstream_model": "../../v1/files" }), "upstream_model"),
        ("aliases/all", targets(65), "more than 64 targets"),
        ("aliases/all", targets(60_000), "more than 64 targets"),
    ] {
        let answer = put(&boss, path, body).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.text().contains(word), "{path}, {word}: {}", answer.text());
        assert_eq!(boss.get(&format!("{CONFIG}/{path}")).await.status, 404, "{path}");
    }
    assert_eq!(put(&boss, "aliases/all", targets(64)).await.status, 201);
}

#[tokio::test]
async fn k03_the_encryption_key_is_rotated_under_load() {
    let place = Place::new().await;
    let maker = place.start().await;
    make_gamma(&place, &admin(&maker)).await;
    drop(maker.stop());

    // One gateway serves while another one starts with the new key and seals the secrets again.
    let serving = place.start().await;
    let client = serving.client().with_key(KEY);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let load = tokio::spawn(async move {
        let (mut answers, mut stopped) = (Vec::new(), stopped);
        while stopped.try_recv().is_err() {
            answers.push(client.post_json("/v1/chat/completions", &chat("swift")).await.status);
        }
        answers
    });
    let rotated = place.launch().env("MODEL_GATEWAY_ENCRYPTION_KEY", NEW_KEY);
    let rotated = rotated.env("MODEL_GATEWAY_PREVIOUS_ENCRYPTION_KEY", OLD_KEY).start().await;
    eventually("the rotation is logged", || {
        let logs = rotated.stderr().join("\n");
        logs.contains("stored secrets are sealed with the new encryption key").then_some(())
    })
    .await;
    let after = rotated.client().with_key(KEY).post_json("/v1/chat/completions", &chat("swift")).await;
    assert_eq!(after.status, 200, "{}", after.text());
    stop.send(()).expect("the load runs");
    let answers = load.await.expect("the load ends");
    assert!(!answers.is_empty());
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    drop((serving.stop(), rotated.stop()));

    let new_only = place.launch().env("MODEL_GATEWAY_ENCRYPTION_KEY", NEW_KEY).start().await;
    let answer = new_only.client().with_key(KEY).post_json("/v1/chat/completions", &chat("swift")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(place.upstream.last().header("authorization"), Some(&*format!("Bearer {CANARY}")));
    drop(new_only.stop());
    let output = place.launch().env("MODEL_GATEWAY_ENCRYPTION_KEY", OLD_KEY).run();
    assert_eq!(output.status.code(), Some(1), "the old key opens nothing any more");
}

#[tokio::test]
async fn a_change_over_one_replica_is_in_force_on_the_other() {
    let place = Place::new().await;
    let (one, other) = (place.start().await, place.start().await);
    make_gamma(&place, &admin(&one)).await;
    let client = other.client().with_key(KEY);
    gw_testkit::within("the other replica has the alias", async {
        while client.post_json("/v1/chat/completions", &chat("swift")).await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(place.upstream.last().header("authorization"), Some(&*format!("Bearer {CANARY}")));
}
