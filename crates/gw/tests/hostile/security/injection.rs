//! SQL injection and floods of invalid keys: on both stores every text is only a value.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gw_store::NewKey;
use gw_testkit::measured::at_most;
use gw_testkit::postgres::{self, Postgres};
use gw_testkit::wait::eventually_ok;
use gw_testkit::wire::RawClient;
use gw_testkit::{Client, Gateway, Response};
use serde_json::{Value, json};

use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, KEY, Setup, World, chat, chat_with};
use gw_testkit::sources::shipped_sources;

const CHAT: &str = "/v1/chat/completions";

/// A part of every payload, for the search.
const MARK: &str = "zq7x";

/// Endings of a text literal, each followed by statements that an attacker would run.
fn payloads() -> Vec<String> {
    let outs = [
        "'", "\"", "`", "\\'", "''", "')", "%27", "\u{2019}", "\u{ff07}", "1", "$$", "E'\\'", "\u{0}'", "*/",
    ];
    let then = [
        " OR pg_sleep(8)--",
        " OR '1'='1",
        "; DROP TABLE keys;--",
        "; UPDATE keys SET role='admin';--",
        " UNION SELECT id, hash FROM keys--",
        " || (SELECT pg_sleep(8)) || ",
        " AND randomblob(1000000000)--",
        "; SELECT pg_sleep(8); --",
        "; ATTACH DATABASE '/tmp/x' AS x;--",
        "; COPY keys TO PROGRAM 'id';--",
        " LIKE '%_%",
        "$1 :a ?1 @b",
        "/*",
        "#",
    ];
    let mut all: Vec<_> =
        outs.iter().flat_map(|out| then.iter().map(move |then| format!("{MARK}{out}{then}"))).collect();
    for more in ["\\x00", "%00", "\u{202e}\u{feff}", "${jndi:x}", "\u{1f600}\u{300}", "\\u0027 OR 1=1"] {
        all.push(format!("{MARK}{more}"));
    }
    assert!(all.len() >= 200, "{}", all.len());
    all
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// No answer may be a server error or late. A successful payload sleeps for 8 seconds.
fn harmless(label: &str, start: Instant, answer: &Response) {
    assert!(answer.status < 500, "{label}: {} {}", answer.status, answer.text());
    at_most("harmless", start.elapsed(), Duration::from_secs(6));
    for inside in ["sqlite", "SQLITE", "syntax error", "postgres", "relation \"", ".rs:"] {
        assert!(!answer.text().contains(inside), "{label}: {}", answer.text());
    }
}

/// Sends one payload in every place; gives the id of the key that has it as its name, when one was created.
async fn send_everywhere(gateway: Arc<Gateway>, payload: String) -> Option<(String, String)> {
    let (client, admin) = (gateway.client().with_key(KEY), gateway.client().with_key(ADMIN));
    let line = payload.replace('\0', "");
    let stranger = gateway.client().with_key(&line);
    let headers = client.with_header("user-agent", &line).with_header("x-forwarded-for", &line);
    let with_headers = headers.with_header("accept", &line).with_header("x-request-id", &line);
    let path = encode(&payload);
    let requests: [(&Client, &str, String, Option<Value>); 15] = [
        (&stranger, "POST", CHAT.to_owned(), Some(chat("acme/fast"))),
        (&stranger, "GET", "/admin/v1/keys".to_owned(), None),
        (&stranger, "GET", format!("/{path}"), None),
        (&with_headers, "POST", CHAT.to_owned(), Some(chat_with("acme/fast", json!({ "user": payload })))),
        (&client, "POST", CHAT.to_owned(), Some(chat(&payload))),
        (&client, "POST", CHAT.to_owned(), Some(json!({ "model": "acme/fast", payload.clone(): payload }))),
        (&client, "GET", format!("/v1/models/{path}"), None),
        (&client, "GET", format!("/v1/{path}"), None),
        (&admin, "GET", format!("/admin/v1/keys/{path}"), None),
        (&admin, "DELETE", format!("/admin/v1/keys/{path}"), None),
        (&admin, "PUT", format!("/admin/v1/teams/{path}"), Some(json!({}))),
        (&admin, "GET", format!("/admin/v1/requests/{path}"), None),
        (&admin, "GET", format!("/admin/v1/requests?model={path}&status={path}"), None),
        (&admin, "GET", format!("/admin/v1/usage?by={path}&team={path}"), None),
        (&admin, "POST", "/admin/v1/keys".to_owned(), Some(json!({ "name": "x", "team": payload }))),
    ];
    for (client, method, path, body) in requests {
        let (label, start) = (format!("{method} {path} with {payload:?}"), Instant::now());
        let body = body.map(|body| body.to_string());
        let content = body.is_some().then_some("application/json");
        let answer = client.send(method, &path, content, body.as_deref().map(str::as_bytes)).await;
        harmless(&label, start, &answer);
    }
    let members = json!({ "name": line, "metadata": { payload.clone(): payload } });
    let made = ask(&admin, "POST", "/admin/v1/keys", &members).await;
    harmless("a key", Instant::now(), &made);
    let key = (made.status == 201).then(|| made.json())?;
    let id = key["id"].as_str().expect("an id").to_owned();
    let kept = admin.get(&format!("/admin/v1/keys/{id}")).await.ok().json();
    assert_eq!((&kept["name"], &kept["role"]), (&json!(line), &json!("inference")));
    assert_eq!(kept["metadata"], json!({ payload.clone(): payload }), "stored unchanged");
    Some((payload, id))
}

/// Sends every payload in every place, and then checks that all stored values are complete and unchanged.
async fn i01(world: World) -> World {
    let World { upstream, second, gateway, client } = world;
    let gateway = Arc::new(gateway);
    let admin = gateway.client().with_key(ADMIN);
    let all = payloads();
    let mut made = 0;
    for few in all.chunks(8) {
        let mut sending = tokio::task::JoinSet::new();
        for payload in few {
            sending.spawn(send_everywhere(Arc::clone(&gateway), payload.clone()));
        }
        made += sending.join_all().await.into_iter().flatten().count();
    }
    assert!(made >= all.len() - 20, "{made} of {}", all.len());
    let keys = admin.get("/admin/v1/keys?limit=1000").await.ok().json();
    let keys = keys["data"].as_array().expect("keys");
    assert_eq!(keys.len(), 5 + made, "no key is missing or added");
    assert_eq!(keys.iter().filter(|key| key["role"] == "admin").count(), 1);
    // The ledger holds the exact texts.
    let expected: BTreeSet<_> = all.iter().cloned().collect();
    eventually_ok("the ledger holds the exact texts", async || {
        let (mut users, mut models, mut after) = (BTreeSet::new(), BTreeSet::new(), String::new());
        loop {
            let page = admin.get(&format!("/admin/v1/requests?limit=1000{after}")).await.ok().json();
            for row in page["data"].as_array().expect("rows") {
                users.extend(row["user"].as_str().map(str::to_owned));
                models.extend(row["requested_model"].as_str().map(str::to_owned));
            }
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        let missing: Vec<String> =
            expected.difference(&users).chain(expected.difference(&models)).take(5).cloned().collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    })
    .await;
    let gateway = Arc::into_inner(gateway).expect("the only owner");
    World { upstream, second, gateway, client }
}

#[tokio::test]
async fn i01_sql_injection_on_sqlite() {
    let world = i01(crate::harness::world().await).await;
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn i01_sql_injection_on_postgresql() {
    let server = Postgres::start();
    let url = server.database();
    // The server's log has every statement without its bound values.
    for setting in
        ["log_statement = 'all'", "log_parameter_max_length = 0", "log_parameter_max_length_on_error = 0"]
    {
        let name = url.rsplit('/').next().expect("a name");
        postgres::sql_at(&url, &format!("ALTER DATABASE {name} SET {setting}"));
    }
    let tables = "SELECT string_agg(table_name, ' ' ORDER BY table_name) FROM information_schema.tables \
                  WHERE table_schema = 'public'";
    let extra = format!("[store]\nurl = \"{url}\"\n");
    let world = Setup { extra, ..Setup::default() }.start().await;
    let before = postgres::sql_at(&url, tables);
    let world = i01(world).await;
    world.chat_ok(&chat("acme/fast")).await;
    assert_eq!(postgres::sql_at(&url, tables), before);
    let log = server.log();
    assert!(log.contains("INSERT INTO keys") && log.contains("INSERT INTO ledger"), "the log was looked at");
    let with_payload: Vec<_> = log.lines().filter(|line| line.contains(MARK)).take(5).collect();
    assert!(with_payload.is_empty(), "payloads are bound values only: {with_payload:?}");
    let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR:")).take(5).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn i01_no_sql_is_made_of_formatted_text() {
    let mut seen = 0;
    for (name, source) in shipped_sources() {
        for (number, line) in source.lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            let squeezed = line.replace(' ', "");
            let makes = [
                "query(&",
                "query(format!",
                "query_as(&",
                "query_scalar(&",
                "raw_sql(&",
                "raw_sql(format!",
                "Sql::new(&",
                ".push(&format",
            ];
            let of_store = name.contains("gw-store");
            assert!(!of_store || !makes.iter().any(|made| squeezed.contains(made)), "{place}: {line}");
            // The only place that marks a text as safe; its type accepts only constants of the program.
            if line.contains("AssertSqlSafe(") {
                assert!(
                    name.ends_with("gw-store/src/sql.rs") && line.contains("AssertSqlSafe(self.text)"),
                    "{place}"
                );
                seen += 1;
            }
            let verbs = ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "CREATE ", "ALTER "];
            let formats = line.contains("format!(") || line.contains("write!(");
            assert!(!(formats && verbs.iter().any(|verb| line.contains(verb))), "{place}: {line}");
        }
        if name.ends_with("gw-store/src/sql.rs") {
            assert!(source.contains("pub(crate) fn new(text: &'static str)"), "{name}");
            assert!(source.contains("fn push(&mut self, piece: &'static str)"), "{name}");
        }
    }
    assert_eq!(seen, 2, "both databases");
}

/// Sends null characters in every field of this store: they are stored unchanged or refused.
async fn c10(world: &World) -> Vec<Value> {
    let admin = world.gateway.client().with_key(ADMIN);
    let nul = "a\u{0}b";
    let body = chat_with(
        "acme/fast",
        json!({ "user": nul, "metadata": { "k": nul }, "messages": [{ "role": "user", "content": nul }] }),
    );
    world.chat(&body).await.ok();
    let refused = world.chat(&chat(nul)).await;
    let mut seen = vec![json!(refused.status), json!(refused.code())];
    for (members, status) in [
        (json!({ "name": nul }), 400),
        (json!({ "name": "x", "team": nul }), 400),
        (json!({ "name": "x", "models": [nul] }), 400),
        (json!({ "name": "x", nul: 1 }), 400),
    ] {
        let answer = ask(&admin, "POST", "/admin/v1/keys", &members).await;
        assert_eq!(answer.status, status, "{members}: {}", answer.text());
        seen.extend([json!(answer.status), answer.json()["models"].clone()]);
    }
    let (_, key) =
        create(&admin, json!({ "name": "with", "metadata": { nul: [nul, "\u{1}", "\u{fffd}"] } })).await;
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    seen.push(admin.get(&path).await.ok().json()["metadata"].clone());
    for path in [
        "/admin/v1/keys/a%00b",
        "/admin/v1/teams/a%00b",
        "/admin/v1/requests/a%00b",
        "/v1/models/a%00b",
        "/admin/v1/keys?name=a%00b",
        "/admin/v1/keys?team=a%00b",
        "/admin/v1/requests?model=a%00b",
        "/admin/v1/requests?status=a%00b",
        "/admin/v1/usage?provider=a%00b",
    ] {
        let answer = admin.get(path).await;
        assert!(answer.status < 500, "{path}: {} {}", answer.status, answer.text());
        seen.push(json!([path, answer.status, answer.code()]));
    }
    let put = ask(&admin, "PUT", "/admin/v1/teams/a%00b", &json!({})).await;
    seen.push(json!([put.status, put.code()]));
    let mut rows = eventually_ok("both rows are there", async || {
        let rows =
            admin.get("/admin/v1/requests").await.ok().json()["data"].as_array().expect("rows").clone();
        if rows.len() >= 2 { Ok(rows) } else { Err(rows) }
    })
    .await;
    rows.sort_by_key(|row| row["status"].to_string());
    for row in rows {
        seen.push(json!([row["user"], row["requested_model"], row["model"], row["status"]]));
    }
    assert!(seen.iter().any(|value| value[0] == nul), "stored unchanged: {seen:?}");
    seen
}

#[tokio::test]
async fn c10_nul_in_every_text_field() {
    let sqlite = c10(&crate::harness::world().await).await;
    let extra = format!("[store]\nurl = \"{}\"\n", postgres::database());
    let postgresql = c10(&Setup { extra, ..Setup::default() }.start().await).await;
    assert_eq!(sqlite, postgresql, "both stores give equal answers");
}

/// Sends invalid keys over a few open connections; gives the number of 401s.
async fn flood(addr: std::net::SocketAddr, keys: Vec<String>) -> usize {
    let mut sending = tokio::task::JoinSet::new();
    for part in keys.chunks(keys.len().div_ceil(4)) {
        let part = part.to_vec();
        sending.spawn(async move {
            let (client, mut wire) = (Client::new(addr), RawClient::connect(addr).await);
            let mut refused = 0;
            for few in part.chunks(50) {
                let heads = few.iter().map(|key| client.with_key(key).head("GET", "/v1/models", None, None));
                wire.send(heads.collect::<String>()).await;
                for key in few {
                    let answer = wire.response().await.expect("an answer");
                    assert!(matches!(answer.status, 401 | 503), "{key}: {} {}", answer.status, answer.text());
                    refused += usize::from(answer.status == 401);
                }
            }
            refused
        });
    }
    sending.join_all().await.into_iter().sum()
}

/// Distinct invalid keys: with a wrong checksum, well-formed but unknown, and malformed. Also gives the number of well-formed ones.
fn bad_keys(from: usize, count: usize) -> (Vec<String>, usize) {
    let mut well_formed = 0;
    let key = |n: usize| match n % 10 {
        0 => {
            well_formed += 1;
            NewKey::generate().expect("randomness").expose().to_owned()
        }
        1..7 => format!("sk-gw-{n:046}"),
        7 => format!("{n}{}", "k".repeat(1_000)),
        _ => format!("sk-{n}"),
    };
    ((from..from + count).map(key).collect(), well_formed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_hundred_thousand_bad_keys() {
    let postgres = Postgres::start();
    let extra = format!("[store]\nurl = \"{}\"\n", postgres.database());
    // Each key is looked up, and none is refused by its address.
    let server = "bad_keys_per_minute = 0";
    let world = Setup { server, extra, ..Setup::default() }.start().await;
    let addr = world.gateway.addr;
    assert_eq!(flood(addr, bad_keys(0, 1_000).0).await, 1_000);
    let before = world.gateway.rss_kib();
    let over = Arc::new(AtomicBool::new(false));
    let good = tokio::spawn({
        let (client, over) = (world.client.clone(), Arc::clone(&over));
        async move {
            let mut slowest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let start = Instant::now();
                client.post_json(CHAT, &chat("acme/fast")).await.ok();
                slowest = slowest.max(start.elapsed());
            }
            slowest
        }
    });
    assert_eq!(flood(addr, bad_keys(1_000, 10_000).0).await, 10_000);
    // The store is frozen, so a single look-up would hang.
    postgres.freeze();
    let (keys, well_formed) = bad_keys(11_000, 10_000);
    let refused = flood(addr, keys).await;
    over.store(true, Ordering::Relaxed);
    let slowest = good.await;
    postgres.thaw();
    let slowest = slowest.expect("the good client is served, all the time");
    at_most("c24_a_hundred_thousand_bad_keys", slowest, Duration::from_secs(5));
    // Another replica may have created a well-formed key, so it gets 503 while the store is unreachable for long.
    assert!((10_000 - well_formed..=10_000).contains(&refused), "{refused} of 10000");
    let grown = world.gateway.rss_kib().saturating_sub(before);
    at_most("KiB of 20,000 bad keys", grown, 8 * 1024);
}
