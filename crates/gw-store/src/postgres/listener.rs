//! Waits for notifications of changes with LISTEN on its own connection. Consumers also poll, so nothing depends on the
//! notifications.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::pool::guarded;
use super::{DatabaseUrl, TIMEOUT};

const CHANNEL: &str = "gateway_revision";
/// The first and the longest pause between two attempts to listen.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// A setting given while connecting. It reaches the server only if the session is not shared.
const OURS: (&str, &str) = ("gateway.listens", "yes");

/// Listens until the task is aborted or the session turns out to be shared.
pub(super) async fn run(address: DatabaseUrl, news: Arc<Notify>) {
    let mut pause = PAUSES.0;
    loop {
        match listen(&address, &news).await {
            Ok(Ended::Lost) => pause = PAUSES.0,
            Ok(Ended::NotOurs) => return,
            Err(error) => {
                tracing::debug!("cannot listen for changes: {}", address.error(&error));
                pause = (pause * 2).min(PAUSES.1);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Why listening ended.
enum Ended {
    /// The connection was lost.
    Lost,
    /// The session is shared with others (PgBouncer), so notifications would reach other clients in the middle of their
    /// answers.
    NotOurs,
}

async fn listen(address: &DatabaseUrl, news: &Notify) -> sqlx::Result<Ended> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(TIMEOUT)
        .connect_lazy_with(address.options.clone().options([OURS]));
    let begin = async {
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.ignore_pool_close_event(true);
        listener.eager_reconnect(false);
        let look = sqlx::raw_sql("SELECT current_setting('gateway.listens', true) AS value");
        let found = look.fetch_one(&mut listener).await?.try_get::<Option<String>, _>("value")?;
        if found.as_deref() != Some(OURS.1) {
            return Ok(None);
        }
        listener.listen(CHANNEL).await?;
        Ok::<_, sqlx::Error>(Some(listener))
    };
    let begun = guarded(Instant::now() + TIMEOUT, Box::pin(begin)).await??;
    let Some(mut listener) = begun else { return Ok(Ended::NotOurs) };
    loop {
        // Changes before LISTEN were not reported, so the consumers must look once.
        news.notify_one();
        let never = Instant::now() + Duration::from_secs(86_400);
        match guarded(never, listener.try_recv()).await? {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Ended::Lost),
            Err(error) => return Err(error),
        }
    }
}
