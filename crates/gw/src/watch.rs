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
        match read_next_change(&management).await {
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

/// Waits until the keys may have changed, and reads them. Returns the reason if the store does not give them.
async fn read_next_change(management: &LiveAdminService) -> Option<String> {
    let _ = timeout(REFRESH_INTERVAL, management.store_changed()).await;
    match timeout(REFRESH_TIMEOUT, management.refresh()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("it does not answer".to_owned()),
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

#[cfg(test)]
mod tests {
    use gw_engine::engine::Stored;
    use gw_engine::settings::EngineSettings;
    use gw_store::{NewKey, Role, Store};
    use prometheus_client::registry::Registry;
    use tokio::runtime::Handle;

    use super::*;

    #[tokio::test]
    async fn r04_a_change_by_another_process_is_read_within_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.db");
        let (store, other) = (Store::open(&path).await.unwrap(), Store::open(&path).await.unwrap());
        let none = Vec::new;
        let engine = Engine::new(
            EngineSettings::default(),
            Vec::new(),
            none(),
            Stored::default(),
            &mut Registry::default(),
        );
        let engine = engine.unwrap();
        let management = LiveAdminService::new(store, Arc::clone(&engine), Handle::current());
        management.refresh().await.unwrap();
        other.insert_key(&NewKey::generate().unwrap().stored("k", Role::Inference, 1)).await.unwrap();
        assert!(engine.has_no_keys());

        // The clock stands still other than for one step of a second. A running blocking task keeps it from moving by
        // itself.
        let (test_runs, is_over) = std::sync::mpsc::channel::<()>();
        let _blocking = tokio::task::spawn_blocking(move || is_over.recv());
        tokio::time::pause();
        let second = tokio::time::advance(Duration::from_secs(1));
        let (problem, ()) = tokio::join!(read_next_change(&management), second);
        assert_eq!(problem, None);
        assert!(!engine.has_no_keys());
        drop(test_runs);
    }
}
