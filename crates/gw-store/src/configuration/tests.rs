//! The configuration over the API: changes, history, secrets.

use super::{ConfigurationChange, SealedSecret};
use crate::audit::{Actor, ActorKind, AuditRecord};
use crate::testing::on_both;

fn change(version: i64, name: &str, before: Option<&str>, after: Option<&str>) -> ConfigurationChange {
    ConfigurationChange {
        version,
        changed_at: 7,
        actor: "k".to_owned(),
        section: "models".to_owned(),
        name: name.to_owned(),
        before: before.map(str::to_owned),
        after: after.map(str::to_owned),
        undoes: None,
    }
}

fn secret(id: &str, sealed: &str) -> SealedSecret {
    SealedSecret { id: id.to_owned(), sealed: sealed.to_owned() }
}

fn record() -> AuditRecord {
    let actor = Actor { kind: ActorKind::Key, id: "key_1".to_owned(), name: "ops".to_owned(), address: None };
    AuditRecord {
        at: 1,
        actor,
        action: "config.change",
        object: "a/x".to_owned(),
        before: None,
        after: Some("{}".to_owned()),
    }
}

#[tokio::test]
async fn a_change_is_made_once_and_kept_in_the_history() {
    on_both(async |place| {
        let store = place.open().await;
        assert_eq!(store.configuration_version().await.unwrap(), 0);
        let first = change(1, "a/x", None, Some("{\"n\":1}"));
        assert!(store.change_configuration(&first, &[secret("s1", "one")], &record()).await.unwrap());
        // A change that was checked against an older state is not made, and its secrets are not kept.
        let stale = change(1, "a/y", None, Some("{}"));
        assert!(!store.change_configuration(&stale, &[secret("s2", "two")], &record()).await.unwrap());
        let entries = store.configuration().await.unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].name.as_str(), entries[0].version), ("a/x", 1));
        assert_eq!(store.configuration_secrets().await.unwrap(), [secret("s1", "one")]);
        let second = change(2, "a/x", Some("{\"n\":1}"), None);
        assert!(store.change_configuration(&second, &[], &record()).await.unwrap());
        assert!(store.configuration().await.unwrap().is_empty());
        assert_eq!(store.configuration_changes(i64::MAX, 10).await.unwrap(), [second, first.clone()]);
        assert_eq!(store.configuration_changes(2, 10).await.unwrap(), [first]);
        assert_eq!(store.configuration_version().await.unwrap(), 2);
        // The change that was not made has no row in the audit log.
        assert_eq!(store.audit_head().await.unwrap().seq, 2);
    })
    .await;
}

#[tokio::test]
async fn secrets_are_replaced_unless_they_changed() {
    on_both(async |place| {
        let store = place.open().await;
        let first = change(1, "a/x", None, Some("{}"));
        let secrets = [secret("s1", "one"), secret("s2", "two")];
        assert!(store.change_configuration(&first, &secrets, &record()).await.unwrap());
        let rows = [(secret("s1", "one"), "ONE".to_owned()), (secret("s2", "older"), "TWO".to_owned())];
        store.replace_configuration_secrets(&rows).await.unwrap();
        let kept = store.configuration_secrets().await.unwrap();
        assert_eq!(kept, [secret("s1", "ONE"), secret("s2", "two")]);
    })
    .await;
}
