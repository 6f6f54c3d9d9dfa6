//! `[[store.keys]]` and `[[store.teams]]`.

use std::collections::BTreeSet;

use gw_store::{StoredKey, Team};

use super::super::binding::filled;
use super::super::problems::ProblemReport;
use super::super::settings::StoreContent;
use super::super::tree::Table;
use super::keys::limits;

/// Reads the keys and teams that a store gets if it does not have them.
pub(super) fn content(root: &Table, report: &mut ProblemReport) -> StoreContent {
    let Some(store) = root.table("store") else { return StoreContent::default() };
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
        let is_whole = ["id", "name", "key_hash"].iter().all(|key| table.node(key).is_some());
        if !is_whole {
            continue;
        }
        let mut key = StoredKey { limits: limits(table, report), ..filled(Some(table)) };
        if !ids.insert(key.id.clone()) {
            report.fault(table.position("id"), &table.path("id"), "is already the id of another key");
        }
        if !hashes.insert(key.hash) {
            report.fault(
                table.position("key_hash"),
                &table.path("key_hash"),
                "is also the hash of another key",
            );
        }
        // The team of a revoked key may be deleted.
        if key.revoked_at.is_none() && key.team.as_ref().is_some_and(|team| !seen.contains(team)) {
            report.fault(table.position("team"), &table.path("team"), "is not in [[store.teams]]");
        }
        // Both keys of the earlier secret are needed.
        key.previous = key.previous.filter(|_| table.node("previous_valid_until").is_some());
        keys.push(key);
    }
    StoreContent { keys, teams }
}
