//! Asks providers for their own model lists: at the start, and now and then.

use std::sync::Arc;
use std::time::Duration;

use gw_engine::Engine;
use gw_providers::adapter::ListedModel;
use gw_providers::provider::Provider;
use gw_wire::failure::Failure;
use tokio::time::Instant;

/// A list may be this long.
const LARGEST: usize = 16 << 20;
/// A list that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// The list is asked for again.
const EVERY: Duration = Duration::from_secs(600);
/// The first and the longest wait after a failure.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Keeps the engine's idea of this provider's models up to date, for as long as the program runs.
pub async fn keep_up_to_date(engine: Arc<Engine>, provider: Arc<Provider>) {
    let [first, longest] = WAITS;
    let mut wait = first;
    let mut known = None;
    loop {
        match once(&engine, &provider).await {
            Ok(listed) => {
                let models = listed.len();
                if known != Some(models) {
                    tracing::info!(provider = &**provider.name(), models, "models discovered");
                }
                known = Some(models);
                wait = first;
                tokio::time::sleep(EVERY).await;
            }
            Err(problem) => {
                // One line when it begins; the rest would only repeat it.
                if wait == first {
                    tracing::warn!(
                        provider = &**provider.name(),
                        problem,
                        "models could not be discovered; trying again"
                    );
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(longest);
            }
        }
    }
}

/// Asks once and tells the engine; gives the list.
///
/// # Errors
/// Why there is no list, in words without secrets.
pub async fn once(engine: &Engine, provider: &Provider) -> Result<Vec<ListedModel>, String> {
    let listed = list(provider).await?;
    engine.set_discovered(provider.name(), listed.clone()).map_err(|problems| problems.join("; "))?;
    Ok(listed)
}

/// The provider's own list.
///
/// # Errors
/// As [`once`].
pub async fn list(provider: &Provider) -> Result<Vec<ListedModel>, String> {
    let adapter = provider.adapter();
    let call = adapter.list_models().ok_or("this API has no list of models")?;
    let failed = |failure: Failure| {
        let failure = provider.censor(failure);
        let known: Vec<String> = [failure.detail, failure.reason].into_iter().flatten().collect();
        if known.is_empty() { failure.message } else { format!("{} ({})", failure.message, known.join(": ")) }
    };
    let clocks = provider.timeouts();
    let deadline = Instant::now() + clocks.total.min(PATIENCE);
    let response = provider.send(call, &clocks).await.map_err(failed)?;
    let body = response.body.collect(LARGEST, clocks.idle, deadline).await.map_err(failed)?;
    if !(200..300).contains(&response.status) {
        return Err(failed(adapter.classify(response.status, &response.headers, &body)));
    }
    adapter.decode_models(&body).map_err(failed)
}
