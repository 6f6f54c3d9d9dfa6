//! Whether the store answers, for `/readyz`. A background task asks the store, so that a probe never waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gw_server::{NotReady, Readiness};
use gw_store::Store;

/// The time between two questions to the store.
const INTERVAL: Duration = Duration::from_secs(2);
/// A store that takes longer counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the background task.
#[must_use]
pub fn of(store: Store) -> Readiness {
    let is_unreachable = Arc::new(AtomicBool::new(false));
    let found = Arc::clone(&is_unreachable);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let reason = match tokio::time::timeout(TIMEOUT, store.ping()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("it does not answer".to_owned()),
            };
            match (found.swap(reason.is_some(), Ordering::AcqRel), reason) {
                (false, Some(reason)) => tracing::error!(reason, "the store is not reachable"),
                (true, None) => tracing::info!("the store is reachable again"),
                _ => {}
            }
        }
    });
    // The reason stays in the log: a probe needs no key, and the reason can hold a path.
    Box::new(
        move || {
            if is_unreachable.load(Ordering::Acquire) { Err(NotReady::StoreUnreachable) } else { Ok(()) }
        },
    )
}
