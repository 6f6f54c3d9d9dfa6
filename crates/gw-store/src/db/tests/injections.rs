//! Texts that have broken SQL elsewhere are stored and compared as they are.

use std::collections::BTreeSet;

use crate::keys::{NewKey, Role, Team};
use crate::ledger::{Attempt, Cursor, Entry, Filter, GroupBy, Spender};
use crate::limits::Limits;
use crate::testing::on_both;

/// Texts that have broken SQL elsewhere, each with every kind of quote and at the limits.
fn payloads() -> BTreeSet<String> {
    let seeds = [
        "'; DROP TABLE keys; --",
        "' OR '1'='1",
        "\" OR \"\"=\"",
        "1; DELETE FROM ledger",
        "') OR ('1'='1",
        "admin'--",
        "' UNION SELECT * FROM keys --",
        "$1",
        "$99",
        "?",
        "?1",
        ":name",
        "@name",
        "#{x}",
        "{}",
        "{0}",
        "%s",
        "%n",
        "%",
        "_",
        "\\",
        "\\'",
        "\\\\",
        "''",
        "'",
        "\"",
        "`",
        "$$",
        "$tag$x$tag$",
        "/*",
        "*/",
        "--",
        ";",
        "\u{FFFD}",
        "\n",
        "\r\n",
        "\t",
        "\u{1}",
        "\u{7f}",
        "\u{202e}",
        "é",
        "𝕊",
        "ﬀ",
        "I\u{307}",
        "NULL",
        "null",
        "true",
        "0x41",
        "1e309",
        "-1",
    ];
    let frames = [("", ""), ("'", ""), ("", "' --"), ("x\"", "\"x")];
    let framed = frames
        .iter()
        .flat_map(|(before, after)| seeds.iter().map(move |seed| format!("{before}{seed}{after}")));
    framed.chain([String::new(), " ".to_owned()]).collect()
}

#[tokio::test]
async fn i01_two_hundred_injections_are_stored_and_compared_as_they_are_in_the_ledger() {
    on_both(async |place| {
        let store = place.open().await;
        let payloads = payloads();
        assert!(payloads.len() >= 200, "{}", payloads.len());
        let rows: Vec<Entry> = (0..)
            .zip(&payloads)
            .map(|(n, payload)| {
                let text = || payload.clone();
                Entry {
                    request_id: format!("{n}{payload}").into(),
                    at: n,
                    key_id: text().into(),
                    key_name: text().into(),
                    team: Some(text().into()),
                    operation: text().into(),
                    requested_model: text(),
                    model: text().into(),
                    provider: text().into(),
                    status: text().into(),
                    strategy: text().into(),
                    attempts: vec![Attempt {
                        provider: text().into(),
                        model: text().into(),
                        status: text().into(),
                        latency_ms: 1,
                        cost: Some(1),
                        started_ms: 0,
                        image_fetch_ms: 0,
                        known_part: 0,
                        reason: Some(text()),
                    }],
                    user: Some(text()),
                    client: Some(text()),
                    cost: 1,
                    ..Entry::default()
                }
            })
            .collect();
        store.record(&rows).await.unwrap();
        for row in &rows {
            let payload = &row.status;
            assert_eq!(store.request(&row.request_id).await.unwrap().as_ref(), Some(row), "{payload:?}");
            let one = || Some(payload.to_string());
            let filter = Filter {
                key_id: one(),
                team: one(),
                model: one(),
                provider: one(),
                status: one(),
                ..Filter::default()
            };
            assert_eq!(
                store.requests(&filter, None, 10).await.unwrap(),
                std::slice::from_ref(row),
                "{payload:?}"
            );
            let cursor = Cursor { at: row.at, request_id: row.request_id.clone() };
            assert!(store.requests(&filter, Some(&cursor), 10).await.unwrap().is_empty(), "{payload:?}");
            let filter = Filter { status: None, ..filter };
            assert_eq!(store.total(&filter).await.unwrap().requests, 1, "{payload:?}");
            assert_eq!(store.usage(GroupBy::Key, &filter).await.unwrap()[0].0, *payload);
            assert_eq!(store.spent(Spender::Key(payload), 0, i64::MAX).await.unwrap(), 1, "{payload:?}");
            assert_eq!(store.spent(Spender::Team(payload), 0, i64::MAX).await.unwrap(), 1, "{payload:?}");
        }
        assert_eq!(store.total(&Filter::default()).await.unwrap().requests, payloads.len() as u64);
    })
    .await;
}

#[tokio::test]
async fn i02_two_hundred_injections_are_stored_and_compared_as_they_are_in_keys_and_teams() {
    on_both(async |place| {
        let store = place.open().await;
        let payloads = payloads();
        for (n, payload) in (0..).zip(&payloads) {
            let mut key = NewKey::generate().unwrap().stored(payload, Role::Inference, n);
            key.models = Some(vec![payload.clone(), "acme/*".to_owned()]);
            (key.id, key.team, key.metadata) =
                (format!("{n}{payload}"), Some(payload.clone()), Some(payload.clone()));
            store.insert_key(&key).await.unwrap();
            assert!(store.key(&key.id).await.unwrap().as_ref() == Some(&key), "{payload:?}");
            let changed = store.change_key(&key.id, |key| key.name.push_str(payload)).await.unwrap().unwrap();
            assert!(store.key(&key.id).await.unwrap() == Some(changed), "{payload:?}");
            let team = Team { id: payload.clone(), limits: Limits::default(), created_at: n };
            store.put_team(&team).await.unwrap();
            assert_eq!(store.team(payload).await.unwrap(), Some(team), "{payload:?}");
        }
        assert_eq!(store.keys().await.unwrap().len(), payloads.len());
        assert_eq!(store.teams().await.unwrap().len(), payloads.len());
        for payload in &payloads {
            assert!(store.delete_team(payload).await.unwrap(), "{payload:?}");
        }
        assert!(store.teams().await.unwrap().is_empty());
    })
    .await;
}
