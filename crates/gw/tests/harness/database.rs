//! The gateway's database, opened by another program.

use std::path::Path;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

pub(crate) async fn open(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::from_secs(20));
    options.disable_statement_logging().connect().await.expect("the gateway's database")
}

pub(crate) async fn run(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::query(sql).execute(connection).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}
