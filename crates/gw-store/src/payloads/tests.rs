//! Payloads on both databases.

use super::{Payload, PayloadBody};
use crate::keys::{NewKey, Role, StoredKey};
use crate::sql::Sql;
use crate::testing::on_both;

fn payload(n: i64) -> Payload {
    let said = |text: String, is_cut| PayloadBody { text, is_cut };
    Payload {
        request_id: format!("req_{n:06}"),
        at: 1_000 + n,
        request: said(format!("{{\"n\":{n}}}"), n % 2 == 0),
        response: said("é ".repeat(usize::try_from(n).unwrap()), n % 3 == 0),
    }
}

#[tokio::test]
async fn a_payload_is_written_once_and_found_again() {
    on_both(async |place| {
        let store = place.open().await;
        store.keep_payloads(&[]).await.unwrap();
        let all: Vec<_> = (0..100).map(payload).collect();
        store.keep_payloads(&all).await.unwrap();
        let other = Payload { at: 1, ..payload(7) };
        store.keep_payloads(&[other.clone(), payload(100), other]).await.unwrap();
        for wanted in (0..101).map(payload) {
            assert!(store.payload(&wanted.request_id).await.unwrap() == Some(wanted));
        }
        assert!(store.payload("req_none").await.unwrap().is_none());
        assert!(store.delete_payload("req_000007").await.unwrap());
        assert!(!store.delete_payload("req_000007").await.unwrap());
        assert!(store.payload("req_000007").await.unwrap().is_none());
        assert!(store.payload("req_000008").await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn both_databases_keep_any_text() {
    on_both(async |place| {
        let store = place.open().await;
        let odd = "'; DROP TABLE payloads; -- \u{feff}\u{202e}\u{10ffff} \\ud800 \\u0000 $1 ?1";
        let request = PayloadBody { text: format!("{odd}\0end"), is_cut: false };
        let large = PayloadBody { text: "ü".repeat(300_000), is_cut: true };
        let one = Payload { request, response: large.clone(), ..payload(1) };
        store.keep_payloads(std::slice::from_ref(&one)).await.unwrap();
        let found = store.payload("req_000001").await.unwrap().unwrap();
        assert_eq!(found.request.text, format!("{odd}\u{fffd}end"));
        assert!(found.response == large);
        assert!(!format!("{one:?}").contains("DROP"), "{one:?}");
    })
    .await;
}

#[tokio::test]
async fn old_payloads_are_deleted_in_portions() {
    on_both(async |place| {
        let store = place.open().await;
        store.keep_payloads(&(0..50).map(payload).collect::<Vec<_>>()).await.unwrap();
        assert_eq!(store.purge_payloads(1_040, 30).await.unwrap(), 30);
        assert_eq!(store.purge_payloads(1_040, 30).await.unwrap(), 10);
        assert_eq!(store.purge_payloads(1_040, 30).await.unwrap(), 0);
        assert!(store.payload("req_000039").await.unwrap().is_none());
        assert!(store.payload("req_000040").await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn keys_of_an_older_store_log_no_payloads_until_they_are_told_to() {
    on_both(async |place| {
        let store = place.open().await;
        let key = NewKey::generate().unwrap().stored("old", Role::Inference, 7);
        store.insert_key(&key).await.unwrap();
        let mut changes = vec![
            "DROP TABLE gateway_clock",
            "DROP TABLE payloads",
            "ALTER TABLE keys DROP COLUMN log_payloads",
        ];
        if place.is_postgres() {
            changes.extend([
                "DROP INDEX ledger_failures_by_key",
                "ALTER TABLE keys DROP COLUMN burst, DROP COLUMN on_budget, DROP COLUMN unpriced",
                "ALTER TABLE teams DROP COLUMN burst, DROP COLUMN on_budget, DROP COLUMN unpriced",
                "ALTER TABLE usage_hours DROP COLUMN unpriced",
                "ALTER TABLE keys DROP COLUMN trust_attribution",
                "ALTER TABLE ledger DROP COLUMN session, DROP COLUMN surface, DROP COLUMN names",
                "DROP TABLE usage_sessions, usage_units, usage_attributions, usage_names, log_sizes, trimmed_rows",
                "DROP TABLE usage_name_ids, usage_name_blocks, usage_name_block_sums, usage_name_late, usage_name_progress",
                "DROP TABLE usage_prompt_caches, usage_prompt_cache_sessions, usage_prompt_cache_names",
                "DROP TABLE gateway_secrets, gateway_alert_claims, gateway_alert_queue, gateway_reconciliations",
                "DROP TABLE response_items, response_contents",
                "DROP TABLE responses, response_sums",
                "DROP FUNCTION gateway_response_sums",
                "DROP TABLE gateway_audit, gateway_audit_head, gateway_sessions, gateway_sign_in_links",
                "DROP FUNCTION gateway_audit_is_append_only",
                "DROP TABLE configuration, configuration_changes, configuration_secrets",
                "DELETE FROM gateway_schema WHERE version >= 2",
            ]);
        } else {
            changes.push("DELETE FROM _sqlx_migrations WHERE version IN (6, 9)");
        }
        for change in changes {
            store.run(Sql::new(change)).await.unwrap();
        }
        store.close().await;
        let store = place.open().await;
        assert!(store.key(&key.id).await.unwrap() == Some(key.clone()));
        store.keep_payloads(&[payload(1)]).await.unwrap();
        let before = store.revision().await.unwrap();
        let changed = store.change_key(&key.id, |key| key.log_payloads = true).await.unwrap();
        assert!(changed == Some(StoredKey { log_payloads: true, ..key.clone() }));
        assert!(store.key(&key.id).await.unwrap() == changed);
        assert!(store.revision().await.unwrap() > before, "every replica hears of it");
    })
    .await;
}
