//! `model-gateway serve`: puts the parts together in their order, and takes them apart again.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gw_engine::cpu_pool::CpuPool;
use gw_engine::engine::{Deployed, Stored};
use gw_engine::manage::Management;
use gw_engine::payloads::Payloads;
use gw_engine::spent::LedgerSpending;
use gw_engine::{Engine, Limiter};
use gw_providers::adapter::ListedModel;
use gw_server::{AccessLog, Edge, Listeners, LogLine, Shutdown};
use gw_store::journal::Journal;
use gw_store::{Store, StoredKey};
use prometheus_client::registry::Registry;
use secrecy::ExposeSecret;
use tokio::net::TcpListener;

use crate::announce::{self, Search};
use crate::cli::{Common, ServeArgs, Stop, print};
use crate::clock::Trusted;
use crate::ledger::{self, Ledger};
use crate::lines::Lines;
use crate::payloads::{self, Keeper};
use crate::setup::{self, Setup};
use crate::signals::Ends;
use crate::{caching, discover, first_start, local, places, readiness, telemetry, watch};

/// Lines of the access log are gathered for so long.
const LOG_DELAY: Duration = Duration::from_millis(100);
/// Threads for what blocks (name resolution, files).
const BLOCKING_THREADS: usize = 16;
/// How long the end of the program waits for such threads.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// The end of the program waits so long for a Redis that has not heard of everything.
const LAST_SETTLES: Duration = Duration::from_secs(2);
/// A start waits so long for the lists of model servers that were found on this machine.
const LOCAL_LISTS: Duration = Duration::from_millis(300);

/// Between two tries to reach the store at the start, at first and at last.
const STORE_PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Runs the gateway until it is told to stop.
///
/// # Errors
/// Exit code 2 for a configuration that cannot be used, 1 for everything else.
pub fn run(common: &Common, args: &ServeArgs) -> Result<(), Stop> {
    let setup = setup::load(common)?;
    refuse_later(&setup)?;
    let _log = telemetry::start(&common.log_level).map_err(Stop::Usage)?;
    // The network is served on threads of its own (gw_server); this one does what is left: store, signals, lists.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(|error| Stop::Runtime(format!("the runtime cannot be started: {error}")))?;
    let ended = runtime.block_on(Box::pin(gateway(setup, args)));
    runtime.shutdown_timeout(LAST_WAIT);
    ended
}

/// A feature that is configured but not built is refused, never ignored.
fn refuse_later(setup: &Setup) -> Result<(), Stop> {
    if setup.config.later.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = setup.config.later.iter().map(|later| format!("\n  {later}")).collect();
    Err(Stop::Usage(format!("the configuration asks for what this version cannot do{}", lines.concat())))
}

async fn gateway(mut setup: Setup, args: &ServeArgs) -> Result<(), Stop> {
    // From the first moment on: a signal during the start must not kill a half-made store.
    let ends = Ends::listen().map_err(|error| Stop::Runtime(format!("signals: {error}")))?;
    if let Some(listen) = &args.listen {
        setup.config.server.listen.clone_from(listen);
    }
    let data = places::data_dir(setup.config.data_dir.as_deref()).map_err(Stop::Runtime)?;
    let store = open_store(&setup).await?;
    let stored = store.keys().await.map_err(runtime)?;
    let configured = !setup.config.engine.keys.is_empty();
    if !configured && !first_start::any_usable(&stored, first_start::now()) {
        only_loopback(&setup).await?;
    }
    let listeners = bind(&setup).await?;
    let address = listeners.public.local_addr().map_err(runtime)?;
    let search = complete_providers(&mut setup, args, address).await;
    let deployed = setup.deploy().map_err(|problems| Stop::Usage(problems.join("\n")))?;
    // Not before the address is ours: keys that were made for a start that failed would never have been shown.
    let made = first_start::make_keys(&store, configured, first_start::now()).await.map_err(runtime)?;
    let stored = if made.is_some() { store.keys().await.map_err(runtime)? } else { stored };
    let mut registry = Registry::default();
    let kept = keep(&setup, &store, stored, deployed.clone(), &mut registry).await?;
    let listed = if search.has_found() { first_lists(&kept.engine, &deployed).await } else { None };
    announce::say(&setup, &search, &data)?;
    if let Some(keys) = made {
        let catalog = setup.catalog(false).map_err(|problems| Stop::Usage(problems.join("\n")))?;
        let model = setup::model_to_try(&catalog).or(listed);
        print(&keys.welcome(address, &announce::store(&setup, &data), model.as_deref()))?;
    }
    serve(Running { setup, store, kept, deployed, registry }, listeners, ends).await
}

/// The engine, and what it keeps: the ledger, payloads, and who counts limits and budgets.
struct Kept {
    engine: Arc<Engine>,
    journal: Arc<Journal>,
    payloads: Arc<Payloads>,
    limiter: Limiter,
    clock: Arc<Trusted>,
}

async fn keep(
    setup: &Setup,
    store: &Store,
    keys: Vec<StoredKey>,
    deployed: Vec<Deployed>,
    registry: &mut Registry,
) -> Result<Kept, Stop> {
    let (clock, last_use) = Trusted::open(store, registry).await?;
    let (journal, left) = ledger::open(setup, store, last_use, registry).await?;
    let spending = Arc::new(LedgerSpending::new(store.clone(), Arc::clone(&journal)));
    let limiter = match setup.config.redis.clone() {
        Some(redis) => Limiter::shared(redis, spending).await,
        None => Limiter::local(spending),
    };
    ledger::show(&limiter, registry);
    let teams = store.teams().await.map_err(runtime)?;
    let caching = caching::open(&setup.config, registry).await;
    let payloads = payloads::open(&setup.config.store, registry)?;
    let stored = Stored {
        keys,
        teams,
        journal: Some(Arc::clone(&journal)),
        payloads: Some(Arc::clone(&payloads)),
        limiter: limiter.clone(),
        caching,
        cpu: CpuPool::new(workers()).map_err(|error| Stop::Runtime(format!("the CPU pool: {error}")))?,
    };
    let engine = engine(setup, deployed, stored, registry)?;
    let may_be_forgotten = ledger::charge(setup, &engine, &limiter, &left).await?;
    limiter.drain(LAST_SETTLES).await;
    if may_be_forgotten && limiter.undelivered().0 == 0 {
        left.remove_segments();
    }
    Ok(Kept { engine, journal, payloads, limiter, clock })
}

/// What is put together when the gateway begins to serve.
struct Running {
    setup: Setup,
    store: Store,
    kept: Kept,
    deployed: Vec<Deployed>,
    registry: Registry,
}

async fn serve(running: Running, listeners: Listeners, ends: Ends) -> Result<(), Stop> {
    let Running { setup, store, kept, deployed, registry } = running;
    let Kept { engine, journal, payloads, limiter, clock } = kept;
    let retention = setup.config.store.retention_days;
    let ledger = Ledger::start(journal, store.clone(), limiter.clone(), Arc::clone(&clock), retention);
    let keeper = Keeper::start(payloads, store.clone(), Arc::clone(&clock), &setup.config.store);
    tokio::spawn(Arc::clone(&clock).keep());
    let (lines, _access_log) = Lines::start("access-log", io::stdout(), LOG_DELAY)
        .map_err(|error| Stop::Runtime(error.to_string()))?;
    for Deployed { provider, .. } in deployed.into_iter().filter(|deployed| deployed.discovers) {
        tokio::spawn(discover::keep_up_to_date(Arc::clone(&engine), provider));
    }
    let management = Management::new(store.clone(), Arc::clone(&engine), tokio::runtime::Handle::current());
    management.refresh().await.map_err(runtime)?;
    tokio::spawn(watch::keep_keys_up_to_date(Arc::clone(&management)));
    if setup.config.redis.is_some() {
        tokio::spawn(watch::share_circuits(Arc::clone(&engine)));
    }
    let readiness = readiness::of(store);
    let scheme = if setup.config.server.tls.is_some() { "https" } else { "http" };
    let edge = Edge::new(setup.config.server, engine, management, Arc::new(Log(lines)), readiness, registry)
        .map_err(|problem| Stop::Usage(format!("server.tls: {problem}")))?;
    let shutdown = Shutdown::new();
    tokio::spawn(stop_on_signals(ends, shutdown.clone()));
    ready(&listeners, scheme);
    gw_server::serve(edge, listeners, workers(), shutdown).await.map_err(runtime)?;
    // What is not delivered by then is a lease that expires.
    limiter.drain(LAST_SETTLES).await;
    keeper.close().await;
    ledger.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// The first signal lets running requests finish, the second ends them.
async fn stop_on_signals(mut ends: Ends, shutdown: Shutdown) {
    let name = ends.next().await;
    tracing::info!("{name}: no new requests; waiting for those that run");
    shutdown.begin();
    let name = ends.next().await;
    tracing::warn!("{name} again: stopping at once");
    shutdown.now();
}

/// The line that scripts wait for.
fn ready(listeners: &Listeners, scheme: &str) {
    if let Ok(address) = listeners.public.local_addr() {
        tracing::info!("listening on {scheme}://{address}");
    }
    if let Some(Ok(address)) = listeners.admin.as_ref().map(TcpListener::local_addr) {
        tracing::info!("metrics and management on {scheme}://{address}");
    }
}

/// Opens the store of the configuration, and makes it if it is missing. Waits for a server that cannot be reached, as long
/// as the configuration says.
///
/// # Errors
/// Exit code 1 with what is wrong with it.
pub async fn open_store(setup: &Setup) -> Result<Store, Stop> {
    let settings = &setup.config.store;
    let Some(url) = &settings.url else {
        let directory = places::data_dir(setup.config.data_dir.as_deref()).map_err(Stop::Runtime)?;
        return Store::open(&directory.join("gateway.db")).await.map_err(runtime);
    };
    let (start, mut pause) = (Instant::now(), STORE_PAUSES.0);
    loop {
        let error = match Store::open_url(url.expose_secret()).await {
            Err(error @ gw_store::Error::Unreachable { .. }) => error,
            done => return done.map_err(runtime),
        };
        let left = settings.start_timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(runtime(error));
        }
        tracing::warn!("{error}; trying again, for {} s more", left.as_secs());
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 2).min(STORE_PAUSES.1);
    }
}

async fn addresses(listen: &str) -> Result<Vec<SocketAddr>, Stop> {
    let found = tokio::net::lookup_host(listen).await;
    Ok(found.map_err(|error| Stop::Usage(format!("cannot listen on {listen}: {error}")))?.collect())
}

/// Without any key, whoever reaches the gateway could try to be the first to have one.
async fn only_loopback(setup: &Setup) -> Result<(), Stop> {
    let server = &setup.config.server;
    for listen in std::iter::once(&server.listen).chain(&server.admin_listen) {
        if !addresses(listen).await?.iter().all(|address| address.ip().is_loopback()) {
            return Err(Stop::Usage(needs_a_key(listen)));
        }
    }
    Ok(())
}

/// Why nothing listens on an address that others can reach while there is no key.
#[must_use]
pub fn needs_a_key(listen: &str) -> String {
    format!(
        "listening on {listen}, which others can reach, needs a key: add [[keys]] to the configuration, or start once on \
         127.0.0.1 to get one"
    )
}

/// Whether this is written as an address that other machines can reach; of a name only a name server could tell.
#[must_use]
pub fn is_written_reachable(listen: &str) -> bool {
    listen.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback())
}

async fn bind(setup: &Setup) -> Result<Listeners, Stop> {
    /// tokio sets SO_REUSEADDR, so that a restart finds its port free.
    async fn one(listen: &str, other: &str) -> Result<TcpListener, Stop> {
        TcpListener::bind(listen).await.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another program listens there, perhaps another gateway".to_owned()
                }
                io::ErrorKind::AddrNotAvailable => "this machine does not have the address".to_owned(),
                _ => error.to_string(),
            };
            Stop::Runtime(format!("cannot listen on {listen}: {why}; choose another address with {other}"))
        })
    }
    let server = &setup.config.server;
    let admin = match &server.admin_listen {
        Some(listen) => Some(one(listen, "server.admin_listen").await?),
        None => None,
    };
    Ok(Listeners { public: one(&server.listen, "--listen HOST:PORT or server.listen").await?, admin })
}

/// Adds the providers that are on without a configuration; gives the outcome of the search for model servers on this machine.
async fn complete_providers(setup: &mut Setup, args: &ServeArgs, own: SocketAddr) -> Search {
    let search = if setup.path.is_some() {
        Search::Configured
    } else if args.no_discover {
        Search::SwitchedOff
    } else if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        Search::NoTerminal
    } else {
        let mut found = local::find(Some(own.port())).await;
        found.retain(|server| setup.config.providers.iter().all(|provider| provider.name != server.name));
        setup.config.providers.extend(found.iter().cloned());
        Search::Done(found)
    };
    setup.demo_if_alone();
    search
}

/// The engine of this configuration.
///
/// # Errors
/// Exit code 2 with what is wrong with the catalogue.
pub fn engine(
    setup: &Setup,
    deployed: Vec<Deployed>,
    stored: Stored,
    registry: &mut Registry,
) -> Result<Arc<Engine>, Stop> {
    let wrong = |problems: Vec<String>| Stop::Usage(problems.join("\n"));
    if !setup.config.cache.semantic.is_empty() {
        let problems = setup.semantic(&setup.catalog(false).map_err(wrong)?);
        if !problems.is_empty() {
            return Err(wrong(problems));
        }
    }
    Engine::new(setup.config.engine.clone(), deployed, setup::shipped(), stored, registry).map_err(wrong)
}

/// Asks every provider that lists its own models, all at once and not for long; gives the first model they have.
async fn first_lists(engine: &Arc<Engine>, deployed: &[Deployed]) -> Option<String> {
    let mut asking = tokio::task::JoinSet::new();
    for Deployed { provider, .. } in deployed.iter().filter(|deployed| deployed.discovers) {
        let (engine, provider) = (Arc::clone(engine), Arc::clone(provider));
        asking.spawn(async move {
            let listed = discover::once(&engine, &provider).await.ok()?;
            // The catalogue leaves out what cannot be a name.
            let id = |model: &ListedModel| format!("{}/{}", provider.name(), model.name);
            listed.iter().map(id).find(|id| engine.has_model(id))
        });
    }
    let models = tokio::time::timeout(LOCAL_LISTS, asking.join_all()).await.unwrap_or_default();
    models.into_iter().flatten().min()
}

/// A failure of the program, not of the configuration.
pub(crate) fn runtime(error: impl std::fmt::Display) -> Stop {
    Stop::Runtime(error.to_string())
}

/// Threads that serve the network: as many as cores, or what `TOKIO_WORKER_THREADS` says.
fn workers() -> usize {
    let asked = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)).max(1)
}

/// The access log on standard output.
struct Log(Lines);

impl AccessLog for Log {
    fn write(&self, line: &LogLine<'_>) {
        self.0.push(&line.to_json());
    }
}
