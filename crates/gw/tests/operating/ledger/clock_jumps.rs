//! Clocks that jump while a gateway runs or is stopped: rows are never purged by an unconfirmed time.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gw_store::Store;
use gw_store::journal::Journal;
use gw_store::ledger::{Entry, Filter};
use gw_store::payloads::{Payload, PayloadBody};
use gw_testkit::postgres::Postgres;
use gw_testkit::wait::eventually_true;
use gw_testkit::{Faketime, Gateway, Launch};

use crate::harness::management::CONFIG;
use crate::harness::signs::{count_log_lines, metric};
use crate::harness::{ADMIN, binary, chat, logged};

const HOUR: i64 = 3_600_000;
/// Rows in the store before the start with another clock, and rows in its journal.
const ROWS: i64 = 95;
const LEFT: i64 = 5;

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    i64::try_from(now).expect("a time")
}

fn entry(n: i64, at: i64) -> Entry {
    let bits = (u128::from(at.unsigned_abs()) << 80) + u128::from(n.unsigned_abs());
    Entry {
        request_id: String::from_utf8_lossy(&gw_wire::request_id::format(bits)).into_owned().into(),
        at,
        key_id: "k".into(),
        status: "ok".into(),
        cost: 7,
        ..Entry::default()
    }
}

fn payload(entry: &Entry) -> Payload {
    let said = || PayloadBody { text: "something".to_owned(), is_cut: false };
    Payload { request_id: entry.request_id.to_string(), at: entry.at, request: said(), response: said() }
}

fn launch(data: &Path, url: &str) -> Launch {
    let config = format!("{CONFIG}\n[store]\nurl = \"{url}\"\n");
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy())
}

/// The numbers of rows and payloads in the store, and of requests in its sums.
async fn counted(store: &Store, entries: &[Entry]) -> (usize, usize, u64) {
    let rows = store.requests(&Filter::default(), None, 1_000).await.expect("rows");
    let mut payloads = 0;
    for entry in entries {
        payloads += usize::from(store.payload(&entry.request_id).await.expect("an answer").is_some());
    }
    (rows.len(), payloads, store.total(&Filter::default()).await.expect("sums").requests)
}

async fn until_held(gateway: &Gateway, held: f64) {
    eventually_true("the clock is doubted, or not", async || {
        metric(gateway, "gateway_clock_held").await == held
    })
    .await;
}

const WARNING: &str =
    "nothing is purged until the clock is corrected, or confirmed with `model-gateway clock --confirm`";

/// The output of the command, with the clock of this launch.
fn clock(launch: Launch, arguments: &[&str]) -> String {
    let launch = arguments.iter().fold(launch.arg("clock"), |launch, argument| launch.arg(*argument));
    let output = launch.run();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A start a year ahead on a store with rows, payloads and a journal: all of them stay until the clock is confirmed.
async fn a_year_ahead(url: &str) {
    let data = tempfile::tempdir().expect("a directory");
    // A start with the right clock stores the time of its use.
    let gateway = launch(data.path(), url).start().await;
    assert_eq!(metric(&gateway, "gateway_clock_held").await, 0.0);
    assert_eq!(count_log_lines(&gateway, WARNING), 0);
    drop(gateway);
    let store = Store::open_url(url).await.expect("the store");
    let before = now() - 2 * HOUR;
    let entries: Vec<Entry> = (0..ROWS + LEFT).map(|n| entry(n, before + n)).collect();
    let (rows, left) = entries.split_at(usize::try_from(ROWS).expect("few"));
    store.record(rows).await.expect("rows");
    store.keep_payloads(&rows.iter().map(payload).collect::<Vec<_>>()).await.expect("payloads");
    let journal = Journal::open(&data.path().join("journal")).expect("a journal");
    left.iter().for_each(|entry| journal.finish(None, entry.clone()));
    drop(journal);

    let time = Faketime::at("+365d");
    let mut all = entries.len();
    for _ in 0..2 {
        let gateway = time.apply(launch(data.path(), url)).start().await;
        assert_eq!(metric(&gateway, "gateway_clock_held").await, 1.0);
        assert_eq!(count_log_lines(&gateway, WARNING), 1);
        assert_eq!(count_log_lines(&gateway, "the clock is 365 days ahead of"), 1);
        assert_eq!(counted(&store, &entries).await, (all, rows.len(), all as u64));
        // A row with this clock does not confirm the clock for the next start.
        let admin = gateway.client().with_key(ADMIN);
        let answer = admin.post_json("/v1/chat/completions", &chat("demo/chat")).await.ok();
        logged(&admin, answer.header("x-request-id").expect("an id")).await;
        all += 1;
        drop(gateway);
    }
    let gateway = time.apply(launch(data.path(), url)).start().await;
    assert!(
        clock(launch(data.path(), url), &["--confirm"]).contains("nothing to confirm"),
        "the right clock"
    );
    let told = clock(time.apply(launch(data.path(), url)), &[]);
    assert!(told.contains("365 days ahead of") && told.contains("last confirmed        never"), "{told}");
    assert_eq!(metric(&gateway, "gateway_clock_held").await, 1.0);
    assert_eq!(counted(&store, &entries).await, (all, rows.len(), all as u64));
    let told = clock(time.apply(launch(data.path(), url)), &["--confirm"]);
    assert!(told.contains("\nconfirmed: "), "{told}");
    // The running gateway notices the confirmation.
    until_held(&gateway, 0.0).await;
    eventually_true("old rows go, a tenth of them, and old payloads", async || {
        counted(&store, &entries).await == (all - all.div_ceil(10), 0, all as u64)
    })
    .await;
    let left = store.requests(&Filter::default(), None, 1_000).await.expect("rows");
    assert_eq!(left.last().map(|row| row.at), Some(before + 11), "the oldest rows are purged");
    drop(gateway);
    store.close().await;
}

#[tokio::test]
async fn p10_a_start_a_year_ahead_purges_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    a_year_ahead(&format!("sqlite://{}", place.path().join("gateway.db").display())).await;
}

#[tokio::test]
async fn p10_a_start_a_year_ahead_purges_nothing_on_postgres() {
    let postgres = Postgres::start();
    a_year_ahead(&postgres.database()).await;
}
