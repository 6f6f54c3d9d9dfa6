//! Stored bodies of requests and answers, for keys with payload logging. They have their own rows and a shorter retention
//! than the ledger. They arrive here redacted and bounded. Storing is best effort: the journal does not hold them.

use std::collections::HashSet;

use crate::audit::AuditRecord;
use crate::db::{BYTES_PER_ROW, Result, Store, WriteTransaction};
use crate::ledger::trim::{LogSizes, ROW_OVERHEAD_BYTES, add_sizes, count_bytes};
use crate::sql::{Row, Sql};

/// The bodies of a request and its answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// `req_…`, as in the ledger.
    pub request_id: String,
    /// End of the answer in unix milliseconds.
    pub at: i64,
    /// The request's body.
    pub request: PayloadBody,
    /// The answer's body.
    pub response: PayloadBody,
}

/// A body or its beginning. Debug output omits the text, which must not reach a log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PayloadBody {
    /// Its text.
    pub text: String,
    /// Whether the body was longer.
    pub is_cut: bool,
}

impl std::fmt::Debug for PayloadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PayloadBody").field("bytes", &self.text.len()).field("is_cut", &self.is_cut).finish()
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Payload");
        out.field("request_id", &self.request_id).field("request", &self.request);
        out.field("response", &self.response).finish_non_exhaustive()
    }
}

/// Payloads per statement.
const ROWS: usize = 32;

impl Store {
    /// Inserts these payloads, all or none. Existing payloads stay unchanged.
    pub async fn keep_payloads(&self, payloads: &[Payload]) -> Result<()> {
        if payloads.is_empty() {
            return Ok(());
        }
        insert(self.begin().await?, payloads).await.map_err(|error| self.error(&error))?;
        self.wrote(
            payloads.iter().map(|one| BYTES_PER_ROW + one.request.text.len() + one.response.text.len()).sum(),
        )
        .await;
        Ok(())
    }

    /// The payload of the request with this id.
    pub async fn payload(&self, request_id: &str) -> Result<Option<Payload>> {
        self.first(Sql::new("SELECT * FROM payloads WHERE request_id = $1").name(request_id), read).await
    }

    /// Deletes the payload of this request; returns whether it existed.
    pub async fn delete_payload(&self, request_id: &str) -> Result<bool> {
        let delete = "DELETE FROM payloads WHERE request_id = $1";
        Ok(self.run(Sql::new(delete).name(request_id)).await? > 0)
    }

    /// As [`Store::delete_payload`], with a record in the audit log.
    pub async fn delete_payload_recorded(&self, request_id: &str, record: &AuditRecord) -> Result<bool> {
        let delete = "DELETE FROM payloads WHERE request_id = $1";
        Ok(self.run_recorded(Sql::new(delete).name(request_id), record).await? > 0)
    }
}

async fn insert(mut change: WriteTransaction<'_>, payloads: &[Payload]) -> sqlx::Result<()> {
    let mut sizes = LogSizes::new();
    for chunk in payloads.chunks(ROWS) {
        let mut sql = Sql::new(
            "INSERT INTO payloads (request_id, at, request, request_cut, response, response_cut) VALUES ",
        );
        for (n, Payload { request_id, at, request, response }) in chunk.iter().enumerate() {
            sql.push(if n == 0 { "(" } else { ", (" }).push_name(request_id);
            sql.push(", ").push_int(*at);
            for PayloadBody { text, is_cut } in [request, response] {
                sql.push(", ").push_text(text).push(", ").push_int(i64::from(*is_cut));
            }
            sql.push(")");
        }
        sql.push(" ON CONFLICT (request_id) DO NOTHING RETURNING request_id");
        let new: HashSet<String> =
            change.all(sql).await?.iter().map(|row| row.get("request_id")).collect::<sqlx::Result<_>>()?;
        for payload in chunk.iter().filter(|payload| new.contains(&payload.request_id)) {
            let texts = payload.request.text.len() + payload.response.text.len();
            count_bytes(&mut sizes, payload.at, texts + ROW_OVERHEAD_BYTES);
        }
    }
    add_sizes(&mut change, &sizes).await?;
    change.commit().await
}

fn read(row: &Row) -> sqlx::Result<Payload> {
    let said = |text: &str, cut: &str| {
        Ok::<_, sqlx::Error>(PayloadBody { text: row.get(text)?, is_cut: row.get::<i64>(cut)? != 0 })
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
