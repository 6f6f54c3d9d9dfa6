//! The file: made, found again, and left alone when it cannot be used.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::keys::{NewKey, Role, StoredKey, Team};
use crate::limits::{Budget, Limits, Period};

async fn store(directory: &tempfile::TempDir) -> Store {
    Store::open(&directory.path().join("gateway.db")).await.unwrap()
}

/// Opens a damaged file, shows that it stays as it is, gives the error.
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
async fn keys_are_found_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let key = NewKey::generate().unwrap();
    let full = StoredKey {
        models: Some(vec!["acme/*".to_owned(), "quoted\"".to_owned()]),
        expires_at: Some(2_000_000_000),
        revoked_at: Some(5),
        team: Some("search".to_owned()),
        limits: Limits {
            rpm: Some(1),
            tpm: Some(2),
            max_in_flight: Some(3),
            budget: Some(Budget { nano: 4, period: Period::Week }),
        },
        metadata: Some("{\"a\":1}".to_owned()),
        previous: Some(([7; 32], 9)),
        ..key.stored("ops; DROP TABLE keys", Role::Admin, 7)
    };
    let plain = NewKey::generate().unwrap().stored("plain", Role::Inference, 8);
    {
        let store = store(&directory).await;
        store.insert_key(&full).await.unwrap();
        store.insert_key(&plain).await.unwrap();
        store.close().await;
    }
    let again = store(&directory).await;
    again.ping().await.unwrap();
    assert!(again.keys().await.unwrap() == vec![full.clone(), plain.clone()]);
    let changed = StoredKey { name: "other".to_owned(), revoked_at: None, limits: Limits::default(), ..full };
    assert!(again.update_key(&changed).await.unwrap());
    assert!(again.key(&changed.id).await.unwrap() == Some(changed.clone()));
    assert!(again.keys().await.unwrap() == vec![changed, plain.clone()], "nobody else was changed");
    let nobody = StoredKey { id: "sk-gw-nobody".to_owned(), ..plain };
    assert!(!again.update_key(&nobody).await.unwrap());
}

#[tokio::test]
async fn teams_are_kept_by_their_name() {
    let store = Store::in_memory().await.unwrap();
    let limits = Limits { budget: Some(Budget { nano: 5, period: Period::Day }), ..Limits::default() };
    let mut team = Team { id: "search".to_owned(), limits, created_at: 1 };
    store.put_team(&team).await.unwrap();
    team.limits.rpm = Some(9);
    store.put_team(&Team { created_at: 7, ..team.clone() }).await.unwrap();
    assert_eq!(store.teams().await.unwrap(), [team]);
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
async fn first_keys_are_kept_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let first = [NewKey::generate().unwrap().stored("admin", Role::Admin, 1)];
    let second = [NewKey::generate().unwrap().stored("admin", Role::Admin, 2)];
    assert!(store.insert_first_keys(&first).await.unwrap());
    assert!(!store.insert_first_keys(&second).await.unwrap());
    assert!(store.keys().await.unwrap() == first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_start_at_once_on_one_file_make_one_set_of_keys() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.db");
        let starts: Vec<_> = (0..4)
            .map(|n| {
                let path = path.clone();
                tokio::spawn(async move {
                    let store = Store::open(&path).await.unwrap();
                    let keys = [NewKey::generate().unwrap().stored("admin", Role::Admin, n)];
                    store.insert_first_keys(&keys).await.unwrap()
                })
            })
            .collect();
        let mut made = 0;
        for start in starts {
            made += u32::from(start.await.unwrap());
        }
        assert_eq!(made, 1);
    }
}

#[tokio::test]
async fn an_id_is_kept_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let key = NewKey::generate().unwrap().stored("first", Role::Admin, 7);
    store.insert_key(&key).await.unwrap();
    assert!(matches!(store.insert_key(&key).await, Err(Error::Taken { .. })));
}

#[tokio::test]
async fn the_file_is_as_house_rules_want_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    for (pragma, wanted) in [
        ("PRAGMA journal_mode", "wal"),
        ("PRAGMA synchronous", "1"),
        ("PRAGMA foreign_keys", "1"),
        ("PRAGMA busy_timeout", "5000"),
        ("PRAGMA auto_vacuum", "2"),
    ] {
        let row = sqlx::query(pragma).fetch_one(store.pool()).await.unwrap();
        let found =
            row.try_get::<String, _>(0).or_else(|_| row.try_get::<i64, _>(0).map(|n| n.to_string())).unwrap();
        assert_eq!(found, wanted, "{pragma}");
    }
    let mode = fs::metadata(directory.path().join("gateway.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn the_sqlite_built_in_is_new_enough() {
    let directory = tempfile::tempdir().unwrap();
    let row = sqlx::query("SELECT sqlite_version()").fetch_one(store(&directory).await.pool()).await.unwrap();
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
async fn s03_a_place_that_cannot_be_written_gives_one_clear_line() {
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
async fn a_file_left_empty_by_a_killed_first_start_is_taken_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.db");
    fs::write(&path, b"").unwrap();
    assert!(Store::open(&path).await.unwrap().keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_store_in_memory_keeps_keys_while_it_lives() {
    let store = Store::in_memory().await.unwrap();
    let key = NewKey::generate().unwrap().stored("first", Role::Admin, 7);
    assert!(store.insert_first_keys(std::slice::from_ref(&key)).await.unwrap());
    assert!(store.keys().await.unwrap() == [key]);
}

#[tokio::test]
async fn every_change_of_a_key_or_a_team_is_seen_in_the_revision() {
    let directory = tempfile::tempdir().unwrap();
    let (store, other) = (store(&directory).await, store(&directory).await);
    let mut before = other.revision().await.unwrap();
    let mut grown = async |what: &str| {
        let now = other.revision().await.unwrap();
        assert!(now > before, "{what}");
        before = now;
    };
    let key = NewKey::generate().unwrap().stored("first", Role::Admin, 7);
    store.insert_key(&key).await.unwrap();
    grown("insert_key").await;
    assert!(store.update_key(&key).await.unwrap());
    grown("update_key").await;
    store.change_key(&key.id, |key| key.revoked_at = Some(1)).await.unwrap();
    grown("change_key").await;
    let team = Team { id: "search".to_owned(), limits: Limits::default(), created_at: 1 };
    store.put_team(&team).await.unwrap();
    grown("put_team").await;
    store.put_team(&team).await.unwrap();
    grown("put_team again").await;
    store.change_team("search", |team| team.limits.rpm = Some(1)).await.unwrap();
    grown("change_team").await;
    assert!(store.delete_team("search").await.unwrap());
    grown("delete_team").await;
    assert!(!store.delete_team("search").await.unwrap());
    assert_eq!(store.team("search").await.unwrap(), None);
    assert!(store.change_team("search", |_| ()).await.unwrap().is_none());
    assert!(store.change_key("sk-gw-nobody", |_| ()).await.unwrap().is_none());
    store.record(&[crate::ledger::Entry::default()]).await.unwrap();
    assert_eq!(other.revision().await.unwrap(), store.revision().await.unwrap());
    store.changed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_one_time_do_not_lose_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let (store, other) = (store(&directory).await, store(&directory).await);
    let key = NewKey::generate().unwrap().stored("", Role::Admin, 7);
    store.insert_key(&key).await.unwrap();
    store.put_team(&Team { id: "a".to_owned(), limits: Limits::default(), created_at: 1 }).await.unwrap();
    let changes: Vec<_> = (0..40)
        .map(|n| {
            let (store, id) = (if n % 2 == 0 { store.clone() } else { other.clone() }, key.id.clone());
            tokio::spawn(async move {
                store.change_key(&id, |key| key.name.push('x')).await.unwrap().unwrap();
                let more = |team: &mut Team| team.limits.rpm = Some(team.limits.rpm.unwrap_or(0) + 1);
                store.change_team("a", more).await.unwrap().unwrap();
            })
        })
        .collect();
    for change in changes {
        change.await.unwrap();
    }
    assert_eq!(store.key(&key.id).await.unwrap().unwrap().name.len(), 40);
    assert_eq!(store.team("a").await.unwrap().unwrap().limits.rpm, Some(40));
}
