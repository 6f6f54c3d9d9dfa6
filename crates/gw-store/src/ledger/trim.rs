//! The size of the request log: its bytes by hour, and the end of its oldest rows when it is too large.

use std::collections::{BTreeMap, HashSet};

use super::{Entry, HOUR_MS, sqlite};
use crate::db::{Result, Store, WriteTransaction};
use crate::sql::{Row, Sql};

/// Bytes of a row besides its text, with its share of indices and half-filled pages.
pub(crate) const ROW_OVERHEAD_BYTES: usize = 100;
/// Longer than a row may stay in a journal after it is in the ledger.
const JOURNAL_MS: i64 = 2 * HOUR_MS;
/// The bytes of a row of the table of payloads.
const PAYLOAD_BYTES: [&str; 2] = [
    "length(CAST(request AS BLOB)) + length(CAST(response AS BLOB)) + 100",
    "CAST(octet_length(request) + octet_length(response) + 100 AS BIGINT)",
];
const ROW_BYTES: [&str; 2] =
    ["length(CAST(entry AS BLOB)) + 100", "CAST(octet_length(entry) + 100 AS BIGINT)"];

/// Bytes by the hour of their time.
pub(crate) type LogSizes = BTreeMap<i64, i64>;

/// Counts the bytes of something with this time in unix milliseconds.
pub(crate) fn count_bytes(sizes: &mut LogSizes, at: i64, bytes: usize) {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    *sizes.entry(at.div_euclid(HOUR_MS) * 3600).or_default() += bytes;
}

/// Adds bytes to the size of the log.
pub(crate) async fn add_sizes(change: &mut WriteTransaction<'_>, sizes: &LogSizes) -> sqlx::Result<()> {
    for (hour, bytes) in sizes {
        let add = "INSERT INTO log_sizes AS sizes (hour, bytes) VALUES ($1, $2) \
            ON CONFLICT (hour) DO UPDATE SET bytes = sizes.bytes + excluded.bytes";
        change.run(Sql::new(add).int(*hour).int(*bytes)).await?;
    }
    Ok(())
}

/// Runs a `DELETE … RETURNING at, bytes` and takes what it returns out of the size of the log. Returns the number of rows.
async fn delete(change: &mut WriteTransaction<'_>, sql: Sql<'_>) -> sqlx::Result<u64> {
    let rows = change.all(sql).await?;
    let mut freed = LogSizes::new();
    for row in &rows {
        let at: i64 = row.get("at")?;
        *freed.entry(at.div_euclid(HOUR_MS) * 3600).or_default() += row.get::<i64>("bytes")?;
    }
    for (hour, bytes) in freed {
        let less = "UPDATE log_sizes SET bytes = bytes - $2 WHERE hour = $1";
        change.run(Sql::new(less).int(hour).int(bytes)).await?;
    }
    change.run(Sql::new("DELETE FROM log_sizes WHERE bytes <= 0")).await?;
    Ok(rows.len() as u64)
}

impl Store {
    /// The bytes of all rows of the log and of all payloads.
    pub async fn log_bytes(&self) -> Result<u64> {
        let sum = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) AS bytes FROM log_sizes";
        let bytes = self.only(Sql::new(sum), |row| row.get::<i64>("bytes")).await?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Deletes the rows before this time (unix milliseconds), at most `at_most`; returns how many. The sums stay.
    pub async fn purge(&self, before: i64, at_most: u32) -> Result<u64> {
        let mut sql = Sql::new(if self.is_postgres() {
            "DELETE FROM ledger WHERE request_id IN (SELECT request_id FROM ledger WHERE at < $1 \
             ORDER BY at LIMIT $2)"
        } else {
            sqlite::PURGE
        });
        sql.push(" RETURNING at, ").push(self.pick(ROW_BYTES)).push(" AS bytes");
        self.delete_from_log(sql.int(before).int(i64::from(at_most))).await
    }

    /// Deletes the payloads before this time (unix milliseconds), at most `at_most`; returns how many.
    pub async fn purge_payloads(&self, before: i64, at_most: u32) -> Result<u64> {
        let mut sql = Sql::new(
            "DELETE FROM payloads WHERE request_id IN (SELECT request_id FROM payloads WHERE at < $1 LIMIT $2)",
        );
        sql.push(" RETURNING at, ").push(self.pick(PAYLOAD_BYTES)).push(" AS bytes");
        self.delete_from_log(sql.int(before).int(i64::from(at_most))).await
    }

    fn pick(&self, [sqlite, postgres]: [&'static str; 2]) -> &'static str {
        if self.is_postgres() { postgres } else { sqlite }
    }

    async fn delete_from_log(&self, sql: Sql<'_>) -> Result<u64> {
        let mut change = self.begin().await?;
        let deleted = delete(&mut change, sql).await.map_err(|error| self.error(&error))?;
        change.commit().await.map_err(|error| self.error(&error))?;
        Ok(deleted)
    }

    /// Deletes the oldest rows with their payloads while the log is larger than `most` bytes, at most `at_most` rows. Returns how many.
    /// The sums stay. `now` is in unix milliseconds.
    pub async fn trim_log(&self, most: u64, at_most: u32, now: i64) -> Result<u64> {
        let excess = self.log_bytes().await?.saturating_sub(most);
        if excess == 0 {
            return Ok(0);
        }
        let mut change = self.begin().await?;
        let trimmed =
            self.trim(&mut change, excess, at_most, now).await.map_err(|error| self.error(&error))?;
        change.commit().await.map_err(|error| self.error(&error))?;
        Ok(trimmed)
    }

    async fn trim(
        &self,
        change: &mut WriteTransaction<'_>,
        excess: u64,
        at_most: u32,
        now: i64,
    ) -> sqlx::Result<u64> {
        let table = if self.is_postgres() { "ledger" } else { "ledger_rows" };
        let mut sql = Sql::new("SELECT at, request_id, CAST(");
        sql.push(self.pick(ROW_BYTES)).push(" + coalesce((SELECT ").push(self.pick(PAYLOAD_BYTES));
        sql.push(" FROM payloads WHERE payloads.request_id = r.request_id), 0) AS BIGINT) AS bytes FROM ");
        sql.push(table).push(" AS r ORDER BY at, request_id LIMIT ").push_int(i64::from(at_most));
        let (mut freed, mut ids, mut last) = (0_u64, Vec::new(), None);
        for row in change.all(sql).await? {
            if freed >= excess {
                break;
            }
            let (at, id) = (row.get::<i64>("at")?, row.get::<String>("request_id")?);
            freed = freed.saturating_add(u64::try_from(row.get::<i64>("bytes")?).unwrap_or(0));
            last = Some((at, id.clone()));
            ids.push((at, id));
        }
        let Some((last_at, last_id)) = last else { return Ok(0) };
        let list: Vec<&str> = ids.iter().map(|(_, id)| &**id).collect();
        let list = serde_json::to_string(&list).unwrap_or_default();
        let in_list = self.pick([
            " WHERE request_id IN (SELECT value FROM json_each($1))",
            " WHERE request_id IN (SELECT json_array_elements_text(CAST($1 AS json)))",
        ]);
        let mut sql = Sql::new("DELETE FROM payloads");
        sql.push(in_list).push(" RETURNING at, ").push(self.pick(PAYLOAD_BYTES)).push(" AS bytes");
        delete(change, sql.text(&*list)).await?;
        for (at, id) in ids.iter().filter(|(at, _)| *at > now.saturating_sub(JOURNAL_MS)) {
            let note = "INSERT INTO trimmed_rows (request_id, at) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            change.run(Sql::new(note).name(id).int(*at)).await?;
        }
        let forget = "DELETE FROM trimmed_rows WHERE at <= $1";
        change.run(Sql::new(forget).int(now.saturating_sub(JOURNAL_MS))).await?;
        // SQLite has the rows in this order only.
        let mut sql = Sql::new("DELETE FROM ");
        sql.push(table);
        let sql = if self.is_postgres() {
            sql.push(in_list).push(" RETURNING at, ").push(self.pick(ROW_BYTES)).push(" AS bytes");
            sql.text(&*list)
        } else {
            sql.push(" WHERE (at, request_id) <= ($1, $2) RETURNING at, ");
            sql.push(self.pick(ROW_BYTES)).push(" AS bytes");
            sql.int(last_at).text(&*last_id)
        };
        delete(change, sql).await
    }

    /// The entries without those whose rows went because of their size.
    pub(crate) async fn without_trimmed(&self, entries: &[Entry]) -> Result<Vec<Entry>> {
        let list: Vec<&str> = entries.iter().map(|entry| &*entry.request_id).collect();
        let list = serde_json::to_string(&list).unwrap_or_default();
        let mut sql = Sql::new("SELECT request_id FROM trimmed_rows");
        sql.push(self.pick([
            " WHERE request_id IN (SELECT value FROM json_each($1))",
            " WHERE request_id IN (SELECT json_array_elements_text(CAST($1 AS json)))",
        ]));
        let read = |row: &Row| row.get::<String>("request_id");
        let trimmed: HashSet<String> = self.list(sql.text(&*list), read).await?.into_iter().collect();
        Ok(entries.iter().filter(|entry| !trimmed.contains(&*entry.request_id)).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::ledger::{Entry, Filter};
    use crate::payloads::{Payload, PayloadBody};
    use crate::testing::on_both;

    const HOUR: i64 = 3_600_000;

    fn entry(n: i64) -> Entry {
        Entry {
            request_id: format!("req_{n:05}").into(),
            at: 1_000 * HOUR + n * HOUR / 10,
            key_id: "k".into(),
            model: "m".into(),
            status: "ok".into(),
            cost: 7,
            ..Entry::default()
        }
    }

    fn payload(n: i64) -> Payload {
        let body = PayloadBody { text: "x".repeat(1_000), is_cut: false };
        let Entry { request_id, at, .. } = entry(n);
        Payload { request_id: request_id.to_string(), at: at + HOUR, request: body.clone(), response: body }
    }

    #[tokio::test]
    async fn the_oldest_rows_go_when_the_log_is_too_large_and_the_sums_stay() {
        on_both(async |place| {
            let store = place.open().await;
            let all: Vec<Entry> = (0..100).map(entry).collect();
            store.record(&all).await.unwrap();
            store.keep_payloads(&(0..50).map(payload).collect::<Vec<_>>()).await.unwrap();
            // A row or a payload that is there already has no further size.
            store.record(&all[..5]).await.unwrap();
            store.keep_payloads(&[payload(0)]).await.unwrap();
            let size = store.log_bytes().await.unwrap();
            let total = store.total(&Filter::default()).await.unwrap();
            assert_eq!(store.trim_log(size, 1_000, 0).await.unwrap(), 0);
            // Each of the oldest rows has a payload of more than 2,000 bytes.
            assert_eq!(store.trim_log(size - 4_300, 1_000, entry(0).at).await.unwrap(), 2);
            assert!(store.log_bytes().await.unwrap() <= size - 4_300);
            assert!(store.payload("req_00001").await.unwrap().is_none());
            assert!(store.payload("req_00002").await.unwrap().is_some());
            let left = store.requests(&Filter::default(), None, 1_000).await.unwrap();
            assert_eq!((left.len(), &*left[97].request_id), (98, "req_00002"));
            assert_eq!(store.total(&Filter::default()).await.unwrap(), total);
            assert_eq!(store.without_trimmed(&all).await.unwrap().len(), 98);
            assert_eq!(store.trim_log(0, 10, entry(99).at).await.unwrap(), 10, "no more at once");
            assert_eq!(store.purge_payloads(i64::MAX, 1_000).await.unwrap(), 38);
            assert_eq!(store.purge(i64::MAX, 1_000).await.unwrap(), 88);
            assert_eq!(store.log_bytes().await.unwrap(), 0, "every deletion is counted");
            assert_eq!(store.trim_log(0, 10, 0).await.unwrap(), 0);
            assert_eq!(store.total(&Filter::default()).await.unwrap(), total);
        })
        .await;
    }
}
