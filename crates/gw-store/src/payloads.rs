//! What requests and answers said, for keys that have it switched on: rows of their own, with a shorter life than the
//! ledger's. They come here redacted and bounded, and are best effort: no journal tells of them.

use crate::db::{Change, Result, Store};
use crate::sql::{Row, Sql};

/// What one request and its answer said.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// `req_…`, as in the ledger.
    pub request_id: String,
    /// When the answer had ended, unix milliseconds.
    pub at: i64,
    /// The request's body.
    pub request: Said,
    /// The answer's body.
    pub response: Said,
}

/// A body, or its beginning. Prints itself without its text, which belongs in no log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Its text.
    pub text: String,
    /// It was longer.
    pub is_cut: bool,
}

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Said").field("bytes", &self.text.len()).field("is_cut", &self.is_cut).finish()
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Payload");
        out.field("request_id", &self.request_id).field("request", &self.request);
        out.field("response", &self.response).finish_non_exhaustive()
    }
}

/// Payloads of one statement.
const ROWS: usize = 32;
/// Bytes that count as one row when SQLite's log is looked after.
const BYTES_OF_ROW: usize = 1024;

impl Store {
    /// Keeps these payloads, all or none. One that is there already stays as it is.
    pub async fn keep_payloads(&self, payloads: &[Payload]) -> Result<()> {
        if payloads.is_empty() {
            return Ok(());
        }
        insert(self.begin().await?, payloads).await.map_err(|error| self.error(&error))?;
        let bytes: usize = payloads.iter().map(|one| one.request.text.len() + one.response.text.len()).sum();
        self.wrote((payloads.len() + bytes / BYTES_OF_ROW) as u64).await;
        Ok(())
    }

    /// What the request of this id and its answer said.
    pub async fn payload(&self, request_id: &str) -> Result<Option<Payload>> {
        self.first(Sql::new("SELECT * FROM payloads WHERE request_id = $1").name(request_id), read).await
    }

    /// Forgets the payload of this request; says whether there was one.
    pub async fn delete_payload(&self, request_id: &str) -> Result<bool> {
        let delete = "DELETE FROM payloads WHERE request_id = $1";
        Ok(self.run(Sql::new(delete).name(request_id)).await? > 0)
    }

    /// Forgets the payloads before this time (unix milliseconds), so many at most; says how many.
    pub async fn forget_payloads(&self, before: i64, at_most: u32) -> Result<u64> {
        let delete = "DELETE FROM payloads WHERE request_id IN (SELECT request_id FROM payloads WHERE at < $1 LIMIT $2)";
        self.run(Sql::new(delete).int(before).int(i64::from(at_most))).await
    }
}

async fn insert(mut change: Change<'_>, payloads: &[Payload]) -> sqlx::Result<()> {
    for chunk in payloads.chunks(ROWS) {
        let mut sql = Sql::new(
            "INSERT INTO payloads (request_id, at, request, request_cut, response, response_cut) VALUES ",
        );
        for (n, Payload { request_id, at, request, response }) in chunk.iter().enumerate() {
            sql.push(if n == 0 { "(" } else { ", (" }).push_name(request_id);
            sql.push(", ").push_int(*at);
            for Said { text, is_cut } in [request, response] {
                sql.push(", ").push_text(text).push(", ").push_int(i64::from(*is_cut));
            }
            sql.push(")");
        }
        sql.push(" ON CONFLICT (request_id) DO NOTHING");
        change.run(sql).await?;
    }
    change.commit().await
}

fn read(row: &Row) -> sqlx::Result<Payload> {
    let said = |text: &str, cut: &str| {
        Ok::<_, sqlx::Error>(Said { text: row.get(text)?, is_cut: row.get::<i64>(cut)? != 0 })
    };
    Ok(Payload {
        request_id: row.get("request_id")?,
        at: row.get("at")?,
        request: said("request", "request_cut")?,
        response: said("response", "response_cut")?,
    })
}

#[cfg(test)]
mod tests;
