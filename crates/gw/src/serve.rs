//! `model-gateway serve`: starts the parts of the gateway in their order, and stops them again.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gw_admin::{Diagnostics, IssuerSignIn, LiveConfiguration, SignIn};
use gw_command::{CommandError, Common, print};
use gw_config::setup::{self, Setup};
use gw_config::stored_configuration::{self, StoredConfiguration};
use gw_config::{encryption_key, paths};
use gw_engine::Engine;
use gw_engine::engine::Deployed;
use gw_engine::request::trace::Tracer;
use gw_providers::adapter::ListedModel;
use gw_providers::seal::Sealer;
use gw_server::settings::ServerSettings;
use gw_server::{AccessLog, Listeners, LogLine, OperatorServices, ServerState, Shutdown};
use gw_store::Store;
use gw_telemetry::{Exporter, OtlpSettings, TraceQueue};
use gw_wire::calendar;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::console_link::AddressNote;
use crate::diagnostics::GatewayDiagnostics;
use crate::engine_parts::{EngineParts, SETTLE_TIMEOUT, build_engine_parts, workers};
use crate::ledger::Ledger;
use crate::listeners::{self, PassedSockets, SocketOrigin, Sockets};
use crate::log_writer::{self, LogWriter};
use crate::nightly_reconcile::NightlyReconcile;
use crate::payloads::PayloadTasks;
use crate::reload::{self, Live, Reloader, Trigger};
use crate::serve_args::ServeArgs;
use crate::service_manager::ServiceManager;
use crate::signals::{Received, Signals};
use crate::start_report::{self, ServerSearch};
use crate::{
    alerts, console_link, first_start, hand_over, journal_recovery, limit_metrics, local_servers, management,
    memory_limit, model_discovery, open_files, provider_metrics, readiness, store, telemetry, watch,
};

/// The files of the web console.
#[cfg(feature = "console")]
const CONSOLE: &[gw_server::Asset] = gw_console::ASSETS;
#[cfg(not(feature = "console"))]
const CONSOLE: &[gw_server::Asset] = &[];
/// The time for which lines of the access log are gathered before a write.
const ACCESS_LOG_DELAY: Duration = Duration::from_millis(100);
/// The most threads for blocking work, such as name resolution and files.
const BLOCKING_THREADS: usize = 16;
/// The longest wait for these threads when the program ends.
const THREADS_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest wait of a start for the model lists of servers that were found on this machine.
const LOCAL_LIST_TIMEOUT: Duration = Duration::from_millis(300);

/// Runs the gateway until a signal stops it.
///
/// # Errors
/// Exit code 2 for a configuration that cannot be used, 1 for everything else.
pub fn run(common: &Common, args: &ServeArgs) -> Result<(), CommandError> {
    let setup = setup::load(common)?;
    // No other thread runs yet, because this removes variables from the environment.
    let passed = PassedSockets::take();
    let log = telemetry::start(&common.log_level).map_err(|error| CommandError::Usage(error.to_string()))?;
    // gw_server has its own threads for the network. This thread serves the store, the signals and the background tasks.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(|error| CommandError::Runtime(format!("the runtime cannot be started: {error}")))?;
    let ended = runtime.block_on(Box::pin(gateway(common, setup, args, passed, log.writer())));
    runtime.shutdown_timeout(THREADS_TIMEOUT);
    ended
}

async fn gateway(
    common: &Common,
    mut setup: Setup,
    args: &ServeArgs,
    passed: PassedSockets,
    log: LogWriter,
) -> Result<(), CommandError> {
    // The signals are caught from the beginning, so that none interrupts the creation of the store.
    let signals = Signals::listen().map_err(|error| CommandError::Runtime(format!("signals: {error}")))?;
    if let Some(listen) = &args.listen {
        setup.config.server.listen.clone_from(listen);
    }
    passed.name_addresses(&mut setup.config.server);
    open_files::prepare(&mut setup.config);
    let data = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
    let store = store::open(&setup).await?;
    let content = &setup.config.store.content;
    store.insert_missing(&content.keys, &content.teams).await.map_err(CommandError::runtime)?;
    let encryption_key = encryption_key::open(&store, &data).await?;
    let configured = stored_configuration::open(&mut setup, &store, &encryption_key).await?;
    let stored = store.keys().await.map_err(CommandError::runtime)?;
    let has_configured_keys = !setup.config.engine.keys.is_empty();
    if !has_configured_keys && !first_start::any_usable(&stored, calendar::unix_seconds()) {
        refuse_reachable_addresses(&setup).await?;
    }
    setup.config.server.spool_directory.clone_from(&data);
    let sockets = Sockets::open(&setup.config.server, args.take_over, passed, &data).await?;
    let address = sockets.listeners.public.local_addr().map_err(CommandError::runtime)?;
    let search = complete_providers(&mut setup, args, address).await;
    let sealer = encryption_key::sealer(&encryption_key)?;
    let deployed = setup.deploy(&sealer).map_err(|problems| CommandError::problems(&problems))?;
    // The keys are created after the address is bound. A start that fails earlier would create keys and never show them.
    let created = first_start::create_keys(&store, has_configured_keys, calendar::unix_seconds())
        .await
        .map_err(CommandError::runtime)?;
    let stored = if created.is_some() { store.keys().await.map_err(CommandError::runtime)? } else { stored };
    // The gateway that this one replaces ends soon.
    if sockets.predecessor.is_none() {
        journal_recovery::warn_of_another_gateway(&data);
    }
    let mut registry = Registry::default();
    let parts =
        build_engine_parts(&setup, &store, stored, deployed.clone(), sealer.clone(), &mut registry).await?;
    let listed = if search.has_found() { first_lists(&parts.engine, &deployed).await } else { None };
    start_report::log(&setup, &search, &data)?;
    if let Some(keys) = created {
        let catalog = setup.catalog(false).map_err(|problems| CommandError::problems(&problems))?;
        let model = setup::model_to_try(&catalog).or(listed);
        let base = console_base(&setup, &sockets.listeners);
        let link = match &base {
            Some(base) => {
                Some(keys.link(&store, base, calendar::unix_seconds()).await.map_err(CommandError::runtime)?)
            }
            None => None,
        };
        let kept_in = start_report::store_name(&setup, &data);
        let certificate = setup.config.server.tls.as_ref().map(|tls| tls.cert.as_path());
        let curl = first_start::curl(address, certificate);
        print(&keys.welcome(&curl, &kept_in, model.as_deref(), link.as_deref()))?;
    }
    let manager = Arc::new(ServiceManager::of_environment());
    let running = Running { setup, store, configured, parts, sealer, registry, sockets, data, manager, log };
    serve(common, running, signals).await
}

/// The address of the console. None: this program has none.
fn console_base(setup: &Setup, listeners: &Listeners) -> Option<String> {
    let scheme = if setup.config.server.tls.is_some() { "https" } else { "http" };
    console_link::base(listeners, scheme).filter(|_| !CONSOLE.is_empty())
}

/// Logs the address of the console, and notes it for `model-gateway login` while the gateway runs.
fn tell_console(base: Option<&str>, data: &Path) -> Option<AddressNote> {
    let base = base?;
    tracing::info!("console on {base}/ui/ (sign in with a key, or with the link of 'model-gateway login')");
    console_link::note(data, base)
}

/// The parts of a gateway that is ready to serve.
struct Running {
    setup: Setup,
    store: Store,
    configured: Arc<StoredConfiguration>,
    parts: EngineParts,
    sealer: Sealer,
    registry: Registry,
    sockets: Sockets,
    data: PathBuf,
    manager: Arc<ServiceManager>,
    /// The log on standard error.
    log: LogWriter,
}

async fn serve(common: &Common, running: Running, signals: Signals) -> Result<(), CommandError> {
    let Running { setup, store, configured, parts, sealer, mut registry, sockets, data, manager, log } =
        running;
    let console = console_base(&setup, &sockets.listeners);
    let EngineParts { engine, journal, payloads, limiter, clock, response_cache, issuers } = parts;
    let settings = &setup.config.store;
    let ledger =
        Ledger::start(Arc::clone(&journal), store.clone(), limiter.clone(), Arc::clone(&clock), settings);
    let payload_tasks = PayloadTasks::start(payloads, store.clone(), Arc::clone(&clock), settings);
    tokio::spawn(Arc::clone(&clock).run());
    let (access_log, _flush) =
        LogWriter::start("access-log", io::stdout(), ACCESS_LOG_DELAY).map_err(CommandError::runtime)?;
    log_writer::register(vec![("access", access_log.clone()), ("program", log)], &mut registry);
    let alerts = alerts::start(&setup.config, &store, &engine, &journal, &mut registry)?;
    let management = management::start(&store, &engine, journal, &configured).await?;
    management.set_alerts(Arc::new(alerts.clone()));
    let nightly = NightlyReconcile::start(&setup, &store, &alerts, &mut registry)?;
    let live = Live {
        engine: Arc::clone(&engine),
        management: Arc::clone(&management),
        response_cache,
        alerts,
        nightly,
        sealer: sealer.clone(),
        stored: Arc::clone(&configured),
    };
    let reloader = Reloader::start(common, &setup, live, &mut registry);
    configured.set_applier(Arc::downgrade(&reloader) as _);
    tokio::spawn(reload::follow_stored(Arc::clone(&reloader), configured));
    if let Some(file) = setup.path.clone().filter(|_| setup.config.reload_on_change) {
        tokio::spawn(reload::keep_up_to_date(Arc::clone(&reloader), file));
    }
    let runtime = tokio::runtime::Handle::current();
    let configuration = LiveConfiguration::new(Arc::clone(&engine), Arc::clone(&reloader) as _, runtime);
    if setup.config.redis.is_some() {
        tokio::spawn(watch::share_circuits(Arc::clone(&engine)));
    }
    let public_url = setup.config.identity.public_url.clone();
    let issuer = issuers.zip(public_url.as_deref());
    let issuer = issuer.map(|(issuers, public_url)| IssuerSignIn::new(issuers, sealer, public_url));
    let sign_in = Arc::new(SignIn::new(Arc::clone(&management), Arc::clone(&engine), store.clone(), issuer));
    let diagnostics = Diagnostics::new(GatewayDiagnostics::new(Arc::clone(&reloader)));
    provider_metrics::register(&engine, &mut registry);
    limit_metrics::start(Arc::clone(&engine), &mut registry);
    let (exporter, tracer) = start_traces(setup.config.otlp.as_ref(), &mut registry)?.unzip();
    let readiness = readiness::of(store);
    let scheme = if setup.config.server.tls.is_some() { "https" } else { "http" };
    let state = ServerState::new(
        memory_limit::fitted(ServerSettings { public_url, ..setup.config.server }),
        engine,
        OperatorServices { management, configuration, diagnostics, sign_in, console: CONSOLE },
        Arc::new(AccessLogWriter { writer: access_log, is_terminal: io::stdout().is_terminal() }),
        readiness,
        tracer,
        registry,
    )
    .map_err(|error| CommandError::Usage(format!("server.tls: {error}")))?;
    reloader.keep_certificates(state.certificates());
    let shutdown = Shutdown::new();
    let (listeners, origin) = (sockets.listeners, sockets.origin);
    let is_kept = origin == SocketOrigin::ServiceManager;
    tokio::spawn(follow_signals(signals, reloader, shutdown.clone(), is_kept, Arc::clone(&manager)));
    log_addresses(&listeners, scheme);
    let _note = tell_console(console.as_deref(), &data);
    hand_over::offer(&listeners, &data, shutdown.clone());
    if let Some(predecessor) = sockets.predecessor {
        predecessor.end();
    }
    manager.ready();
    tokio::spawn(Arc::clone(&manager).feed_watchdog());
    gw_server::serve(state, listeners, workers(), shutdown).await.map_err(CommandError::runtime)?;
    // A reservation whose settlement does not reach Redis in time ends with its lease.
    limiter.drain(SETTLE_TIMEOUT).await;
    payload_tasks.close().await;
    if let Some(exporter) = exporter {
        exporter.close().await;
    }
    ledger.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Starts the task that sends spans; None = no traces are written.
fn start_traces(
    settings: Option<&OtlpSettings>,
    registry: &mut Registry,
) -> Result<Option<(Exporter, Tracer)>, CommandError> {
    let Some(settings) = settings else { return Ok(None) };
    let queue = TraceQueue::new(registry);
    Exporter::start(settings, queue).map(Some).map_err(|error| CommandError::Usage(error.to_string()))
}

/// SIGHUP reloads the configuration. The first signal to stop begins the shutdown, and running requests may finish. The second
/// one ends them. `is_kept`: the service manager keeps the sockets open, so new connections wait for the next gateway.
async fn follow_signals(
    mut signals: Signals,
    reloader: Arc<Reloader>,
    shutdown: Shutdown,
    is_kept: bool,
    manager: Arc<ServiceManager>,
) {
    let mut is_stopping = false;
    loop {
        match signals.next().await {
            Received::Reload => {
                manager.reloading();
                // The reloader logs the result.
                let _ = reloader.reload(Trigger::Signal).await;
                manager.ready();
            }
            Received::Stop(name) if is_stopping => {
                tracing::warn!("{name} again: ending running requests now");
                shutdown.now();
                return;
            }
            Received::Stop(name) => {
                manager.stopping();
                if is_kept {
                    tracing::info!(
                        "{name}: leaving new connections to the next gateway and waiting for running requests"
                    );
                    shutdown.hand_over();
                } else {
                    tracing::info!("{name}: refusing new requests and waiting for running ones");
                    shutdown.begin();
                }
                is_stopping = true;
            }
        }
    }
}

/// Logs the addresses of the listeners. Scripts wait for the first line.
fn log_addresses(listeners: &Listeners, scheme: &str) {
    if let Ok(address) = listeners.public.local_addr() {
        tracing::info!("listening on {scheme}://{address}");
    }
    if let Some(Ok(address)) = listeners.admin.as_ref().map(TcpListener::local_addr) {
        tracing::info!("metrics and management on {scheme}://{address}");
    }
}

/// Refuses an address that other machines can reach while there is no key, because strangers could reach the gateway
/// before it has one.
async fn refuse_reachable_addresses(setup: &Setup) -> Result<(), CommandError> {
    let server = &setup.config.server;
    for listen in std::iter::once(&server.listen).chain(&server.admin_listen) {
        if !listeners::addresses(listen).await?.iter().all(|address| address.ip().is_loopback()) {
            return Err(CommandError::Usage(needs_a_key(setup, listen)));
        }
    }
    Ok(())
}

/// The error for an address that other machines can reach while there is no key.
#[must_use]
pub fn needs_a_key(setup: &Setup, listen: &str) -> String {
    let problem = format!(
        "other machines can reach {listen}, so the gateway needs a key: add [[keys]] to the configuration, or start once on \
         127.0.0.1 to create keys"
    );
    setup.config.locations.of_address(listen, problem)
}

/// Whether this is an IP address that other machines can reach. A host name counts as not reachable, because only a name
/// server knows its address.
#[must_use]
pub fn is_written_reachable(listen: &str) -> bool {
    listen.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback())
}

/// Searches for model servers on this machine, when there is no configuration file, and adds them as providers. Adds the demo
/// provider when there is no other.
async fn complete_providers(setup: &mut Setup, args: &ServeArgs, own: SocketAddr) -> ServerSearch {
    let search = if setup.path.is_some() {
        ServerSearch::Configured
    } else if args.no_discover {
        ServerSearch::SwitchedOff
    } else if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        ServerSearch::NoTerminal
    } else {
        let mut found = local_servers::find(Some(own.port())).await;
        found.retain(|server| setup.config.providers.iter().all(|provider| provider.name != server.name));
        setup.config.providers.extend(found.iter().cloned());
        ServerSearch::Done(found)
    };
    setup.demo_if_alone();
    search
}

/// Asks all providers with `discover` for their models at once, and returns the first model in the order of ids.
async fn first_lists(engine: &Arc<Engine>, deployed: &[Deployed]) -> Option<String> {
    let mut asking = tokio::task::JoinSet::new();
    for Deployed { provider, .. } in deployed.iter().filter(|deployed| deployed.discovers) {
        let (engine, provider) = (Arc::clone(engine), Arc::clone(provider));
        asking.spawn(async move {
            let listed = model_discovery::once(&engine, &provider).await.ok()?;
            // The catalogue leaves out models whose id is not valid.
            let id = |model: &ListedModel| format!("{}/{}", provider.name(), model.name);
            listed.iter().map(id).find(|id| engine.has_model(id))
        });
    }
    let models = tokio::time::timeout(LOCAL_LIST_TIMEOUT, asking.join_all()).await.unwrap_or_default();
    models.into_iter().flatten().min()
}

/// The access log on standard output: text in a terminal, JSON elsewhere.
struct AccessLogWriter {
    writer: LogWriter,
    is_terminal: bool,
}

impl AccessLog for AccessLogWriter {
    fn write(&self, line: &LogLine<'_>) {
        let line = if self.is_terminal { line.to_text() } else { line.to_json() };
        self.writer.push(&line);
    }
}
