//! Keeps the engine up to date with other programs: keys in the store, open circuits in Redis.

use std::sync::Arc;
use std::time::Duration;

use gw_admin::LiveAdminService;
use gw_engine::Engine;
use tokio::time::timeout;

/// The longest time for reading the keys. A store that takes longer counts as unreachable.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time between two reads of the keys. A change that the store announces is read at once.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the keys whenever they may have changed, for as long as the program runs.
pub async fn keep_keys_up_to_date(management: Arc<LiveAdminService>) {
    let mut is_away = false;
    loop {
        let _ = timeout(REFRESH_INTERVAL, management.store_changed()).await;
        let problem = match timeout(REFRESH_TIMEOUT, management.refresh()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it does not answer".to_owned()),
        };
        match problem {
            Some(reason) if !is_away => {
                tracing::warn!(
                    reason,
                    "the keys cannot be read from the store; the known keys stay valid for a minute"
                );
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

/// The time between two exchanges of open circuits.
const CIRCUIT_INTERVAL: Duration = Duration::from_millis(250);

/// Exchanges open circuits with other replicas, for as long as the program runs. While Redis is away each replica uses its
/// own circuits alone.
pub async fn share_circuits(engine: Arc<Engine>) {
    let mut ticks = tokio::time::interval(CIRCUIT_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        engine.share_circuits().await;
    }
}
