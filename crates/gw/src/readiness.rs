//! Whether the store still answers, for `/readyz`: asked in the background, so that a probe never waits for a disk.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gw_server::Readiness;
use gw_store::Store;

/// The store is asked so often.
const EVERY: Duration = Duration::from_secs(2);
/// A store that is slower than this is not reachable.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts asking.
#[must_use]
pub fn of(store: Store) -> Readiness {
    let fault = Arc::new(Mutex::new(None::<String>));
    let found = Arc::clone(&fault);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(EVERY).await;
            let now = match tokio::time::timeout(PATIENCE, store.ping()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("it does not answer".to_owned()),
            };
            let before =
                std::mem::replace(&mut *found.lock().unwrap_or_else(PoisonError::into_inner), now.clone());
            match (before, now) {
                (None, Some(reason)) => tracing::error!(reason, "the store is not reachable"),
                (Some(_), None) => tracing::info!("the store is reachable again"),
                _ => {}
            }
        }
    });
    Box::new(move || match &*fault.lock().unwrap_or_else(PoisonError::into_inner) {
        // The reason is in the log: a probe needs no key, and a path is nobody's business.
        Some(_) => Err("The store is not reachable.".to_owned()),
        None => Ok(()),
    })
}
