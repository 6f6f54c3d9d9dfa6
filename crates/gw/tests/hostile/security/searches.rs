//! Searches of operators: wildcards are only text, pages have a bound, and a search that takes long is ended.

use std::time::{Duration, Instant};

use gw_testkit::Client;
use gw_testkit::measured::at_most;
use gw_testkit::postgres::{Postgres, sql_at};
use gw_testkit::wait::eventually_true;
use serde_json::{Value, json};

use crate::harness::management::{ask, create, worlds};
use crate::harness::{ADMIN, Differences, Setup, assert_error, assert_invalid, chat, logged};

/// Names that differ only where SQL has a wildcard, or the escape of one.
const NAMES: [&str; 9] = ["a%b", "a_b", "a\\b", "axb", "a%%b", "%", "_", "\\", "a\\%b"];

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The values of a member in the rows that a search finds.
async fn found(admin: &Client, path: &str, member: &str) -> Vec<String> {
    let page = admin.get(path).await.ok().json();
    let rows = page["data"].as_array().unwrap_or_else(|| panic!("{path}: {page}"));
    rows.iter().map(|row| row[member].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn i15_wildcards_in_searches_are_only_text() {
    for world in worlds().await {
        let admin = world.gateway.client().with_key(ADMIN);
        for name in NAMES {
            create(&admin, json!({ "name": name })).await;
            let client = world.client.with_header("x-gateway-session", name);
            let answer = client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
            let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
            assert_eq!(row["session"], name);
        }
        for team in ["t_1", "tx1", "t.1", "t-1"] {
            assert_eq!(ask(&admin, "PUT", &format!("/admin/v1/teams/{team}"), &json!({})).await.status, 201);
        }
        let mut rows = Differences::default();
        for name in NAMES {
            let value = encode(name);
            let one = vec![name.to_owned()];
            let requests = format!("/admin/v1/requests?session={value}");
            rows.check(&requests, found(&admin, &requests, "session").await, one.clone());
            let keys = format!("/admin/v1/keys?name={value}");
            rows.check(&keys, found(&admin, &keys, "name").await, one);
            let usage = format!("/admin/v1/usage?by=session&session={value}");
            let report = admin.get(&usage).await.ok().json();
            rows.check(&usage, report["data"][0]["requests"].clone(), json!(1));
            rows.check(format!("{usage}, groups"), report["data"].as_array().map(Vec::len), Some(1));
        }
        for nothing in [
            "requests?model=acme/f%25",
            "requests?model=acme/fas_",
            "requests?provider=%25",
            "requests?provider=acm_",
            "requests?status=%25",
            "requests?status=o_",
            "requests?session=a%25",
            "usage?by=model&model=%25",
            "usage?by=model&provider=acm_",
            "keys?name=a%25b%25",
            "audit?object=t%25",
            "audit?object=t_2",
            "audit?actor=%25",
            "audit?action=team_replace",
            "audit?action=%25.",
            "audit?action=tea_.",
        ] {
            rows.check(
                nothing,
                found(&admin, &format!("/admin/v1/{nothing}"), "object").await,
                Vec::<String>::new(),
            );
        }
        rows.check(
            "t_1",
            found(&admin, "/admin/v1/audit?object=t_1", "target").await,
            vec!["t_1".to_owned()],
        );
        for (search, expected) in [("%25", 0), ("_", 0), ("%5C", 0), ("acme/fas_", 0), ("ACME/FAST", 1)] {
            let list =
                world.client.get(&format!("/v1/models?provider=acme&search={search}")).await.ok().json();
            rows.check(
                format!("models with {search}"),
                list["data"].as_array().map(Vec::len),
                Some(expected),
            );
        }
        rows.finish();
    }
}

#[tokio::test]
async fn i15_a_page_has_a_thousand_entries_at_most() {
    for world in worlds().await {
        let admin = world.gateway.client().with_key(ADMIN);
        for list in ["keys", "requests", "audit", "config/history"] {
            let page = |limit: &str| format!("/admin/v1/{list}?limit={limit}");
            admin.get(&page("1000")).await.ok();
            for (limit, code) in [
                ("1001", "integer_above_max_value"),
                ("18446744073709551615", "integer_above_max_value"),
                ("0", "integer_below_min_value"),
            ] {
                assert_invalid(&page(limit), &admin.get(&page(limit)).await, code);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i15_a_search_that_waits_is_ended_after_two_seconds() {
    let server = Postgres::start();
    let url = server.database();
    let extra = format!("[store]\nurl = \"{url}\"\n");
    let world = Setup { extra, ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    for (table, path) in [("ledger", "/admin/v1/requests"), ("gateway_audit", "/admin/v1/audit")] {
        admin.get(path).await.ok();
        let (holder, lock) =
            (url.clone(), format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)"));
        // psql ends with an error when its session is ended below.
        let held = tokio::task::spawn_blocking(move || std::panic::catch_unwind(|| sql_at(&holder, &lock)));
        let locks = format!(
            "SELECT count(*) FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock' AND relation = '{table}'::regclass"
        );
        eventually_true("the table is locked", async || sql_at(&url, &locks) == "1").await;
        let start = Instant::now();
        let answer = admin.get(path).await;
        let took = start.elapsed();
        assert_error(path, &answer, 503, "server_error", "store_unavailable");
        assert!(answer.message().starts_with("The search takes too long."), "{}", answer.message());
        // Without the limit on the server, the gateway itself would give up after five seconds.
        assert!(took >= Duration::from_millis(1900), "{path}: {took:?}");
        at_most("i15_a_search_that_waits_is_ended_after_two_seconds", took, Duration::from_millis(4800));
        assert!(server.log().contains("canceling statement due to statement timeout"), "the server ended it");
        sql_at(
            &url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)'",
        );
        let ended: std::thread::Result<String> = held.await.expect("psql ends");
        assert!(ended.is_err(), "its session was ended");
        let rows: Value = admin.get(path).await.ok().json();
        assert!(rows["data"].is_array(), "the search works again");
    }
}
