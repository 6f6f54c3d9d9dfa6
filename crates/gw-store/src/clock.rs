//! What the store knows of time, so that a clock that jumps is noticed: when it was last in use, which time somebody has
//! confirmed, and of when its rows are.

use crate::db::{Result, Store};
use crate::ledger::Filter;
use crate::sql::Sql;

/// What was noted, in unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// When the store was last in use.
    pub seen: Option<i64>,
    /// The time that somebody has confirmed.
    pub confirmed: Option<i64>,
}

impl Store {
    /// What was noted of time.
    pub async fn noted(&self) -> Result<Noted> {
        let sql = Sql::new("SELECT seen, confirmed FROM gateway_clock WHERE id = 1");
        let noted =
            self.first(sql, |row| Ok(Noted { seen: row.get("seen")?, confirmed: row.get("confirmed")? }));
        Ok(noted.await?.unwrap_or_default())
    }

    /// Notes that the store is in use at this time.
    pub async fn note_seen(&self, at: i64) -> Result<()> {
        let note = "INSERT INTO gateway_clock (id, seen) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET seen = excluded.seen";
        self.run(Sql::new(note).int(at)).await.map(drop)
    }

    /// Notes that somebody says it is this time.
    pub async fn note_confirmed(&self, at: i64) -> Result<()> {
        let note = "INSERT INTO gateway_clock (id, confirmed) VALUES (1, $1) \
            ON CONFLICT (id) DO UPDATE SET confirmed = excluded.confirmed";
        self.run(Sql::new(note).int(at)).await.map(drop)
    }

    /// The time of the newest row that is not later than this.
    pub async fn newest_row(&self, until: i64) -> Result<Option<i64>> {
        let select = if self.is_postgres() {
            "SELECT max(at) AS at FROM ledger WHERE at <= $1"
        } else {
            "SELECT max(at) AS at FROM ledger_rows WHERE at <= $1"
        };
        self.only(Sql::new(select).int(until), |row| row.get("at")).await
    }

    /// How many requests the log has, by the sums of the hours that it reaches back to.
    pub async fn requests_in_log(&self) -> Result<u64> {
        let table = if self.is_postgres() { "ledger" } else { "ledger_rows" };
        let mut sql = Sql::new("SELECT min(at) AS at FROM ");
        sql.push(table);
        let Some(oldest) = self.only(sql, |row| row.get::<Option<i64>>("at")).await? else { return Ok(0) };
        Ok(self.total(&Filter { since: Some(oldest), ..Filter::default() }).await?.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::Noted;
    use crate::ledger::{Entry, Filter};
    use crate::testing::on_both;

    const DAY: i64 = 86_400_000;

    #[tokio::test]
    async fn what_was_noted_is_there_for_the_next_start() {
        on_both(async |place| {
            let store = place.open().await;
            assert_eq!(store.noted().await.unwrap(), Noted::default());
            store.note_confirmed(7).await.unwrap();
            assert_eq!(store.noted().await.unwrap(), Noted { seen: None, confirmed: Some(7) });
            for seen in [5, 9, 8] {
                store.note_seen(seen).await.unwrap();
            }
            store.close().await;
            let store = place.open().await;
            assert_eq!(store.noted().await.unwrap(), Noted { seen: Some(8), confirmed: Some(7) });
        })
        .await;
    }

    #[tokio::test]
    async fn the_log_tells_its_newest_row_and_how_many_it_has() {
        on_both(async |place| {
            let store = place.open().await;
            assert_eq!(
                (store.newest_row(i64::MAX).await.unwrap(), store.requests_in_log().await.unwrap()),
                (None, 0)
            );
            let row = |n: i64| Entry { request_id: format!("req_{n}"), at: n * DAY, ..Entry::default() };
            store.record(&(1..=30).map(row).collect::<Vec<_>>()).await.unwrap();
            assert_eq!(store.newest_row(i64::MAX).await.unwrap(), Some(30 * DAY));
            assert_eq!(store.newest_row(20 * DAY + 1).await.unwrap(), Some(20 * DAY));
            assert_eq!(store.newest_row(DAY - 1).await.unwrap(), None);
            // The oldest go first; what is forgotten stays in the sums, and is no part of the log.
            assert_eq!(store.forget(i64::MAX, 12).await.unwrap(), 12);
            assert_eq!(store.requests_in_log().await.unwrap(), 18);
            let left = store.requests(&Filter::default(), None, 100).await.unwrap();
            assert_eq!(left.last().map(|row| row.at), Some(13 * DAY));
        })
        .await;
    }
}
