//! Teams: limits and a budget above those of their keys.

use gw_store::audit::AuditRecord;
use gw_store::ledger::GroupBy;
use gw_store::{StoredKey, Team};
use gw_wire::request::fields::{Path, invalid_value};
use serde::Serialize;

use crate::body::parse_team_limits;
use crate::ids::is_team_id;
use crate::json::{DeletedObject, LimitsObject, ListObject};
use crate::records::Records;
use crate::requester::Requester;
use crate::response::{AdminResponse, AdminResult};
use crate::spending::{spent_by_each, spent_by_one};
use crate::time::format_seconds;

#[derive(Serialize)]
struct TeamObject<'a> {
    object: &'static str,
    id: &'a str,
    #[serde(flatten)]
    limits: LimitsObject,
    /// The number of its keys that are not revoked.
    keys: usize,
    created_at: String,
}

#[derive(Serialize)]
struct AuditedTeam<'a> {
    object: &'static str,
    id: &'a str,
    #[serde(flatten)]
    limits: LimitsObject,
}

impl<'a> TeamObject<'a> {
    fn new(team: &'a Team, keys: &[StoredKey], spent: i128, now: i64) -> Self {
        Self {
            object: "team",
            id: &team.id,
            limits: LimitsObject::new(&team.limits, spent, now),
            keys: count_keys(keys, &team.id),
            created_at: format_seconds(team.created_at),
        }
    }
}

/// Counts the keys of a team that are not revoked.
fn count_keys(keys: &[StoredKey], team: &str) -> usize {
    keys.iter().filter(|key| key.revoked_at.is_none() && key.team.as_deref() == Some(team)).count()
}

/// `GET /admin/v1/teams` at the time `now` (unix seconds).
pub(crate) async fn list_teams(records: &Records, now: i64) -> AdminResult {
    let (teams, keys) = (records.store.teams().await?, records.store.keys().await?);
    let limits: Vec<_> = teams.iter().map(|team| (&*team.id, team.limits)).collect();
    let spent = spent_by_each(&records.store, GroupBy::Team, &limits, now).await?;
    let objects = teams.iter().map(|team| {
        let spent = spent.get(&team.id).copied().unwrap_or_default();
        TeamObject::new(team, &keys, spent, now)
    });
    AdminResponse::json(&ListObject::new(objects.collect(), None))
}

/// `GET /admin/v1/teams/{id}` at the time `now` (unix seconds).
pub(crate) async fn show_team(records: &Records, id: &str, now: i64) -> AdminResult {
    let team = records.team(id).await?;
    let spent = spent_by_one(&records.store, GroupBy::Team, id, &team.limits, now).await?;
    AdminResponse::json(&TeamObject::new(&team, &records.store.keys().await?, spent, now))
}

/// `PUT /admin/v1/teams/{id}` at the time `now` (unix seconds).
pub(crate) async fn put_team(
    records: &Records,
    requester: &Requester,
    id: &str,
    body: &[u8],
    now: i64,
) -> AdminResult {
    if !is_team_id(id) {
        let message = "a team id consists of 1 to 64 of the characters A-Z, a-z, 0-9, '.', '_' and '-'.";
        return Err(invalid_value(&Path::Top("id"), message).into());
    }
    let team = Team { id: id.to_owned(), limits: parse_team_limits(body)?, created_at: now };
    let before = records.store.team(id).await?;
    let is_new = before.is_none();
    let record = AuditRecord {
        before: before.as_ref().and_then(|team| audited(team, now)),
        after: audited(&team, now),
        ..requester.record("team.put", id)
    };
    records.store.put_team_recorded(&team, &record).await?;
    show_team(records, id, now).await.map(|response| AdminResponse { is_new, ..response })
}

/// The team as the audit log shows it, without its spending.
fn audited(team: &Team, now: i64) -> Option<String> {
    let limits = LimitsObject::new(&team.limits, 0, now).without_spending();
    serde_json::to_string(&AuditedTeam { object: "team", id: &team.id, limits }).ok()
}

/// `DELETE /admin/v1/teams/{id}` at the time `now` (unix seconds).
pub(crate) async fn delete_team(records: &Records, requester: &Requester, id: &str, now: i64) -> AdminResult {
    let team = records.team(id).await?;
    let keys = count_keys(&records.store.keys().await?, id);
    if keys > 0 {
        let message = format!("the team still has {keys} key(s); revoke them or move them to another team.");
        return Err(invalid_value(&Path::Top("id"), &message).into());
    }
    let record = AuditRecord { before: audited(&team, now), ..requester.record("team.delete", id) };
    records.store.delete_team_recorded(id, &record).await?;
    AdminResponse::json(&DeletedObject::new("team", id))
}
