//! Keeps the connection: a sign of life every second, and the way back when Redis was away.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// Between two tries to get through.
const PROBE: Duration = Duration::from_millis(100);

/// Runs until it is aborted.
pub(super) async fn keep(core: Arc<Core>) {
    loop {
        match core.link() {
            None => {
                core.open().await;
                if core.link().is_none() {
                    tokio::time::sleep(PROBE).await;
                }
            }
            Some(link) => {
                if tokio::time::timeout(BEAT, core.unlinked(&link)).await.is_err() {
                    core.beat(&link).await;
                }
            }
        }
    }
}
