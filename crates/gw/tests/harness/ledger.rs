//! The rows of a gateway's ledger, read from its store.

use std::collections::BTreeMap;
use std::path::Path;

use gw_store::Store;
use gw_store::ledger::{Entry, Filter};
use gw_testkit::Gateway;
use gw_testkit::wait::eventually_ok;
use serde_json::Value;

/// The rows of a running gateway, as soon as it has this many.
pub(crate) async fn rows(gateway: &Gateway, wanted: usize) -> Vec<Entry> {
    rows_in(&gateway.dir().join("data/gateway.db"), wanted).await
}

/// The rows of a store, as soon as it has this many.
pub(crate) async fn rows_in(path: &Path, wanted: usize) -> Vec<Entry> {
    let store = Store::open(path).await.expect("the gateway's store");
    let found = rows_of(&store, wanted).await;
    store.close().await;
    found
}

/// The rows of each hour, or of another span, in the order of the spans. They are told by the times that the gateway recorded, because an
/// hour may end during a test.
pub(crate) fn spans(rows: &[Entry], span_ms: i64) -> Vec<Vec<&Entry>> {
    let mut spans: BTreeMap<i64, Vec<&Entry>> = BTreeMap::new();
    for row in rows {
        spans.entry(row.at.div_euclid(span_ms)).or_default().push(row);
    }
    spans.into_values().collect()
}

/// The JSON documents in the data of frames, of every dialect.
pub(crate) fn documents(frames: &[String]) -> Vec<Value> {
    let lines = frames.iter().flat_map(|frame| frame.lines());
    lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
}

async fn rows_of(store: &Store, wanted: usize) -> Vec<Entry> {
    eventually_ok("the rows are in the ledger", async || {
        let found = store.requests(&Filter::default(), None, 10_000).await.expect("the ledger can be read");
        if found.len() >= wanted { Ok(found) } else { Err(format!("{} rows of {wanted}", found.len())) }
    })
    .await
}
