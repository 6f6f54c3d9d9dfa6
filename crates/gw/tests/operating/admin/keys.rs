//! `/admin/v1/keys` and `/admin/v1/teams`: operators manage keys and teams, and every change is in force at once.

use gw_testkit::{Client, Gateway, Launch, eventually, within};
use serde_json::{Value, json};

use crate::harness::management::{ask, create, worlds};
use crate::harness::{ADMIN, KEY, World, assert_error, binary, chat, serve, world};

const KEYS: &str = "/admin/v1/keys";
const TEAMS: &str = "/admin/v1/teams";

fn admin(world: &World) -> Client {
    world.gateway.client().with_key(ADMIN)
}

async fn status(gateway: &Gateway, key: &str, model: &str) -> (u16, String) {
    let answer = gateway.client().with_key(key).post_json("/v1/chat/completions", &chat(model)).await;
    (answer.status, answer.code())
}

fn path(key: &Value) -> String {
    format!("{KEYS}/{}", key["id"].as_str().expect("an id"))
}

const DEMO: &str = "[[providers]]\nname = \"demo\"\napi = \"demo\"\n[server]\nlisten = \"127.0.0.1:0\"\n";

/// A gateway without configured keys, and the admin and inference key of its first start.
async fn first_start() -> (Gateway, String, String) {
    let gateway = serve(DEMO).await;
    let said = || {
        let text = gateway.stdout().join("\n");
        let keys = text.split_whitespace().filter(|word| word.starts_with("sk-gw-"));
        let keys: Vec<_> = keys.map(str::to_owned).collect();
        (keys.len() >= 2).then_some(keys)
    };
    let keys = eventually("the keys of the first start", said).await;
    (gateway, keys[0].clone(), keys[1].clone())
}

#[tokio::test]
async fn a_key_is_made_used_narrowed_rotated_and_revoked() {
    for world in worlds().await {
        let admin = admin(&world);
        let members = json!({ "name": "search", "models": ["acme/*"], "budget_usd": 12.5, "metadata": { "a": [1.0, "é"] } });
        let (first, key) = create(&admin, members).await;
        assert_eq!((first.len(), &first[..12]), (52, key["id"].as_str().expect("an id")));
        assert_eq!(key["object"], "key");
        assert_eq!((&key["role"], &key["source"]), (&json!("inference"), &json!("store")));
        assert_eq!((&key["budget_usd"], &key["budget_period"]), (&json!(12.5), &json!("month")));
        assert_eq!(key["budget"]["spent_usd"], 0);
        assert!(key["budget"]["resets_at"].as_str().is_some_and(|at| at.ends_with("-01T00:00:00Z")), "{key}");
        assert_eq!(key["metadata"], json!({ "a": [1.0, "é"] }));
        assert_eq!(
            status(&world.gateway, &first, "acme/fast").await.0,
            200,
            "in force as soon as it is answered"
        );

        let narrowed =
            ask(&admin, "PATCH", &path(&key), &json!({ "models": ["acme/plain"], "budget_usd": null })).await;
        let narrowed = narrowed.ok().json();
        assert_eq!((&narrowed["budget_usd"], &narrowed["budget"]), (&Value::Null, &Value::Null));
        assert_eq!(narrowed["name"], "search", "absent members stay unchanged");
        assert!(narrowed.get("key").is_none(), "the secret is shown once");
        assert_eq!(status(&world.gateway, &first, "acme/fast").await, (403, "model_not_allowed".to_owned()));
        assert_eq!(status(&world.gateway, &first, "acme/plain").await.0, 200);

        let rotated =
            ask(&admin, "POST", &format!("{}/rotate", path(&key)), &json!({ "grace_seconds": 600 })).await;
        let rotated = rotated.ok().json();
        let second = rotated["key"].as_str().expect("a new secret").to_owned();
        assert_eq!(rotated["id"], key["id"]);
        assert!(rotated["rotated"]["previous_valid_until"].is_string(), "{rotated}");
        assert_ne!(first, second);
        for secret in [&first, &second] {
            assert_eq!(
                status(&world.gateway, secret, "acme/plain").await.0,
                200,
                "both are good for a while"
            );
        }
        let at_once =
            ask(&admin, "POST", &format!("{}/rotate", path(&key)), &json!({ "grace_seconds": 0 })).await;
        let third = at_once.ok().json()["key"].as_str().expect("a secret").to_owned();
        for old in [&first, &second] {
            assert_eq!(status(&world.gateway, old, "acme/plain").await, (401, "invalid_api_key".to_owned()));
        }
        assert_eq!(status(&world.gateway, &third, "acme/plain").await.0, 200);

        let revoked = admin.send("DELETE", &path(&key), None, None).await.ok().json();
        assert!(revoked["revoked_at"].is_string(), "{revoked}");
        assert_eq!(status(&world.gateway, &third, "acme/plain").await, (401, "invalid_api_key".to_owned()));
        let again = admin.send("DELETE", &path(&key), None, None).await.ok().json();
        assert_eq!(again["revoked_at"], revoked["revoked_at"], "a second call changes nothing");
        for (method, path, body) in [
            ("PATCH", path(&key), json!({ "name": "x" })),
            ("POST", format!("{}/rotate", path(&key)), json!({})),
        ] {
            let refused = ask(&admin, method, &path, &body).await;
            assert_error(&path, &refused, 400, "invalid_request_error", "invalid_value");
        }
        assert_eq!(admin.get(&path(&key)).await.ok().json()["revoked_at"], revoked["revoked_at"]);
    }
}

#[tokio::test]
async fn keys_are_listed_page_by_page_and_by_team_and_name() {
    for world in worlds().await {
        let admin = admin(&world);
        let names = |answer: &Value| -> Vec<String> {
            let data = answer["data"].as_array().expect("data");
            data.iter().map(|key| key["name"].as_str().expect("a name").to_owned()).collect()
        };
        ask(&admin, "PUT", &format!("{TEAMS}/blue"), &json!({ "rpm": 9 })).await;
        for n in 0..5 {
            let team = (n % 2 == 0).then_some("blue");
            create(&admin, json!({ "name": format!("k{n}"), "team": team })).await;
        }
        let whole = admin.get(KEYS).await.ok().json();
        let configured = ["ci", "boss", "limited", "metered", "expired"];
        assert_eq!(names(&whole), [&configured[..], &["k0", "k1", "k2", "k3", "k4"]].concat());
        assert_eq!(
            (&whole["object"], &whole["has_more"], &whole["next"]),
            (&json!("list"), &json!(false), &Value::Null)
        );
        assert!(!whole.to_string().contains("\"key\":"), "no secret in a list");
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = admin.get(&format!("{KEYS}?limit=3{after}")).await.ok().json();
            seen.extend(names(&page));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(seen, names(&whole));
        assert_eq!(names(&admin.get(&format!("{KEYS}?team=blue")).await.ok().json()), ["k0", "k2", "k4"]);
        assert_eq!(names(&admin.get(&format!("{KEYS}?name=k3")).await.ok().json()), ["k3"]);
        let k3 = admin.get(&format!("{KEYS}?name=k3")).await.json()["data"][0].clone();
        admin.send("DELETE", &path(&k3), None, None).await.ok();
        assert!(names(&admin.get(&format!("{KEYS}?name=k3")).await.ok().json()).is_empty());
        assert_eq!(
            names(&admin.get(&format!("{KEYS}?name=k3&include_revoked=true")).await.ok().json()),
            ["k3"]
        );
        for (query, code) in [
            ("limit=0", "integer_below_min_value"),
            ("limit=1001", "integer_above_max_value"),
            ("limit=x", "invalid_type"),
            ("include_revoked=maybe", "invalid_value"),
            ("nmae=k3", "unsupported_parameter"),
        ] {
            let refused = admin.get(&format!("{KEYS}?{query}")).await;
            assert_error(query, &refused, 400, "invalid_request_error", code);
            assert!(
                refused.message().contains(query.split('=').next().unwrap_or_default()),
                "{}",
                refused.message()
            );
        }
    }
}

#[tokio::test]
async fn a_body_with_a_fault_is_a_400_that_names_the_field_and_changes_nothing() {
    for world in worlds().await {
        let admin = admin(&world);
        let (_, key) = create(&admin, json!({ "name": "good" })).await;
        let long = "x".repeat(201);
        let big = json!({ "x": "y".repeat(17_000) });
        let faults = [
            (json!({ "name": 5 }), "name", "invalid_type"),
            (json!({ "name": "" }), "name", "empty_string"),
            (json!({ "name": long }), "name", "string_above_max_length"),
            (json!({ "name": "a\nb" }), "name", "invalid_value"),
            (json!({ "name": "a\u{0}b" }), "name", "invalid_value"),
            (json!({ "name": null }), "name", "invalid_type"),
            (json!({ "role": "root" }), "role", "invalid_value"),
            (json!({ "role": null }), "role", "invalid_type"),
            (json!({ "team": "nobody" }), "team", "invalid_value"),
            (json!({ "models": "acme/*" }), "models", "invalid_type"),
            (json!({ "models": [] }), "models", "empty_array"),
            (json!({ "models": [""] }), "models[0]", "empty_string"),
            (json!({ "models": ["a", 5] }), "models[1]", "invalid_type"),
            (json!({ "rpm": 0 }), "rpm", "integer_below_min_value"),
            (json!({ "rpm": 1.5 }), "rpm", "invalid_type"),
            (json!({ "rpm": 99_999_999 }), "rpm", "integer_above_max_value"),
            (json!({ "burst": 5 }), "burst", "invalid_value"),
            (json!({ "rpm": 5, "burst": 0 }), "burst", "integer_below_min_value"),
            (json!({ "tpm": "many" }), "tpm", "invalid_type"),
            (json!({ "max_in_flight": -1 }), "max_in_flight", "integer_below_min_value"),
            (json!({ "budget_usd": -0.5 }), "budget_usd", "decimal_below_min_value"),
            (json!({ "budget_usd": "ten" }), "budget_usd", "invalid_value"),
            (json!({ "budget_usd": "0.0000000001" }), "budget_usd", "invalid_value"),
            (json!({ "budget_usd": true }), "budget_usd", "invalid_type"),
            (json!({ "budget_period": "month" }), "budget_period", "invalid_value"),
            (json!({ "budget_usd": 1, "budget_period": "year" }), "budget_period", "invalid_value"),
            (json!({ "on_budget": "cut" }), "on_budget", "invalid_value"),
            (json!({ "budget_usd": 1, "on_budget": "stop" }), "on_budget", "invalid_value"),
            (json!({ "budget_usd": 1, "on_budget": true }), "on_budget", "invalid_type"),
            (json!({ "expires_at": "tomorrow" }), "expires_at", "invalid_value"),
            (json!({ "expires_at": 5 }), "expires_at", "invalid_type"),
            (json!({ "log_payloads": 1 }), "log_payloads", "invalid_type"),
            (json!({ "metadata": [] }), "metadata", "invalid_type"),
            (json!({ "metadata": big }), "metadata", "invalid_value"),
            (json!({ "id": "sk-gw-mine00" }), "id", "unsupported_parameter"),
            (json!({ "key": "sk-gw-mine" }), "key", "unsupported_parameter"),
            (json!({ "Name": "x" }), "Name", "unsupported_parameter"),
            (json!({ "revoked_at": null }), "revoked_at", "unsupported_parameter"),
            (json!({ "allowed_routes": ["/*"] }), "allowed_routes", "unsupported_parameter"),
        ];
        for (fault, field, code) in faults {
            let label = format!("{field}: {code}");
            let refused = ask(&admin, "PATCH", &path(&key), &fault).await;
            assert_error(&label, &refused, 400, "invalid_request_error", code);
            assert!(refused.message().contains(&format!("'{field}'")), "{label}: {}", refused.message());
            let mut whole = fault;
            if whole.get("name").is_none() {
                whole["name"] = json!("bad");
            }
            let refused = ask(&admin, "POST", KEYS, &whole).await;
            assert_error(&label, &refused, 400, "invalid_request_error", code);
        }
        let nameless = ask(&admin, "POST", KEYS, &json!({})).await;
        assert_error("no name", &nameless, 400, "invalid_request_error", "missing_required_parameter");
        let past =
            ask(&admin, "POST", KEYS, &json!({ "name": "x", "expires_at": "2020-01-01T00:00:00Z" })).await;
        assert_error("born dead", &past, 400, "invalid_request_error", "invalid_value");
        for (body, code) in [
            (&b"{\"name\":\"a\",\"name\":\"b\"}"[..], "invalid_json"),
            (b"{", "invalid_json"),
            (b"[]", "invalid_json"),
            (b"", "invalid_json"),
            (b"{\"name\":\"\\ud800\"}", "invalid_json"),
            (b"{\"name\":\"\xff\"}", "invalid_json"),
        ] {
            let refused = admin.post_bytes(KEYS, body).await;
            assert_error(code, &refused, 400, "invalid_request_error", code);
        }
        let large = format!("{{\"name\":\"{}\"}}", "x".repeat(70_000));
        let refused = admin.post_bytes(KEYS, large.as_bytes()).await;
        assert_error("large", &refused, 413, "invalid_request_error", "request_too_large");
        let refused = admin.send("POST", KEYS, Some("text/plain"), Some(b"{}")).await;
        assert_error("text", &refused, 415, "invalid_request_error", "unsupported_media_type");
        for grace in [json!(-1), json!(604_801), json!("1h"), json!(1.5)] {
            let refused =
                ask(&admin, "POST", &format!("{}/rotate", path(&key)), &json!({ "grace_seconds": grace }))
                    .await;
            assert_eq!((refused.status, refused.message().contains("grace_seconds")), (400, true), "{grace}");
        }
        let mut kept = admin.get(&path(&key)).await.ok().json();
        let mut made = key.clone();
        made.as_object_mut().expect("an object").remove("key");
        kept.as_object_mut().expect("an object").remove("binding_limit").expect("it is read from the engine");
        assert_eq!(kept, made);
        assert_eq!(admin.get(KEYS).await.json()["data"].as_array().map(Vec::len), Some(6));
    }
}

#[tokio::test]
async fn amounts_are_exact_to_the_nano_dollar() {
    for world in worlds().await {
        let admin = admin(&world);
        for (sent, shown) in [
            ("0.1", "0.1"),
            ("123456789.123456789", "123456789.123456789"),
            ("\"0.000000001\"", "0.000000001"),
            ("1e-9", "0.000000001"),
            ("\"12.50\"", "12.5"),
            ("0", "0"),
        ] {
            let body = format!("{{\"name\":\"n\",\"budget_usd\":{sent},\"budget_period\":\"total\"}}");
            let answer = admin.post_bytes(KEYS, body.as_bytes()).await;
            assert_eq!(answer.status, 201, "{}", answer.text());
            assert!(answer.text().contains(&format!("\"budget_usd\":{shown},")), "{sent}: {}", answer.text());
            assert!(answer.text().contains("\"resets_at\":null"), "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn keys_of_the_configuration_are_shown_and_changed_only_there() {
    let world = world().await;
    let admin = admin(&world);
    let all = admin.get(KEYS).await.ok().json();
    let limited = &all["data"][2];
    assert_eq!((&limited["name"], &limited["source"]), (&json!("limited"), &json!("config")));
    assert_eq!(limited["models"], json!(["acme/plain"]));
    assert!(limited["id"].as_str().is_some_and(|id| id.starts_with("cfg-") && id.len() == 16), "{limited}");
    assert_eq!(admin.get(&path(limited)).await.ok().json(), *limited);
    for (method, path) in
        [("PATCH", path(limited)), ("DELETE", path(limited)), ("POST", format!("{}/rotate", path(limited)))]
    {
        let refused = ask(&admin, method, &path, &json!({})).await;
        assert_error(method, &refused, 400, "invalid_request_error", "invalid_value");
        assert!(refused.message().contains("configuration"), "{}", refused.message());
    }
}

#[tokio::test]
async fn the_last_admin_cannot_lock_everyone_out() {
    let (gateway, secret, _) = first_start().await;
    let admin = gateway.client().with_key(&secret);
    let me = format!("{KEYS}/{}", &secret[..12]);
    let attempts = [
        ("DELETE", json!({})),
        ("PATCH", json!({ "role": "inference" })),
        ("PATCH", json!({ "expires_at": "2020-01-01T00:00:00Z" })),
        // It would expire later, and then nobody could make another one.
        ("PATCH", json!({ "expires_at": "2031-01-01T00:00:00Z" })),
    ];
    for (method, body) in &attempts {
        let refused = ask(&admin, method, &me, body).await;
        assert_error(method, &refused, 400, "invalid_request_error", "invalid_value");
        assert!(refused.message().contains("last"), "{}", refused.message());
    }
    // Another key has to last as long as this one.
    let short = json!({ "name": "short", "role": "admin", "expires_at": "2030-12-31T00:00:00Z" });
    create(&admin, short).await;
    let refused = ask(&admin, "PATCH", &me, &json!({ "expires_at": "2031-01-01T00:00:00Z" })).await;
    assert_error("a shorter key", &refused, 400, "invalid_request_error", "invalid_value");
    ask(&admin, "PATCH", &me, &json!({ "expires_at": "2030-12-31T00:00:00Z" })).await.ok();
    ask(&admin, "PATCH", &me, &json!({ "expires_at": null })).await.ok();
    let (second, _) = create(&admin, json!({ "name": "second", "role": "admin" })).await;
    ask(&admin, "DELETE", &me, &json!({})).await.ok();
    let refused = admin.get(KEYS).await;
    assert_error("revoked by itself", &refused, 401, "authentication_error", "invalid_api_key");
    gateway.client().with_key(&second).get(KEYS).await.ok();
}

#[tokio::test]
async fn parts_of_a_limit_stay_and_go_with_it() {
    for world in worlds().await {
        let admin = admin(&world);
        let members = json!({ "name": "k", "rpm": 60, "burst": 10, "budget_usd": "1", "on_budget": "cut" });
        let (_, key) = create(&admin, members).await;
        let parts = |key: &Value| (key["burst"].clone(), key["on_budget"].clone());
        assert_eq!(parts(&key), (json!(10), json!("cut")));
        for (change, expected) in [
            (json!({ "rpm": 30, "budget_usd": "2" }), (json!(10), json!("cut"))),
            (json!({ "burst": null, "on_budget": null }), (Value::Null, json!("finish"))),
            (json!({ "on_budget": "cut" }), (Value::Null, json!("cut"))),
            // Another spelling of it.
            (json!({ "on_budget": "refuse" }), (Value::Null, json!("finish"))),
            (json!({ "burst": 30, "on_budget": "cut" }), (json!(30), json!("cut"))),
            (json!({ "rpm": null, "budget_usd": null }), (Value::Null, Value::Null)),
            (json!({ "rpm": 60, "budget_usd": 1 }), (Value::Null, json!("finish"))),
        ] {
            let changed = ask(&admin, "PATCH", &path(&key), &change).await.ok().json();
            assert_eq!(parts(&changed), expected, "{change}");
        }
        ask(&admin, "PATCH", &path(&key), &json!({ "burst": 60 })).await.ok();
        // A `burst` above `rpm` counts as `rpm`.
        ask(&admin, "PATCH", &path(&key), &json!({ "rpm": 59 })).await.ok();
        let team = json!({ "rpm": 9, "burst": 3, "budget_usd": 1, "on_budget": "cut" });
        let team = ask(&admin, "PUT", &format!("{TEAMS}/parts"), &team).await.json();
        assert_eq!(parts(&team), (json!(3), json!("cut")));
        assert_eq!(parts(&admin.get(&format!("{TEAMS}/parts")).await.ok().json()), parts(&team));
    }
}

#[tokio::test]
async fn teams_are_put_shown_and_deleted_when_nobody_is_in_them() {
    for world in worlds().await {
        let admin = admin(&world);
        let team = format!("{TEAMS}/Search.EU_1-a");
        let made =
            ask(&admin, "PUT", &team, &json!({ "rpm": 100, "budget_usd": "1000", "budget_period": "week" }))
                .await;
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!((&made.json()["rpm"], &made.json()["budget_usd"]), (&json!(100), &json!(1000)));
        let again = ask(&admin, "PUT", &team, &json!({ "tpm": 5_000_000 })).await.ok().json();
        assert_eq!(
            (&again["rpm"], &again["tpm"], &again["budget"]),
            (&Value::Null, &json!(5_000_000), &Value::Null)
        );
        assert_eq!(again["created_at"], made.json()["created_at"]);
        let (secret, key) = create(&admin, json!({ "name": "member", "team": "Search.EU_1-a" })).await;
        assert_eq!(status(&world.gateway, &secret, "acme/fast").await.0, 200);
        assert_eq!(admin.get(&team).await.ok().json()["keys"], 1);
        let refused = admin.send("DELETE", &team, None, None).await;
        assert_error("not empty", &refused, 400, "invalid_request_error", "invalid_value");
        ask(&admin, "PATCH", &path(&key), &json!({ "team": null })).await.ok();
        assert_eq!(admin.get(TEAMS).await.ok().json()["data"].as_array().map(Vec::len), Some(1));
        let deleted = admin.send("DELETE", &team, None, None).await.ok().json();
        assert_eq!(deleted, json!({ "object": "team", "id": "Search.EU_1-a", "deleted": true }));
        let gone = admin.get(&team).await;
        assert_error("gone", &gone, 404, "invalid_request_error", "not_found");
        for id in ["a%20b", "a%2Fb", "%00", "a%27--", &"x".repeat(65)] {
            let refused = ask(&admin, "PUT", &format!("{TEAMS}/{id}"), &json!({})).await;
            assert_error(id, &refused, 400, "invalid_request_error", "invalid_value");
        }
        let refused = ask(&admin, "PUT", &team, &json!({ "name": "x" })).await;
        assert_error("unknown field", &refused, 400, "invalid_request_error", "unsupported_parameter");
    }
}

#[tokio::test]
async fn k01_a_dump_of_the_store_holds_no_key() {
    let world = world().await;
    let admin = admin(&world);
    let mut secrets = vec![KEY.to_owned(), ADMIN.to_owned()];
    for n in 0..5 {
        let (secret, key) = create(&admin, json!({ "name": format!("k{n}"), "role": "admin" })).await;
        let rotated = ask(&admin, "POST", &format!("{}/rotate", path(&key)), &json!({})).await.ok().json();
        secrets.extend([secret, rotated["key"].as_str().expect("a secret").to_owned()]);
    }
    for secret in &secrets {
        status(&world.gateway, secret, "acme/fast").await;
    }
    let said = [world.gateway.stdout(), world.gateway.stderr()].concat().join("\n");
    let metrics = admin.get("/metrics").await.ok().text();
    let mut kept = Vec::new();
    let mut open = vec![world.gateway.dir().join("data")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                kept.extend(std::fs::read(entry.path()).unwrap_or_default());
            }
        }
    }
    assert!(kept.windows(8).any(|window| window == b"SQLite f"), "the store was looked at");
    for secret in &secrets {
        let secret = if secret.starts_with("sk-gw-") { &secret[12..] } else { secret };
        assert!(!kept.windows(secret.len()).any(|window| window == secret.as_bytes()), "in the store");
        assert!(!said.contains(secret) && !metrics.contains(secret), "in the log or the metrics");
    }
}

#[tokio::test]
async fn r04_a_change_in_one_process_is_in_force_in_another() {
    let shared = tempfile::tempdir().expect("a directory");
    let launch = || {
        let keys = format!("[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n");
        let store = format!("[store]\nurl = \"sqlite://{}/gateway.db\"\n", shared.path().display());
        Launch::new(binary()).file("gateway.toml", format!("{DEMO}\n{store}\n{keys}")).start()
    };
    let (one, two) = (launch().await, launch().await);
    let admin = one.client().with_key(ADMIN);
    // `watch.rs` has the test of the second in which this happens.
    let in_force = async |secret: &str, expected: u16| {
        within("the change is in force", async {
            while status(&two, secret, "demo/chat").await.0 != expected {}
        })
        .await;
    };
    let (secret, key) = create(&admin, json!({ "name": "k" })).await;
    in_force(&secret, 200).await;
    ask(&admin, "PATCH", &path(&key), &json!({ "models": ["acme/*"] })).await.ok();
    in_force(&secret, 403).await;
    admin.send("DELETE", &path(&key), None, None).await.ok();
    in_force(&secret, 401).await;
}
