//! The configuration that was made over the API: its entries, its history and its encrypted secrets. The store does not
//! interpret the values.

use crate::audit::AuditRecord;
use crate::db::{Error, Result, Store, WriteTransaction};
use crate::keys::{SERIALISE_CHANGES, StoredKey, Team};
use crate::sql::{Row, Sql};

/// The most changes that the history keeps.
const MAX_CHANGES: i64 = 1_000;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredEntry {
    /// The section, such as `providers`.
    pub section: String,
    /// The name in the section. Empty: the section is one table.
    pub name: String,
    /// JSON.
    pub value: String,
    /// The number of the change that made the value.
    pub version: i64,
}

/// A change of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationChange {
    /// The number of the change. Later changes have greater ones.
    pub version: i64,
    /// Unix seconds.
    pub changed_at: i64,
    /// The id of the key that made the change.
    pub actor: String,
    /// The section of the entry.
    pub section: String,
    /// The name of the entry.
    pub name: String,
    /// The JSON before the change. None: there was no entry.
    pub before: Option<String>,
    /// The JSON after the change. None: the entry is removed.
    pub after: Option<String>,
    /// The number of the change that this one undoes.
    pub undoes: Option<i64>,
}

/// An encrypted secret of an entry. Its id is part of what is authenticated.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// The id of the row.
    pub id: String,
    /// The encrypted secret.
    pub sealed: String,
}

impl std::fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedSecret").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Store {
    /// All entries, by section and name.
    pub async fn configuration(&self) -> Result<Vec<ConfiguredEntry>> {
        let select = "SELECT * FROM configuration ORDER BY section, name";
        self.list(Sql::new(select), read_entry).await
    }

    /// The encrypted secrets of all entries and of the history.
    pub async fn configuration_secrets(&self) -> Result<Vec<SealedSecret>> {
        let read = |row: &Row| Ok(SealedSecret { id: row.get("id")?, sealed: row.get("sealed")? });
        self.list(Sql::new("SELECT id, sealed FROM configuration_secrets ORDER BY id"), read).await
    }

    /// The number of the last change; 0 if there was none.
    pub async fn configuration_version(&self) -> Result<i64> {
        self.only(Sql::new(LAST_VERSION), |row| row.get("version")).await
    }

    /// The newest changes before the change `before`, at most `limit`, the newest first.
    pub async fn configuration_changes(&self, before: i64, limit: i64) -> Result<Vec<ConfigurationChange>> {
        let select = "SELECT * FROM configuration_changes WHERE version < $1 ORDER BY version DESC LIMIT $2";
        self.list(Sql::new(select).int(before).int(limit), read_change).await
    }

    /// Makes a change with its new secrets, if the last change is still `change.version - 1`. Returns whether it was made.
    /// The caller checked the configuration as a whole, so no other change may come between. Old history beyond 1,000
    /// changes is removed. The row of the audit log is written with the change, both or neither.
    pub async fn change_configuration(
        &self,
        change: &ConfigurationChange,
        secrets: &[SealedSecret],
        record: &AuditRecord,
    ) -> Result<bool> {
        let write = self.begin().await?;
        self.change(write, change, secrets, record).await.map_err(|error| self.error(&error))
    }

    async fn change(
        &self,
        mut write: WriteTransaction<'_>,
        change: &ConfigurationChange,
        secrets: &[SealedSecret],
        record: &AuditRecord,
    ) -> sqlx::Result<bool> {
        write.run(Sql::new(SERIALISE_CHANGES)).await?;
        let rows = write.all(Sql::new(LAST_VERSION)).await?;
        let last: i64 = rows.first().map_or(Ok(0), |row| row.get("version"))?;
        if last != change.version - 1 {
            write.rollback().await?;
            return Ok(false);
        }
        for secret in secrets {
            let insert = "INSERT INTO configuration_secrets (id, sealed) VALUES ($1, $2)";
            write.run(Sql::new(insert).text(&*secret.id).text(&*secret.sealed)).await?;
        }
        let entry = match &change.after {
            Some(value) => Sql::new(
                "INSERT INTO configuration (section, name, value, version) VALUES ($1, $2, $3, $4) ON CONFLICT \
                 (section, name) DO UPDATE SET value = excluded.value, version = excluded.version",
            )
            .text(&*change.section)
            .text(&*change.name)
            .text(&**value)
            .int(change.version),
            None => Sql::new("DELETE FROM configuration WHERE section = $1 AND name = $2")
                .text(&*change.section)
                .text(&*change.name),
        };
        write.run(entry).await?;
        let note = "INSERT INTO configuration_changes (version, changed_at, actor, section, name, value_before, \
                    value_after, undoes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let note = Sql::new(note)
            .int(change.version)
            .int(change.changed_at)
            .text(&*change.actor)
            .text(&*change.section)
            .text(&*change.name)
            .text(change.before.as_deref())
            .text(change.after.as_deref())
            .int(change.undoes);
        write.run(note).await?;
        forget_old_changes(&mut write, change.version).await?;
        write.append(record).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Replaces encrypted secrets by the same secrets under another key, all or none. A row that changed since is left alone.
    pub async fn replace_configuration_secrets(&self, rows: &[(SealedSecret, String)]) -> Result<()> {
        self.replace(self.begin().await?, rows).await.map_err(|error| self.error(&error))
    }

    async fn replace(
        &self,
        mut write: WriteTransaction<'_>,
        rows: &[(SealedSecret, String)],
    ) -> sqlx::Result<()> {
        for (old, sealed) in rows {
            let update = "UPDATE configuration_secrets SET sealed = $1 WHERE id = $2 AND sealed = $3";
            write.run(Sql::new(update).text(&**sealed).text(&*old.id).text(&*old.sealed)).await?;
        }
        write.commit().await
    }

    /// Inserts the keys and teams that the store does not have yet, by their ids. Returns how many were inserted.
    pub async fn insert_missing(&self, keys: &[StoredKey], teams: &[Team]) -> Result<usize> {
        let (known_keys, known_teams) = (self.keys().await?, self.teams().await?);
        let mut inserted = 0;
        for team in teams.iter().filter(|team| known_teams.iter().all(|known| known.id != team.id)) {
            self.put_team(team).await?;
            inserted += 1;
        }
        for key in keys.iter().filter(|key| known_keys.iter().all(|known| known.id != key.id)) {
            match self.insert_key(key).await {
                Ok(()) => inserted += 1,
                // Another replica was first.
                Err(Error::Taken { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(inserted)
    }
}

const LAST_VERSION: &str = "SELECT coalesce(max(version), 0) AS version FROM configuration_changes";

/// Removes the oldest changes, and the secrets that nothing refers to any more.
async fn forget_old_changes(write: &mut WriteTransaction<'_>, version: i64) -> sqlx::Result<()> {
    let delete = "DELETE FROM configuration_changes WHERE version <= $1";
    if write.run(Sql::new(delete).int(version - MAX_CHANGES)).await? == 0 {
        return Ok(());
    }
    let delete = "DELETE FROM configuration_secrets WHERE NOT EXISTS (SELECT 1 FROM configuration WHERE value LIKE '%' || \
                  configuration_secrets.id || '%') AND NOT EXISTS (SELECT 1 FROM configuration_changes WHERE value_before \
                  LIKE '%' || configuration_secrets.id || '%' OR value_after LIKE '%' || configuration_secrets.id || '%')";
    write.run(Sql::new(delete)).await.map(drop)
}

fn read_entry(row: &Row) -> sqlx::Result<ConfiguredEntry> {
    Ok(ConfiguredEntry {
        section: row.get("section")?,
        name: row.get("name")?,
        value: row.get("value")?,
        version: row.get("version")?,
    })
}

fn read_change(row: &Row) -> sqlx::Result<ConfigurationChange> {
    Ok(ConfigurationChange {
        version: row.get("version")?,
        changed_at: row.get("changed_at")?,
        actor: row.get("actor")?,
        section: row.get("section")?,
        name: row.get("name")?,
        before: row.get("value_before")?,
        after: row.get("value_after")?,
        undoes: row.get("undoes")?,
    })
}

#[cfg(test)]
mod tests;
