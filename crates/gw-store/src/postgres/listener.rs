//! Word of changes, as soon as they are made: LISTEN on a connection of its own. Whoever waits for it also looks from
//! time to time, so that nothing depends on it.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::pool::guarded;
use super::{Address, PATIENCE};

const CHANNEL: &str = "gateway_revision";
/// Between two tries to listen, at first and at last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// A setting that is given while connecting, and so reaches the server only if the session is ours alone.
const OURS: (&str, &str) = ("gateway.listens", "yes");

/// Listens until it is aborted, or it turns out that it must not.
pub(super) async fn run(address: Address, news: Arc<Notify>) {
    let mut pause = PAUSES.0;
    loop {
        match listen(&address, &news).await {
            Ok(Ended::Lost) => pause = PAUSES.0,
            Ok(Ended::NotOurs) => return,
            Err(error) => {
                tracing::debug!("not listening for changes: {}", address.error(&error));
                pause = (pause * 2).min(PAUSES.1);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Why nothing is heard any more.
enum Ended {
    /// The connection is gone.
    Lost,
    /// The session is shared with others (PgBouncer): what we ask for here, they would be told, in the middle of their
    /// answers.
    NotOurs,
}

async fn listen(address: &Address, news: &Notify) -> sqlx::Result<Ended> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(PATIENCE)
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
    let begun = guarded(Instant::now() + PATIENCE, Box::pin(begin)).await??;
    let Some(mut listener) = begun else { return Ok(Ended::NotOurs) };
    loop {
        // What was said before we listened was not heard.
        news.notify_one();
        let never = Instant::now() + Duration::from_secs(86_400);
        match guarded(never, listener.try_recv()).await? {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Ended::Lost),
            Err(error) => return Err(error),
        }
    }
}
