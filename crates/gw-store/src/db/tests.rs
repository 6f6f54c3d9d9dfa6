//! The guarantees of every store, tested on both databases.

mod injections;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::db::{Error, MAX_SEARCH_TIME};
use crate::keys::{NewKey, Role, StoredKey};
use crate::ledger::{Cursor, Entry, Filter, GroupBy, Spender};
use crate::sql::Sql;
use crate::stored_responses::{KeptResponse, ResponseRow, SealedResponse};
use crate::testing::on_both;
use crate::{CountedTime, Store};

use gw_testkit::measured::at_most;

const DAY: i64 = 86_400_000;

fn entry(n: u64) -> Entry {
    Entry {
        request_id: format!("req_{n:06}").into(),
        at: 20_000 * DAY + i64::try_from(n).unwrap(),
        key_id: format!("key-{}", n % 3).into(),
        team: n.is_multiple_of(2).then(|| "search".into()),
        status: "ok".into(),
        cost: i128::from(n) * 1_000_003,
        ..Entry::default()
    }
}

#[tokio::test]
async fn s14_a_batch_retried_after_an_unknown_commit_is_one_row_each() {
    on_both(async |place| {
        let (store, other) = (place.open().await, place.open().await);
        let batch: Vec<_> = (0..300).map(entry).collect();
        // Cancelled at any moment, from before the start to after the end, so its outcome is unknown.
        for micros in (0..8_000).step_by(400) {
            let _ = tokio::time::timeout(Duration::from_micros(micros), store.record(&batch)).await;
        }
        // And by two writers at the same time.
        let (one, two) = tokio::join!(store.record(&batch), other.record(&batch));
        one.unwrap();
        two.unwrap();
        let total = store.total(&Filter::default()).await.unwrap();
        assert_eq!(total.requests, 300);
        assert_eq!(total.cost, batch.iter().map(|entry| entry.cost).sum::<i128>());
        assert_eq!(store.requests(&Filter::default(), None, 1_000).await.unwrap().len(), 300);
        // A part of the batch is new.
        store.record(&(250..350).map(entry).collect::<Vec<_>>()).await.unwrap();
        assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 350);
    })
    .await;
}

#[tokio::test]
async fn i15_a_search_ends_in_time_and_its_connection_goes_on() {
    on_both(async |place| {
        let store = place.open().await;
        let endless = if place.is_postgres() {
            "SELECT CAST(count(*) AS BIGINT) AS n FROM generate_series(1, 100000000000) AS s WHERE pg_sleep(0.01) IS NULL"
        } else {
            "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) SELECT count(*) AS n FROM s"
        };
        // More searches than a pool has connections, so that each connection is used again.
        for _ in 0..2 {
            let start = Instant::now();
            let searches = (0..3).map(|_| store.search(Sql::new(endless), |row| row.get::<i64>("n")));
            for ended in futures_util::future::join_all(searches).await {
                assert!(matches!(ended, Err(Error::TooSlow { .. })), "{ended:?}");
            }
            // Without a limit the statement of SQLite never ends, and that of PostgreSQL ends after five seconds.
            let took = start.elapsed();
            assert!(took >= MAX_SEARCH_TIME, "{took:?}");
at_most("i15_a_search_ends_in_time_and_its_connection_goes_on", took, Duration::from_millis(4500));
        }
        for _ in 0..8 {
            assert!(store.requests(&Filter::default(), None, 10).await.unwrap().is_empty());
            store.ping().await.unwrap();
        }
        // Other statements have their time also on a connection that a search has used.
        let slow = if place.is_postgres() {
            "SELECT 1 AS n FROM pg_sleep(2.5)"
        } else {
            "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 100000) SELECT count(*) AS n FROM s"
        };
        store.all(Sql::new(slow)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn spending_is_the_sum_of_the_rows_by_key_and_by_team() {
    on_both(async |place| {
        let store = place.open().await;
        let mut rows: Vec<_> = (0..200).map(entry).collect();
        for (n, row) in rows.iter_mut().enumerate() {
            row.at += i64::try_from(n % 4).unwrap() * 3_600_000;
        }
        store.record(&rows).await.unwrap();
        for hours in 0..5 {
            let since = 20_000 * DAY / 1_000 + hours * 3_600;
            let sum = |wanted: &dyn Fn(&Entry) -> bool| {
                let counts = rows.iter().filter(|row| row.at >= since * 1_000 && wanted(row));
                counts.map(|row| row.cost).sum::<i128>()
            };
            let key = store.spent(Spender::Key("key-1"), since + 1_800, i64::MAX).await.unwrap();
            assert_eq!(key, sum(&|row| row.key_id == "key-1".into()), "{hours}");
            let team = store.spent(Spender::Team("search"), since, i64::MAX).await.unwrap();
            assert_eq!(team, sum(&|row| row.team.is_some()), "{hours}");
            let until = since + 2 * 3_600;
            let key = store.spent(Spender::Key("key-1"), since, until).await.unwrap();
            assert_eq!(key, sum(&|row| row.key_id == "key-1".into() && row.at < until * 1_000), "{hours}");
        }
        assert_eq!(store.spent(Spender::Key("nobody"), i64::MIN, i64::MAX).await.unwrap(), 0);
        assert_eq!(
            store.spent(Spender::Team("search"), i64::MIN, i64::MAX).await.unwrap(),
            store.spent(Spender::Team("search"), 0, i64::MAX).await.unwrap()
        );
    })
    .await;
}

#[tokio::test]
async fn spending_and_its_requests_are_read_in_one_snapshot() {
    on_both(async |place| {
        let store = place.open().await;
        let at = 20_000 * DAY;
        let id = |n: u128| {
            let bits = u128::try_from(at).unwrap() << 80 | n;
            String::from_utf8(gw_wire::request_id::format(bits).to_vec()).unwrap()
        };
        let row = |n| Entry { request_id: id(n).into(), at, key_id: "k".into(), cost: 7, ..Entry::default() };
        store.record(&[row(1), row(2), row(3)]).await.unwrap();
        let asked = [id(2), id(9), "of nobody".to_owned(), id(3), "'\"\0,".to_owned()];
        let ever = CountedTime { from: i64::MIN, until: i64::MAX, step: None };
        let mut spent = store.spent_with(Spender::Key("k"), ever, None, &asked).await.unwrap();
        spent.requests.sort_unstable();
        assert_eq!((spent.steps, spent.requests), (vec![(i64::MIN, 21)], vec![id(2), id(3)]));
        let nothing = store.spent_with(Spender::Team("k"), ever, None, &[]).await.unwrap();
        assert_eq!((nothing.steps, nothing.requests), (vec![(i64::MIN, 0)], Vec::new()));
        let many: Vec<String> = (0..20_000).map(id).collect();
        assert_eq!(store.spent_with(Spender::Key("k"), ever, None, &many).await.unwrap().requests.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn both_databases_store_and_return_a_nul_alike() {
    on_both(async |place| {
        let store = place.open().await;
        let text = || "a\0b".to_owned();
        let stored = "a\u{FFFD}b";
        let row = Entry {
            request_id: text().into(),
            key_id: text().into(),
            team: Some(text().into()),
            model: text().into(),
            provider: text().into(),
            status: text().into(),
            user: Some(text()),
            ..entry(1)
        };
        store.record(&[row.clone(), row.clone()]).await.unwrap();
        store.record(&[row]).await.unwrap();
        let found = store.request("a\0b").await.unwrap().unwrap();
        assert_eq!(store.request(stored).await.unwrap().unwrap(), found);
        // Values that are only displayed come back unchanged.
        assert_eq!((&*found.request_id, found.user.as_deref()), (stored, Some("a\0b")));
        let filter = Filter { model: Some(text()), status: Some(text()), ..Filter::default() };
        assert_eq!(store.requests(&filter, None, 10).await.unwrap(), [found]);
        assert_eq!(store.usage(GroupBy::Team, &Filter::default()).await.unwrap()[0].0, stored);
        let key = NewKey::generate().unwrap();
        let key = StoredKey { team: Some(text()), ..key.stored("a\0b", Role::Admin, 1) };
        store.insert_key(&key).await.unwrap();
        let found = store.key(&key.id).await.unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.team.as_deref()), (stored, Some(stored)));
    })
    .await;
}

#[tokio::test]
async fn absurd_numbers_of_an_upstream_do_not_stop_the_ledger() {
    on_both(async |place| {
        let store = place.open().await;
        let absurd = |n: u64| {
            let mut row = entry(n);
            let tokens = &mut row.tokens;
            (tokens.prompt, tokens.completion, tokens.cached) = (u64::MAX, u64::MAX / 2, 1 << 40);
            (row.cost, row.saved, row.latency_ms, row.ttft_ms) =
                (i128::MAX, i128::MIN, u64::MAX, Some(u64::MAX));
            row
        };
        let rows: Vec<_> = (0..500).map(absurd).collect();
        store.record(&rows).await.unwrap();
        let (total, listed) = (
            store.total(&Filter::default()).await.unwrap(),
            store.requests(&Filter::default(), None, 1_000).await.unwrap(),
        );
        assert_eq!(total.requests, 500);
        assert_eq!(total.cost, listed.iter().map(|row| row.cost).sum::<i128>());
        assert_eq!(total.tokens.prompt, listed.iter().map(|row| row.tokens.prompt).sum::<u64>());
    })
    .await;
}

#[tokio::test]
async fn names_too_long_for_an_index_are_distinguished_and_found() {
    on_both(async |place| {
        let store = place.open().await;
        // Incompressible, so that no database can shorten it.
        let noise: String =
            (0..20_000_u64).map(|n| char::from(33 + (n.wrapping_mul(n) % 89) as u8)).collect();
        let long = |n: u64| Entry {
            request_id: format!("{noise}{n}").into(),
            key_id: format!("{noise}k{n}").into(),
            team: Some(format!("{noise}t{n}").into()),
            model: format!("é{noise}m{n}").into(),
            provider: format!("{noise}p{n}").into(),
            status: noise.clone().into(),
            user: Some(noise.clone()),
            ..entry(n)
        };
        store.record(&[long(1), long(2), long(2)]).await.unwrap();
        for n in [1, 2] {
            let row = long(n);
            let found = store.request(&row.request_id).await.unwrap().unwrap();
            assert_eq!((found.at, &found.user), (row.at, &row.user));
            assert_eq!(store.spent(Spender::Key(&row.key_id), 0, i64::MAX).await.unwrap(), row.cost);
            assert_eq!(
                store.spent(Spender::Team(row.team.as_ref().unwrap()), 0, i64::MAX).await.unwrap(),
                row.cost
            );
            let filter = Filter {
                model: Some(row.model.to_string()),
                provider: Some(row.provider.to_string()),
                ..Filter::default()
            };
            assert_eq!(store.requests(&filter, None, 10).await.unwrap(), [found]);
        }
    })
    .await;
}

#[tokio::test]
async fn filters_and_pages_of_the_log_equal_a_full_scan() {
    on_both(async |place| {
        let store = place.open().await;
        let rows: Vec<Entry> = (0..600_u64)
            .map(|n| Entry {
                at: 20_000 * DAY + i64::try_from(n * n % 997).unwrap() * 600_000,
                model: format!("m{}", if n % 100 == 7 { 9 } else { n % 3 }).into(),
                provider: format!("p{}", n % 2).into(),
                status: ["ok", "ok", "ok", "upstream_error", "timeout"][(n % 5) as usize].to_owned().into(),
                ..entry(n)
            })
            .collect();
        store.record(&rows).await.unwrap();
        let mut sorted = rows.clone();
        sorted.sort_by(|a, b| (b.at, &b.request_id).cmp(&(a.at, &a.request_id)));
        let times = [None, Some(20_001 * DAY + 1_234_567)];
        let words = |words: &[&str]| -> Vec<Option<String>> {
            std::iter::once(None).chain(words.iter().map(|word| Some((*word).to_owned()))).collect()
        };
        for status in words(&["ok", "timeout"]) {
            for model in words(&["m1", "m9", "none"]) {
                for (team, key_id) in words(&["search"])
                    .into_iter()
                    .zip(words(&["key-1"]))
                    .chain([(Some("search".to_owned()), None)])
                {
                    for since in times {
                        for until in times.map(|time| time.map(|time| time + 5 * DAY / 2)) {
                            let filter = Filter {
                                since,
                                until,
                                key_id: key_id.clone(),
                                team: team.clone(),
                                model: model.clone(),
                                provider: None,
                                session: None,
                                surface: None,
                                names: Vec::new(),
                                status: status.clone(),
                            };
                            let fits = |row: &&Entry| {
                                since.is_none_or(|since| row.at >= since)
                                    && until.is_none_or(|until| row.at < until)
                                    && key_id.as_ref().is_none_or(|id| **id == *row.key_id)
                                    && (team.is_none() || team.as_deref() == row.team.as_deref())
                                    && model.as_ref().is_none_or(|model| **model == *row.model)
                                    && status.as_ref().is_none_or(|status| *status == row.status)
                            };
                            let wanted: Vec<&str> =
                                sorted.iter().filter(fits).map(|row| &*row.request_id).collect();
                            let (mut seen, mut after) = (Vec::new(), None);
                            loop {
                                let page = store.requests(&filter, after.as_ref(), 40).await.unwrap();
                                let Some(last) = page.last() else { break };
                                after = Some(Cursor { at: last.at, request_id: last.request_id.clone() });
                                seen.extend(page.into_iter().map(|row| row.request_id.to_string()));
                            }
                            assert_eq!(seen, wanted, "{filter:?}");
                        }
                    }
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_log_is_ordered_by_time_and_then_by_the_bytes_of_the_id() {
    on_both(async |place| {
        let store = place.open().await;
        let ids = ["req_a", "req_B", "req_é", "REQ", "req-a", "req_ab", "_", "~"];
        let rows: Vec<_> =
            ids.iter().map(|id| Entry { request_id: (*id).into(), at: 5, ..Entry::default() }).collect();
        store.record(&rows).await.unwrap();
        let (mut seen, mut after) = (Vec::new(), None);
        while let [row] = &store.requests(&Filter::default(), after.as_ref(), 1).await.unwrap()[..] {
            after = Some(Cursor { at: row.at, request_id: row.request_id.clone() });
            seen.push(row.request_id.clone());
        }
        let mut sorted: Vec<_> = ids.map(Arc::from).to_vec();
        sorted.sort();
        sorted.reverse();
        assert_eq!(seen, sorted);
    })
    .await;
}

#[tokio::test]
async fn s01_a_locked_sqlite_file_is_reported_as_busy_after_a_wait() {
    let place = crate::testing::TestDatabase::sqlite();
    let (store, other) = (place.open().await, place.open().await);
    let lock = other.sqlite().begin_with("BEGIN IMMEDIATE").await.unwrap();
    let start = Instant::now();
    let batch = [entry(1)];
    let (written, read) = tokio::join!(store.record(&batch), store.keys());
    assert!(matches!(written, Err(Error::Busy { .. })), "{written:?}");
    assert!(read.is_ok(), "readers do not wait");
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(4), "{waited:?}");
    at_most("s01_a_locked_sqlite_file_is_reported_as_busy_after_a_wait", waited, Duration::from_secs(9));
    // A lock that is released in time is not noticed.
    let again = store.clone();
    let waiting = tokio::spawn(async move { again.record(&[entry(1), entry(2)]).await });
    // Sleeps: the lock is held for a moment.
    tokio::time::sleep(Duration::from_millis(300)).await;
    lock.rollback().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 2);
}

/// The most bytes of SQLite's write-ahead log, however fast the rows come.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// Rows of four KiB.
fn large_rows(rows: std::ops::Range<u64>) -> Vec<Entry> {
    let text = "u".repeat(4 << 10);
    rows.map(|n| Entry { user: Some(text.clone()), ..entry(n) }).collect()
}

/// Four times the bound in a fixed number of rows, so neither the machine nor its disk decides how much is written.
#[tokio::test]
async fn s04_the_wal_stays_small_beside_a_long_reader_and_writers() {
    const BATCH: u64 = 500;
    const ROWS: u64 = 4 * MAX_LOG_BYTES / (4 << 10);
    let place = crate::testing::TestDatabase::sqlite();
    let store = place.open().await;
    let log = format!("{}-wal", place.url.trim_start_matches("sqlite://"));
    let size = || std::fs::metadata(&log).map_or(0, |log| log.len());
    store.record(&large_rows(0..BATCH)).await.unwrap();
    let read = async || {
        let mut reader = store.sqlite().begin().await.unwrap();
        sqlx::query("SELECT count(*) FROM ledger").fetch_one(&mut *reader).await.unwrap();
        reader
    };
    // There is always a reader, so the log cannot restart by itself. It ends when the store takes no more writes.
    let mut reader = read().await;
    let (mut largest, mut refusals, mut rows) = (0, 0, BATCH);
    while rows < ROWS {
        let batch = large_rows(rows..rows + BATCH);
        match store.record(&batch).await {
            Ok(()) => rows += BATCH,
            Err(Error::LogFull { .. }) => {
                // The next reader begins before this one ends.
                let next = read().await;
                refusals += 1;
                assert!(matches!(store.record(&batch).await, Err(Error::LogFull { .. })));
                std::mem::replace(&mut reader, next).rollback().await.unwrap();
                // That one stands in the log, too.
                assert!(matches!(store.record(&batch).await, Err(Error::LogFull { .. })));
                reader.rollback().await.unwrap();
                store.record(&batch).await.unwrap();
                rows += BATCH;
                reader = read().await;
            }
            Err(error) => panic!("{error}"),
        }
        largest = largest.max(size());
    }
    reader.rollback().await.unwrap();
    println!("{rows} rows, at most {largest} bytes of log, {refusals} times full");
    assert!(largest < MAX_LOG_BYTES, "{largest} bytes");
    assert!(refusals >= 4, "{refusals}");
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, rows);
    store.close().await;
    assert_eq!(size(), 0);
}

/// Large responses are written at the same time, beside a reader that keeps the log from restarting.
#[tokio::test]
async fn s04_large_responses_keep_the_wal_within_its_bound() {
    let place = crate::testing::TestDatabase::sqlite();
    let store = place.open().await;
    let log = format!("{}-wal", place.url.trim_start_matches("sqlite://"));
    let size = || std::fs::metadata(&log).map_or(0, |log| log.len());
    let response = |id: &str, bytes: usize| {
        let row =
            ResponseRow { owner: "key".into(), id: id.into(), expires_at: 100, ..ResponseRow::default() };
        SealedResponse { row, sealed: "s".repeat(bytes), items: Vec::new() }
    };
    store.record(&large_rows(0..500)).await.unwrap();
    let mut reader = store.sqlite().begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM ledger").fetch_one(&mut *reader).await.unwrap();
    let large = [1, 2, 3, 4].map(|n| response(&format!("resp_{n}"), 25 << 20));
    let kept =
        futures_util::future::join_all(large.into_iter().map(|large| store.keep_response(large))).await;
    let count = kept.iter().filter(|kept| matches!(kept, Ok(KeptResponse::Stored))).count();
    assert_eq!(count, 2, "{kept:?}");
    assert!(kept.iter().all(|kept| matches!(kept, Ok(_) | Err(Error::LogFull { .. }))), "{kept:?}");
    assert!(size() < MAX_LOG_BYTES, "{} bytes", size());
    reader.rollback().await.unwrap();
    // Without a reader, the largest one fits, and one that never fits is told.
    assert_eq!(store.keep_response(response("resp_5", 55 << 20)).await.unwrap(), KeptResponse::Stored);
    assert!(size() < MAX_LOG_BYTES, "{} bytes", size());
    assert_eq!(store.keep_response(response("resp_6", 57 << 20)).await.unwrap(), KeptResponse::TooLarge);
    assert!(store.response("key", "resp_6", 0).await.unwrap().is_none());
    store.close().await;
}

#[tokio::test]
async fn a_url_can_name_a_store_in_memory() {
    let store = Store::open_url("sqlite::memory:").await.unwrap();
    store.ping().await.unwrap();
    for url in ["", "gateway.db", "mysql://h/d"] {
        assert!(matches!(Store::open_url(url).await, Err(Error::Url(_))), "{url}");
    }
}
