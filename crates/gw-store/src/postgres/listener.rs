//! Word of changes, as soon as they are made: LISTEN on a connection of its own. Whoever waits for it also looks from
//! time to time, so that nothing depends on it: PgBouncer, for one, lets us ask and then stays silent.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::pool::guarded;
use super::{Address, PATIENCE};

const CHANNEL: &str = "gateway_revision";
/// Between two tries to listen.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens until it is aborted.
pub(super) async fn run(address: Address, news: Arc<Notify>) {
    loop {
        if let Err(error) = listen(&address, &news).await {
            tracing::debug!("not listening for changes: {}", address.error(&error));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen(address: &Address, news: &Notify) -> sqlx::Result<()> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(PATIENCE)
        .connect_lazy_with(address.options.clone());
    let begin = async {
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.ignore_pool_close_event(true);
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok::<_, sqlx::Error>(listener)
    };
    let mut listener = guarded(Instant::now() + PATIENCE, Box::pin(begin)).await??;
    loop {
        // What was said before we listened was not heard.
        news.notify_one();
        let never = Instant::now() + Duration::from_secs(86_400);
        match guarded(never, listener.try_recv()).await? {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
