//! Teams: limits and a budget of their own above those of their keys.

use gw_store::ledger::GroupBy;
use gw_store::{StoredKey, Team};
use gw_wire::request::fields::{Path, invalid_value};
use serde::Serialize;

use super::body;
use super::write::{self, Deleted, LimitsObject, List, time};
use super::{Answer, Books, Document, Fault};
use crate::catalog::query::shown;
use crate::error::{Error, Kind};

#[derive(Serialize)]
struct TeamObject<'a> {
    object: &'static str,
    id: &'a str,
    #[serde(flatten)]
    limits: LimitsObject,
    /// Its keys that are not revoked.
    keys: usize,
    created_at: String,
}

impl<'a> TeamObject<'a> {
    fn new(team: &'a Team, keys: &[StoredKey], spent: i128, now: i64) -> Self {
        Self {
            object: "team",
            id: &team.id,
            limits: LimitsObject::new(&team.limits, spent, now),
            keys: members(keys, &team.id),
            created_at: time(team.created_at),
        }
    }
}

/// How many keys of the team are not revoked.
fn members(keys: &[StoredKey], team: &str) -> usize {
    keys.iter().filter(|key| key.revoked_at.is_none() && key.team.as_deref() == Some(team)).count()
}

impl Books {
    pub(super) async fn list_teams(&self, now: i64) -> Answer {
        let (teams, keys) = (self.store.teams().await?, self.store.keys().await?);
        let limits: Vec<_> = teams.iter().map(|team| (&*team.id, team.limits)).collect();
        let spent = self.spent(GroupBy::Team, &limits, now).await?;
        let data: Vec<_> = teams
            .iter()
            .map(|team| TeamObject::new(team, &keys, spent.get(&team.id).copied().unwrap_or_default(), now))
            .collect();
        write::document(&List::new(data, None))
    }

    pub(super) async fn show_team(&self, id: &str, now: i64) -> Answer {
        let team = self.known_team(id).await?;
        let spent = self.spent_by(GroupBy::Team, id, &team.limits, now).await?;
        write::document(&TeamObject::new(&team, &self.store.keys().await?, spent, now))
    }

    pub(super) async fn put_team(&self, id: &str, body: &[u8], now: i64) -> Answer {
        if !body::is_team_id(id) {
            let what = "a team's id has 1 to 64 of the characters A-Z, a-z, 0-9, '.', '_' and '-'.";
            return Err(invalid_value(&Path::Top("id"), what).into());
        }
        let team = Team { id: id.to_owned(), limits: body::team(body)?, created_at: now };
        let is_new = self.store.team(id).await?.is_none();
        self.store.put_team(&team).await?;
        self.show_team(id, now).await.map(|document| Document { is_new, ..document })
    }

    pub(super) async fn delete_team(&self, id: &str) -> Answer {
        self.known_team(id).await?;
        let keys = members(&self.store.keys().await?, id);
        if keys > 0 {
            let what = format!("the team still has {keys} key(s); revoke them or give them to another team.");
            return Err(invalid_value(&Path::Top("id"), &what).into());
        }
        self.store.delete_team(id).await?;
        write::document(&Deleted { object: "team", id, deleted: true })
    }

    /// The team of this id.
    pub(super) async fn known_team(&self, id: &str) -> Result<Team, Fault> {
        let found = if body::is_team_id(id) { self.store.team(id).await? } else { None };
        found.ok_or_else(|| no_team(id).into())
    }
}

/// The 404 for a team that is not there.
pub(super) fn no_team(id: &str) -> Error {
    Error::new(Kind::NotFound, format!("There is no team '{}'.", shown(id)))
}
