//! Journals that were damaged while no gateway ran.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gw_testkit::wait::within;
use gw_testkit::{FakeUpstream, Gateway, Launch};
use sqlx::Row;

use crate::harness::database::{open, run};
use crate::harness::signs::{count_log_lines, metric};
use crate::harness::{KEY, Setup, binary, chat};

/// The number of requests in the journal of the reported damage.
const CHATS: usize = 103;

/// The journal of a killed process: its only segment, and the ids of all answered requests.
async fn killed() -> (String, Vec<String>) {
    let (upstream, data) = (FakeUpstream::start().await, tempfile::tempdir().expect("a directory"));
    let gateway = start(data.path(), &upstream).await;
    let client = gateway.client().with_key(KEY);
    let mut lock = open(&data.path().join("gateway.db")).await;
    run(&mut lock, "BEGIN EXCLUSIVE").await;
    let mut ids = Vec::new();
    for _ in 0..CHATS {
        let answer = client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
        ids.push(answer.header("x-request-id").expect("an id").to_owned());
    }
    drop(gateway);
    let segments = files(&data.path().join("journal"));
    let [segment] = segments.as_slice() else { panic!("one segment: {segments:?}") };
    (std::fs::read_to_string(segment).expect("a segment"), ids)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The ids and statuses of the rows that the intact lines describe.
fn expected(original: &str, damaged: &[u8], ids: &[String]) -> BTreeMap<String, &'static str> {
    let has = |line: &&str| damaged.windows(line.len()).any(|window| window == line.as_bytes());
    let mut rows = BTreeMap::new();
    for line in original.lines().filter(|line| !line.is_empty()).filter(has) {
        let id = ids.iter().find(|id| line.contains(id.as_str())).expect("a line is of a request");
        // An outcome follows its beginning.
        let status = if line.starts_with('E') { "ok" } else { "interrupted" };
        rows.insert(id.clone(), status);
    }
    rows
}

async fn rows(data: &Path) -> BTreeMap<String, String> {
    let mut store = open(&data.join("gateway.db")).await;
    let rows = sqlx::query("SELECT request_id, status FROM ledger").fetch_all(&mut store).await;
    rows.expect("the ledger").iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn start(data: &Path, upstream: &FakeUpstream) -> Gateway {
    let config = Setup::default().config(&upstream.base_url(), &upstream.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// Starts on a journal of these bytes: only damaged lines are lost, and the log and the metrics report them.
async fn assert_kept(what: &str, original: &str, damaged: &[u8], ids: &[String], lost: usize) {
    let upstream = FakeUpstream::start().await;
    let data = tempfile::tempdir().expect("a directory");
    let journal = data.path().join("journal");
    std::fs::create_dir(&journal).expect("a directory");
    let segment = journal.join("left.journal");
    std::fs::write(&segment, damaged).expect("a file");
    let gateway = start(data.path(), &upstream).await;
    let wanted = expected(original, damaged, ids);
    let found = rows(data.path()).await;
    for (id, status) in &wanted {
        assert_eq!(found.get(id).map(String::as_str), Some(*status), "{what}: {id}");
    }
    assert_eq!(found.len(), CHATS - lost, "{what}: rows");
    assert!(metric(&gateway, "gateway_journal_unreadable_total").await >= 1.0, "{what}");
    assert_eq!(metric(&gateway, "gateway_journal_set_aside").await, 1.0, "{what}");
    assert_eq!(count_log_lines(&gateway, "a journal is damaged in"), 1, "{what}");
    assert_eq!(
        count_log_lines(&gateway, &format!("{} requests could be read from it", found.len())),
        1,
        "{what}"
    );
    let kept = journal.join("left.journal.damaged");
    assert_eq!(count_log_lines(&gateway, &kept.to_string_lossy()), 1, "{what}");
    assert!(std::fs::read(&kept).expect("it is kept") == damaged, "{what}: it is kept as it was");
    assert!(!segment.exists(), "{what}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&kept).expect("a file").permissions().mode() & 0o777, 0o600, "{what}");
    drop(gateway.stop());
    // The next start reports no damage.
    let gateway = start(data.path(), &upstream).await;
    assert_eq!(metric(&gateway, "gateway_journal_unreadable_total").await, 0.0, "{what}");
    assert_eq!(metric(&gateway, "gateway_journal_set_aside").await, 1.0, "{what}");
    assert_eq!(count_log_lines(&gateway, "a journal is damaged in"), 0, "{what}");
}

#[tokio::test]
async fn s15_a_damaged_journal_loses_only_what_is_damaged() {
    let (original, ids) = within("chats while the store is locked", killed()).await;
    let bytes = original.as_bytes();
    let middle = bytes.len() / 2;
    let mut overwritten = bytes.to_vec();
    overwritten[middle..middle + 2_048].fill(0xa5);
    // A line that is damaged in a part is lost, too.
    let gone = CHATS - expected(&original, &overwritten, &ids).len();
    assert!((1..9).contains(&gone), "{gone} requests have no line any more");
    assert_kept("2,048 bytes overwritten", &original, &overwritten, &ids, gone).await;
    let ends: Vec<usize> = original.match_indices('\n').map(|(at, _)| at).collect();
    let end = ends[ends.len() / 2];
    let joined = [&bytes[..end], &bytes[end + 1..]].concat();
    assert_kept("a newline eaten", &original, &joined, &ids, 0).await;
    let appended = [bytes, b"\nE[\"req_", &[0x80; 700]].concat();
    assert_kept("garbage behind it", &original, &appended, &ids, 0).await;
    assert_kept("its tail cut", &original, &bytes[..bytes.len() - 40], &ids, 0).await;
}
