//! A PostgreSQL server that is down, hangs, sends malformed answers, is shared, or is behind PgBouncer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::postgres::{PASSWORD, PgBouncer, Postgres, sql_at};
use gw_testkit::wait::eventually_true;
use gw_testkit::within;

use crate::Store;
use crate::db::Error;
use crate::keys::{NewKey, Role, Team};
use crate::ledger::{Entry, Filter};
use crate::limits::Limits;
use crate::testing::TestDatabase;

/// A caller waits about five seconds; a busy machine may take twice as long.
const BOUND: Duration = Duration::from_secs(15);

fn entry(n: u64) -> Entry {
    Entry {
        request_id: format!("req_{n:06}").into(),
        at: 1,
        cost: 3,
        status: "ok".into(),
        ..Entry::default()
    }
}

/// Asserts that opening fails in time, with one line without the password.
async fn refused(url: &str) -> Error {
    let start = Instant::now();
    let error = Store::open_url(url).await.expect_err("must be refused");
    at_most("refused", start.elapsed(), BOUND);
    let said = format!("{error} {error:?}");
    assert!(!said.contains(PASSWORD) && !said.contains("secret"), "{said}");
    assert_eq!(error.to_string().lines().count(), 1, "{said}");
    error
}

async fn eventually(what: &str, limit: Duration, done: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    eventually_true(what, done).await;
    at_most(what, start.elapsed(), limit);
    start.elapsed()
}

#[tokio::test]
async fn s05_postgres_down_or_a_wrong_password_is_a_temporary_error() {
    let mut server = Postgres::start();
    let url = server.database();
    let wrong = url.replace(PASSWORD, "another-secret");
    let error = refused(&wrong).await;
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_passing(), "{error}");
    assert!(error.to_string().contains("password authentication failed"), "{error}");
    let error = refused(&server.url("no_such_database")).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    server.stop();
    let error = refused(&url).await;
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_passing(), "{error}");
    server.resume();
    Store::open_url(&url).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_without_repeating_it() {
    for url in [
        "mysql://u:secret@h/d",
        "postgres://u:secret@h:port/d",
        "postgres://h/d?pasword=secret",
        "postgres://u:secret@h/d?sslmode=secret",
        "postgresql://h/d?hostaddr=secret",
    ] {
        assert!(matches!(refused(url).await, Error::Url(_)), "{url}");
    }
    let store = TestDatabase::postgres().open().await;
    assert!(!format!("{store:?} {:?}", store.postgres()).contains(PASSWORD));
}

#[test]
fn a_password_is_found_in_every_form_of_a_url() {
    for (url, password) in [
        ("postgres://u:p%40ss@h/d", Some("p@ss")),
        ("postgres://u:a:b@h/d", Some("a:b")),
        ("postgres://h/d?user=u&password=p%2", Some("p%2")),
        ("postgres://u@h/d", None),
        ("postgres://h/d", None),
    ] {
        assert_eq!(super::password(url).as_deref(), password, "{url}");
    }
}

#[test]
fn a_short_password_spoils_no_error() {
    for (url, said) in [
        ("postgres://u:x@h/gw", "database \"gw\" does not exist: x secret-1"),
        ("postgres://u:secret-1@h/gw", "database \"gw\" does not exist: x ***"),
        ("postgres://u:@h/gw", "database \"gw\" does not exist: x secret-1"),
    ] {
        let url = super::DatabaseUrl::parse(url).unwrap();
        assert_eq!(url.without_password("database \"gw\" does not exist: x secret-1"), said);
    }
}

/// Records batches until `stop`, and repeats a failed batch, as the journal does.
fn writing(store: Store, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<u64> {
    tokio::spawn(async move {
        let mut rows = 0;
        while !stop.load(Ordering::Relaxed) {
            let batch: Vec<_> = (rows..rows + 50).map(entry).collect();
            while store.record(&batch).await.is_err() {
                // Sleeps: the writer tries again as the journal does, after a pause.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            rows += 50;
        }
        rows
    })
}

#[tokio::test]
async fn s06_a_restart_of_postgres_loses_no_row_and_the_store_is_back_within_five_seconds() {
    let mut server = Postgres::start();
    let store = Store::open_url(&server.database()).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = writing(store.clone(), Arc::clone(&stop));
    for _ in 0..3 {
        let before = store.total(&Filter::default()).await.unwrap().requests;
        eventually("rows are written", BOUND, async || {
            store.total(&Filter::default()).await.is_ok_and(|total| total.requests > before + 100)
        })
        .await;
        server.restart();
        let back =
            eventually("it is back", Duration::from_secs(5), async || store.ping().await.is_ok()).await;
        println!("it is back after {back:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let rows = writer.await.unwrap();
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, rows);
    assert_eq!(store.total(&Filter::default()).await.unwrap().cost, i128::from(rows) * 3);
}

#[tokio::test]
async fn s07_a_frozen_postgres_delays_callers_briefly_and_costs_no_connection() {
    let server = Postgres::start();
    let store = Store::open_url(&server.database()).await.unwrap();
    store.record(&[entry(1)]).await.unwrap();
    server.freeze();
    // More callers than connections.
    let calls: Vec<_> = (0..30)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let start = Instant::now();
                let error = match n % 3 {
                    0 => store.keys().await.expect_err("frozen"),
                    1 => store.record(&[entry(n)]).await.expect_err("frozen"),
                    _ => store.change_key("x", |_| ()).await.expect_err("frozen"),
                };
                assert!(matches!(error, Error::Unreachable { .. }), "{error}");
                start.elapsed()
            })
        })
        .collect();
    // A statement whose caller gives up.
    assert!(tokio::time::timeout(Duration::from_millis(100), store.keys()).await.is_err());
    for call in calls {
        let took = call.await.unwrap();
        at_most("s07_a_frozen_postgres_delays_callers_briefly_and_costs_no_connection", took, BOUND);
    }
    assert_eq!(store.postgres().counts(), (0, 0), "every connection was given back or closed");
    server.thaw();
    eventually("it answers again", Duration::from_secs(5), async || store.ping().await.is_ok()).await;
    let many: Vec<_> = (0..30)
        .map(|_| {
            tokio::spawn({
                let store = store.clone();
                async move { store.keys().await }
            })
        })
        .collect();
    for call in many {
        call.await.unwrap().unwrap();
    }
    let (used, idle) = store.postgres().counts();
    assert!(used == 0 && idle <= 8, "{used} {idle}");
}

#[tokio::test]
async fn s07_a_cancelled_caller_closes_its_connection() {
    let store = TestDatabase::postgres().open().await;
    for wait in [0, 1, 2, 5, 10, 20, 50] {
        let call = async {
            store.record(&(0..200).map(entry).collect::<Vec<_>>()).await.unwrap();
        };
        let _ = tokio::time::timeout(Duration::from_micros(wait * 100), call).await;
        assert_eq!(store.keys().await.unwrap().len(), 0);
    }
    assert_eq!(store.postgres().counts().0, 0);
    store.record(&(0..200).map(entry).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s08_pgbouncer_in_transaction_mode_with_few_connections_works() {
    let server = Postgres::start();
    let bouncer = PgBouncer::before(&server, 2);
    let url = server.database();
    let url = bouncer.url(url.rsplit('/').next().unwrap());
    let stores = [Store::open_url(&url).await.unwrap(), Store::open_url(&url).await.unwrap()];
    let tasks: Vec<_> = (0..12_u64)
        .map(|n| {
            let store = stores[n as usize % 2].clone();
            tokio::spawn(async move {
                for round in 0..20 {
                    let key = NewKey::generate().unwrap().stored(&format!("{n} {round}"), Role::Inference, 1);
                    store.insert_key(&key).await.unwrap();
                    store.change_key(&key.id, |key| key.revoked_at = Some(5)).await.unwrap().unwrap();
                    assert_eq!(store.key(&key.id).await.unwrap().unwrap().revoked_at, Some(5));
                    let first = (n * 20 + round) * 10;
                    store.record(&(first..first + 10).map(entry).collect::<Vec<_>>()).await.unwrap();
                    assert!(store.request(&format!("req_{first:06}")).await.unwrap().is_some());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(stores[1].total(&Filter::default()).await.unwrap().requests, 2_400);
    assert_eq!(stores[0].keys().await.unwrap().len(), 240);
    // LISTEN is not available here: a change is found by polling.
    let before = stores[1].revision().await.unwrap();
    stores[0].put_team(&Team { id: "a".to_owned(), limits: Limits::default(), created_at: 1 }).await.unwrap();
    let seen = eventually("the change is seen", Duration::from_secs(1), async || {
        stores[1].changed().await;
        stores[1].revision().await.unwrap() > before
    })
    .await;
    println!("the change is seen after {seen:?}");
}

#[tokio::test]
async fn r04_a_change_is_announced_also_after_the_server_was_restarted() {
    let mut server = Postgres::start();
    let url = server.database();
    let (one, other) = (Store::open_url(&url).await.unwrap(), Store::open_url(&url).await.unwrap());
    let team = Team { id: "a".to_owned(), limits: Limits::default(), created_at: 1 };
    // Polling plays no part here: only LISTEN notifies.
    let announced = async || within("LISTEN notifies", other.postgres().news.notified()).await;
    for round in 0..2 {
        // LISTEN begins with a notification, because earlier changes were not reported.
        announced().await;
        let before = other.revision().await.unwrap();
        one.put_team(&team).await.unwrap();
        announced().await;
        assert!(other.revision().await.unwrap() > before);
        if round == 0 {
            server.restart();
            eventually("it is back", BOUND, async || one.ping().await.is_ok() && other.ping().await.is_ok())
                .await;
        }
    }
}

/// A server that handles every connection with the given function.
fn fake(behave: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let behave = Arc::new(behave);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behave = Arc::clone(&behave);
            std::thread::spawn(move || behave(stream));
        }
    });
    format!("postgres://u:hostile-secret@127.0.0.1:{port}/d")
}

/// Sends the same bytes again and again until the client closes the connection.
fn pour(mut stream: std::net::TcpStream, head: &[u8], body: &[u8]) {
    let mut asked = [0; 256];
    let _ = stream.read(&mut asked);
    let mut failed = stream.write_all(head).is_err();
    let mut left = 2_usize << 30;
    while !failed && !body.is_empty() && left > 0 {
        failed = stream.write_all(body).is_err();
        left = left.saturating_sub(body.len());
    }
    let _ = stream.read(&mut asked);
}

fn rss_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s11_a_hostile_postgres_is_an_error_in_bounded_time_and_memory() {
    // "N": no TLS. Then a valid login, and malformed answers.
    let welcome = b"NR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
    let random: Vec<u8> = (0..65_536_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let notice = [&b"N\0\0\x10\x04"[..], &[b'x'; 4096]].concat();
    let row = [&b"D\0\0\0\x0a\0\x01\xff\xff\xff\xff"[..]; 4096].concat();
    let cases: [(&str, &[u8], &[u8]); 12] = [
        ("nothing", b"", b""),
        ("a greeting of another service", b"220 mail.example.org ESMTP\r\n", b""),
        ("http", b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", b""),
        ("noise", b"", &random),
        ("noise after N", b"N", &random),
        ("zeros", b"N", &[0; 65_536]),
        ("a message shorter than its head", b"NR\0\0\0\0", b""),
        ("a message that ends too early", b"NR\0\0\0\x05\0", b""),
        ("notices for ever", b"N", &notice),
        ("a welcome and silence", welcome, b""),
        ("a welcome and rows for ever", welcome, &row),
        ("an error with our password in it", b"NE\0\0\0\x26SFATAL\0C28P01\0Mno: hostile-secret\0\0\0\0", b""),
    ];
    for (name, head, body) in cases {
        let (head, body) = (head.to_vec(), body.to_vec());
        let before = rss_mib();
        let error = refused(&fake(move |stream| pour(stream, &head, &body))).await;
        // The kernel adds up the counts of its threads now and then, so the most so far can seem to fall.
        let grown = rss_mib().saturating_sub(before);
        at_most("MiB of a hostile PostgreSQL", grown, 200);
        assert!(matches!(error, Error::Unreachable { .. } | Error::Failed { .. }), "{name}: {error:?}");
    }
}

#[tokio::test]
async fn s13_a_killed_migration_is_rolled_back_and_repeated() {
    let server = Postgres::start();
    let url = server.database();
    // Every step of the migration is slow, so that the process can be killed during it.
    sql_at(
        &url,
        "CREATE FUNCTION dawdle() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.05); END $$;
         CREATE EVENT TRIGGER slow ON ddl_command_end EXECUTE FUNCTION dawdle()",
    );
    let name = url.rsplit('/').next().unwrap();
    let ours =
        "SELECT count(*) FROM pg_class WHERE relname IN ('keys', 'ledger', 'revision', 'gateway_schema')";
    for killed_after in [40, 150, 300, 450] {
        // To the server, a killed process is a closed connection.
        let opening = Store::open_url(&url);
        let after = Duration::from_millis(killed_after);
        assert!(tokio::time::timeout(after, opening).await.is_err(), "done before {after:?}");
        eventually("the server has noticed", BOUND, async || server.connections(name) == 0).await;
        assert_eq!(sql_at(&url, ours), "0", "{after:?}");
    }
    sql_at(&url, "DROP EVENT TRIGGER slow");
    let store = Store::open_url(&url).await.unwrap();
    assert!(store.keys().await.unwrap().is_empty());
    let changes = super::migrate::CHANGES.len().to_string();
    assert_eq!(sql_at(&url, "SELECT count(*) FROM gateway_schema"), changes);
}

#[tokio::test]
async fn s03_a_newer_schema_and_foreign_tables_are_refused() {
    let place = TestDatabase::postgres();
    place.open().await.close().await;
    sql_at(&place.url, "INSERT INTO gateway_schema (version) VALUES (999)");
    let error = refused(&place.url).await.to_string();
    assert!(error.contains("newer version") && error.contains("999"), "{error}");

    let place = TestDatabase::postgres();
    sql_at(&place.url, "CREATE TABLE bookmarks (url TEXT)");
    place.open().await.close().await;

    let place = TestDatabase::postgres();
    sql_at(&place.url, "CREATE TABLE keys (door TEXT)");
    let error = refused(&place.url).await;
    assert!(matches!(error, Error::Damaged { .. }) && error.to_string().contains("keys"), "{error}");
    assert_eq!(sql_at(&place.url, "SELECT count(*) FROM pg_class WHERE relname = 'ledger'"), "0");
}

#[tokio::test]
async fn a_read_only_database_is_reported() {
    let place = TestDatabase::postgres();
    place.open().await.close().await;
    let name = place.url.rsplit('/').next().unwrap();
    sql_at(&place.url, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let store = place.open().await;
    assert!(matches!(store.record(&[entry(1)]).await, Err(Error::ReadOnly { .. })));
    assert!(store.keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_full_disk_of_the_server_is_reported() {
    let place = TestDatabase::postgres();
    let store = place.open().await;
    sql_at(
        &place.url,
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
         CREATE TRIGGER fill BEFORE INSERT ON ledger EXECUTE FUNCTION fill()",
    );
    let error = store.record(&[entry(1)]).await.unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
}
