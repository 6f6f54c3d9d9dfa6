//! Copies of a SQLite store: made while a gateway uses the file, checked before they are used.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row};

use crate::error::{Error, Result, one_line};
use crate::sqlite;

/// Writes a copy of the file, as of this moment. Other processes may go on writing. `copy` must not exist.
///
/// The backup API of SQLite starts again whenever another process writes. `VACUUM INTO` reads one snapshot.
///
/// # Errors
/// The file cannot be read, or the copy cannot be written.
pub async fn copy(file: &Path, copy: &Path) -> Result<()> {
    sqlite::probe(file).await?;
    let location = file.display().to_string();
    let failed = |error: sqlx::Error| sqlite::describe(&location, &error);
    let mut connection = sqlite::read_only(file).await.map_err(failed)?;
    let into = copy.to_string_lossy().into_owned();
    let copied = sqlx::query("VACUUM INTO ?").bind(into).execute(&mut connection).await;
    connection.close().await.map_err(failed)?;
    copied.map(drop).map_err(failed)
}

/// Checks a whole copy: its pages, its indices and its schema version, which it returns.
///
/// # Errors
/// [`Error::Damaged`], or [`Error::Newer`] for a schema that this program does not know.
pub async fn verify(copy: &Path) -> Result<i64> {
    let location = copy.display().to_string();
    let damaged = |reason: &str| Error::Damaged { location: location.clone(), reason: one_line(reason) };
    let Some(version) = sqlite::probe(copy).await? else { return Err(damaged("it has no tables")) };
    let failed = |error: sqlx::Error| sqlite::describe(&location, &error);
    let mut connection = sqlite::read_only(copy).await.map_err(failed)?;
    let verdict: String = sqlx::query("PRAGMA integrity_check(1)")
        .fetch_one(&mut connection)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    connection.close().await.map_err(failed)?;
    if verdict == "ok" { Ok(version) } else { Err(damaged(&verdict)) }
}

/// Writes the write-ahead log back into the file, so that the file alone is the store.
///
/// # Errors
/// [`Error::Busy`] when another process has the file open.
pub async fn take_offline(file: &Path) -> Result<()> {
    let location = file.display().to_string();
    let failed = |error: sqlx::Error| sqlite::describe(&location, &error);
    let options = SqliteConnectOptions::new().filename(file).disable_statement_logging();
    let mut connection: SqliteConnection = options.connect().await.map_err(failed)?;
    // SQLite leaves the WAL mode only when it is alone with the file.
    let mode = sqlx::query("PRAGMA journal_mode = DELETE").fetch_one(&mut connection).await;
    let mode: sqlx::Result<String> = mode.and_then(|row| row.try_get(0));
    connection.close().await.map_err(failed)?;
    match mode.map_err(failed)?.as_str() {
        "delete" => Ok(()),
        _ => Err(Error::Busy { location }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewKey, Role, Store};

    #[tokio::test]
    async fn a_copy_of_a_store_in_use_has_its_rows() {
        let directory = tempfile::tempdir().unwrap();
        let (file, copied) = (directory.path().join("gateway.db"), directory.path().join("copy.db"));
        let store = Store::open(&file).await.unwrap();
        let key = NewKey::generate().unwrap().stored("k", Role::Inference, 1);
        store.insert_key(&key).await.unwrap();
        copy(&file, &copied).await.unwrap();
        assert!(verify(&copied).await.unwrap() > 0);
        let restored = Store::open(&copied).await.unwrap();
        assert_eq!(restored.keys().await.unwrap()[0].id, key.id);
        // A second copy would overwrite the first.
        assert!(copy(&file, &copied).await.is_err());
    }

    #[tokio::test]
    async fn a_store_in_use_is_not_taken_offline() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.db");
        let store = Store::open(&file).await.unwrap();
        assert!(matches!(take_offline(&file).await, Err(Error::Busy { .. })));
        store.close().await;
        take_offline(&file).await.unwrap();
    }

    #[tokio::test]
    async fn a_damaged_copy_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.db");
        Store::open(&file).await.unwrap().close().await;
        take_offline(&file).await.unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        let last = bytes.len() - 4096;
        bytes[last..].fill(0xA5);
        std::fs::write(&file, bytes).unwrap();
        assert!(matches!(verify(&file).await, Err(Error::Damaged { .. })));
    }
}
