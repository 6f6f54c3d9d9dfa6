//! `/admin/v1/usage` and `/admin/v1/requests`: reports and the log over a ledger that was there before the start.

use std::sync::Arc;

use gw_store::Store;
use gw_store::ledger::{Attempt, Entry, Tokens};
use gw_testkit::{Client, Gateway, Launch};
use gw_wire::money::Money;
use gw_wire::prompt_cache::{CacheMiss, MissCause, PromptCacheUse};
use serde_json::{Value, json};

pub(crate) use crate::harness::management::{CONFIG, boss, with_ledger};
use crate::harness::{ADMIN, assert_error, binary, with};

/// 2026-11-21T09:00:00Z.
const NINE: i64 = 1_795_251_600_000;
const HOUR: i64 = 3_600_000;
/// One nano-dollar in femto-dollars.
const NANO: i128 = 1_000_000;

/// The id of the `n`th request. An id contains the time at which the request was accepted.
fn id(n: usize, at: i64) -> String {
    let bits = u128::try_from(at).expect("after 1970") << 80 | n as u128;
    String::from_utf8(gw_wire::request_id::format(bits).to_vec()).expect("text")
}

fn entry(n: usize, at: i64, key: &str, team: Option<&str>, model: &str, status: &str) -> Entry {
    let failed = status != "ok";
    Entry {
        request_id: id(n, at).into(),
        at,
        key_id: key.to_owned().into(),
        key_name: format!("name of {key}").into(),
        team: team.map(Into::into),
        operation: "chat".into(),
        requested_model: model.to_owned(),
        model: model.to_owned().into(),
        provider: model.split('/').next().unwrap_or_default().to_owned().into(),
        status: status.to_owned().into(),
        strategy: "default".into(),
        tokens: if failed {
            Tokens::default()
        } else {
            Tokens { prompt: 10, completion: 5, ..Tokens::default() }
        },
        cost: if failed { 0 } else { 3 * NANO + 7 },
        latency_ms: 12,
        attempts: vec![Attempt {
            provider: "acme".into(),
            model: model.into(),
            status: status.to_owned().into(),
            latency_ms: 12,
            cost: Some(0),
            started_ms: 0,
            image_fetch_ms: 0,
            known_part: 0,
            reason: None,
        }],
        user: Some("ann".to_owned()),
        ..Entry::default()
    }
}

/// Ten requests over three hours and two days.
fn ledger() -> Vec<Entry> {
    let boss = boss();
    vec![
        entry(0, NINE, &boss, None, "acme/fast", "ok"),
        entry(1, NINE + 1, &boss, None, "acme/fast", "ok"),
        entry(2, NINE + HOUR - 1, &boss, None, "acme/fast", "upstream_error"),
        entry(3, NINE + HOUR, "sk-gw-aaaaaa", Some("blue"), "acme/fast", "ok"),
        entry(4, NINE + HOUR + 5, "sk-gw-aaaaaa", Some("blue"), "acme/plain", "ok"),
        entry(5, NINE + HOUR + 5, "sk-gw-aaaaaa", Some("blue"), "beta/=cmd", "ok"),
        entry(6, NINE + HOUR + 6, "sk-gw-bbbbbb", Some("red"), "beta/x,\"y\"", "ok"),
        entry(7, NINE + 24 * HOUR, "sk-gw-bbbbbb", Some("red"), "=SUM(A1)", "ok"),
        Entry {
            cache_hit: true,
            cost: 0,
            saved: 9 * NANO,
            ..entry(8, NINE + 24 * HOUR, &boss, None, "acme/fast", "ok")
        },
        entry(9, NINE + 24 * HOUR, &boss, None, "", "model_not_found"),
    ]
}

/// Runs the check on SQLite and on PostgreSQL.
async fn with_ledgers(entries: &[Entry]) -> [(Gateway, Client); 2] {
    let url = gw_testkit::postgres::database();
    let store = Store::open_url(&url).await.expect("a store");
    store.record(entries).await.expect("recorded");
    store.close().await;
    let config = format!("{CONFIG}\n[store]\nurl = \"{url}\"\nretention_days = 0\n");
    let gateway = Launch::new(binary()).file("gateway.toml", config).start().await;
    let admin = gateway.client().with_key(ADMIN);
    [with_ledger(entries).await, (gateway, admin)]
}

async fn usage(admin: &Client, query: &str) -> Value {
    admin.get(&format!("/admin/v1/usage?{query}")).await.ok().json()
}

/// The group and the number of requests in each row of a report.
fn counts<'v>(report: &'v Value, group: &str) -> Vec<(Option<&'v str>, u64)> {
    let rows = report["data"].as_array().expect("data");
    rows.iter().map(|row| (row[group].as_str(), row["requests"].as_u64().expect("a count"))).collect()
}

#[tokio::test]
async fn usage_is_grouped_by_everything_it_can_be_grouped_by() {
    for (_gateway, admin) in with_ledgers(&ledger()).await {
        let boss = boss();
        let report = usage(&admin, "by=key").await;
        assert_eq!((&report["object"], &report["by"]), (&json!("usage"), &json!("key")));
        let mut keys = counts(&report, "key");
        keys.sort();
        let mut expected = [(Some("sk-gw-aaaaaa"), 3), (Some("sk-gw-bbbbbb"), 2), (Some(&*boss), 5)];
        expected.sort();
        assert_eq!(keys, expected);
        let of_boss = report["data"].as_array().unwrap().iter().find(|row| row["key"] == *boss).unwrap();
        assert_eq!(of_boss["key_name"], "boss");
        assert_eq!((&of_boss["failed"], &of_boss["cache_hits"]), (&json!(2), &json!(1)));
        assert_eq!((&of_boss["prompt_tokens"], &of_boss["total_tokens"]), (&json!(30), &json!(45)));
        let report = usage(&admin, "by=team").await;
        assert_eq!(
            counts(&report, "team"),
            [(Some("blue"), 3), (None, 5), (Some("red"), 2)],
            "dearest first"
        );
        let report = usage(&admin, "by=provider").await;
        assert!(counts(&report, "provider").contains(&(Some("beta"), 2)), "{report}");
        assert!(counts(&report, "provider").contains(&(None, 1)), "no model was found: {report}");
        let report = usage(&admin, "by=day").await;
        assert_eq!(counts(&report, "day"), [(Some("2026-11-21"), 7), (Some("2026-11-22"), 3)]);
        let report = usage(&admin, "by=hour").await;
        let hours = ["2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z", "2026-11-22T09:00:00Z"];
        assert_eq!(counts(&report, "hour"), [(Some(hours[0]), 3), (Some(hours[1]), 4), (Some(hours[2]), 3)]);
        assert_eq!(usage(&admin, "").await, usage(&admin, "by=day").await, "the default is by day");
        assert_eq!(report["total"]["requests"], 10);
    }
}

#[tokio::test]
async fn usage_is_filtered_by_time_and_by_names() {
    for (_gateway, admin) in with_ledgers(&ledger()).await {
        let boss = boss();
        for (query, requests) in [
            (format!("key={boss}"), 5),
            ("team=blue".to_owned(), 3),
            ("model=acme%2Ffast".to_owned(), 5),
            ("provider=beta&team=blue".to_owned(), 1),
            ("model=none%2Fsuch".to_owned(), 0),
            ("since=2026-11-22".to_owned(), 3),
            ("until=2026-11-22".to_owned(), 7),
            ("since=2026-11-21T10:00:00Z&until=2026-11-21T11:00:00Z".to_owned(), 4),
            ("since=2026-11-21T12:00:00%2B02:00&until=2026-11-21T13:00:00%2B02:00".to_owned(), 4),
            ("since=1795255200&until=1795258800".to_owned(), 4),
            ("since=2026-11-21T10:59:59Z&until=2026-11-21T10:59:59.5Z".to_owned(), 4),
        ] {
            let report = usage(&admin, &query).await;
            assert_eq!(report["total"]["requests"], requests, "{query}: {report}");
            let rows: u64 = counts(&report, "day").iter().map(|(_, count)| count).sum();
            assert_eq!(rows, requests, "{query}: {report}");
        }
        let report = usage(&admin, "since=2026-11-21T10:59:59Z&until=2026-11-21T10:59:59.5Z").await;
        assert_eq!(
            report["since"], "2026-11-21T10:00:00.000Z",
            "it says which whole hours it is about: {report}"
        );
        assert_eq!(report["until"], "2026-11-21T11:00:00.000Z");
        for (query, code) in [
            ("by=user", "invalid_value"),
            ("since=yesterday", "invalid_value"),
            ("until=2026-02-30", "invalid_value"),
            ("since=2026-11-22&until=2026-11-21", "invalid_value"),
            ("format=xml", "invalid_value"),
            ("sort=key", "unsupported_parameter"),
        ] {
            let refused = admin.get(&format!("/admin/v1/usage?{query}")).await;
            assert_error(query, &refused, 400, "invalid_request_error", code);
        }
        for query in ["key=sk-gw-zzzzzz", "team=nobody"] {
            let refused = admin.get(&format!("/admin/v1/usage?{query}")).await;
            assert_error(query, &refused, 404, "invalid_request_error", "not_found");
        }
    }
}

#[tokio::test]
async fn amounts_are_written_to_the_last_digit_in_json_and_csv() {
    let (_gateway, admin) = with_ledger(&ledger()).await;
    let answer = admin.get("/admin/v1/usage?by=model&model=acme/fast").await.ok();
    // Three answers cost 3 nano-dollars and 7 femto-dollars each; one cache hit saved 9 nano-dollars.
    assert!(
        answer
            .text()
            .contains("\"cost_usd\":0.000000009000021,\"provider_cost_usd\":null,\"saved_usd\":0.000000009,\"unpriced_requests\":0}"),
        "{}",
        answer.text()
    );
    let many: Vec<Entry> = (0..3)
        .map(|n| Entry {
            cost: 123_456_789_012_345_678 * 1000 + 1,
            ..entry(100 + n, NINE, "k", None, "a/b", "ok")
        })
        .collect();
    let (_gateway, admin) = with_ledger(&many).await;
    let answer = admin.get("/admin/v1/usage?by=model").await.ok();
    assert!(answer.text().contains("\"cost_usd\":370370.367037037034003,"), "{}", answer.text());
    let answer = admin.with_header("accept", "text/csv").get("/admin/v1/usage?by=model").await.ok();
    assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(answer.text().contains(",370370.367037037034003,,0,0\r\n"), "{}", answer.text());
}

#[tokio::test]
async fn csv_is_quoted_and_no_cell_is_a_formula() {
    for (_gateway, admin) in with_ledgers(&ledger()).await {
        let answer = admin.get("/admin/v1/usage?by=model&format=csv").await.ok();
        let text = answer.text();
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(
            lines[0],
            "model,requests,failed,cache_hits,prompt_tokens,completion_tokens,total_tokens,cached_tokens,cache_write_tokens,\
         reasoning_tokens,cache_saved_usd,cache_surcharge_usd,cache_lost_usd,cost_usd,provider_cost_usd,saved_usd,unpriced_requests"
        );
        assert!(lines.iter().any(|line| line.starts_with("'=SUM(A1),1,")), "{text}");
        assert!(lines.iter().any(|line| line.starts_with("\"beta/x,\"\"y\"\"\",1,0,0,10,5,15,")), "{text}");
        assert!(lines.iter().any(|line| line.starts_with(",1,1,0,")), "no model: {text}");
        assert_eq!(lines.last(), Some(&""));
        let answer = admin.with_header("accept", "text/csv").get("/admin/v1/usage?format=json").await.ok();
        assert_eq!(
            answer.header("content-type"),
            Some("application/json"),
            "the parameter says more than the header"
        );
    }
}

#[tokio::test]
async fn the_log_is_read_page_by_page_newest_first() {
    for (_gateway, admin) in with_ledgers(&ledger()).await {
        let mut expected = ledger();
        expected.sort_by(|a, b| (b.at, &b.request_id).cmp(&(a.at, &a.request_id)));
        let expected: Vec<_> = expected.into_iter().map(|entry| entry.request_id.to_string()).collect();
        for limit in [1, 3, 10, 1000] {
            let (mut seen, mut after) = (Vec::new(), String::new());
            loop {
                let page = admin.get(&format!("/admin/v1/requests?limit={limit}{after}")).await.ok().json();
                let data = page["data"].as_array().expect("data");
                assert!(data.len() <= limit);
                seen.extend(data.iter().map(|row| row["request_id"].as_str().expect("an id").to_owned()));
                assert_eq!(page["has_more"], page["next"].is_string());
                let Some(next) = page["next"].as_str() else { break };
                after = format!("&after={next}");
            }
            assert_eq!(seen, expected, "limit {limit}");
        }
        let boss = boss();
        for (query, count) in [
            (format!("key={boss}"), 5),
            ("team=red".to_owned(), 2),
            ("status=ok".to_owned(), 8),
            ("status=upstream_error".to_owned(), 1),
            ("model=acme%2Fplain".to_owned(), 1),
            ("provider=beta".to_owned(), 2),
            ("since=2026-11-21T10:00:00.006Z&until=2026-11-22".to_owned(), 1),
        ] {
            let page = admin.get(&format!("/admin/v1/requests?{query}")).await.ok().json();
            assert_eq!(page["data"].as_array().map(Vec::len), Some(count), "{query}: {page}");
        }
        for after in ["x", "%00", "MTIz", "bm8gbnVtYmVy"] {
            let refused = admin.get(&format!("/admin/v1/requests?after={after}")).await;
            assert_error(after, &refused, 400, "invalid_request_error", "invalid_value");
        }
        let refused = admin.get("/admin/v1/requests?key=sk-gw-zzzzzz").await;
        assert_error("unknown key", &refused, 404, "invalid_request_error", "not_found");
    }
}

#[tokio::test]
async fn one_request_is_shown_with_its_attempts() {
    for (_gateway, admin) in with_ledgers(&ledger()).await {
        let id = id(2, NINE + HOUR - 1);
        let one = admin.get(&format!("/admin/v1/requests/{id}")).await.ok().json();
        assert_eq!(
            one,
            with(
                json!({
                    "object": "request", "request_id": id, "at": "2026-11-21T09:59:59.999Z",
                    "key": boss(), "key_name": format!("name of {}", boss()), "team": null,
                    "operation": "chat", "requested_model": "acme/fast", "model": "acme/fast", "provider": "acme",
                    "status": "upstream_error", "strategy": "default", "stream": false, "cache_hit": false,
                    "fallback_used": false, "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0,
                    "cached_tokens": 0, "cache_write_tokens": 0, "reasoning_tokens": 0, "estimated": false, "provider_cost_usd": null,
                    "cost_usd": 0, "saved_usd": 0, "ttft_ms": null, "latency_ms": 12, "user": "ann", "client": null,
                    "attempts": [{ "provider": "acme", "model": "acme/fast", "status": "upstream_error", "started_ms": 0,
                                   "latency_ms": 12, "cost_usd": 0 }],
                    "warnings": [], "route": null,
                    "payload": null, "cost": null, "neighbours": null, "session": null, "surface": "chat",
                }),
                json!({"end_user": null, "tags": [], "repository": null, "branch": null, "pull_request": null})
            )
        );
        let page = admin.get("/admin/v1/requests?limit=1").await.ok().json();
        for member in ["attempts", "payload"] {
            assert!(page["data"][0].get(member).is_none(), "the list is short: {page}");
        }
        let missing = admin.get("/admin/v1/requests/req_00000000000000000000000099").await;
        assert_error("missing", &missing, 404, "invalid_request_error", "not_found");
    }
}

#[tokio::test]
async fn a_key_shows_what_it_has_spent_in_its_period() {
    let now = i64::try_from(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis(),
    )
    .expect("before 292 million");
    let (gateway, admin) = with_ledger(&[]).await;
    let body = json!({ "name": "k", "budget_usd": "1", "budget_period": "day" });
    let (_, key) = crate::harness::management::create(&admin, body).await;
    let id = key["id"].as_str().expect("an id");
    let store = Store::open(&gateway.dir().join("data/gateway.db")).await.expect("a store");
    let spent = [
        Entry { cost: 5 * NANO + 1, ..entry(0, now, id, None, "a/b", "ok") },
        Entry { cost: 5 * NANO + 1, ..entry(1, now, id, None, "a/b", "ok") },
        Entry { cost: 77 * NANO, ..entry(2, now - 25 * HOUR, id, None, "a/b", "ok") },
        Entry { cost: 99 * NANO, ..entry(3, now, "sk-gw-other0", None, "a/b", "ok") },
    ];
    store.record(&spent).await.expect("recorded");
    let of_key = admin.get(&format!("/admin/v1/keys/{id}")).await.ok().text();
    let of_list = admin.get("/admin/v1/keys").await.ok().text();
    for text in [of_key, of_list] {
        assert!(text.contains("\"budget\":{\"spent_usd\":0.000000010000002,\"resets_at\":\""), "{text}");
    }
}

#[tokio::test]
async fn what_prompt_caches_saved_and_cost_is_summed_up_exactly_in_both_databases() {
    let usd = |femtos| Some(Money::from_femtos(femtos));
    let miss = |lost| CacheMiss {
        cause: MissCause::Expired,
        index: None,
        age_seconds: 400,
        ttl_seconds: 300,
        lost_tokens: 9,
        lost,
    };
    let cached = |n: usize, at, key: &str, model: &str, miss| {
        let used = PromptCacheUse {
            is_inserted: true,
            read_tokens: 7,
            saved: usd(2 * NANO + 1),
            surcharge: usd(-NANO - 3),
            miss,
            ..PromptCacheUse::default()
        };
        let session = (n < 2).then(|| "run".to_owned());
        Entry { prompt_cache: Some(Arc::new(used)), session, ..entry(n, at, key, None, model, "ok") }
    };
    let boss = boss();
    let unknown = PromptCacheUse { write_tokens: 5, ..PromptCacheUse::default() };
    let entries = [
        cached(0, NINE, &boss, "acme/fast", Some(miss(usd(5)))),
        cached(1, NINE + HOUR, &boss, "acme/plain", Some(miss(None))),
        cached(2, NINE + HOUR, &boss, "acme/fast", None),
        Entry { prompt_cache: Some(Arc::new(unknown)), ..entry(3, NINE, &boss, None, "beta/x", "ok") },
        entry(4, NINE, &boss, None, "beta/x", "ok"),
    ];
    for (_gateway, admin) in with_ledgers(&entries).await {
        for by in ["key", "day", "hour", "model", "provider", "session", "surface", "team"] {
            let text = admin.get(&format!("/admin/v1/usage?by={by}")).await.ok().text();
            let (_, total) = text.split_once("\"total\":").expect("a total");
            let sums = "\"cache_saved_usd\":0.000000006000003,\"cache_surcharge_usd\":-0.000000003000009,\
                        \"cache_lost_usd\":0.000000000000005,";
            assert!(total.contains(sums), "{by}: {text}");
        }
        let saved = async |query: &str| {
            let report = usage(&admin, query).await;
            let rows = report["data"].as_array().expect("rows").clone();
            rows.iter().map(|row| row["cache_saved_usd"].to_string()).collect::<Vec<_>>()
        };
        assert_eq!(saved("by=session&session=run").await, ["4.000002e-9"]);
        assert_eq!(saved("by=day&model=acme/plain").await, ["2.000001e-9"]);
        assert_eq!(saved("by=day&model=beta/x").await, ["0"]);
        assert_eq!(saved("by=day&end_user=ann").await, [""; 0]);
        assert_eq!(saved("by=end_user").await, ["6.000003e-9"]);
        assert_eq!(saved("by=end_user&tag=nightly").await, [""; 0]);
        let listed = usage(&admin, "by=model&limit=1").await;
        let rest = &listed["data"][1];
        assert_eq!((&rest["other"], rest["cache_saved_usd"].is_number()), (&json!(true), true), "{listed}");
    }
}
