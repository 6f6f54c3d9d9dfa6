//! The rows of keys and teams.

use super::{Role, StoredKey};
use crate::audit::AuditRecord;
use crate::db::{Result, Store, WriteTransaction};
use crate::limits::{Budget, Limits, OnBudget, Period, UnpricedPolicy};
use crate::sql::{Row, Sql};

/// A team: its limits and its budget apply above those of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// The team's name.
    pub id: String,
    /// The limits of all its keys together.
    pub limits: Limits,
    /// Creation time in unix seconds.
    pub created_at: i64,
}

/// The first statement of every change of a key or a team. A concurrent change waits here until it sees the first one.
pub(crate) const SERIALISE_CHANGES: &str = "UPDATE revision SET number = number + 1";

/// A row that can be read, edited and written back.
trait EditableRow: Clone {
    /// Selects the row by its id.
    const SELECT: &'static str;

    /// Reads a row.
    fn read(row: &Row) -> sqlx::Result<Self>;

    /// The statement that writes an edited row back.
    fn write_back(&self) -> Sql<'_>;

    /// Restores the columns that no edit may change.
    fn restore_identity(&mut self, old: Self);
}

impl EditableRow for StoredKey {
    const SELECT: &'static str = "SELECT * FROM keys WHERE id = $1";

    fn read(row: &Row) -> sqlx::Result<Self> {
        read_key(row, UnknownPeriod::Fails)
    }

    fn write_back(&self) -> Sql<'_> {
        update(self)
    }

    fn restore_identity(&mut self, old: Self) {
        (self.id, self.created_at) = (old.id, old.created_at);
    }
}

impl EditableRow for Team {
    const SELECT: &'static str = "SELECT * FROM teams WHERE id = $1";

    fn read(row: &Row) -> sqlx::Result<Self> {
        read_team(row, UnknownPeriod::Fails)
    }

    fn write_back(&self) -> Sql<'_> {
        put(self)
    }

    fn restore_identity(&mut self, old: Self) {
        (self.id, self.created_at) = (old.id, old.created_at);
    }
}

impl Store {
    /// Every key that was ever created, including revoked ones, oldest first. A budget whose period only a newer program knows
    /// grants nothing.
    pub async fn keys(&self) -> Result<Vec<StoredKey>> {
        self.list(Sql::new("SELECT * FROM keys ORDER BY created_at, rowid"), |row| {
            read_key(row, UnknownPeriod::Closes)
        })
        .await
    }

    /// The key with this id.
    pub async fn key(&self, id: &str) -> Result<Option<StoredKey>> {
        self.first(Sql::new(StoredKey::SELECT).text(id), StoredKey::read).await
    }

    /// Inserts a new key; [`Error::Taken`](crate::Error::Taken) if its id or hash exists already.
    pub async fn insert_key(&self, key: &StoredKey) -> Result<()> {
        self.run(insert(key)).await.map(drop)
    }

    /// As [`Store::insert_key`], with a record in the audit log.
    pub async fn insert_key_recorded(&self, key: &StoredKey, record: &AuditRecord) -> Result<()> {
        self.run_recorded(insert(key), record).await.map(drop)
    }

    /// Inserts the keys of a first start and returns the ids of the inserted ones: all keys if the store has never had a
    /// key, the admin keys if it has never had an admin key, otherwise none. Atomic: of several processes that start on one
    /// store at the same time, one inserts the keys.
    pub async fn insert_first_keys(&self, keys: &[StoredKey]) -> Result<Vec<String>> {
        self.first_keys(self.begin().await?, keys).await.map_err(|error| self.error(&error))
    }

    async fn first_keys(
        &self,
        mut change: WriteTransaction<'_>,
        keys: &[StoredKey],
    ) -> sqlx::Result<Vec<String>> {
        change.run(Sql::new(SERIALISE_CHANGES)).await?;
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

    /// Overwrites the key with the same id, except its creation time; returns whether it exists.
    pub async fn update_key(&self, key: &StoredKey) -> Result<bool> {
        Ok(self.run(update(key)).await? > 0)
    }

    /// Edits the key with this id and returns the new state. Of two concurrent edits the second sees the first, so no
    /// change is lost. The id and the creation time cannot be edited.
    pub async fn change_key(
        &self,
        id: &str,
        edit: impl FnOnce(&mut StoredKey) + Send,
    ) -> Result<Option<StoredKey>> {
        let edited = self.edit_row(self.begin().await?, id, edit, |_: &_, _: &_| None).await;
        edited.map_err(|error| self.error(&error))
    }

    /// As [`Store::change_key`], with a record of the key before and after the change in the audit log.
    pub async fn change_key_recorded(
        &self,
        id: &str,
        edit: impl FnOnce(&mut StoredKey) + Send,
        record: impl FnOnce(&StoredKey, &StoredKey) -> AuditRecord + Send,
    ) -> Result<Option<StoredKey>> {
        let record = |before: &StoredKey, after: &StoredKey| Some(record(before, after));
        let edited = self.edit_row(self.begin().await?, id, edit, record).await;
        edited.map_err(|error| self.error(&error))
    }

    async fn edit_row<R: EditableRow>(
        &self,
        mut change: WriteTransaction<'_>,
        id: &str,
        edit: impl FnOnce(&mut R) + Send,
        record: impl FnOnce(&R, &R) -> Option<AuditRecord> + Send,
    ) -> sqlx::Result<Option<R>> {
        change.run(Sql::new(SERIALISE_CHANGES)).await?;
        let rows = change.all(Sql::new(R::SELECT).text(id)).await?;
        let Some(old) = rows.first().map(R::read).transpose()? else {
            change.rollback().await?;
            return Ok(None);
        };
        let mut row = old.clone();
        edit(&mut row);
        row.restore_identity(old.clone());
        change.run(row.write_back()).await?;
        if let Some(record) = record(&old, &row) {
            change.append(&record).await?;
        }
        change.commit().await?;
        Ok(Some(row))
    }

    /// All teams, by name.
    pub async fn teams(&self) -> Result<Vec<Team>> {
        self.list(Sql::new("SELECT * FROM teams ORDER BY id"), |row| read_team(row, UnknownPeriod::Closes))
            .await
    }

    /// The team with this name.
    pub async fn team(&self, id: &str) -> Result<Option<Team>> {
        self.first(Sql::new(Team::SELECT).text(id), Team::read).await
    }

    /// Inserts a team or overwrites the one with the same name, except its creation time.
    pub async fn put_team(&self, team: &Team) -> Result<()> {
        self.run(put(team)).await.map(drop)
    }

    /// As [`Store::put_team`], with a record in the audit log.
    pub async fn put_team_recorded(&self, team: &Team, record: &AuditRecord) -> Result<()> {
        self.run_recorded(put(team), record).await.map(drop)
    }

    /// Edits the team with this name, as [`Store::change_key`] edits a key.
    pub async fn change_team(&self, id: &str, edit: impl FnOnce(&mut Team) + Send) -> Result<Option<Team>> {
        let edited = self.edit_row(self.begin().await?, id, edit, |_: &_, _: &_| None).await;
        edited.map_err(|error| self.error(&error))
    }

    /// As [`Store::delete_team`], with a record in the audit log.
    pub async fn delete_team_recorded(&self, id: &str, record: &AuditRecord) -> Result<bool> {
        Ok(self.run_recorded(Sql::new("DELETE FROM teams WHERE id = $1").text(id), record).await? > 0)
    }

    /// Deletes the team with this name; returns whether it existed. Keys that name it stay unchanged.
    pub async fn delete_team(&self, id: &str) -> Result<bool> {
        Ok(self.run(Sql::new("DELETE FROM teams WHERE id = $1").text(id)).await? > 0)
    }
}

fn limits<'q>(sql: Sql<'q>, limits: &Limits) -> Sql<'q> {
    let int = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    sql.int(limits.rpm.map(i64::from))
        .int(limits.tpm.map(int))
        .int(limits.max_in_flight.map(i64::from))
        .int(limits.budget.map(|budget| int(budget.nano)))
        .text(limits.budget.map(|budget| budget.period.as_str()))
        .int(limits.burst.map(i64::from))
        .text(Some(limits.on_budget).filter(|way| *way != OnBudget::default()).map(OnBudget::as_str))
        .text(
            Some(limits.unpriced).filter(|way| *way != UnpricedPolicy::default()).map(UnpricedPolicy::as_str),
        )
}

/// The treatment of a period that a newer program has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownPeriod {
    /// The row cannot be read, so that no edit overwrites the period.
    Fails,
    /// The budget grants nothing. All other rows are read.
    Closes,
}

/// A budget that grants nothing.
const CLOSED: Budget = Budget { nano: 0, period: Period::Total };

fn read_limits(row: &Row, unknown: UnknownPeriod) -> sqlx::Result<Limits> {
    let int = |column: &str| row.get::<Option<i64>>(column);
    let small = |column: &str| Ok::<_, sqlx::Error>(int(column)?.and_then(|count| u32::try_from(count).ok()));
    let large = |column: &str| Ok::<_, sqlx::Error>(int(column)?.and_then(|count| u64::try_from(count).ok()));
    let period: Option<String> = row.get("budget_period")?;
    let period = match period.as_deref().map(Period::parse) {
        None => Some(Period::default()),
        Some(known @ Some(_)) => known,
        Some(None) if unknown == UnknownPeriod::Closes => None,
        Some(None) => return Err(sqlx::Error::Decode("budget_period holds an unknown value".into())),
    };
    let budget = |nano| period.map_or(CLOSED, |period| Budget { nano, period });
    let on_budget: Option<String> = row.get("on_budget")?;
    let unpriced: Option<String> = row.get("unpriced")?;
    Ok(Limits {
        rpm: small("rpm")?,
        burst: small("burst")?,
        tpm: large("tpm")?,
        max_in_flight: small("max_in_flight")?,
        budget: large("budget_nano")?.map(budget),
        on_budget: on_budget.as_deref().and_then(OnBudget::parse).unwrap_or_default(),
        unpriced: unpriced.as_deref().and_then(UnpricedPolicy::parse).unwrap_or_default(),
    })
}

fn put(team: &Team) -> Sql<'_> {
    let put = "INSERT INTO teams (id, rpm, tpm, max_in_flight, budget_nano, budget_period, burst, \
        on_budget, unpriced, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO UPDATE SET rpm = excluded.rpm, \
        tpm = excluded.tpm, max_in_flight = excluded.max_in_flight, budget_nano = excluded.budget_nano, \
        budget_period = excluded.budget_period, burst = excluded.burst, on_budget = excluded.on_budget, \
        unpriced = excluded.unpriced";
    limits(Sql::new(put).text(&*team.id), &team.limits).int(team.created_at)
}

fn read_team(row: &Row, unknown: UnknownPeriod) -> sqlx::Result<Team> {
    Ok(Team { id: row.get("id")?, limits: read_limits(row, unknown)?, created_at: row.get("created_at")? })
}

fn update(key: &StoredKey) -> Sql<'_> {
    let update = "UPDATE keys SET name = $2, role = $3, hash = $4, models = $5, expires_at = $6, revoked_at = $7, \
        team = $8, rpm = $9, tpm = $10, max_in_flight = $11, budget_nano = $12, budget_period = $13, \
        burst = $14, on_budget = $15, unpriced = $16, metadata = $17, previous_hash = $18, previous_until = $19, \
        log_payloads = $20, trust_attribution = $21 WHERE id = $1";
    rest(Sql::new(update).text(&*key.id), key)
}

fn insert(key: &StoredKey) -> Sql<'_> {
    let insert = "INSERT INTO keys (created_at, id, name, role, hash, models, expires_at, revoked_at, team, rpm, tpm, \
        max_in_flight, budget_nano, budget_period, burst, on_budget, unpriced, metadata, previous_hash, previous_until, \
        log_payloads, trust_attribution) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)";
    rest(Sql::new(insert).int(key.created_at).text(&*key.id), key)
}

/// Binds the columns that inserting and updating a key share.
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
        .int(i64::from(key.trust_attribution))
}

fn read_key(row: &Row, unknown: UnknownPeriod) -> sqlx::Result<StoredKey> {
    let role: String = row.get("role")?;
    let models: Option<String> = row.get("models")?;
    let hash: Vec<u8> = row.get("hash")?;
    let previous: Option<Vec<u8>> = row.get("previous_hash")?;
    let odd = |column: &str| sqlx::Error::Decode(format!("keys.{column} holds an unknown value").into());
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
        limits: read_limits(row, unknown)?,
        log_payloads: row.get::<i64>("log_payloads")? != 0,
        trust_attribution: row.get::<i64>("trust_attribution")? != 0,
        metadata: row.get("metadata")?,
        previous: previous.and_then(|hash| hash.try_into().ok()).zip(until),
    })
}

#[cfg(test)]
mod tests;
