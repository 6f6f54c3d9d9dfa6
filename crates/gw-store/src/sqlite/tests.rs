//! The SQLite file is created, reopened, and left unchanged if it cannot be used.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use sqlx::migrate::Migrator;

use super::migrations::CHANGES;
use super::*;
use crate::Store;
use crate::journal::{AbandonedSegments, replay};
use crate::keys::{NewKey, Role};
use crate::limits::{Budget, Period};

async fn store(directory: &tempfile::TempDir) -> Store {
    Store::open(&directory.path().join("gateway.db")).await.unwrap()
}

/// Opens a damaged file, asserts that it stays unchanged, and returns the error.
async fn refused(path: &Path) -> String {
    let before = fs::read(path).unwrap();
    let error = Store::open(path).await.expect_err("must be refused").to_string();
    assert_eq!(fs::read(path).unwrap(), before, "the file was changed");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    error
}

async fn filled(directory: &tempfile::TempDir) -> PathBuf {
    let store = store(directory).await;
    for n in 0..200 {
        let key = NewKey::generate().unwrap().stored(&format!("key {n}"), Role::Inference, n);
        store.insert_key(&key).await.unwrap();
    }
    store.close().await;
    directory.path().join("gateway.db")
}

#[tokio::test]
async fn k01_no_byte_of_a_key_is_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let key = NewKey::generate().unwrap();
    store.insert_key(&key.stored("first", Role::Admin, 7)).await.unwrap();
    let secret = &key.expose().as_bytes()[12..];
    for file in fs::read_dir(directory.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
}

#[tokio::test]
async fn the_file_has_the_required_pragmas() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    for (pragma, wanted) in [
        ("PRAGMA journal_mode", "wal"),
        ("PRAGMA synchronous", "1"),
        ("PRAGMA foreign_keys", "1"),
        ("PRAGMA busy_timeout", "5000"),
        ("PRAGMA auto_vacuum", "2"),
    ] {
        let row = sqlx::query(pragma).fetch_one(store.sqlite()).await.unwrap();
        let found =
            row.try_get::<String, _>(0).or_else(|_| row.try_get::<i64, _>(0).map(|n| n.to_string())).unwrap();
        assert_eq!(found, wanted, "{pragma}");
    }
    let mode = fs::metadata(directory.path().join("gateway.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_new_file_is_complete_and_leaves_no_draft() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.db");
    let (one, other) = tokio::join!(fresh::make(&path), fresh::make(&path));
    assert!(one ^ other, "one of two makes the file");
    let names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["gateway.db"]);
    let header = fs::read(&path).unwrap();
    assert_eq!(header.get(18..20), Some(&[2, 2][..]), "the file has a write-ahead log from its beginning");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(probe(&path).await.unwrap(), Some(newest_version()));
}

/// The rows that the migrations of an empty file leave, as statements that make them.
const FIRST_ROWS: &str = "
    SELECT 'INSERT INTO revision VALUES (' || concat_ws(', ', id, number) || ')' FROM revision
    UNION ALL SELECT 'INSERT INTO gateway_audit_head VALUES (' || concat_ws(', ', id, seq, quote(hash)) || ')' FROM gateway_audit_head
    UNION ALL SELECT 'INSERT INTO usage_rollup VALUES (' || concat_ws(', ', id, until) || ')' FROM usage_rollup
    UNION ALL SELECT 'INSERT INTO usage_name_progress VALUES (' ||
        concat_ws(', ', first, closed, until, days_until, weeks_from, weeks_until) || ')' FROM usage_name_progress";

/// `UPDATE=1 cargo test --workspace --lib -- the_schema_of_new_files` writes the file.
#[tokio::test]
async fn the_schema_of_new_files_is_what_the_migrations_leave() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("migrated.db");
    fs::write(&path, b"").unwrap();
    Store::open(&path).await.unwrap().close().await;
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let mut statements = Vec::new();
    let tables =
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name <> '_sqlx_migrations' ORDER BY rowid";
    for query in [tables, FIRST_ROWS] {
        let rows = sqlx::query(query).fetch_all(&mut connection).await.unwrap();
        statements.extend(rows.iter().map(|row| row.get::<String, _>(0)));
    }
    let head = "-- The tables of a new SQLite file, as all migrations leave them. A test writes and checks this file (fresh.rs).\n";
    let schema = format!("{head}{};\n", statements.join(";\n"));
    if std::env::var_os("UPDATE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/schema.sql");
        fs::write(file, schema).unwrap();
    } else {
        assert!(schema == fresh::SCHEMA, "migrations/schema.sql is old: write it with UPDATE=1");
    }
    // A row in another table would be missing in new files.
    sqlx::query("ANALYZE").execute(&mut connection).await.unwrap();
    let filled = "SELECT DISTINCT tbl FROM sqlite_stat1 WHERE tbl <> '_sqlx_migrations' AND stat NOT LIKE '0%' ORDER BY tbl";
    let rows = sqlx::query(filled).fetch_all(&mut connection).await.unwrap();
    let filled: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(filled, ["gateway_audit_head", "revision", "usage_name_progress", "usage_rollup"]);
}

#[tokio::test]
async fn a_new_file_is_that_of_all_migrations_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let [made, migrated] = ["made.db", "migrated.db"].map(|name| directory.path().join(name));
    assert!(fresh::make(&made).await);
    fs::write(&migrated, b"").unwrap();
    Store::open(&migrated).await.unwrap().close().await;
    let mut contents = Vec::new();
    for path in [&made, &migrated] {
        let mut connection = read_only(path).await.unwrap();
        let mut found = Vec::new();
        for query in [
            "SELECT concat_ws('|', type, name, tbl_name, sql) FROM sqlite_schema ORDER BY type, name",
            "SELECT concat_ws('|', version, description, success, hex(checksum)) FROM _sqlx_migrations ORDER BY version",
            FIRST_ROWS,
        ] {
            let rows = sqlx::query(query).fetch_all(&mut connection).await.unwrap();
            found.push(rows.iter().map(|row| row.try_get(0).unwrap_or_default()).collect::<Vec<String>>());
        }
        contents.push(found);
    }
    assert_eq!(contents[0], contents[1]);
    assert_eq!(contents[0][1].len(), CHANGES.len());
    assert_eq!(contents[0][2].len(), 4);
    // Without the note of a failure, which `make` hides.
    let path = directory.path().join("filled.db");
    fs::write(&path, b"").unwrap();
    fresh::fill(&path).await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_used_before_is_opened_without_a_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(&directory).await;
    let before = fs::read(&path).unwrap();
    let store = store(&directory).await;
    assert_eq!(store.keys().await.unwrap().len(), 200);
    let log = fs::metadata(beside(&path, "-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "nothing is in the write-ahead log");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_file_without_the_settings_of_the_store_gets_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(&directory).await;
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    sqlx::query("PRAGMA journal_mode = DELETE").fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    assert!(!has_settings(&path));
    let store = store(&directory).await;
    let mode = sqlx::query("PRAGMA journal_mode").fetch_one(store.sqlite()).await.unwrap();
    assert_eq!(mode.get::<String, _>(0), "wal");
    assert!(has_settings(&path));
}

#[tokio::test]
async fn the_bundled_sqlite_is_new_enough() {
    let directory = tempfile::tempdir().unwrap();
    let row =
        sqlx::query("SELECT sqlite_version()").fetch_one(store(&directory).await.sqlite()).await.unwrap();
    assert!(is_new_enough(row.get(0)));
    for (version, enough) in [
        ("3.51.3", true),
        ("3.53.0", true),
        ("4.0", true),
        ("3.51.2", false),
        ("3.46.0", false),
        ("", false),
        ("x", false),
    ] {
        assert_eq!(is_new_enough(version), enough, "{version}");
    }
}

#[tokio::test]
async fn s03_a_file_that_is_not_a_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.db");
    for content in [&b"x"[..], b"this is a note about something else, not a database", &[0; 8192]] {
        fs::write(&path, content).unwrap();
        let error = refused(&path).await;
        assert!(error.contains("damaged or not a gateway store"), "{error}");
    }
}

#[tokio::test]
async fn s03_a_truncated_file_is_refused_wherever_it_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(&directory).await;
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 3 * 4096, "the test wants several pages");
    let mut cut = 1;
    while cut < whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let error = refused(&path).await;
        assert!(error.contains("damaged"), "cut at {cut}: {error}");
        cut += 1021;
    }
}

#[tokio::test]
async fn s03_a_file_with_a_broken_page_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(&directory).await;
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    assert!(refused(&path).await.contains("damaged"));
}

#[tokio::test]
async fn s03_a_newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(&directory).await;
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    sqlx::query("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'later', 1, x'00', 1)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let error = refused(&path).await;
    assert!(error.contains("newer version") && error.contains("999"), "{error}");
}

#[tokio::test]
async fn s03_the_database_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.db");
    let mut connection =
        SqliteConnectOptions::new().filename(&path).create_if_missing(true).connect().await.unwrap();
    sqlx::query("CREATE TABLE bookmarks (url TEXT)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    assert!(refused(&path).await.contains("another program"));
}

#[tokio::test]
async fn s03_an_unwritable_path_gives_a_one_line_error() {
    let directory = tempfile::tempdir().unwrap();
    for path in
        [directory.path().to_owned(), directory.path().join("missing/gateway.db"), "/proc/gateway.db".into()]
    {
        let error = Store::open(&path).await.expect_err("must be refused").to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn an_empty_file_of_a_killed_first_start_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.db");
    fs::write(&path, b"").unwrap();
    assert!(Store::open(&path).await.unwrap().keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_store_in_memory_keeps_keys_while_it_lives() {
    let store = Store::in_memory().await.unwrap();
    let key = NewKey::generate().unwrap().stored("first", Role::Admin, 7);
    assert_eq!(
        store.insert_first_keys(std::slice::from_ref(&key)).await.unwrap(),
        std::slice::from_ref(&key.id)
    );
    assert!(store.keys().await.unwrap() == [key]);
}

#[tokio::test]
async fn s04_a_long_reader_blocks_no_writer_and_the_wal_shrinks_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let log = || fs::metadata(directory.path().join("gateway.db-wal")).unwrap().len();
    let entry = |n: i64| crate::ledger::Entry {
        request_id: format!("req_{n:026}").into(),
        at: n,
        key_id: "sk-gw-aaaaaa".into(),
        key_name: "a key".into(),
        // The longest texts that clients can store here.
        requested_model: "m".repeat(256),
        user: Some("u".repeat(256)),
        model: "acme/fast".into(),
        provider: "acme".into(),
        ..crate::ledger::Entry::default()
    };
    let write = async |batch: i64| {
        let batch: Vec<_> = (batch * 1_000..(batch + 1) * 1_000).map(entry).collect();
        store.record(&batch).await.unwrap();
    };
    write(0).await;
    let path = directory.path().join("gateway.db");
    let mut reader = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    let count = "SELECT count(*) FROM ledger";
    sqlx::query("BEGIN").execute(&mut reader).await.unwrap();
    let seen: i64 = sqlx::query(count).fetch_one(&mut reader).await.unwrap().get(0);
    // The rows of 5,000 requests a second during a report of 8 seconds.
    for batch in 1..40 {
        write(batch).await;
    }
    let grown = log();
    assert!((17 << 20..64 << 20).contains(&grown), "{grown} bytes");
    let still: i64 = sqlx::query(count).fetch_one(&mut reader).await.unwrap().get(0);
    assert_eq!((seen, still), (1_000, 1_000), "the reader sees what it began with");
    sqlx::query("COMMIT").execute(&mut reader).await.unwrap();
    reader.close().await.unwrap();
    // Until the log is checked again.
    for batch in 40..60 {
        write(batch).await;
    }
    assert!(log() <= 17 << 20, "{} bytes, {grown} before", log());
    let filter = crate::ledger::Filter::default();
    assert_eq!(store.total(&filter).await.unwrap().requests, 60_000);
}

/// A file of the version before this migration.
async fn older(path: &Path, migration: i64) -> SqliteConnection {
    let mut connection =
        SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap();
    let before = migrator().iter().filter(|change| change.version < migration).cloned().collect();
    Migrator::with_migrations(before).run_direct(None, &mut connection, false).await.unwrap();
    connection
}

#[tokio::test]
async fn rows_of_the_older_schema_survive_the_migration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.db");
    let mut connection = older(&path, 7).await;
    let day = 20_000 * 86_400_000_i64;
    let id = |n: i64| {
        let bits = u128::try_from(day + n).unwrap() << 80 | 7;
        String::from_utf8(gw_wire::request_id::format(bits).to_vec()).unwrap()
    };
    // A row had a time some milliseconds after that of its id.
    let json = |n: i64, status: &str, team: Option<&str>| {
        serde_json::json!({
            "request_id": id(n), "at": day + n + 3, "key_id": format!("key-{}", n % 2), "key_name": "ci", "team": team,
            "operation": "chat", "requested_model": "fast", "model": "acme/fast", "provider": "acme", "status": status,
            "strategy": "default", "stream": true, "tokens": { "prompt": 3, "completion": 4, "cached": 1 }, "cost": 5,
            "latency_ms": 9, "attempts": "[{\"provider\":\"acme\",\"model\":\"acme/fast\",\"status\":\"ok\",\"latency_ms\":8}]"
        })
    };
    let mut left = String::new();
    for n in 0..100 {
        let (status, team) = (if n % 10 == 0 { "timeout" } else { "ok" }, (n % 3 == 0).then_some("blue"));
        let entry = json(n, status, team).to_string();
        left.push_str(&format!("\nE{entry}"));
        sqlx::query("INSERT INTO ledger (request_id, at, key_id, team, model, provider, status, entry) VALUES (?,?,?,?,?,?,?,?)")
            .bind(id(n)).bind(day + n + 3).bind(format!("key-{}", n % 2)).bind(team).bind("acme/fast").bind("acme")
            .bind(status).bind(entry)
            .execute(&mut connection)
            .await
            .unwrap();
    }
    let sums = "INSERT INTO usage_hours VALUES (480000 * 3600, 'key-0', '', 'acme/fast', 'acme', 100, 10, 0, 300, 400, 100, 0, 0, 0, 500, 0, 0)";
    sqlx::query(sums).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();

    let store = Store::open(&path).await.unwrap();
    let all = crate::ledger::Filter::default();
    let found = store.requests(&all, None, 1_000).await.unwrap();
    assert!(found.iter().rev().map(|row| row.at).eq((0..100).map(|n| day + n + 3)), "{found:?}");
    let row = store.request(&id(30)).await.unwrap().unwrap();
    assert_eq!((&*row.status, row.team.as_deref(), &*row.key_id), ("timeout", Some("blue"), "key-0"));
    assert_eq!((row.tokens.cached, row.stream, row.cost, row.attempts.len()), (1, true, 5, 1));
    let filter = |key: Option<&str>, team: Option<&str>, status: Option<&str>| crate::ledger::Filter {
        key_id: key.map(str::to_owned),
        team: team.map(str::to_owned),
        status: status.map(str::to_owned),
        ..crate::ledger::Filter::default()
    };
    for (filter, count) in [
        (filter(Some("key-0"), None, Some("timeout")), 10),
        (filter(None, Some("blue"), Some("timeout")), 4),
        (filter(None, None, Some("ok")), 90),
    ] {
        assert_eq!(store.requests(&filter, None, 1_000).await.unwrap().len(), count, "{filter:?}");
    }
    // All but one of the older version's journal entries are in the ledger already.
    left.push_str(&format!("\nE{}", json(100, "ok", None)));
    let lines = directory.path().join("journal");
    fs::create_dir(&lines).unwrap();
    fs::write(lines.join("old.journal"), left).unwrap();
    let left = AbandonedSegments::lock_all(&lines);
    replay(left, &store, None).await.unwrap().remove_segments();
    assert_eq!(store.requests(&all, None, 1_000).await.unwrap().len(), 101);
    assert_eq!(store.total(&all).await.unwrap().requests, 101);
}

#[tokio::test]
async fn budgets_of_the_older_schema_keep_their_period() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.db");
    let mut connection = older(&path, 21).await;
    for sql in [
        "INSERT INTO keys (id, name, role, hash, created_at, budget_nano, budget_period, unpriced) \
         VALUES ('k', 'ci', 'inference', zeroblob(32), 7, 5, 'week', 'refuse')",
        "INSERT INTO keys (id, name, role, hash, created_at) VALUES ('n', 'no budget', 'admin', randomblob(32), 8)",
        "INSERT INTO teams (id, budget_nano, budget_period, created_at) VALUES ('t', 6, 'total', 9)",
    ] {
        sqlx::query(sql).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    let store = Store::open(&path).await.unwrap();
    let budgets: Vec<_> = store.keys().await.unwrap().iter().map(|key| key.limits.budget).collect();
    assert_eq!(budgets, [Some(Budget { nano: 5, period: Period::Week }), None]);
    let team = store.team("t").await.unwrap().unwrap();
    assert_eq!(team.limits.budget, Some(Budget { nano: 6, period: Period::Total }));
}
