//! The audit log: every change of keys, teams and the gateway, in one order. The log is append-only, and a chain of hashes shows
//! rows that were changed, removed or added by other programs.
//!
//! A row's hash is the SHA-256 of the hash of the row before it and of the row's own fields. The row with the number 1 follows 32
//! zero bytes. The head holds the number and the hash of the newest row, so that a missing end shows, too.

use sha2::{Digest, Sha256};

use crate::db::{BYTES_PER_ROW, Result, Store, WriteTransaction};
use crate::sql::{Row, Sql, without_nul};

/// The kinds of actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorKind {
    /// The holder of a gateway key.
    Key,
    /// A person or a program that an OpenID Connect issuer has identified.
    Oidc,
    /// A user of the operating system who ran a command.
    CommandLine,
    /// The gateway itself.
    Gateway,
}

impl ActorKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Key, Self::Oidc, Self::CommandLine, Self::Gateway];

    /// The spelling in the store and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Oidc => "oidc",
            Self::CommandLine => "command_line",
            Self::Gateway => "gateway",
        }
    }
}

/// The actor of a change. It never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The kind.
    pub kind: ActorKind,
    /// The id of the key or the identity, or the user id of the operating system.
    pub id: String,
    /// The name for readers.
    pub name: String,
    /// The IP address of the client; None for the command line.
    pub address: Option<String>,
}

impl Actor {
    /// The gateway itself.
    #[must_use]
    pub fn gateway() -> Self {
        let name = "gateway".to_owned();
        Self { kind: ActorKind::Gateway, id: name.clone(), name, address: None }
    }
}

/// One change, before it has its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The time in unix milliseconds.
    pub at: i64,
    /// The actor.
    pub actor: Actor,
    /// The action, such as `key.create`.
    pub action: &'static str,
    /// The id of the changed object.
    pub object: String,
    /// The object before the change as JSON, without secrets.
    pub before: Option<String>,
    /// The object after the change as JSON, without secrets.
    pub after: Option<String>,
}

/// A row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of a record and its actor")]
pub struct AuditEntry {
    /// Its place in the log, from 1 on.
    pub seq: i64,
    pub at: i64,
    pub actor_kind: String,
    pub actor: String,
    pub actor_name: String,
    pub address: Option<String>,
    pub action: String,
    pub object: String,
    pub before: Option<String>,
    pub after: Option<String>,
    /// The hash that the store has for this row.
    pub hash: [u8; 32],
}

/// The newest row of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditHead {
    /// Its number; 0 = the log is empty.
    pub seq: i64,
    /// Its hash.
    pub hash: [u8; 32],
}

impl AuditHead {
    /// The place before the first row.
    pub const START: Self = Self { seq: 0, hash: [0; 32] };
}

/// A fault in the chain of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// A row is missing or stands twice.
    #[error("the row {0} is missing")]
    Missing(i64),
    /// A row was changed, or the rows before it were.
    #[error("the row {0} was changed")]
    Changed(i64),
}

impl AuditEntry {
    /// The hash that this row must have behind a row with the hash `previous`.
    #[must_use]
    pub fn expected_hash(&self, previous: &[u8; 32]) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(previous);
        digest.update(self.seq.to_be_bytes());
        digest.update(self.at.to_be_bytes());
        let required = [&self.actor_kind, &self.actor, &self.actor_name, &self.action, &self.object];
        let optional = [&self.address, &self.before, &self.after];
        for text in required.map(Some).into_iter().chain(optional.map(Option::as_ref)) {
            // The length stands first, so that no two rows have one sequence of bytes.
            digest.update(text.map_or(u64::MAX, |text| text.len() as u64).to_be_bytes());
            digest.update(text.map(String::as_str).unwrap_or_default());
        }
        digest.finalize().into()
    }

    /// Checks that this row follows `previous`, and returns the new end of the chain.
    ///
    /// # Errors
    /// The row does not follow.
    pub fn follow(&self, previous: &AuditHead) -> std::result::Result<AuditHead, ChainFault> {
        let wanted = previous.seq.saturating_add(1);
        if self.seq != wanted {
            return Err(ChainFault::Missing(wanted));
        }
        if self.hash != self.expected_hash(&previous.hash) {
            return Err(ChainFault::Changed(self.seq));
        }
        Ok(AuditHead { seq: self.seq, hash: self.hash })
    }
}

/// A filter of the log. None = every value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// From this time on, in unix milliseconds.
    pub since: Option<i64>,
    /// Before this time, in unix milliseconds.
    pub until: Option<i64>,
    /// The id of the actor.
    pub actor: Option<String>,
    /// The action, or its beginning with a dot at the end (`key.`).
    pub action: Option<String>,
    /// The id of the object.
    pub object: Option<String>,
    /// The last row of the page before.
    pub after: Option<i64>,
    /// The oldest row first.
    pub is_ascending: bool,
}

impl Store {
    /// Appends a change to the log.
    pub async fn record_change(&self, record: &AuditRecord) -> Result<()> {
        let appended = async {
            let mut change = self.begin().await?;
            change.append(record).await.map_err(|error| self.error(&error))?;
            change.commit().await.map_err(|error| self.error(&error))
        };
        appended.await?;
        self.wrote(BYTES_PER_ROW).await;
        Ok(())
    }

    /// Runs a statement and appends the change to the log, both or neither; returns the number of written rows. Nothing is
    /// appended if no row was written.
    pub(crate) async fn run_recorded(&self, sql: Sql<'_>, record: &AuditRecord) -> Result<u64> {
        let mut change = self.begin().await?;
        let done = async {
            let written = change.run(sql).await?;
            if written > 0 {
                change.append(record).await?;
                change.commit().await?;
            } else {
                change.rollback().await?;
            }
            Ok(written)
        };
        done.await.map_err(|error: sqlx::Error| self.error(&error))
    }

    /// A page of the log.
    pub async fn audit(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<AuditEntry>> {
        let mut sql = Sql::new("SELECT * FROM gateway_audit WHERE 1 = 1");
        if let Some(since) = filter.since {
            sql.push(" AND at >= ").push_int(since);
        }
        if let Some(until) = filter.until {
            sql.push(" AND at < ").push_int(until);
        }
        if let Some(actor) = &filter.actor {
            sql.push(" AND actor = ").push_text(actor);
        }
        if let Some(object) = &filter.object {
            sql.push(" AND object = ").push_text(object);
        }
        if let Some(action) = &filter.action {
            if action.ends_with('.') {
                sql.push(" AND substr(action, 1, CAST(").push_int(action.chars().count() as i64);
                sql.push(" AS INTEGER)) = ").push_text(action);
            } else {
                sql.push(" AND action = ").push_text(action);
            }
        }
        if let Some(after) = filter.after {
            sql.push(if filter.is_ascending { " AND seq > " } else { " AND seq < " }).push_int(after);
        }
        sql.push(if filter.is_ascending { " ORDER BY seq" } else { " ORDER BY seq DESC" });
        sql.push(" LIMIT ").push_int(i64::from(limit));
        self.search(sql, read).await
    }

    /// The newest row of the log, as the store notes it beside the log.
    pub async fn audit_head(&self) -> Result<AuditHead> {
        self.only(Sql::new("SELECT seq, hash FROM gateway_audit_head WHERE id = 1"), read_head).await
    }
}

impl WriteTransaction<'_> {
    /// Appends a change to the log.
    pub(crate) async fn append(&mut self, record: &AuditRecord) -> sqlx::Result<()> {
        // The first statement locks the head, so changes get their places one after the other.
        let take = Sql::new("UPDATE gateway_audit_head SET seq = seq + 1 WHERE id = 1 RETURNING seq, hash");
        let rows = self.all(take).await?;
        let head = rows.first().map(read_head).ok_or(sqlx::Error::RowNotFound)??;
        let text = |text: &str| without_nul(text).into_owned();
        let mut entry = AuditEntry {
            seq: head.seq,
            at: record.at,
            actor_kind: record.actor.kind.as_str().to_owned(),
            actor: text(&record.actor.id),
            actor_name: text(&record.actor.name),
            address: record.actor.address.as_deref().map(text),
            action: record.action.to_owned(),
            object: text(&record.object),
            before: record.before.as_deref().map(text),
            after: record.after.as_deref().map(text),
            hash: [0; 32],
        };
        entry.hash = entry.expected_hash(&head.hash);
        self.run(insert(&entry)).await?;
        let note = Sql::new("UPDATE gateway_audit_head SET hash = $1 WHERE id = 1");
        self.run(note.bytes(entry.hash.as_slice())).await.map(drop)
    }
}

fn insert(entry: &AuditEntry) -> Sql<'_> {
    let insert = "INSERT INTO gateway_audit (seq, at, actor_kind, actor, actor_name, address, action, object, state_before, \
        state_after, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    Sql::new(insert)
        .int(entry.seq)
        .int(entry.at)
        .text(&*entry.actor_kind)
        .text(&*entry.actor)
        .text(&*entry.actor_name)
        .text(entry.address.as_deref())
        .text(&*entry.action)
        .text(&*entry.object)
        .text(entry.before.as_deref())
        .text(entry.after.as_deref())
        .bytes(entry.hash.as_slice())
}

fn read_hash(row: &Row) -> sqlx::Result<[u8; 32]> {
    let hash: Vec<u8> = row.get("hash")?;
    hash.try_into().map_err(|_| sqlx::Error::Decode("a hash has not 32 bytes".into()))
}

fn read_head(row: &Row) -> sqlx::Result<AuditHead> {
    Ok(AuditHead { seq: row.get("seq")?, hash: read_hash(row)? })
}

fn read(row: &Row) -> sqlx::Result<AuditEntry> {
    Ok(AuditEntry {
        seq: row.get("seq")?,
        at: row.get("at")?,
        actor_kind: row.get("actor_kind")?,
        actor: row.get("actor")?,
        actor_name: row.get("actor_name")?,
        address: row.get("address")?,
        action: row.get("action")?,
        object: row.get("object")?,
        before: row.get("state_before")?,
        after: row.get("state_after")?,
        hash: read_hash(row)?,
    })
}

#[cfg(test)]
mod tests;
