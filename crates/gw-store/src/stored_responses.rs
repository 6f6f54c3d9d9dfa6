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
        let mut sql = Sql::new("INSERT INTO responses (owner, id, expires_at, sealed) VALUES (");
        sql.push_name(&response.owner).push(", ").push_name(&response.id).push(", ");
        sql.push_int(response.expires_at).push(", ").push_text(&response.sealed);
        sql.push(") ON CONFLICT (owner, id) DO UPDATE SET expires_at = excluded.expires_at, sealed = excluded.sealed");
        self.run(sql).await?;
        self.wrote(BYTES_PER_ROW + response.sealed.len()).await;
        Ok(())
    }

    /// The response of this id that this key made, unless it ended before `now` (unix seconds).
    pub async fn response(&self, owner: &str, id: &str, now: i64) -> Result<Option<SealedResponse>> {
        let select = "SELECT * FROM responses WHERE owner = $1 AND id = $2 AND expires_at > $3";
        self.first(Sql::new(select).name(owner).name(id).int(now), read).await
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
        sealed: row.get("sealed")?,
    })
}

#[cfg(test)]
mod tests;
