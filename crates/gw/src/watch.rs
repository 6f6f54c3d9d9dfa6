//! Keeps the engine up to date with what other programs know: keys in the store, open circuits in Redis.

use std::sync::Arc;
use std::time::Duration;

use gw_admin::LiveAdminService;
use gw_engine::Engine;
use tokio::time::timeout;

/// A look that takes longer is given up: the store is away.
const PATIENCE: Duration = Duration::from_secs(2);
/// The store is looked at so often at the least, whatever it tells of changes.
const EVERY: Duration = Duration::from_secs(1);

/// Looks at the store whenever it may have changed, for as long as the program runs.
pub async fn keep_keys_up_to_date(management: Arc<LiveAdminService>) {
    let mut is_away = false;
    loop {
        // Either way it is time for a look.
        let _ = timeout(EVERY, management.store_changed()).await;
        let problem = match timeout(PATIENCE, management.refresh()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it does not answer".to_owned()),
        };
        match problem {
            Some(reason) if !is_away => {
                tracing::warn!(reason, "the keys cannot be read: those that are known go on for a minute");
                is_away = true;
            }
            None if is_away => {
                tracing::info!("the keys can be read again");
                is_away = false;
            }
            _ => {}
        }
    }
}

/// How soon other replicas hear of a circuit that has opened.
const TELL: Duration = Duration::from_millis(250);

/// Tells other replicas of open circuits and hears of theirs, for as long as the program runs. While Redis is away each
/// replica finds out for itself.
pub async fn share_circuits(engine: Arc<Engine>) {
    let mut turns = tokio::time::interval(TELL);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        engine.share_circuits().await;
    }
}
