//! Watches the configuration file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::{Reloader, Trigger};

/// A file counts as written when its folder has been quiet for this long.
const QUIET: Duration = Duration::from_millis(250);
/// The longest wait for a quiet folder.
const MAX_QUIET_WAITS: u32 = 20;
/// The time between two checks of the file without an event: some file systems send none, and files that the configuration
/// names are in other folders.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Loads the configuration whenever its file may have changed, for as long as the program runs. The watcher sees the whole
/// folder, because editors replace a file and Kubernetes replaces a symbolic link beside it.
pub async fn keep_up_to_date(reloader: Arc<Reloader>, file: PathBuf) {
    let changed = Arc::new(Notify::new());
    let _watcher = match watch(&file, &changed) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            let seconds = POLL_INTERVAL.as_secs();
            tracing::warn!(%error, seconds, "the configuration file is not watched, only read again regularly");
            None
        }
    };
    loop {
        if timeout(POLL_INTERVAL, changed.notified()).await.is_ok() {
            wait_until_quiet(&changed).await;
        }
        // The reloader has logged a refusal.
        let _ = reloader.reload(Trigger::File).await;
    }
}

async fn wait_until_quiet(changed: &Notify) {
    for _ in 0..MAX_QUIET_WAITS {
        tokio::select! {
            () = sleep(QUIET) => return,
            () = changed.notified() => {}
        }
    }
}

fn watch(file: &Path, changed: &Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let changed = Arc::clone(changed);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading the file makes an event, too, which is no change.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            changed.notify_one();
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}
