//! The rows of keys and teams.

use super::{Role, StoredKey};
use crate::db::{Change, Result, Store};
use crate::limits::{Budget, Limits, OnBudget, Period};
use crate::sql::{Row, Sql};

/// A team: limits and a budget of its own above those of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// Its name.
    pub id: String,
    /// What all its keys together may use.
    pub limits: Limits,
    /// When it was made, unix seconds.
    pub created_at: i64,
}

/// Every change of a key or a team begins with it: of two at one time, the second waits here until it sees the first.
const ONE_AT_A_TIME: &str = "UPDATE revision SET number = number + 1";

impl Store {
    /// Every key ever made, revoked ones too, oldest first.
    pub async fn keys(&self) -> Result<Vec<StoredKey>> {
        self.list(Sql::new("SELECT * FROM keys ORDER BY created_at, rowid"), read).await
    }

    /// The key of this id.
    pub async fn key(&self, id: &str) -> Result<Option<StoredKey>> {
        self.first(Sql::new(ONE_KEY).text(id), read).await
    }

    /// Keeps a new key; [`Error::Taken`](crate::Error::Taken) when its id or hash is already there.
    pub async fn insert_key(&self, key: &StoredKey) -> Result<()> {
        self.run(insert(key)).await.map(drop)
    }

    /// Keeps the keys of a first start, and gives the ids of those it kept: all of them if the store has never had a key, those
    /// of role admin if it has never had an admin key, otherwise none. Atomic: of programs that start at once on one store,
    /// one makes the keys.
    pub async fn insert_first_keys(&self, keys: &[StoredKey]) -> Result<Vec<String>> {
        self.first_keys(self.begin().await?, keys).await.map_err(|error| self.error(&error))
    }

    async fn first_keys(&self, mut change: Change<'_>, keys: &[StoredKey]) -> sqlx::Result<Vec<String>> {
        change.run(Sql::new(ONE_AT_A_TIME)).await?;
        let admin = Sql::new("SELECT id FROM keys WHERE role = $1 LIMIT 1").text(Role::Admin.as_str());
        if !change.all(admin).await?.is_empty() {
            change.rollback().await?;
            return Ok(Vec::new());
        }
        let is_empty = change.all(Sql::new("SELECT id FROM keys LIMIT 1")).await?.is_empty();
        let mut kept = Vec::new();
        for key in keys.iter().filter(|key| is_empty || key.role == Role::Admin) {
            change.run(insert(key)).await?;
            kept.push(key.id.clone());
        }
        change.commit().await?;
        Ok(kept)
    }

    /// Writes a key over the one of its id; says whether there was one. When it was made stays.
    pub async fn update_key(&self, key: &StoredKey) -> Result<bool> {
        Ok(self.run(update(key)).await? > 0)
    }

    /// Changes the key of this id, and gives what it is then. Of two changes at one time the second sees the first:
    /// neither loses what the other wrote. Its id and when it was made stay.
    pub async fn change_key(
        &self,
        id: &str,
        edit: impl FnOnce(&mut StoredKey) + Send,
    ) -> Result<Option<StoredKey>> {
        self.edit_key(self.begin().await?, id, edit).await.map_err(|error| self.error(&error))
    }

    async fn edit_key(
        &self,
        mut change: Change<'_>,
        id: &str,
        edit: impl FnOnce(&mut StoredKey) + Send,
    ) -> sqlx::Result<Option<StoredKey>> {
        change.run(Sql::new(ONE_AT_A_TIME)).await?;
        let rows = change.all(Sql::new(ONE_KEY).text(id)).await?;
        let Some(old) = rows.first().map(read).transpose()? else {
            change.rollback().await?;
            return Ok(None);
        };
        let mut key = old.clone();
        edit(&mut key);
        (key.id, key.created_at) = (old.id, old.created_at);
        change.run(update(&key)).await?;
        change.commit().await?;
        Ok(Some(key))
    }

    /// Every team, by name.
    pub async fn teams(&self) -> Result<Vec<Team>> {
        self.list(Sql::new("SELECT * FROM teams ORDER BY id"), read_team).await
    }

    /// The team of this name.
    pub async fn team(&self, id: &str) -> Result<Option<Team>> {
        self.first(Sql::new(ONE_TEAM).text(id), read_team).await
    }

    /// Keeps a team, in place of the one of its name. When it was made stays.
    pub async fn put_team(&self, team: &Team) -> Result<()> {
        self.run(put(team)).await.map(drop)
    }

    /// Changes the team of this name, as [`Store::change_key`] does a key.
    pub async fn change_team(&self, id: &str, edit: impl FnOnce(&mut Team) + Send) -> Result<Option<Team>> {
        self.edit_team(self.begin().await?, id, edit).await.map_err(|error| self.error(&error))
    }

    async fn edit_team(
        &self,
        mut change: Change<'_>,
        id: &str,
        edit: impl FnOnce(&mut Team) + Send,
    ) -> sqlx::Result<Option<Team>> {
        change.run(Sql::new(ONE_AT_A_TIME)).await?;
        let rows = change.all(Sql::new(ONE_TEAM).text(id)).await?;
        let Some(old) = rows.first().map(read_team).transpose()? else {
            change.rollback().await?;
            return Ok(None);
        };
        let mut team = old.clone();
        edit(&mut team);
        (team.id, team.created_at) = (old.id, old.created_at);
        change.run(put(&team)).await?;
        change.commit().await?;
        Ok(Some(team))
    }

    /// Forgets the team of this name; says whether there was one. Keys that name it stay as they are.
    pub async fn delete_team(&self, id: &str) -> Result<bool> {
        Ok(self.run(Sql::new("DELETE FROM teams WHERE id = $1").text(id)).await? > 0)
    }
}

const ONE_KEY: &str = "SELECT * FROM keys WHERE id = $1";
const ONE_TEAM: &str = "SELECT * FROM teams WHERE id = $1";

fn limits<'q>(sql: Sql<'q>, limits: &Limits) -> Sql<'q> {
    let int = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    sql.int(limits.rpm.map(i64::from))
        .int(limits.tpm.map(int))
        .int(limits.max_in_flight.map(i64::from))
        .int(limits.budget.map(|budget| int(budget.nano)))
        .text(limits.budget.map(|budget| budget.period.as_str()))
        .int(limits.burst.map(i64::from))
        .text(Some(limits.on_budget).filter(|way| *way != OnBudget::default()).map(OnBudget::as_str))
}

fn read_limits(row: &Row) -> sqlx::Result<Limits> {
    let int = |column: &str| row.get::<Option<i64>>(column);
    let small = |column: &str| Ok::<_, sqlx::Error>(int(column)?.and_then(|count| u32::try_from(count).ok()));
    let large = |column: &str| Ok::<_, sqlx::Error>(int(column)?.and_then(|count| u64::try_from(count).ok()));
    let period: Option<String> = row.get("budget_period")?;
    let period = period.as_deref().and_then(Period::parse).unwrap_or_default();
    let on_budget: Option<String> = row.get("on_budget")?;
    Ok(Limits {
        rpm: small("rpm")?,
        burst: small("burst")?,
        tpm: large("tpm")?,
        max_in_flight: small("max_in_flight")?,
        budget: large("budget_nano")?.map(|nano| Budget { nano, period }),
        on_budget: on_budget.as_deref().and_then(OnBudget::parse).unwrap_or_default(),
    })
}

fn put(team: &Team) -> Sql<'_> {
    let put = "INSERT INTO teams (id, rpm, tpm, max_in_flight, budget_nano, budget_period, burst, \
        on_budget, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO UPDATE SET rpm = excluded.rpm, \
        tpm = excluded.tpm, max_in_flight = excluded.max_in_flight, budget_nano = excluded.budget_nano, \
        budget_period = excluded.budget_period, burst = excluded.burst, on_budget = excluded.on_budget";
    limits(Sql::new(put).text(&*team.id), &team.limits).int(team.created_at)
}

fn read_team(row: &Row) -> sqlx::Result<Team> {
    Ok(Team { id: row.get("id")?, limits: read_limits(row)?, created_at: row.get("created_at")? })
}

fn update(key: &StoredKey) -> Sql<'_> {
    let update = "UPDATE keys SET name = $2, role = $3, hash = $4, models = $5, expires_at = $6, revoked_at = $7, \
        team = $8, rpm = $9, tpm = $10, max_in_flight = $11, budget_nano = $12, budget_period = $13, \
        burst = $14, on_budget = $15, metadata = $16, previous_hash = $17, previous_until = $18, \
        log_payloads = $19 WHERE id = $1";
    rest(Sql::new(update).text(&*key.id), key)
}

fn insert(key: &StoredKey) -> Sql<'_> {
    let insert = "INSERT INTO keys (created_at, id, name, role, hash, models, expires_at, revoked_at, team, rpm, tpm, \
        max_in_flight, budget_nano, budget_period, burst, on_budget, metadata, previous_hash, previous_until, \
        log_payloads) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
    rest(Sql::new(insert).int(key.created_at).text(&*key.id), key)
}

/// What inserting and updating have in common.
fn rest<'q>(sql: Sql<'q>, key: &'q StoredKey) -> Sql<'q> {
    let models = key.models.as_ref().map(|models| serde_json::Value::from(models.as_slice()).to_string());
    let sql = sql
        .text(&*key.name)
        .text(key.role.as_str())
        .bytes(key.hash.as_slice())
        .owned(models)
        .int(key.expires_at)
        .int(key.revoked_at)
        .text(key.team.as_deref());
    limits(sql, &key.limits)
        .text(key.metadata.as_deref())
        .bytes(key.previous.as_ref().map(|(hash, _)| hash.as_slice()))
        .int(key.previous.as_ref().map(|(_, until)| *until))
        .int(i64::from(key.log_payloads))
}

fn read(row: &Row) -> sqlx::Result<StoredKey> {
    let role: String = row.get("role")?;
    let models: Option<String> = row.get("models")?;
    let hash: Vec<u8> = row.get("hash")?;
    let previous: Option<Vec<u8>> = row.get("previous_hash")?;
    let odd =
        |column: &str| sqlx::Error::Decode(format!("keys.{column} is not what this program writes").into());
    let until: Option<i64> = row.get("previous_until")?;
    Ok(StoredKey {
        id: row.get("id")?,
        name: row.get("name")?,
        role: Role::parse(&role).ok_or_else(|| odd("role"))?,
        hash: hash.try_into().map_err(|_| odd("hash"))?,
        models: models.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| odd("models"))?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        revoked_at: row.get("revoked_at")?,
        team: row.get("team")?,
        limits: read_limits(row)?,
        log_payloads: row.get::<i64>("log_payloads")? != 0,
        metadata: row.get("metadata")?,
        previous: previous.and_then(|hash| hash.try_into().ok()).zip(until),
    })
}

#[cfg(test)]
mod tests;
