//! Helpers that run each test on both databases.

use std::time::Instant;

use crate::Store;

/// An empty database of either kind.
pub(crate) struct TestDatabase {
    pub(crate) url: String,
    _directory: Option<tempfile::TempDir>,
}

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("gateway.db").display());
        Self { url, _directory: Some(directory) }
    }

    pub(crate) fn postgres() -> Self {
        Self { url: gw_testkit::postgres::database(), _directory: None }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres")
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open_url(&self.url).await.unwrap()
    }
}

/// Runs a test on an empty database of each kind.
pub(crate) async fn on_both(test: impl AsyncFn(TestDatabase)) {
    for make in [TestDatabase::sqlite, TestDatabase::postgres] {
        let place = make();
        let kind = if place.is_postgres() { "PostgreSQL" } else { "SQLite" };
        let start = Instant::now();
        // Printed when the test fails, so that the log shows the database.
        println!("on {kind}");
        test(place).await;
        println!("done on {kind} in {:?}", start.elapsed());
    }
}
