//! Responses that are deleted, and ended ones that are purged.

use crate::db::{Result, Store, WriteTransaction};
use crate::sql::Sql;

impl Store {
    /// Deletes a response. Returns whether the response existed. The store keeps a response that others continue, but only for these others.
    pub async fn delete_response(&self, owner: &str, id: &str, now: i64) -> Result<bool> {
        let mut change = self.begin().await?;
        let deleted = delete(&mut change, (owner, id), now, self.is_server()).await;
        let deleted = match deleted {
            Ok(existed) => change.commit().await.map(|()| existed),
            Err(error) => Err(error),
        };
        deleted.map_err(|error| self.error(&error))
    }

    /// Deletes responses that expired before `now` (unix seconds) and that no other response continues. Stops after `at_most`
    /// responses or `bytes` bytes, and returns the number. While another replica purges, this call deletes nothing.
    pub async fn purge_responses(&self, now: i64, at_most: u32, bytes: i64) -> Result<u64> {
        let mut change = self.begin().await?;
        let purged = async {
            // Each purge changes the sums of many keys, in any order.
            let lock = "SELECT 1 AS one WHERE pg_try_advisory_xact_lock(7310003465208157026)";
            if self.is_server() && change.all(Sql::new(lock)).await?.is_empty() {
                return Ok(0);
            }
            change.run(purge(now, at_most, bytes, self.is_server())).await
        };
        let purged = match purged.await {
            Ok(purged) => change.commit().await.map(|()| purged),
            Err(error) => Err(error),
        };
        purged.map_err(|error: sqlx::Error| self.error(&error))
    }
}

/// The statement that deletes ended responses.
fn purge(now: i64, at_most: u32, bytes: i64, is_server: bool) -> Sql<'static> {
    let mut sql = Sql::new(
        "DELETE FROM responses WHERE (owner, id) IN (SELECT owner, id FROM (\
         SELECT owner, id, bytes, SUM(bytes) OVER (ORDER BY owner, id) AS bytes_so_far FROM (\
         SELECT r.owner AS owner, r.id AS id, COALESCE(r.bytes, length(r.sealed)) AS bytes FROM responses r \
         WHERE r.expires_at <= $1 AND NOT EXISTS \
         (SELECT 1 FROM responses c WHERE c.owner = r.owner AND c.parent = r.id AND c.id <> r.id) LIMIT $2",
    )
    .int(now)
    .int(i64::from(at_most))
    .int(bytes);
    // PostgreSQL leaves out a response that a request continues at this moment.
    sql.push(if is_server { " FOR UPDATE OF r SKIP LOCKED" } else { "" });
    sql.push(") AS ended) AS summed WHERE bytes_so_far - bytes < $3)");
    sql
}

/// Deletes a response, and then the ones before it that were kept only for it.
async fn delete(
    change: &mut WriteTransaction<'_>,
    (owner, id): (&str, &str),
    now: i64,
    is_server: bool,
) -> sqlx::Result<bool> {
    let end = "UPDATE responses SET expires_at = 0, running_until = NULL \
        WHERE owner = $1 AND id = $2 AND expires_at > $3";
    let existed = change.run(Sql::new(end).name(owner).name(id).int(now)).await? > 0;
    let mut next = Some(id.to_owned());
    while let Some(id) = next.take() {
        if is_server {
            // A request that continues the response holds its row until it commits. The next statement then sees the new response.
            let hold = "SELECT 1 AS one FROM responses WHERE owner = $1 AND id = $2 FOR UPDATE";
            change.all(Sql::new(hold).name(owner).name(&id)).await?;
        }
        let select = "SELECT r.parent AS parent FROM responses r \
            WHERE r.owner = $1 AND r.id = $2 AND r.expires_at <= $3 AND NOT EXISTS \
            (SELECT 1 FROM responses c WHERE c.owner = r.owner AND c.parent = r.id AND c.id <> r.id)";
        let rows = change.all(Sql::new(select).name(owner).name(&id).int(now)).await?;
        let Some(row) = rows.first() else { break };
        let parent: Option<String> = row.get("parent")?;
        let delete = "DELETE FROM responses WHERE owner = $1 AND id = $2";
        change.run(Sql::new(delete).name(owner).name(&id)).await?;
        next = parent;
    }
    Ok(existed)
}
