//! Makes the file of a new store under another name, and gives it its own name when it is complete.
//!
//! SQLite would sync the file and its journal eight times to make an empty database with a write-ahead log. The file of this module is
//! synced once: nothing reads it before, and a start that is interrupted leaves no half of a store.

use std::fs::{self, File};
use std::path::Path;

use sqlx::migrate::Migrate;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::migrations::migrator;
use super::{beside, prepare};
use crate::error::{Error, Result};
use crate::private;
use crate::sql::Sql;

/// The table in which sqlx notes the migrations of a file.
const NOTES: &str = "_sqlx_migrations";

/// Makes the file if there is none, and returns whether it did. After a failure there is still none, and the caller, which
/// goes on with an empty file, finds and reports the reason.
pub(super) async fn make(path: &Path) -> bool {
    if fs::symlink_metadata(path).is_ok() {
        return false;
    }
    let draft = beside(path, &format!(".{:016x}.new", rand::random::<u64>()));
    if private::new_file().write(true).open(&draft).is_err() {
        return false;
    }
    let filled = fill(&draft).await;
    // A link, unlike a new name, never replaces the file of another process.
    let is_made = filled.is_ok() && fs::hard_link(&draft, path).is_ok();
    if let Err(error) = filled {
        tracing::debug!("the draft of the store: {error}");
    }
    for ending in ["", "-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(&draft, ending));
    }
    is_made
}

pub(super) async fn fill(draft: &Path) -> Result<()> {
    let location = draft.display().to_string();
    let failed = |reason: String| Error::Failed { location: location.clone(), reason };
    let options = SqliteConnectOptions::new()
        .filename(draft)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Memory)
        .synchronous(SqliteSynchronous::Off)
        .pragma("temp_store", "MEMORY")
        .disable_statement_logging();
    let mut connection = options.connect().await.map_err(|error| failed(error.to_string()))?;
    // As an option it would come before `synchronous`, and be synced.
    let vacuum = sqlx::query("PRAGMA auto_vacuum = INCREMENTAL").execute(&mut connection).await;
    vacuum.map_err(|error| failed(error.to_string()))?;
    make_tables(&mut connection).await.map_err(failed)?;
    prepare(&mut connection, &location).await?;
    let mode = sqlx::query("PRAGMA journal_mode = WAL").fetch_one(&mut connection).await;
    mode.map_err(|error| failed(error.to_string()))?;
    connection.close().await.map_err(|error| failed(error.to_string()))?;
    let synced = File::open(draft).and_then(|file| file.sync_all());
    synced.map_err(|error| failed(error.to_string()))
}

/// The tables as all migrations leave them, in an empty file. To run the migrations takes seven times as long.
pub(super) const SCHEMA: &str = include_str!("../../migrations/schema.sql");

/// Makes the tables, and notes the migrations. One text with all statements takes half the time of one after the other, because a
/// connection has a thread of its own, and every statement is a message there and back.
async fn make_tables(connection: &mut SqliteConnection) -> std::result::Result<(), String> {
    connection.ensure_migrations_table(NOTES).await.map_err(|error| error.to_string())?;
    let migrator = migrator();
    let mut all = Sql::new("BEGIN;\n");
    all.push(SCHEMA).push(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES ",
    );
    for (at, made) in migrator.iter().enumerate() {
        all.push(if at == 0 { "(" } else { ", (" })
            .push_int(made.version)
            .push(", ")
            .push_text(&made.description);
        all.push(", TRUE, ").push_bytes(&made.checksum).push(", 0)");
    }
    all.push(";\nCOMMIT");
    all.for_sqlite().execute(connection).await.map_err(|error| error.to_string())?;
    Ok(())
}
