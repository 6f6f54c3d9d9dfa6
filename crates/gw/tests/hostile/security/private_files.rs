//! Files of the gateway are readable only by the user who runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gw_testkit::{FakeUpstream, Gateway, Launch};

use crate::harness::{KEY, Setup, binary, chat};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn loosen(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let found = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    found.filter(|path| path.is_file()).collect()
}

/// A gateway on this directory that has answered a request.
async fn used(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let gateway = launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await;
    gateway.client().with_key(KEY).post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    gateway
}

fn assert_private(data: &Path) {
    let journal = data.join("journal");
    assert_eq!(mode(&journal), 0o700, "the journal's directory");
    let (databases, segments) = (files(data), files(&journal));
    assert!(databases.iter().any(|path| path.ends_with("gateway.db")), "{databases:?}");
    assert!(!segments.is_empty());
    for path in databases.iter().chain(&segments) {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn c27_the_journal_and_the_database_are_private() {
    let upstream = FakeUpstream::start().await;
    let config = Setup::default().config(&upstream.base_url(), &upstream.base_url());
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let gateway = used(&config, &data).await;
    assert_eq!(mode(&data), 0o700, "the data directory");
    assert_private(&data);
    drop(gateway.stop());

    // The files of an older version, with a damaged segment.
    let journal = data.join("journal");
    fs::write(journal.join("left.journal"), "{").expect("a file");
    loosen(&journal, 0o755);
    files(&journal).iter().chain(&files(&data)).for_each(|path| loosen(path, 0o644));
    let gateway = used(&config, &data).await;
    assert_private(&data);
    drop(gateway);
}
