//! Times that the store records, so that a jump of the clock is noticed: its last use, the time that an operator has
//! confirmed, and the times of its rows.

use crate::db::{Result, Store};
use crate::ledger::Filter;
use crate::sql::Sql;

/// The recorded times in unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockRecord {
    /// The last use of the store.
    pub seen: Option<i64>,
    /// The time that an operator has confirmed.
    pub confirmed: Option<i64>,
}

impl Store {
    /// The recorded times.
    pub async fn clock_record(&self) -> Result<ClockRecord> {
        let sql = Sql::new("SELECT seen, confirmed FROM gateway_clock WHERE id = 1");
        let noted = self
            .first(sql, |row| Ok(ClockRecord { seen: row.get("seen")?, confirmed: row.get("confirmed")? }));
        Ok(noted.await?.unwrap_or_default())
    }

    /// Records that the store is in use at this time.
    pub async fn record_use(&self, at: i64) -> Result<()> {
        let note = "INSERT INTO gateway_clock (id, seen) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET seen = excluded.seen";
        self.run(Sql::new(note).int(at)).await.map(drop)
    }

    /// Records that an operator has confirmed this time.
    pub async fn record_confirmed_time(&self, at: i64) -> Result<()> {
        let note = "INSERT INTO gateway_clock (id, confirmed) VALUES (1, $1) \
            ON CONFLICT (id) DO UPDATE SET confirmed = excluded.confirmed";
        self.run(Sql::new(note).int(at)).await.map(drop)
    }

    /// The time of the newest row that is not later than `until`.
    pub async fn newest_row(&self, until: i64) -> Result<Option<i64>> {
        let select = if self.is_postgres() {
            "SELECT max(at) AS at FROM ledger WHERE at <= $1"
        } else {
            "SELECT max(at) AS at FROM ledger_rows WHERE at <= $1"
        };
        self.only(Sql::new(select).int(until), |row| row.get("at")).await
    }

    /// The number of requests in the log: the sum over all hours since its oldest row.
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
    use super::ClockRecord;
    use crate::ledger::{Entry, Filter};
    use crate::testing::on_both;

    const DAY: i64 = 86_400_000;

    #[tokio::test]
    async fn recorded_times_survive_a_restart() {
        on_both(async |place| {
            let store = place.open().await;
            assert_eq!(store.clock_record().await.unwrap(), ClockRecord::default());
            store.record_confirmed_time(7).await.unwrap();
            assert_eq!(store.clock_record().await.unwrap(), ClockRecord { seen: None, confirmed: Some(7) });
            for seen in [5, 9, 8] {
                store.record_use(seen).await.unwrap();
            }
            store.close().await;
            let store = place.open().await;
            assert_eq!(
                store.clock_record().await.unwrap(),
                ClockRecord { seen: Some(8), confirmed: Some(7) }
            );
        })
        .await;
    }

    #[tokio::test]
    async fn the_newest_row_and_the_number_of_requests_are_known() {
        on_both(async |place| {
            let store = place.open().await;
            assert_eq!(
                (store.newest_row(i64::MAX).await.unwrap(), store.requests_in_log().await.unwrap()),
                (None, 0)
            );
            let row =
                |n: i64| Entry { request_id: format!("req_{n}").into(), at: n * DAY, ..Entry::default() };
            store.record(&(1..=30).map(row).collect::<Vec<_>>()).await.unwrap();
            assert_eq!(store.newest_row(i64::MAX).await.unwrap(), Some(30 * DAY));
            assert_eq!(store.newest_row(20 * DAY + 1).await.unwrap(), Some(20 * DAY));
            assert_eq!(store.newest_row(DAY - 1).await.unwrap(), None);
            // The oldest rows are deleted first. They stay in the sums but are no longer part of the log.
            assert_eq!(store.purge(i64::MAX, 12).await.unwrap(), 12);
            assert_eq!(store.requests_in_log().await.unwrap(), 18);
            let left = store.requests(&Filter::default(), None, 100).await.unwrap();
            assert_eq!(left.last().map(|row| row.at), Some(13 * DAY));
        })
        .await;
    }
}
