//! `[[store.keys]]` and `[[store.teams]]`.

use std::collections::BTreeSet;

use gw_store::{StoredKey, Team};
use secrecy::ExposeSecret;

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::settings::StoreContent;
use super::super::tree::Table;
use super::keys::limits;

/// Reads the keys and teams that a store gets if it does not have them.
pub(super) fn content(store: &Table, report: &mut ProblemReport) -> StoreContent {
    let mut seen = BTreeSet::new();
    let mut teams = Vec::new();
    for table in store.tables("teams") {
        let Some(id) = table.text("id") else { continue };
        if !seen.insert(id) {
            report.fault(table.position("id"), &table.path("id"), "is already the id of another team");
        }
        teams.push(Team { limits: limits(table, report), ..filled(Some(table)) });
    }
    let (mut ids, mut hashes, mut keys) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for table in store.tables("keys") {
        let (Some(id), Some(_), Some(hash)) =
            (table.text("id"), table.node("name"), hash_of(table, "key_hash"))
        else {
            continue;
        };
        if !ids.insert(id) {
            report.fault(table.position("id"), &table.path("id"), "is already the id of another key");
        }
        if !hashes.insert(hash) {
            report.fault(
                table.position("key_hash"),
                &table.path("key_hash"),
                "is also the hash of another key",
            );
        }
        let team = table.text("team");
        if team.as_ref().is_some_and(|team| !seen.contains(team)) {
            report.fault(table.position("team"), &table.path("team"), "is not in [[store.teams]]");
        }
        keys.push(StoredKey {
            hash,
            limits: limits(table, report),
            previous: hash_of(table, "previous_key_hash").zip(table.time("previous_valid_until")),
            ..filled(Some(table))
        });
    }
    StoreContent { keys, teams }
}

/// The bytes of 64 hexadecimal digits, which the schema has checked.
fn hash_of(table: &Table, key: &str) -> Option<[u8; 32]> {
    let text = table.secret(key)?.expose_secret();
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let bytes: Vec<u8> =
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    bytes.try_into().ok()
}
