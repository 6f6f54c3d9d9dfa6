//! The audit log: every change has its actor and its place, no secret is in it, and tampering shows.

use gw_testkit::{Client, Launch};
use serde_json::{Value, json};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::harness::management::{ask, create, worlds};
use crate::harness::{ADMIN, World, assert_error, binary, world};

const AUDIT: &str = "/admin/v1/audit";

fn admin(world: &World) -> Client {
    world.gateway.client().with_key(ADMIN)
}

/// The rows that match a query, the oldest first.
async fn rows(admin: &Client, query: &str) -> Vec<Value> {
    let page = admin.get(&format!("{AUDIT}?order=asc&{query}")).await.ok().json();
    page["data"].as_array().expect("rows").clone()
}

/// Runs a command on the store of the gateway.
fn beside(world: &World, args: &[&str]) -> std::process::Output {
    let dir = world.gateway.dir();
    let launch = Launch::new(binary())
        .env("MODEL_GATEWAY_DATA_DIR", &dir.join("data").to_string_lossy())
        .env("MODEL_GATEWAY_CONFIG", &dir.join("gateway.toml").to_string_lossy());
    args.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn k14_every_change_is_recorded_with_its_actor_and_no_secret() {
    for world in worlds().await {
        let admin = admin(&world);
        assert_eq!(ask(&admin, "PUT", "/admin/v1/teams/blue", &json!({ "rpm": 9 })).await.status, 201);
        ask(&admin, "PUT", "/admin/v1/teams/blue", &json!({ "rpm": 8 })).await.ok();
        let (first, key) = create(&admin, json!({ "name": "k", "metadata": { "a": 1.0 } })).await;
        let id = key["id"].as_str().expect("an id").to_owned();
        let path = format!("/admin/v1/keys/{id}");
        ask(&admin, "PATCH", &path, &json!({ "name": "n" })).await.ok();
        let rotated = ask(&admin, "POST", &format!("{path}/rotate"), &json!({})).await.ok().json();
        let second = rotated["key"].as_str().expect("a secret").to_owned();
        admin.send("DELETE", &path, None, None).await.ok();
        admin.send("DELETE", "/admin/v1/cache?model=acme/fast", None, None).await.ok();
        admin.send("DELETE", "/admin/v1/teams/blue", None, None).await.ok();
        ask(&admin, "POST", "/admin/v1/reload", &json!({})).await.ok();
        // These change nothing.
        admin.send("DELETE", &path, None, None).await.ok();
        assert_eq!(ask(&admin, "PATCH", &path, &json!({ "name": "x" })).await.status, 400);
        assert_eq!(admin.send("DELETE", "/admin/v1/cache?key=nobody", None, None).await.status, 404);
        assert_eq!(admin.send("DELETE", "/admin/v1/requests/req_none/payload", None, None).await.status, 404);
        admin.get("/admin/v1/keys").await.ok();

        let all = rows(&admin, "").await;
        let done: Vec<_> =
            all.iter().map(|row| (&row["action"], row["target"].as_str().expect("an id"))).collect();
        let expected = [
            ("team.put", "blue"),
            ("team.put", "blue"),
            ("key.create", id.as_str()),
            ("key.update", id.as_str()),
            ("key.rotate", id.as_str()),
            ("key.revoke", id.as_str()),
            ("cache.purge", "model:acme/fast"),
            ("team.delete", "blue"),
            ("config.reload", "configuration"),
        ];
        let expected = expected.map(|(action, object)| (json!(action), object));
        assert_eq!(done, expected.iter().map(|(action, object)| (action, *object)).collect::<Vec<_>>());
        let boss = gw_engine::auth::configured_id("boss");
        let actor = json!({ "kind": "key", "id": boss, "name": "boss", "address": "127.0.0.1" });
        for (at, row) in all.iter().enumerate() {
            assert_eq!((&row["actor"], &row["seq"]), (&actor, &json!(at + 1)), "{row}");
        }
        let states =
            |at: usize, member: &str| (all[at]["before"][member].clone(), all[at]["after"][member].clone());
        assert_eq!(states(0, "rpm"), (Value::Null, json!(9)));
        assert_eq!(states(1, "rpm"), (json!(9), json!(8)));
        assert_eq!(states(2, "metadata"), (Value::Null, json!({ "a": 1.0 })));
        assert_eq!(states(3, "name"), (json!("k"), json!("n")));
        assert!(states(4, "rotated").0.is_null() && states(4, "rotated").1.is_object());
        assert!(states(5, "revoked_at").0.is_null() && states(5, "revoked_at").1.is_string());
        assert_eq!(states(7, "rpm"), (json!(8), Value::Null));
        let log = json!(all).to_string();
        for secret in [&first[12..], &second[12..], ADMIN] {
            assert!(!log.contains(secret), "{log}");
        }
    }
}

#[tokio::test]
async fn k13_a_forwarded_address_is_not_believed_in_the_audit_log() {
    let world = world().await;
    let spoofed = admin(&world)
        .with_header("x-forwarded-for", "198.51.100.7")
        .with_header("forwarded", "for=198.51.100.7")
        .with_header("x-real-ip", "198.51.100.7")
        .with_header("x_forwarded_for", "198.51.100.7");
    create(&spoofed, json!({ "name": "k" })).await;
    let rows = rows(&admin(&world), "").await;
    assert_eq!(rows[0]["actor"]["address"], "127.0.0.1");
    assert!(!json!(rows).to_string().contains("198.51.100.7"));
}

#[tokio::test]
async fn the_log_is_filtered_paged_and_exported() {
    let world = world().await;
    let admin = admin(&world);
    for n in 0..5 {
        create(&admin, json!({ "name": format!("=k{n},\"") })).await;
    }
    assert_eq!(ask(&admin, "PUT", "/admin/v1/teams/blue", &json!({})).await.status, 201);
    let first = admin.get(&format!("{AUDIT}?limit=4")).await.ok().json();
    assert_eq!(
        (&first["data"][0]["seq"], &first["has_more"], &first["next"]),
        (&json!(6), &json!(true), &json!("3"))
    );
    assert_eq!(first["head"]["hash"], first["data"][0]["hash"]);
    let second = admin.get(&format!("{AUDIT}?limit=4&after=3")).await.ok().json();
    assert_eq!((second["data"].as_array().map(Vec::len), &second["next"]), (Some(2), &Value::Null));
    assert_eq!(rows(&admin, "action=key.").await.len(), 5);
    assert_eq!(rows(&admin, "action=team.put&object=blue").await.len(), 1);
    assert_eq!(rows(&admin, "actor=nobody").await.len(), 0);
    assert_eq!(rows(&admin, "until=2020-01-01").await.len(), 0);
    for (query, code) in [
        ("order=up", "invalid_value"),
        ("since=x", "invalid_value"),
        ("since=1h&until=2h", "invalid_value"),
        ("after=-1", "integer_below_min_value"),
        ("limit=1001", "integer_above_max_value"),
        ("actors=x", "unsupported_parameter"),
        ("format=xml", "invalid_value"),
    ] {
        let refused = admin.get(&format!("{AUDIT}?{query}")).await;
        assert_error(query, &refused, 400, "invalid_request_error", code);
    }
    let csv = admin.with_header("accept", "text/csv").get(AUDIT).await.ok();
    assert!(csv.header("content-type").is_some_and(|kind| kind.starts_with("text/csv")));
    let csv = csv.text();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        (lines.len(), lines[0]),
        (7, "seq,at,actor_kind,actor,actor_name,address,action,object,before,after,hash")
    );
    assert!(lines[1].starts_with("6,") && lines[1].contains(",team.put,blue,"), "{}", lines[1]);
}

#[tokio::test]
async fn k14_commands_on_the_store_are_recorded_and_the_chain_is_verified() {
    let world = world().await;
    create(&admin(&world), json!({ "name": "over-http" })).await;
    let made = beside(&world, &["keys", "create", "--name", "on-the-store"]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let log = rows(&admin(&world), "").await;
    let actor = &log[1]["actor"];
    assert_eq!((&actor["kind"], &actor["address"]), (&json!("command_line"), &Value::Null));
    assert!(actor["id"].as_str().is_some_and(|id| id.starts_with("uid:")), "{actor}");
    let table = beside(&world, &["audit"]);
    assert!(text(&table.stdout).contains("key.create"), "{}", text(&table.stderr));
    for format in ["json", "csv"] {
        let export = text(&beside(&world, &["audit", "--format", format]).stdout);
        assert_eq!(export.matches("key.create").count(), 2, "{export}");
    }
    let verified = beside(&world, &["audit", "--verify"]);
    assert!(text(&verified.stdout).starts_with("2 changes, all in place"), "{}", text(&verified.stderr));

    // Another program with access to the file takes the triggers out and rewrites history.
    let file = world.gateway.dir().join("data/gateway.db");
    let mut store = SqliteConnectOptions::new().filename(file).connect().await.expect("the store");
    for sql in ["UPDATE gateway_audit SET actor = 'nobody'", "DELETE FROM gateway_audit"] {
        let refused = sqlx::query(sql).execute(&mut store).await.expect_err("append-only").to_string();
        assert!(refused.contains("append-only"), "{refused}");
    }
    for sql in [
        "DROP TRIGGER audit_is_not_changed",
        "UPDATE gateway_audit SET actor_name = 'somebody else' WHERE seq = 1",
    ] {
        sqlx::query(sql).execute(&mut store).await.expect(sql);
    }
    let altered = beside(&world, &["audit", "--verify"]);
    assert_eq!(altered.status.code(), Some(1));
    assert!(text(&altered.stderr).contains("the row 1 was changed"), "{}", text(&altered.stderr));
}
