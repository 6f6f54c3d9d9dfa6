//! Stored responses of the Responses API. They arrive here encrypted; the store knows only their key, their ids, their sizes
//! and their end.

mod deletion;
mod items;

use self::items::write_items;
use crate::db::{BYTES_PER_ROW, Result, Store, WriteTransaction};
use crate::sql::{Row, Sql};

/// The facts about a stored response that need no key to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseRow {
    /// The id of the key that made it.
    pub owner: String,
    /// `resp_…`.
    pub id: String,
    /// The response that it continues.
    pub parent: Option<String>,
    /// Unix seconds.
    pub expires_at: i64,
    /// The response runs, as its process reported, for so many more seconds. None = it has ended. The store's own clock
    /// measures it: those of the replicas may differ.
    pub runs_for: Option<i64>,
    /// Another number for each content that the row has had.
    pub version: i64,
    /// The events had numbers that the content does not hold.
    pub is_streamed: bool,
    /// The bytes of its own turn.
    pub bytes: i64,
    /// The conversation up to its end: bytes, items, JSON values and turns.
    pub conversation: [i64; 4],
}

/// A stored response.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedResponse {
    /// The facts about it.
    pub row: ResponseRow,
    /// The encrypted response.
    pub sealed: String,
    /// The ids of its items that do not hold its own id.
    pub items: Vec<String>,
}

impl std::fmt::Debug for SealedResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedResponse").field("id", &self.row.id).finish_non_exhaustive()
    }
}

/// The end of an attempt to keep a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptResponse {
    /// The response is stored.
    Stored,
    /// The response that it continues is gone, or continues this one, so nothing is stored.
    ParentGone,
    /// The response does not run any more, so nothing is stored.
    Ended,
    /// The response is larger than a transaction of SQLite may be, so nothing is stored.
    TooLarge,
}

/// The columns of a [`ResponseRow`] in the table `r`. Rows from before have no sizes of their own.
const COLUMNS: &str = "r.owner AS owner, r.id AS id, r.parent AS parent, r.expires_at AS expires_at, \
    r.version AS version, r.is_streamed AS is_streamed, \
    COALESCE(r.bytes, length(r.sealed)) AS bytes, \
    COALESCE(r.conversation_bytes, length(r.sealed)) AS conversation_bytes, \
    r.conversation_items AS conversation_items, r.conversation_values AS conversation_values, \
    r.conversation_turns AS conversation_turns, r.running_until - ";

impl Store {
    /// Inserts or replaces a response.
    pub async fn keep_response(&self, response: SealedResponse) -> Result<KeptResponse> {
        let SealedResponse { row, sealed, items } = response;
        let [bytes, count, values, turns] = row.conversation;
        let mut sql = Sql::new(
            "INSERT INTO responses (owner, id, expires_at, sealed, parent, version, is_streamed, bytes, \
             conversation_bytes, conversation_items, conversation_values, conversation_turns, running_until) \
             VALUES ($1, $2, $3, '', $4, $5, $6, $7, $8, $9, $10, $11, $12 + ",
        )
        .name(&row.owner)
        .name(&row.id)
        .int(row.expires_at)
        .text(row.parent.as_deref())
        .int(row.version)
        .int(i64::from(row.is_streamed))
        .int(row.bytes)
        .int(bytes)
        .int(count)
        .int(values)
        .int(turns)
        .int(row.runs_for);
        sql.push(self.unix_now());
        sql.push(
            ") ON CONFLICT (owner, id) DO UPDATE SET expires_at = excluded.expires_at, \
             running_until = excluded.running_until, sealed = '', parent = excluded.parent, version = excluded.version, \
             is_streamed = excluded.is_streamed, bytes = excluded.bytes, \
             conversation_bytes = excluded.conversation_bytes, conversation_items = excluded.conversation_items, \
             conversation_values = excluded.conversation_values, conversation_turns = excluded.conversation_turns",
        );
        self.write_response((&row, &items), sealed, sql, KeptResponse::ParentGone).await
    }

    /// Replaces a response that runs by its end; changes nothing if it does not run any more.
    pub async fn finish_response(&self, response: SealedResponse) -> Result<KeptResponse> {
        let SealedResponse { row, sealed, items } = response;
        let update = "UPDATE responses SET expires_at = $1, running_until = NULL, sealed = '', version = $2, \
            is_streamed = $3, bytes = $4, conversation_bytes = $5, conversation_items = $6, conversation_values = $7, \
            conversation_turns = $8, parent = $9 WHERE owner = $10 AND id = $11 AND running_until IS NOT NULL";
        let [bytes, count, values, turns] = row.conversation;
        let sql = Sql::new(update).int(row.expires_at).int(row.version).int(i64::from(row.is_streamed));
        let sql = sql.int(row.bytes).int(bytes).int(count).int(values).int(turns).text(row.parent.as_deref());
        let sql = sql.name(&row.owner).name(&row.id);
        self.write_response((&row, &items), sealed, sql, KeptResponse::Ended).await
    }

    /// Runs the statement of a row with its content. `absent` is the outcome if it writes no row.
    async fn write_response(
        &self,
        (row, items): (&ResponseRow, &[String]),
        sealed: String,
        sql: Sql<'_>,
        absent: KeptResponse,
    ) -> Result<KeptResponse> {
        // Each item changes a page of each of its two indices at most.
        let bytes = (sealed.len() + items.len() * 2 * PAGE_BYTES) as u64;
        let sealed_bytes = sealed.len();
        if self.max_transaction_bytes().is_some_and(|most| bytes > most) {
            return Ok(KeptResponse::TooLarge);
        }
        let mut change = self.begin_large(bytes).await?;
        let written = async {
            if let Some(parent) = &row.parent {
                // PostgreSQL deletes the parent only after this transaction, and then sees its child.
                let find = match self.is_server() {
                    true => "SELECT 1 AS one FROM responses WHERE owner = $1 AND id = $2 FOR SHARE",
                    false => "SELECT 1 AS one FROM responses WHERE owner = $1 AND id = $2",
                };
                if change.all(Sql::new(find).name(&row.owner).name(parent)).await?.is_empty() {
                    return Ok(KeptResponse::ParentGone);
                }
            }
            // Only a response that is kept anew can get another parent than it had.
            if absent == KeptResponse::ParentGone && is_circle(&mut change, row).await? {
                return Ok(KeptResponse::ParentGone);
            }
            if change.run(sql).await? == 0 {
                return Ok(absent);
            }
            let content = "INSERT INTO response_contents (owner, id, sealed) VALUES ($1, $2, $3) \
                ON CONFLICT (owner, id) DO UPDATE SET sealed = excluded.sealed";
            change.run(Sql::new(content).name(&row.owner).name(&row.id).owned(Some(sealed))).await?;
            let former = "DELETE FROM response_items WHERE owner = $1 AND response = $2";
            change.run(Sql::new(former).name(&row.owner).name(&row.id)).await?;
            write_items(&mut change, row, items, self.is_server()).await?;
            Ok(KeptResponse::Stored)
        };
        let outcome = written.await;
        let outcome = match outcome {
            Ok(KeptResponse::Stored) => change.commit().await.map(|()| KeptResponse::Stored),
            Ok(nothing) => change.rollback().await.map(|()| nothing),
            Err(error) => Err(error),
        };
        self.wrote(BYTES_PER_ROW + sealed_bytes).await;
        outcome.map_err(|error: sqlx::Error| self.error(&error))
    }

    /// The unix seconds of the clock that the leases of all replicas are compared with: PostgreSQL's own. The processes on one
    /// SQLite file have one machine.
    fn unix_now(&self) -> &'static str {
        if self.is_server() { "CAST(EXTRACT(EPOCH FROM now()) AS BIGINT)" } else { "unixepoch()" }
    }

    /// Adds the columns of a [`ResponseRow`] to a statement that reads the table `r`.
    fn push_columns(&self, select: &mut Sql<'_>) {
        select.push(COLUMNS).push(self.unix_now()).push(" AS runs_for ");
    }

    /// Records that a response runs for `runs_for` more seconds, and keeps it at least until `expires_at` (unix seconds).
    /// Returns false if the response no longer runs.
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

    /// The response of this id that this key made, unless it ended before `now` (unix seconds).
    pub async fn response(&self, owner: &str, id: &str, now: i64) -> Result<Option<ResponseRow>> {
        let mut select = Sql::new("SELECT ");
        self.push_columns(&mut select);
        select.push("FROM responses r WHERE r.owner = $1 AND r.id = $2 AND r.expires_at > $3");
        self.first(select.name(owner).name(id).int(now), read).await
    }

    /// The response of this id and the ones that it continues, at most `at_most`, the newest first. The ones that it
    /// continues may have ended.
    pub async fn response_chain(&self, owner: &str, id: &str, at_most: u32) -> Result<Vec<ResponseRow>> {
        let mut select = Sql::new(
            "WITH RECURSIVE chain (id, parent, place) AS (\
             SELECT id, parent, CAST(1 AS BIGINT) FROM responses WHERE owner = $1 AND id = $2 \
             UNION ALL SELECT older.id, older.parent, chain.place + 1 FROM responses older \
             JOIN chain ON older.id = chain.parent WHERE older.owner = $1 AND chain.place < $3) SELECT ",
        );
        self.push_columns(&mut select);
        select.push("FROM chain JOIN responses r ON r.id = chain.id WHERE r.owner = $1 ORDER BY chain.place");
        self.list(select.name(owner).name(id).int(i64::from(at_most)), read).await
    }

    /// The encrypted content of a response, also of one that is kept only for those that continue it.
    pub async fn response_content(&self, owner: &str, id: &str) -> Result<Option<String>> {
        let select = "SELECT COALESCE(c.sealed, r.sealed) AS sealed FROM responses r \
            LEFT JOIN response_contents c ON c.owner = r.owner AND c.id = r.id WHERE r.owner = $1 AND r.id = $2";
        self.first(Sql::new(select).name(owner).name(id), |row| row.get("sealed")).await
    }

    /// The bytes of the responses that this key stores, also of those that have ended and that the purge has not taken yet.
    pub async fn response_bytes(&self, owner: &str) -> Result<i64> {
        let select = "SELECT bytes FROM response_sums WHERE owner = $1";
        let bytes = self.first(Sql::new(select).name(owner), |row| row.get("bytes")).await?;
        Ok(bytes.unwrap_or_default())
    }
}

/// Whether the response would become a part of its own conversation: an upstream may repeat its ids.
async fn is_circle(change: &mut WriteTransaction<'_>, row: &ResponseRow) -> sqlx::Result<bool> {
    let Some(parent) = &row.parent else { return Ok(false) };
    let select = "WITH RECURSIVE chain (id, parent) AS (\
        SELECT id, parent FROM responses WHERE owner = $1 AND id = $2 \
        AND EXISTS (SELECT 1 FROM responses WHERE owner = $1 AND id = $3) \
        UNION SELECT older.id, older.parent FROM responses older JOIN chain ON older.id = chain.parent \
        WHERE older.owner = $1) SELECT 1 AS one FROM chain WHERE id = $3";
    let found = change.all(Sql::new(select).name(&row.owner).name(parent).name(&row.id)).await?;
    Ok(!found.is_empty())
}

/// The bytes of a page of SQLite.
const PAGE_BYTES: usize = 4096;

fn read(row: &Row) -> sqlx::Result<ResponseRow> {
    Ok(ResponseRow {
        owner: row.get("owner")?,
        id: row.get("id")?,
        parent: row.get("parent")?,
        expires_at: row.get("expires_at")?,
        runs_for: row.get("runs_for")?,
        version: row.get("version")?,
        is_streamed: row.get::<i64>("is_streamed")? != 0,
        bytes: row.get("bytes")?,
        conversation: [
            row.get("conversation_bytes")?,
            row.get("conversation_items")?,
            row.get("conversation_values")?,
            row.get("conversation_turns")?,
        ],
    })
}

#[cfg(test)]
mod tests;
