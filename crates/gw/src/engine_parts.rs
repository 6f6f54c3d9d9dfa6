//! The engine of a process, and the parts that it uses: the journal, the limiter, the payloads, the clock and the response cache.

use std::sync::Arc;
use std::time::Duration;

use gw_command::CommandError;
use gw_config::setup::Setup;
use gw_engine::cpu_pool::CpuPool;
use gw_engine::engine::{Deployed, Stored};
use gw_engine::ledger_spending::LedgerSpending;
use gw_engine::payloads::Payloads;
use gw_engine::settings::EngineSettings;
use gw_engine::stored_responses::{ResponsePlace, ResponseTable, StoredResponses};
use gw_engine::{Engine, Limiter};
use gw_identity::Issuers;
use gw_providers::seal::Sealer;
use gw_store::journal::Journal;
use gw_store::{Store, StoredKey};
use prometheus_client::registry::Registry;

use crate::clock::TrustedClock;
use crate::response_cache::CurrentCache;
use crate::stored_responses::DatabaseResponses;
use crate::{identity, journal_recovery, ledger, memory_limit, payloads, response_cache};

/// The longest wait for Redis to take the last charges at the end of the program.
pub(crate) const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The engine and the parts that it uses.
pub(crate) struct EngineParts {
    pub(crate) engine: Arc<Engine>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) payloads: Arc<Payloads>,
    pub(crate) limiter: Limiter,
    pub(crate) clock: Arc<TrustedClock>,
    pub(crate) response_cache: CurrentCache,
    pub(crate) issuers: Option<Issuers>,
}

/// Opens the parts, builds the engine, and charges what an earlier process has left in the journal.
///
/// # Errors
/// The store, the journal or Redis cannot be used, or the configuration is wrong.
pub(crate) async fn build_engine_parts(
    setup: &Setup,
    store: &Store,
    keys: Vec<StoredKey>,
    deployed: Vec<Deployed>,
    sealer: Sealer,
    registry: &mut Registry,
) -> Result<EngineParts, CommandError> {
    let (clock, last_use) = TrustedClock::open(store, registry).await?;
    let (journal, found) = journal_recovery::open(setup, store, last_use, registry).await?;
    let spending = Arc::new(LedgerSpending::new(store.clone(), Arc::clone(&journal)));
    let limiter = match setup.config.redis.clone() {
        Some(redis) => Limiter::over_redis(redis, spending).await,
        None => Limiter::in_process(spending),
    };
    ledger::register_limiter(&limiter, registry);
    let teams = store.teams().await.map_err(CommandError::runtime)?;
    let response_cache = response_cache::open(&setup.config, registry).await;
    let payloads = payloads::open(&setup.config.store, registry)?;
    let issuers = identity::start(&setup.config.identity).await;
    let is_in_database = setup.config.responses.place == ResponsePlace::Database;
    let open =
        || -> Arc<dyn ResponseTable> { DatabaseResponses::start(store.clone(), sealer.clone(), &clock) };
    let table = is_in_database.then(open);
    let stored = Stored {
        keys,
        teams,
        journal: Some(Arc::clone(&journal)),
        payloads: Some(Arc::clone(&payloads)),
        limiter: limiter.clone(),
        caching: response_cache.load_full(),
        responses: StoredResponses::new(setup.config.responses, table),
        sealer,
        issuers: issuers.clone(),
        cpu: CpuPool::new(workers())
            .map_err(|error| CommandError::Runtime(format!("the CPU pool: {error}")))?,
    };
    let engine = engine(setup, deployed, stored, registry)?;
    found.charge(&engine, &limiter, &clock).await;
    Ok(EngineParts { engine, journal, payloads, limiter, clock, response_cache, issuers })
}

/// Builds the engine of the configuration.
///
/// # Errors
/// Exit code 2 with the problems of the catalogue.
pub fn engine(
    setup: &Setup,
    deployed: Vec<Deployed>,
    stored: Stored,
    registry: &mut Registry,
) -> Result<Arc<Engine>, CommandError> {
    let wrong = |problems: Vec<String>| CommandError::problems(&problems);
    if !setup.config.cache.semantic.is_empty() {
        let problems = setup.semantic_problems(&setup.catalog(false).map_err(wrong)?);
        if !problems.is_empty() {
            return Err(wrong(problems));
        }
    }
    let settings = EngineSettings { allowed_bytes: memory_limit::allowed(), ..setup.config.engine.clone() };
    Engine::new(settings, deployed, setup.documents.clone(), stored, registry).map_err(wrong)
}

/// The number of threads that serve the network: `TOKIO_WORKER_THREADS`, or the number of cores.
#[must_use]
pub(crate) fn workers() -> usize {
    let configured = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|count| count.parse().ok());
    configured
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
        .max(1)
}
