//! The rows of keys and teams.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Role, StoredKey};
use crate::db::{Result, Store};
use crate::limits::{Budget, Limits, Period};

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

const KEY_COLUMNS: &str = "id, name, role, hash, models, created_at, expires_at, revoked_at, team, rpm, tpm, \
    max_in_flight, budget_nano, budget_period, metadata, previous_hash, previous_until";

impl Store {
    /// Every key ever made, revoked ones too, oldest first.
    pub async fn keys(&self) -> Result<Vec<StoredKey>> {
        let query = format!("SELECT {KEY_COLUMNS} FROM keys ORDER BY created_at, rowid");
        let rows = sqlx::query(sqlx::AssertSqlSafe(query)).fetch_all(self.pool()).await;
        let rows = rows.map_err(|error| self.error(error))?;
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(|error| self.error(error))
    }

    /// The key of this id.
    pub async fn key(&self, id: &str) -> Result<Option<StoredKey>> {
        let query = format!("SELECT {KEY_COLUMNS} FROM keys WHERE id = $1");
        let row = sqlx::query(sqlx::AssertSqlSafe(query)).bind(id).fetch_optional(self.pool()).await;
        let row = row.map_err(|error| self.error(error))?;
        row.as_ref().map(read).transpose().map_err(|error| self.error(error))
    }

    /// Keeps a new key; [`Error::Taken`](crate::Error::Taken) when its id or hash is already there.
    pub async fn insert_key(&self, key: &StoredKey) -> Result<()> {
        insert(key, self.pool()).await.map_err(|error| self.error(error))
    }

    /// Keeps these keys if the store has never had one; says whether it did. Atomic: of two programs that start at
    /// once on one file, one makes the keys.
    pub async fn insert_first_keys(&self, keys: &[StoredKey]) -> Result<bool> {
        self.first_keys(keys).await.map_err(|error| self.error(error))
    }

    async fn first_keys(&self, keys: &[StoredKey]) -> sqlx::Result<bool> {
        let mut transaction = self.pool().begin_with("BEGIN IMMEDIATE").await?;
        let any: bool = sqlx::query("SELECT EXISTS (SELECT 1 FROM keys)")
            .fetch_one(&mut *transaction)
            .await?
            .try_get(0)?;
        if any {
            transaction.rollback().await?;
            return Ok(false);
        }
        for key in keys {
            insert(key, &mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Writes a key over the one of its id; says whether there was one. When it was made stays.
    pub async fn update_key(&self, key: &StoredKey) -> Result<bool> {
        update(key, self.pool()).await.map_err(|error| self.error(error))
    }

    /// Changes the key of this id, and gives what it is then. Of two changes at one time the second sees the first:
    /// neither loses what the other wrote. Its id and when it was made stay.
    pub async fn change_key(
        &self,
        id: &str,
        change: impl FnOnce(&mut StoredKey) + Send,
    ) -> Result<Option<StoredKey>> {
        self.changing_key(id, change).await.map_err(|error| self.error(error))
    }

    async fn changing_key(
        &self,
        id: &str,
        change: impl FnOnce(&mut StoredKey) + Send,
    ) -> sqlx::Result<Option<StoredKey>> {
        let mut transaction = self.pool().begin_with("BEGIN IMMEDIATE").await?;
        let query = format!("SELECT {KEY_COLUMNS} FROM keys WHERE id = $1");
        let row = sqlx::query(sqlx::AssertSqlSafe(query)).bind(id).fetch_optional(&mut *transaction).await?;
        let Some(mut key) = row.as_ref().map(read).transpose()? else { return Ok(None) };
        let created_at = key.created_at;
        change(&mut key);
        id.clone_into(&mut key.id);
        key.created_at = created_at;
        update(&key, &mut *transaction).await?;
        transaction.commit().await?;
        Ok(Some(key))
    }

    /// Every team, by name.
    pub async fn teams(&self) -> Result<Vec<Team>> {
        let query = "SELECT id, rpm, tpm, max_in_flight, budget_nano, budget_period, created_at FROM teams ORDER BY id";
        let rows = sqlx::query(query).fetch_all(self.pool()).await.map_err(|error| self.error(error))?;
        rows.iter().map(read_team).collect::<sqlx::Result<_>>().map_err(|error| self.error(error))
    }

    /// The team of this name.
    pub async fn team(&self, id: &str) -> Result<Option<Team>> {
        let row = sqlx::query(ONE_TEAM).bind(id).fetch_optional(self.pool()).await;
        row.and_then(|row| row.as_ref().map(read_team).transpose()).map_err(|error| self.error(error))
    }

    /// Keeps a team, in place of the one of its name. When it was made stays.
    pub async fn put_team(&self, team: &Team) -> Result<()> {
        put_team(team, self.pool()).await.map_err(|error| self.error(error))
    }

    /// Changes the team of this name, as [`Store::change_key`] does a key.
    pub async fn change_team(&self, id: &str, change: impl FnOnce(&mut Team) + Send) -> Result<Option<Team>> {
        self.changing_team(id, change).await.map_err(|error| self.error(error))
    }

    async fn changing_team(
        &self,
        id: &str,
        change: impl FnOnce(&mut Team) + Send,
    ) -> sqlx::Result<Option<Team>> {
        let mut transaction = self.pool().begin_with("BEGIN IMMEDIATE").await?;
        let row = sqlx::query(ONE_TEAM).bind(id).fetch_optional(&mut *transaction).await?;
        let Some(mut team) = row.as_ref().map(read_team).transpose()? else { return Ok(None) };
        let created_at = team.created_at;
        change(&mut team);
        id.clone_into(&mut team.id);
        team.created_at = created_at;
        put_team(&team, &mut *transaction).await?;
        transaction.commit().await?;
        Ok(Some(team))
    }

    /// Forgets the team of this name; says whether there was one. Keys that name it stay as they are.
    pub async fn delete_team(&self, id: &str) -> Result<bool> {
        let done = sqlx::query("DELETE FROM teams WHERE id = $1").bind(id).execute(self.pool()).await;
        done.map(|done| done.rows_affected() > 0).map_err(|error| self.error(error))
    }
}

const ONE_TEAM: &str =
    "SELECT id, rpm, tpm, max_in_flight, budget_nano, budget_period, created_at FROM teams WHERE id = $1";

async fn put_team(team: &Team, on: impl sqlx::SqliteExecutor<'_>) -> sqlx::Result<()> {
    let put = "INSERT INTO teams (id, rpm, tpm, max_in_flight, budget_nano, budget_period, created_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET rpm = excluded.rpm, \
        tpm = excluded.tpm, max_in_flight = excluded.max_in_flight, budget_nano = excluded.budget_nano, \
        budget_period = excluded.budget_period";
    let limits = columns(&team.limits);
    let query = sqlx::query(put)
        .bind(&team.id)
        .bind(limits.rpm)
        .bind(limits.tpm)
        .bind(limits.max_in_flight)
        .bind(limits.budget)
        .bind(limits.period)
        .bind(team.created_at);
    query.execute(on).await.map(drop)
}

fn read_team(row: &SqliteRow) -> sqlx::Result<Team> {
    Ok(Team { id: row.try_get("id")?, limits: read_limits(row)?, created_at: row.try_get("created_at")? })
}

/// Limits as their columns.
struct Columns {
    rpm: Option<i64>,
    tpm: Option<i64>,
    max_in_flight: Option<i64>,
    budget: Option<i64>,
    period: Option<&'static str>,
}

fn columns(limits: &Limits) -> Columns {
    let int = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Columns {
        rpm: limits.rpm.map(i64::from),
        tpm: limits.tpm.map(int),
        max_in_flight: limits.max_in_flight.map(i64::from),
        budget: limits.budget.map(|budget| int(budget.nano)),
        period: limits.budget.map(|budget| budget.period.as_str()),
    }
}

fn read_limits(row: &SqliteRow) -> sqlx::Result<Limits> {
    let int = |column: &str| row.try_get::<Option<i64>, _>(column);
    let small = |column: &str| Ok::<_, sqlx::Error>(int(column)?.and_then(|count| u32::try_from(count).ok()));
    let large = |column: &str| Ok::<_, sqlx::Error>(int(column)?.and_then(|count| u64::try_from(count).ok()));
    let period: Option<String> = row.try_get("budget_period")?;
    let period = period.as_deref().and_then(Period::parse).unwrap_or_default();
    Ok(Limits {
        rpm: small("rpm")?,
        tpm: large("tpm")?,
        max_in_flight: small("max_in_flight")?,
        budget: large("budget_nano")?.map(|nano| Budget { nano, period }),
    })
}

fn models(key: &StoredKey) -> Option<String> {
    key.models.as_ref().map(|models| serde_json::Value::from(models.as_slice()).to_string())
}

fn split_previous(key: &StoredKey) -> (Option<&[u8]>, Option<i64>) {
    match &key.previous {
        Some((hash, until)) => (Some(hash.as_slice()), Some(*until)),
        None => (None, None),
    }
}

async fn update(key: &StoredKey, on: impl sqlx::SqliteExecutor<'_>) -> sqlx::Result<bool> {
    let update = "UPDATE keys SET name = $2, role = $3, hash = $4, models = $5, expires_at = $6, revoked_at = $7, \
        team = $8, rpm = $9, tpm = $10, max_in_flight = $11, budget_nano = $12, budget_period = $13, \
        metadata = $14, previous_hash = $15, previous_until = $16 WHERE id = $1";
    let (limits, (previous, until)) = (columns(&key.limits), split_previous(key));
    let query = sqlx::query(update)
        .bind(&key.id)
        .bind(&key.name)
        .bind(key.role.as_str())
        .bind(key.hash.as_slice())
        .bind(models(key))
        .bind(key.expires_at)
        .bind(key.revoked_at)
        .bind(&key.team)
        .bind(limits.rpm)
        .bind(limits.tpm)
        .bind(limits.max_in_flight)
        .bind(limits.budget)
        .bind(limits.period)
        .bind(&key.metadata)
        .bind(previous)
        .bind(until);
    Ok(query.execute(on).await?.rows_affected() > 0)
}

async fn insert(key: &StoredKey, on: impl sqlx::SqliteExecutor<'_>) -> sqlx::Result<()> {
    let query = format!(
        "INSERT INTO keys ({KEY_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"
    );
    let (limits, (previous, until)) = (columns(&key.limits), split_previous(key));
    let query = sqlx::query(sqlx::AssertSqlSafe(query))
        .bind(&key.id)
        .bind(&key.name)
        .bind(key.role.as_str())
        .bind(key.hash.as_slice())
        .bind(models(key))
        .bind(key.created_at)
        .bind(key.expires_at)
        .bind(key.revoked_at)
        .bind(&key.team)
        .bind(limits.rpm)
        .bind(limits.tpm)
        .bind(limits.max_in_flight)
        .bind(limits.budget)
        .bind(limits.period)
        .bind(&key.metadata)
        .bind(previous)
        .bind(until);
    query.execute(on).await.map(drop)
}

fn read(row: &SqliteRow) -> sqlx::Result<StoredKey> {
    let role: String = row.try_get("role")?;
    let models: Option<String> = row.try_get("models")?;
    let hash: Vec<u8> = row.try_get("hash")?;
    let previous: Option<Vec<u8>> = row.try_get("previous_hash")?;
    let odd =
        |column: &str| sqlx::Error::Decode(format!("keys.{column} is not what this program writes").into());
    let until: Option<i64> = row.try_get("previous_until")?;
    Ok(StoredKey {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        role: Role::parse(&role).ok_or_else(|| odd("role"))?,
        hash: hash.try_into().map_err(|_| odd("hash"))?,
        models: models.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| odd("models"))?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        revoked_at: row.try_get("revoked_at")?,
        team: row.try_get("team")?,
        limits: read_limits(row)?,
        metadata: row.try_get("metadata")?,
        previous: previous.and_then(|hash| hash.try_into().ok()).zip(until),
    })
}
