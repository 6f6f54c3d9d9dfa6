//! The state of the HTTP server that all its connections and requests share.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use gw_admin::{Diagnostics, LiveAdminService, LiveConfiguration, SignIn};
use gw_console::Asset;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::request::trace::Tracer;
use gw_engine::settings::Role;
use gw_engine::shared_pool::SharedPool;
use gw_engine::{Caller, Engine};
use parking_lot::RwLock;
use prometheus_client::registry::Registry;

use crate::access_log::AccessLog;
use crate::address_limits::{BadKeyLimit, ConnectionLimit};
use crate::admission::{Admission, AdmissionMetrics, SharedAdmission};
use crate::console::Console;
use crate::cors::{Audience, Policies};
use crate::in_flight::InFlightPermit;
use crate::metrics::Metrics;
use crate::own_page::OwnPages;
use crate::refusal::PreparedRefusal;
use crate::settings::ServerSettings;
use crate::socket_pools::SocketPools;
use crate::tls::{LiveTls, LoadedTls, TlsError};
use crate::upload::{UploadLimits, overloaded};
use crate::usual_headers::UsualHeaders;

/// Asks the program whether the gateway can serve requests, for `/readyz`. It is called for every probe and must not block.
pub type Readiness = Box<dyn Fn() -> std::result::Result<(), NotReady> + Send + Sync>;

/// The reason why `/readyz` answers 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// A shutdown has begun.
    #[error("The gateway is shutting down.")]
    ShuttingDown,
    /// The store does not answer.
    #[error("The store is not reachable.")]
    StoreUnreachable,
}

/// The sign-in of browsers.
pub type SignInService = Arc<SignIn>;

/// The phases of the server's life, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Serving = 0,
    /// Another process accepts new connections. Everything that comes on the present ones is still served.
    HandedOver = 1,
    /// `/readyz` answers 503, but everything is still served.
    Leaving = 2,
    /// New generation requests are refused; running ones finish.
    Draining = 3,
    /// Running requests are ended.
    Cut = 4,
}

/// The parts that answer operators.
#[derive(Debug)]
pub struct OperatorServices {
    /// Keys, teams, usage and the request log.
    pub management: Arc<LiveAdminService>,
    /// The configuration in force.
    pub configuration: LiveConfiguration,
    /// Drills and probes.
    pub diagnostics: Diagnostics,
    /// The sign-in of browsers.
    pub sign_in: SignInService,
    /// The files of the web console. None: the gateway has no console.
    pub console: &'static [Asset],
}

/// The uploads of the largest size that fit on the disk at once, and the least room for uploads.
const LARGE_UPLOADS: u64 = 16;
const LEAST_SPOOL_BYTES: u64 = 4 << 30;

/// The state that all connections and requests share.
pub struct ServerState {
    pub(crate) settings: ServerSettings,
    pub(crate) engine: Arc<Engine>,
    pub(crate) management: Arc<LiveAdminService>,
    pub(crate) configuration: LiveConfiguration,
    pub(crate) diagnostics: Diagnostics,
    /// The sign-in of browsers.
    pub(crate) sign_in: SignInService,
    /// The pages that may use a session.
    pub(crate) own_pages: OwnPages,
    /// The web console.
    pub(crate) console: Console,
    pub(crate) log: Arc<dyn AccessLog>,
    /// Begins the traces of requests; None = no traces are written.
    pub(crate) tracer: Option<Tracer>,
    pub(crate) cors: Policies,
    pub(crate) usual_headers: UsualHeaders,
    pub(crate) metrics: Metrics,
    pub(crate) uploads: UploadLimits,
    /// The bytes of uploads on the disk.
    pub(crate) spooled: Arc<SharedPool>,
    /// The bounds of WebSockets.
    pub(crate) sockets: SocketPools,
    /// The memory of large answers until their clients have taken them.
    pub(crate) answer_memory: Arc<SharedPool>,
    pub(crate) tls: Option<LiveTls>,
    pub(crate) connection_limit: Arc<ConnectionLimit>,
    bad_keys: BadKeyLimit,
    /// The answer to connections beyond `max_connections`.
    pub(crate) connection_refusal: Option<PreparedRefusal>,
    admission: Arc<SharedAdmission>,
    readiness: Readiness,
    registry: RwLock<Registry>,
    phase: AtomicU8,
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl ServerState {
    /// Builds the state. `registry` already holds the metrics of the engine; `/metrics` shows them together with those of
    /// the server.
    ///
    /// # Errors
    /// When a file of the certificates cannot be used.
    pub fn new(
        settings: ServerSettings,
        engine: Arc<Engine>,
        operators: OperatorServices,
        log: Arc<dyn AccessLog>,
        readiness: Readiness,
        tracer: Option<Tracer>,
        mut registry: Registry,
    ) -> std::result::Result<Arc<Self>, TlsError> {
        let tls = settings.tls.as_ref().map(LoadedTls::read).transpose()?.map(LiveTls::new);
        let metrics = Metrics::new(&mut registry);
        let body_memory = settings.body_memory.unwrap_or_else(|| settings.usual_body_memory());
        let uploads = UploadLimits {
            max_bytes: settings.body_limit,
            timeout: settings.body_timeout,
            memory: SharedPool::new(body_memory as u64),
        };
        engine.share_body_memory(&uploads.memory, uploads.max_bytes);
        registry.register(
            "gateway_request_body_bytes",
            "Bytes of request bodies over 64 KiB that are held",
            uploads.memory.gauge(),
        );
        let most_spooled =
            (settings.upload_limit as u64).saturating_mul(LARGE_UPLOADS).max(LEAST_SPOOL_BYTES);
        let spooled = SharedPool::new(most_spooled);
        registry.register(
            "gateway_upload_disk_bytes",
            "Bytes of uploads that are held on the disk",
            spooled.gauge(),
        );
        let OperatorServices { management, configuration, diagnostics, sign_in, console } = operators;
        let cors = Policies::new(&settings.cors_origins, &settings.admin_cors_origins);
        Ok(Arc::new(Self {
            connection_refusal: PreparedRefusal::of_connections(cors.of(Audience::Users)),
            admission: Arc::default(),
            cors,
            usual_headers: UsualHeaders::default(),
            metrics,
            uploads,
            spooled,
            sockets: SocketPools::new(&settings, &mut registry),
            answer_memory: engine.answer_memory(),
            tls,
            connection_limit: Arc::new(ConnectionLimit::new(settings.max_connections_per_address)),
            bad_keys: BadKeyLimit::new(settings.bad_keys_per_minute),
            engine,
            management,
            configuration,
            diagnostics,
            sign_in,
            own_pages: OwnPages::new(&settings),
            console: Console::new(console),
            log,
            tracer,
            readiness,
            registry: RwLock::new(registry),
            phase: AtomicU8::new(Phase::Serving as u8),
            settings,
        }))
    }

    /// The certificates of the listener. None: it has no TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<LiveTls> {
        self.tls.clone()
    }

    /// Stops or resumes the start of generation requests. Requests that wait meanwhile grow old, as on a worker that is too busy.
    /// Tests use this to make overload certain.
    #[doc(hidden)]
    pub fn hold_starts(&self, is_held: bool) {
        self.admission.is_held.store(is_held, Ordering::Release);
    }

    /// Creates the admission queue of a worker.
    pub(crate) fn new_admission(&self, worker: usize) -> Admission {
        let metrics = AdmissionMetrics {
            refused: self.metrics.shed.clone(),
            wait: self.metrics.admission_wait(worker),
        };
        Admission::new(self.settings.shed_after, Arc::clone(&self.admission), metrics)
    }

    /// Notes that another process accepts new connections. Nothing is refused here.
    pub(crate) fn hand_over(&self) {
        self.phase.store(Phase::HandedOver as u8, Ordering::Release);
    }

    /// Whether another process accepts new connections.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::HandedOver as u8
    }

    /// Makes `/readyz` answer 503, so that load balancers send new requests elsewhere.
    pub(crate) fn leave(&self) {
        self.phase.store(Phase::Leaving as u8, Ordering::Release);
    }

    /// Refuses new generation requests. Requests that run are finished.
    pub(crate) fn drain(&self) {
        self.phase.store(Phase::Draining as u8, Ordering::Release);
    }

    /// Ends live streams with their error event, and keeps new calls from reaching an upstream.
    pub(crate) fn cut(&self) {
        self.phase.store(Phase::Cut as u8, Ordering::Release);
        self.engine.start_draining();
        self.engine.cut_streams();
    }

    /// Whether connections should close after their current request.
    pub(crate) fn is_leaving(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= Phase::HandedOver as u8
    }

    /// Whether load balancers should send new requests elsewhere.
    fn is_unready(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= Phase::Leaving as u8
    }

    /// Whether new generation requests are refused.
    pub(crate) fn is_draining(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= Phase::Draining as u8
    }

    /// Whether every request without an answer is refused.
    pub(crate) fn is_cut(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= Phase::Cut as u8
    }

    /// The answer of `/readyz`.
    pub(crate) fn readiness(&self) -> std::result::Result<(), NotReady> {
        if self.is_unready() { Err(NotReady::ShuttingDown) } else { (self.readiness)() }
    }

    /// Counts a request without a correct key, or a sign-in without a correct link. An address that sends too many gets another error.
    pub(crate) fn count_bad_key(&self, error: Error, address: IpAddr) -> Error {
        if ![Kind::InvalidApiKey, Kind::SignInFailed].contains(&error.kind) {
            return error;
        }
        match self.bad_keys.count(address, Instant::now()) {
            None => error,
            Some(wait) => {
                let message = "This address has sent too many requests without a correct API key.";
                Error::new(Kind::RateLimitExceeded, message).retry_after(wait)
            }
        }
    }

    /// Refuses keys that only read the management API.
    pub(crate) fn check_may_generate(caller: &Caller) -> Result<()> {
        match caller.role() {
            Role::Viewer => {
                let message = "A key of role viewer may not generate: it reads the management API.";
                Err(Error::new(Kind::RoleNotAllowed, message))
            }
            _ => Ok(()),
        }
    }

    /// Begins a request that generates: counts it as in flight, and refuses it if the key may not generate or the gateway is shutting down.
    pub(crate) fn begin_generation(&self, caller: &Caller) -> Result<InFlightPermit> {
        Self::check_may_generate(caller)?;
        let permit = self.admit_in_flight()?;
        if self.is_draining() {
            return Err(overloaded("The gateway is shutting down."));
        }
        Ok(permit)
    }

    /// Counts a request as in flight, or refuses it when `max_in_flight` requests are.
    pub(crate) fn admit_in_flight(&self) -> Result<InFlightPermit> {
        let permit = self.take_in_flight();
        self.check_in_flight(Some(&permit))?;
        Ok(permit)
    }

    /// Counts a request as in flight.
    pub(crate) fn take_in_flight(&self) -> InFlightPermit {
        InFlightPermit::take(&self.metrics.in_flight)
    }

    /// Refuses a request when `max_in_flight` others are in flight. Requests that wait for their start do not count: they keep
    /// nothing but their connections. `arrived` is the permit of a request that has come just now. None: it has waited, and
    /// others have started or come since.
    pub(crate) fn check_in_flight(&self, arrived: Option<&InFlightPermit>) -> Result<()> {
        let limit = i64::try_from(self.settings.max_in_flight).unwrap_or(i64::MAX);
        let now = self.metrics.in_flight.get();
        // Of requests that come at one time, the first ones find room.
        let count = arrived.map_or(now, |permit| permit.count().min(now));
        if count.saturating_sub(self.admission.waiting.load(Ordering::Relaxed)) > limit {
            return Err(overloaded("The gateway is answering as many requests as it can."));
        }
        Ok(())
    }

    /// Renders the metrics in the OpenMetrics text format.
    pub(crate) fn render_metrics(&self) -> std::result::Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 << 10);
        prometheus_client::encoding::text::encode(&mut text, &self.registry.read())?;
        Ok(text)
    }
}
