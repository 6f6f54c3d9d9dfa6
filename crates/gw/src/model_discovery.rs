//! Asks providers for their own lists of models, at the start and then regularly.

use std::sync::Arc;
use std::time::Duration;

use gw_engine::Engine;
use gw_providers::adapter::ListedModel;
use gw_providers::provider::Provider;
use gw_wire::failure::Failure;
use tokio::time::Instant;

/// The largest list of a provider.
const MAX_LIST_BYTES: usize = 16 << 20;
/// The longest time for a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two requests for a list.
const INTERVAL: Duration = Duration::from_secs(600);
/// The first and the longest pause after a failure.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Keeps the engine's list of this provider's models up to date, for as long as the program runs.
pub async fn keep_up_to_date(engine: Arc<Engine>, provider: Arc<Provider>) {
    let [first, longest] = PAUSES;
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
                tokio::time::sleep(INTERVAL).await;
            }
            Err(problem) => {
                // Only the first failure is logged; the others would repeat it.
                if wait == first {
                    tracing::warn!(
                        provider = &**provider.name(),
                        problem = %problem,
                        "models could not be discovered; trying again"
                    );
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(longest);
            }
        }
    }
}

/// The reason why there is no list. Its text holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// The dialect of the provider has no list of models.
    #[error("this API has no list of models")]
    NoList,
    /// The provider did not answer with a list.
    #[error("{0}")]
    Failed(String),
    /// The catalogue refuses the list.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
}

/// Asks the provider once, hands its list to the engine, and returns the list.
///
/// # Errors
/// The reason why there is no list.
pub async fn once(engine: &Engine, provider: &Provider) -> Result<Vec<ListedModel>, DiscoveryError> {
    let listed = list(provider).await?;
    engine.set_discovered(provider.name(), listed.clone()).map_err(DiscoveryError::Refused)?;
    Ok(listed)
}

/// The provider's own list.
///
/// # Errors
/// As [`once`].
pub async fn list(provider: &Provider) -> Result<Vec<ListedModel>, DiscoveryError> {
    let adapter = provider.adapter();
    let listing = adapter.traits().models.ok_or(DiscoveryError::NoList)?;
    let failed = |failure: Failure| {
        let failure = provider.censor(failure);
        let known: Vec<String> = [failure.detail, failure.reason].into_iter().flatten().collect();
        let text = match known.as_slice() {
            [] => failure.message,
            known => format!("{} ({})", failure.message, known.join(": ")),
        };
        DiscoveryError::Failed(text)
    };
    let clocks = provider.timeouts();
    let deadline = Instant::now() + clocks.total.min(LIST_TIMEOUT);
    let response = provider.send((listing.call)(), &clocks).await.map_err(failed)?;
    let body = response.body.collect(MAX_LIST_BYTES, clocks.idle, deadline).await.map_err(failed)?;
    if !(200..300).contains(&response.status) {
        return Err(failed(adapter.classify(response.status, &response.headers, &body)));
    }
    (listing.read)(&body).map_err(failed)
}
