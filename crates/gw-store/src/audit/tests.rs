//! The audit log keeps its order and its rows, and shows what other programs did to it.

use super::*;
use crate::testing::on_both;
use crate::{NewKey, Role, StoredKey};

fn record(action: &'static str, object: &str) -> AuditRecord {
    let actor = Actor {
        kind: ActorKind::Key,
        id: "sk-gw-000000".to_owned(),
        name: "boss".to_owned(),
        address: Some("192.0.2.1".to_owned()),
    };
    let after = Some(format!("{{\"id\":\"{object}\"}}"));
    AuditRecord { at: 1_700_000_000_000, actor, action, object: object.to_owned(), before: None, after }
}

fn ascending() -> AuditFilter {
    AuditFilter { is_ascending: true, ..AuditFilter::default() }
}

/// The end of the chain, or its first fault.
async fn verify(store: &Store) -> std::result::Result<AuditHead, ChainFault> {
    let rows = store.audit(&ascending(), 1_000).await.unwrap();
    rows.iter().try_fold(AuditHead::START, |head, row| row.follow(&head))
}

#[tokio::test]
async fn k14_rows_have_one_order_and_a_chain_of_hashes() {
    on_both(async |place| {
        let store = place.open().await;
        assert_eq!(store.audit_head().await.unwrap(), AuditHead::START);
        let mut writing = tokio::task::JoinSet::new();
        for n in 0..20 {
            let store = store.clone();
            writing.spawn(async move {
                store.record_change(&record("key.create", &format!("k{n}"))).await.unwrap();
            });
        }
        writing.join_all().await;
        let head = verify(&store).await.unwrap();
        assert_eq!((head.seq, store.audit_head().await.unwrap()), (20, head));
    })
    .await;
}

#[tokio::test]
async fn k14_no_row_can_be_changed_or_deleted() {
    on_both(async |place| {
        let store = place.open().await;
        store.record_change(&record("key.create", "k")).await.unwrap();
        for statement in ["UPDATE gateway_audit SET object = 'x'", "DELETE FROM gateway_audit"] {
            let refused = store.run(Sql::new(statement)).await.unwrap_err().to_string();
            assert!(refused.contains("append-only"), "{statement}: {refused}");
        }
        assert_eq!(store.audit(&ascending(), 9).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn k14_tampering_shows_although_the_triggers_are_gone() {
    for (statement, fault) in [
        ("UPDATE gateway_audit SET actor = 'nobody' WHERE seq = 2", ChainFault::Changed(2)),
        ("UPDATE gateway_audit SET state_after = NULL WHERE seq = 3", ChainFault::Changed(3)),
        ("UPDATE gateway_audit SET at = at + 1 WHERE seq = 1", ChainFault::Changed(1)),
        ("DELETE FROM gateway_audit WHERE seq = 2", ChainFault::Missing(2)),
    ] {
        on_both(async |place| {
            let store = place.open().await;
            for object in ["a", "b", "c"] {
                store.record_change(&record("team.put", object)).await.unwrap();
            }
            let on = if place.is_postgres() { " ON gateway_audit" } else { "" };
            for trigger in ["audit_is_not_changed", "audit_is_not_deleted"] {
                if place.is_postgres() && trigger == "audit_is_not_deleted" {
                    continue;
                }
                let mut drop = Sql::new("DROP TRIGGER ");
                drop.push(trigger).push(if on.is_empty() { "" } else { " ON gateway_audit" });
                store.run(drop).await.unwrap();
            }
            store.run(Sql::new(statement)).await.unwrap();
            assert_eq!(verify(&store).await, Err(fault), "{statement}");
            // The end of the log is missed by the head alone.
            store.run(Sql::new("DELETE FROM gateway_audit WHERE seq > 0")).await.unwrap();
            assert_eq!(verify(&store).await, Ok(AuditHead::START));
            assert_eq!(store.audit_head().await.unwrap().seq, 3);
        })
        .await;
    }
}

#[tokio::test]
async fn a_change_and_its_record_are_stored_together_or_not_at_all() {
    on_both(async |place| {
        let store = place.open().await;
        let key = NewKey::generate().unwrap().stored("k", Role::Operator, 1);
        store.insert_key_recorded(&key, &record("key.create", &key.id)).await.unwrap();
        assert!(store.insert_key_recorded(&key, &record("key.create", &key.id)).await.is_err());
        let rename = |key: &mut StoredKey| key.name = "n".to_owned();
        let changed = store
            .change_key_recorded(&key.id, rename, |before, after| {
                let mut record = record("key.update", &after.id);
                (record.before, record.after) = (Some(before.name.clone()), Some(after.name.clone()));
                record
            })
            .await
            .unwrap()
            .unwrap();
        assert_eq!((changed.name.as_str(), changed.role), ("n", Role::Operator));
        assert!(
            store.change_key_recorded("nobody", rename, |_, _| record("x", "y")).await.unwrap().is_none()
        );
        assert!(!store.delete_team_recorded("nobody", &record("team.delete", "nobody")).await.unwrap());
        let rows = store.audit(&ascending(), 9).await.unwrap();
        let actions: Vec<_> = rows.iter().map(|row| (row.action.as_str(), row.before.as_deref())).collect();
        assert_eq!(actions, [("key.create", None), ("key.update", Some("k"))]);
        assert_eq!(store.keys().await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_log_is_filtered_and_read_page_by_page() {
    on_both(async |place| {
        let store = place.open().await;
        for (n, action) in ["key.create", "key.revoke", "team.put", "key.create"].into_iter().enumerate() {
            let mut record = record(action, &format!("o{n}"));
            record.at = n as i64 * 1000;
            store.record_change(&record).await.unwrap();
        }
        let found = async |filter: AuditFilter, limit| -> Vec<i64> {
            store.audit(&filter, limit).await.unwrap().iter().map(|row| row.seq).collect()
        };
        let all = AuditFilter::default;
        assert_eq!(found(all(), 9).await, [4, 3, 2, 1]);
        assert_eq!(found(AuditFilter { after: Some(3), ..all() }, 1).await, [2]);
        assert_eq!(found(AuditFilter { after: Some(3), ..ascending() }, 9).await, [4]);
        assert_eq!(found(AuditFilter { action: Some("key.".into()), ..all() }, 9).await, [4, 2, 1]);
        assert_eq!(found(AuditFilter { action: Some("key.create".into()), ..all() }, 9).await, [4, 1]);
        assert_eq!(found(AuditFilter { object: Some("o2".into()), ..all() }, 9).await, [3]);
        assert_eq!(found(AuditFilter { actor: Some("' OR 1=1--".into()), ..all() }, 9).await, [0_i64; 0]);
        assert_eq!(found(AuditFilter { since: Some(1000), until: Some(3000), ..all() }, 9).await, [3, 2]);
    })
    .await;
}

#[test]
fn no_two_rows_have_one_hash() {
    let entry = |actor: &str, name: &str, address: Option<&str>| AuditEntry {
        seq: 1,
        at: 2,
        actor_kind: "key".to_owned(),
        actor: actor.to_owned(),
        actor_name: name.to_owned(),
        address: address.map(str::to_owned),
        action: "a".to_owned(),
        object: "o".to_owned(),
        before: None,
        after: None,
        hash: [0; 32],
    };
    let hashes = [entry("ab", "c", None), entry("a", "bc", None), entry("a", "bc", Some(""))]
        .map(|entry| entry.expected_hash(&[0; 32]));
    assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2]);
}
