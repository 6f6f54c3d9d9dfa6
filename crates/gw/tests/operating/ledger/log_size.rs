//! The size of the request log: the oldest rows and their payloads go, and the sums stay.

use gw_store::Store;
use gw_store::ledger::Entry;
use gw_store::payloads::{Payload, PayloadBody};
use gw_testkit::Launch;
use gw_testkit::wait::eventually_ok;
use serde_json::Value;

use crate::harness::management::CONFIG;
use crate::harness::{ADMIN, binary};

const MINUTE: i64 = 60_000;

fn entry(n: i64) -> Entry {
    let at = 1_795_251_600_000 + n * MINUTE;
    let bits = u128::try_from(at).expect("after 1970") << 80 | u128::try_from(n).expect("a number");
    Entry {
        request_id: String::from_utf8(gw_wire::request_id::format(bits).to_vec()).expect("text").into(),
        at,
        key_id: "k".into(),
        key_name: "k".into(),
        operation: "chat".into(),
        model: "acme/fast".into(),
        provider: "acme".into(),
        status: "ok".into(),
        cost: 7_000_000,
        ..Entry::default()
    }
}

fn payload(n: i64) -> Payload {
    let body = PayloadBody { text: "x".repeat(20_000), is_cut: false };
    let Entry { request_id, at, .. } = entry(n);
    Payload { request_id: request_id.to_string(), at, request: body.clone(), response: body }
}

#[tokio::test]
async fn a_start_deletes_the_oldest_rows_of_a_log_that_is_too_large() {
    for (setting, is_bounded) in [("max_log_mib = 1", true), ("max_log_mib = 0", false)] {
        let config = format!("{CONFIG}\n[store]\nretention_days = 0\n{setting}\n");
        let launch = Launch::new(binary()).file("gateway.toml", config);
        let data = launch.dir().join("data");
        std::fs::create_dir_all(&data).expect("a directory");
        let store = Store::open(&data.join("gateway.db")).await.expect("a store");
        // Each request has 40 KB of payloads, so about 25 fit.
        store.record(&(0..60).map(entry).collect::<Vec<_>>()).await.expect("rows");
        store.keep_payloads(&(0..60).map(payload).collect::<Vec<_>>()).await.expect("payloads");
        let gateway = launch.start().await;
        let admin = gateway.client().with_key(ADMIN);
        eventually_ok("the log is as small as it may be", async || {
            let size = store.log_bytes().await.expect("a size");
            if !is_bounded || size <= 1 << 20 { Ok(()) } else { Err(size) }
        })
        .await;
        let page = admin.get("/admin/v1/requests?limit=1000").await.ok().json();
        let rows = page["data"].as_array().expect("rows");
        let expected = if is_bounded { 20..=30 } else { 60..=60 };
        assert!(expected.contains(&rows.len()), "{setting}: {} rows", rows.len());
        assert_eq!(rows[0]["request_id"], &*entry(59).request_id, "the newest stays");
        let newest = admin.get(&format!("/admin/v1/requests/{}", entry(59).request_id)).await.ok().json();
        assert_ne!(newest["payload"], Value::Null);
        let total = &admin.get("/admin/v1/usage").await.ok().json()["total"];
        assert_eq!((total["requests"].as_u64(), total["cost_usd"].as_f64()), (Some(60), Some(4.2e-7)));
        store.close().await;
    }
}
