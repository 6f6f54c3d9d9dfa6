//! The queue of alerts: messages that wait for their delivery, and the claims by which each event is queued once over all
//! processes and restarts.

use crate::db::{Result, Store, WriteTransaction};
use crate::sql::{Row, Sql};

/// The most messages that wait for one alert.
const MAX_WAITING: i64 = 1_000;

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedAlert {
    /// The id that the receiver sees. It stays the same over all attempts.
    pub id: String,
    /// The name of the alert in the configuration.
    pub alert: String,
    /// The event, as JSON.
    pub body: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The number of attempts that have begun.
    pub attempts: i64,
}

/// The right to tell of an event. One process gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertClaim {
    /// The name of the event, with its period.
    pub claim: String,
    /// The unix second from which the event may be told again.
    pub until: i64,
}

/// The result of [`Store::queue_alert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueResult {
    /// The message waits now.
    Queued,
    /// The event was claimed before.
    Known,
    /// Too many messages wait for the alert. The event is not claimed.
    Full,
}

/// The queue of one alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertQueue {
    /// The name of the alert.
    pub alert: String,
    /// The messages that wait.
    pub waiting: i64,
    /// When the first of them is due, in unix milliseconds.
    pub due_at: i64,
    /// The error of the last attempt, if one failed.
    pub last_error: Option<String>,
}

impl Store {
    /// Queues a message whose event nobody has claimed, and claims the event. Both are stored, or neither.
    pub async fn queue_alert(&self, claim: &AlertClaim, message: &QueuedAlert) -> Result<QueueResult> {
        let write = self.begin().await?;
        queue(write, claim, message).await.map_err(|error| self.error(&error))
    }

    /// Takes the message of an alert that is due first, and counts the attempt. Nobody else gets it before `until`. Times are
    /// unix milliseconds.
    pub async fn take_alert(&self, alert: &str, now: i64, until: i64) -> Result<Option<QueuedAlert>> {
        let write = self.begin().await?;
        take(write, alert, now, until).await.map_err(|error| self.error(&error))
    }

    /// Removes a message that was delivered, or that is given up.
    pub async fn remove_alert(&self, id: &str) -> Result<()> {
        self.run(Sql::new("DELETE FROM gateway_alert_queue WHERE id = $1").text(id)).await.map(drop)
    }

    /// Puts a message back until `due_at` (unix milliseconds), with the reason why it was not delivered.
    pub async fn delay_alert(&self, id: &str, due_at: i64, error: &str) -> Result<()> {
        let update = "UPDATE gateway_alert_queue SET due_at = $1, last_error = $2 WHERE id = $3";
        self.run(Sql::new(update).int(due_at).text(error).text(id)).await.map(drop)
    }

    /// The queues that are not empty.
    pub async fn alert_queues(&self) -> Result<Vec<AlertQueue>> {
        let select = "SELECT alert, count(*) AS waiting, min(due_at) AS due_at, max(last_error) AS last_error \
            FROM gateway_alert_queue GROUP BY alert ORDER BY alert";
        self.list(Sql::new(select), |row| {
            Ok(AlertQueue {
                alert: row.get("alert")?,
                waiting: row.get("waiting")?,
                due_at: row.get("due_at")?,
                last_error: row.get("last_error")?,
            })
        })
        .await
    }

    /// Makes the messages due that a process took and did not deliver. Only for a store of one process, at its start.
    pub async fn release_alerts(&self, now: i64) -> Result<()> {
        let update = "UPDATE gateway_alert_queue SET due_at = $1 WHERE due_at > $2 AND last_error IS NULL";
        self.run(Sql::new(update).int(now).int(now)).await.map(drop)
    }

    /// Gives up messages that were made before `oldest` (unix milliseconds), and forgets claims that ended before `now` (unix
    /// seconds). Returns the number of messages.
    pub async fn purge_alerts(&self, oldest: i64, now: i64) -> Result<u64> {
        self.run(Sql::new("DELETE FROM gateway_alert_claims WHERE until_at < $1").int(now)).await?;
        self.run(Sql::new("DELETE FROM gateway_alert_queue WHERE created_at < $1").int(oldest)).await
    }
}

async fn queue(
    mut write: WriteTransaction<'_>,
    AlertClaim { claim, until }: &AlertClaim,
    message: &QueuedAlert,
) -> sqlx::Result<QueueResult> {
    let insert = "INSERT INTO gateway_alert_claims (claim, until_at) VALUES ($1, $2) \
        ON CONFLICT (claim) DO UPDATE SET until_at = excluded.until_at WHERE gateway_alert_claims.until_at <= $3";
    let now = message.created_at.div_euclid(1_000);
    if write.run(Sql::new(insert).text(claim.as_str()).int(*until).int(now)).await? == 0 {
        write.rollback().await?;
        return Ok(QueueResult::Known);
    }
    let count = "SELECT count(*) AS waiting FROM gateway_alert_queue WHERE alert = $1";
    let rows = write.all(Sql::new(count).text(&*message.alert)).await?;
    let waiting: i64 = rows.first().map_or(Ok(0), |row| row.get("waiting"))?;
    if waiting >= MAX_WAITING {
        write.rollback().await?;
        return Ok(QueueResult::Full);
    }
    let insert = "INSERT INTO gateway_alert_queue (id, alert, body, created_at, due_at, attempts) \
        VALUES ($1, $2, $3, $4, $5, 0)";
    let insert = Sql::new(insert).text(&*message.id).text(&*message.alert).text(&*message.body);
    write.run(insert.int(message.created_at).int(message.created_at)).await?;
    write.commit().await?;
    Ok(QueueResult::Queued)
}

async fn take(
    mut write: WriteTransaction<'_>,
    alert: &str,
    now: i64,
    until: i64,
) -> sqlx::Result<Option<QueuedAlert>> {
    // The second condition holds for a row that another process took meanwhile.
    let update = "UPDATE gateway_alert_queue SET due_at = $1, attempts = attempts + 1 WHERE due_at <= $2 AND id = \
        (SELECT id FROM gateway_alert_queue WHERE alert = $3 AND due_at <= $4 ORDER BY due_at, id LIMIT 1) \
        RETURNING id, alert, body, created_at, attempts";
    let rows = write.all(Sql::new(update).int(until).int(now).text(alert).int(now)).await?;
    let taken = rows.first().map(read).transpose()?;
    write.commit().await?;
    Ok(taken)
}

fn read(row: &Row) -> sqlx::Result<QueuedAlert> {
    Ok(QueuedAlert {
        id: row.get("id")?,
        alert: row.get("alert")?,
        body: row.get("body")?,
        created_at: row.get("created_at")?,
        attempts: row.get("attempts")?,
    })
}

#[cfg(test)]
mod tests {
    use super::{AlertClaim, MAX_WAITING, QueueResult, QueuedAlert};
    use crate::testing::on_both;

    fn message(id: &str, created_at: i64) -> QueuedAlert {
        let (id, alert, body) = (id.to_owned(), "a".to_owned(), "{}".to_owned());
        QueuedAlert { id, alert, body, created_at, attempts: 0 }
    }

    fn claim(name: &str, until: i64) -> AlertClaim {
        AlertClaim { claim: name.to_owned(), until }
    }

    #[tokio::test]
    async fn an_event_is_queued_once_until_its_claim_ends() {
        on_both(async |place| {
            let store = place.open().await;
            let queue = async |until, id: &str, at| {
                store.queue_alert(&claim("c", until), &message(id, at)).await.unwrap()
            };
            assert_eq!(queue(10, "1", 1_000).await, QueueResult::Queued);
            assert_eq!(queue(10, "2", 9_999).await, QueueResult::Known);
            assert_eq!(queue(20, "3", 10_000).await, QueueResult::Queued);
            assert_eq!(queue(20, "4", 19_000).await, QueueResult::Known);
            assert_eq!(store.purge_alerts(1_001, 21).await.unwrap(), 1);
            assert_eq!(queue(30, "5", 11_000).await, QueueResult::Queued, "the claim is forgotten");
        })
        .await;
    }

    #[tokio::test]
    async fn a_message_is_taken_by_one_process_until_its_time_is_over() {
        on_both(async |place| {
            let store = place.open().await;
            store.queue_alert(&claim("c", 10), &message("1", 1_000)).await.unwrap();
            let taken = store.take_alert("a", 1_000, 2_000).await.unwrap();
            assert_eq!(taken, Some(QueuedAlert { attempts: 1, ..message("1", 1_000) }));
            assert_eq!(store.take_alert("a", 1_999, 3_000).await.unwrap(), None);
            assert_eq!(store.take_alert("b", 2_000, 3_000).await.unwrap(), None);
            assert_eq!(store.take_alert("a", 2_000, 3_000).await.unwrap().unwrap().attempts, 2);
            store.delay_alert("1", 5_000, "status 500").await.unwrap();
            let queues = store.alert_queues().await.unwrap();
            let [queue] = queues.as_slice() else { panic!("{queues:?}") };
            assert_eq!((queue.waiting, queue.due_at), (1, 5_000));
            assert_eq!(queue.last_error.as_deref(), Some("status 500"));
            store.remove_alert("1").await.unwrap();
            assert!(store.alert_queues().await.unwrap().is_empty());
        })
        .await;
    }

    #[tokio::test]
    async fn a_full_queue_claims_nothing() {
        on_both(async |place| {
            let store = place.open().await;
            for number in 0..MAX_WAITING {
                let id = number.to_string();
                store.queue_alert(&claim(&id, 10), &message(&id, 1_000)).await.unwrap();
            }
            let more = store.queue_alert(&claim("more", 10), &message("more", 1_000)).await.unwrap();
            assert_eq!(more, QueueResult::Full);
            store.remove_alert("0").await.unwrap();
            let more = store.queue_alert(&claim("more", 10), &message("more", 1_000)).await.unwrap();
            assert_eq!(more, QueueResult::Queued);
        })
        .await;
    }
}
