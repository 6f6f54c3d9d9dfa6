//! Stored responses of the Responses API. They arrive here encrypted; the store knows only their key, their id and their end.

use crate::db::{BYTES_PER_ROW, Result, Store};
use crate::sql::{Row, Sql};

/// A stored response.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedResponse {
    /// The id of the key that made it.
    pub owner: String,
    /// `resp_…`.
    pub id: String,
    /// Unix seconds.
    pub expires_at: i64,
    /// The response runs, as its process reported, for so many more seconds. None = it has ended. The store's own clock
    /// measures it: those of the replicas may differ.
    pub runs_for: Option<i64>,
    /// The encrypted response.
    pub sealed: String,
}

impl std::fmt::Debug for SealedResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedResponse").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Store {
    /// Inserts or replaces a response.
    pub async fn keep_response(&self, response: &SealedResponse) -> Result<()> {
        let mut sql = Sql::new(
            "INSERT INTO responses (owner, id, expires_at, sealed, running_until) VALUES ($1, $2, $3, $4, $5 + ",
        )
        .name(&response.owner)
        .name(&response.id)
        .int(response.expires_at)
        .text(&*response.sealed)
        .int(response.runs_for);
        sql.push(self.unix_now());
        sql.push(
            ") ON CONFLICT (owner, id) DO UPDATE SET expires_at = excluded.expires_at, \
            running_until = excluded.running_until, sealed = excluded.sealed",
        );
        self.run(sql).await?;
        self.wrote(BYTES_PER_ROW + response.sealed.len()).await;
        Ok(())
    }

    /// The unix seconds of the clock that the leases of all replicas are compared with: PostgreSQL's own. The processes on one
    /// SQLite file have one machine.
    fn unix_now(&self) -> &'static str {
        if self.is_server() { "CAST(EXTRACT(EPOCH FROM now()) AS BIGINT)" } else { "unixepoch()" }
    }

    /// Notes that a response runs for so many more seconds, and is kept until `expires_at` (unix seconds) at least; gives false
    /// if it does not run any more.
    pub async fn renew_response(
        &self,
        owner: &str,
        id: &str,
        runs_for: i64,
        expires_at: i64,
    ) -> Result<bool> {
        let mut sql = Sql::new(
            "UPDATE responses SET expires_at = CASE WHEN expires_at < $1 THEN $1 ELSE expires_at END, \
            running_until = $2 + ",
        )
        .int(expires_at)
        .int(runs_for)
        .name(owner)
        .name(id);
        sql.push(self.unix_now());
        sql.push(" WHERE owner = $3 AND id = $4 AND running_until IS NOT NULL");
        Ok(self.run(sql).await? > 0)
    }

    /// Replaces a response that runs by its end; gives false, and changes nothing, if it does not run any more.
    pub async fn finish_response(&self, response: &SealedResponse) -> Result<bool> {
        let update = "UPDATE responses SET expires_at = $1, running_until = NULL, sealed = $2 \
            WHERE owner = $3 AND id = $4 AND running_until IS NOT NULL";
        let sql = Sql::new(update).int(response.expires_at).text(&*response.sealed);
        let written = self.run(sql.name(&response.owner).name(&response.id)).await?;
        self.wrote(BYTES_PER_ROW + response.sealed.len()).await;
        Ok(written > 0)
    }

    /// The response of this id that this key made, unless it ended before `now` (unix seconds).
    pub async fn response(&self, owner: &str, id: &str, now: i64) -> Result<Option<SealedResponse>> {
        let mut sql = Sql::new("SELECT owner, id, expires_at, sealed, running_until - ");
        sql.push(self.unix_now());
        sql.push(" AS runs_for FROM responses WHERE owner = $1 AND id = $2 AND expires_at > $3");
        self.first(sql.name(owner).name(id).int(now), read).await
    }

    /// Deletes a response; gives whether it existed.
    pub async fn delete_response(&self, owner: &str, id: &str, now: i64) -> Result<bool> {
        let existed = self.response(owner, id, now).await?.is_some();
        let delete = "DELETE FROM responses WHERE owner = $1 AND id = $2";
        Ok(self.run(Sql::new(delete).name(owner).name(id)).await? > 0 && existed)
    }

    /// Deletes the responses that ended before `now` (unix seconds), at most `at_most`; gives how many.
    pub async fn purge_responses(&self, now: i64, at_most: u32) -> Result<u64> {
        let delete =
            "DELETE FROM responses WHERE id IN (SELECT id FROM responses WHERE expires_at <= $1 LIMIT $2)";
        self.run(Sql::new(delete).int(now).int(i64::from(at_most))).await
    }
}

fn read(row: &Row) -> sqlx::Result<SealedResponse> {
    Ok(SealedResponse {
        owner: row.get("owner")?,
        id: row.get("id")?,
        expires_at: row.get("expires_at")?,
        runs_for: row.get("runs_for")?,
        sealed: row.get("sealed")?,
    })
}

#[cfg(test)]
mod tests;
