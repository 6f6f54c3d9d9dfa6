//! Examines a store without changing it, so that an operator can see it before a start does.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::postgres::{DatabaseUrl, Pool};
use crate::sqlite;

/// The facts about a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The file, or the database without its password.
    pub location: String,
    /// The schema version; None: the store does not exist yet, or it is empty.
    pub found: Option<i64>,
    /// The newest schema version that this program knows.
    pub known: i64,
    /// The clock of the server in unix milliseconds; None for a file.
    pub server_time: Option<i64>,
}

/// The file of a `sqlite:` URL; None for a store in memory and for a server.
#[must_use]
pub fn sqlite_file(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    (path != ":memory:").then(|| PathBuf::from(path))
}

/// The fault of a `postgres:` URL that leads to no server. It never repeats the URL.
#[must_use]
pub fn server_url_fault(url: &str) -> Option<&'static str> {
    match DatabaseUrl::parse(url) {
        Err(Error::Url(fault)) => Some(fault),
        _ => None,
    }
}

/// Examines a SQLite file. A file that does not exist is not created.
///
/// # Errors
/// One line for the operator. A newer schema is [`Error::Newer`].
pub async fn inspect_file(path: &Path) -> Result<Inspection> {
    // An empty file is a new store.
    let is_new = std::fs::metadata(path).map_or(true, |file| file.len() == 0);
    let found = if is_new { None } else { sqlite::probe(path).await? };
    let location = path.display().to_string();
    Ok(Inspection { location, found, known: sqlite::newest_version(), server_time: None })
}

/// Examines a PostgreSQL database. Tries once, for a few seconds at most.
///
/// # Errors
/// One line for the operator, without the password. A newer schema is [`Error::Newer`].
pub async fn inspect_server(url: &str) -> Result<Inspection> {
    let address = DatabaseUrl::parse(url)?;
    let location = address.location.clone();
    let report = Pool::inspect(address).await?;
    match report.found {
        Some(found) if found > report.known => Err(Error::Newer { location, found, known: report.known }),
        found => {
            let server_time = Some(report.server_time);
            Ok(Inspection { location, found, known: report.known, server_time })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn only_a_url_of_a_file_names_a_file() {
        for (url, file) in [
            ("sqlite:///a/b.db", Some("/a/b.db")),
            ("sqlite://b.db", Some("b.db")),
            ("sqlite:b.db", Some("b.db")),
            ("sqlite::memory:", None),
            ("postgres://h/d", None),
        ] {
            assert_eq!(sqlite_file(url), file.map(PathBuf::from), "{url}");
        }
    }

    #[tokio::test]
    async fn a_missing_file_is_not_created_and_an_opened_one_has_the_newest_schema() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.db");
        let before = inspect_file(&path).await.unwrap();
        assert_eq!((before.found, path.exists()), (None, false));
        Store::open(&path).await.unwrap().close().await;
        let after = inspect_file(&path).await.unwrap();
        assert_eq!(after.found, Some(after.known));
    }

    #[tokio::test]
    async fn a_newer_schema_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.db");
        let store = Store::open(&path).await.unwrap();
        let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
            VALUES (9999, 'later', 1, x'00', 0)";
        store.run(crate::sql::Sql::new(later)).await.unwrap();
        store.close().await;
        assert!(matches!(inspect_file(&path).await, Err(Error::Newer { found: 9999, .. })));
    }
}
