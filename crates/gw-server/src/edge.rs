//! What all connections and requests share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use gw_admin::LiveAdminService;
use gw_engine::Engine;
use gw_engine::error::Result;
use parking_lot::RwLock;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::access_log::AccessLog;
use crate::admission::{Gate, LoadSignal, Reports, Signals};
use crate::cors::Policies;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::router::Audience;
use crate::settings::ServerSettings;
use crate::tls;
use crate::upload::{Memory, UploadLimits, overloaded};

/// Bytes of request bodies over 64 KiB that are held at once, at the least.
const BODY_MEMORY: usize = 512 << 20;

/// Says why the gateway cannot serve yet (or any more), for `/readyz`.
pub type Readiness = Box<dyn Fn() -> std::result::Result<(), String> + Send + Sync>;

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Serving = 0,
    /// Not ready any more, but still accepting.
    Leaving = 1,
    /// Finishing what runs.
    Draining = 2,
    /// Ending what is left.
    Cut = 3,
}

/// What all connections and requests share.
pub struct Edge {
    pub(crate) settings: ServerSettings,
    pub(crate) engine: Arc<Engine>,
    pub(crate) management: Arc<LiveAdminService>,
    pub(crate) log: Arc<dyn AccessLog>,
    pub(crate) cors: Policies,
    pub(crate) metrics: Metrics,
    pub(crate) uploads: UploadLimits,
    pub(crate) tls: Option<tokio_rustls::TlsAcceptor>,
    /// What is said to connections under overload.
    pub(crate) refusal: Option<Refusal>,
    signals: Arc<Signals>,
    readiness: Readiness,
    registry: RwLock<Registry>,
    phase: AtomicU8,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Edge {
    /// `registry` already holds the metrics of the engine; `/metrics` shows it with those of the edge.
    ///
    /// # Errors
    /// When the certificate or its key cannot be used.
    pub fn new(
        settings: ServerSettings,
        engine: Arc<Engine>,
        management: Arc<LiveAdminService>,
        log: Arc<dyn AccessLog>,
        readiness: Readiness,
        mut registry: Registry,
    ) -> std::result::Result<Arc<Self>, String> {
        let tls = settings.tls.as_ref().map(|(cert, key)| tls::acceptor(cert, key)).transpose()?;
        let metrics = Metrics::new(&mut registry);
        let uploads = UploadLimits {
            bytes: settings.body_limit,
            timeout: settings.body_timeout,
            memory: Memory::new(BODY_MEMORY.max(settings.body_limit.saturating_mul(4))),
        };
        let cors = Policies::new(&settings.cors_origins, &settings.admin_cors_origins);
        Ok(Arc::new(Self {
            refusal: Refusal::new(cors.of(Audience::Users)),
            signals: Arc::default(),
            cors,
            metrics,
            uploads,
            tls,
            engine,
            management,
            log,
            readiness,
            registry: RwLock::new(registry),
            phase: AtomicU8::new(Phase::Serving as u8),
            settings,
        }))
    }

    /// Names the queues outside this crate that requests wait in: when one of them is too long, new requests are refused.
    /// Each closure is asked for every request, so it must be quick. False: they were named before.
    pub fn watch_load(&self, signals: Vec<LoadSignal>) -> bool {
        self.signals.set(signals)
    }

    /// The gate of a worker.
    pub(crate) fn gate(&self, worker: usize) -> Gate {
        let reports = Reports { refused: self.metrics.shed.clone(), wait: self.metrics.wait_of(worker) };
        Gate::new(self.settings.shed_after, Arc::clone(&self.signals), reports)
    }

    /// Not ready any more, so that load balancers look elsewhere.
    pub(crate) fn leave(&self) {
        self.phase.store(Phase::Leaving as u8, Ordering::Release);
    }

    /// From now on new generation requests are refused; those that were accepted before are finished.
    pub(crate) fn drain(&self) {
        self.phase.store(Phase::Draining as u8, Ordering::Release);
    }

    /// The grace is over: live streams end with their error event, and nothing new reaches an upstream.
    pub(crate) fn cut(&self) {
        self.phase.store(Phase::Cut as u8, Ordering::Release);
        self.engine.start_draining();
        self.engine.cut_streams();
    }

    /// Kept connections should not be kept any longer.
    pub(crate) fn is_leaving(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= Phase::Leaving as u8
    }

    /// Generation requests are refused.
    pub(crate) fn is_draining(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= Phase::Draining as u8
    }

    /// Whatever has not been answered is refused.
    pub(crate) fn is_cut(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= Phase::Cut as u8
    }

    /// Whether `/readyz` says yes, and why not.
    pub(crate) fn ready(&self) -> std::result::Result<(), String> {
        if self.is_leaving() { Err("The gateway is shutting down.".to_owned()) } else { (self.readiness)() }
    }

    /// Takes one of the places of requests being answered.
    pub(crate) fn enter(&self) -> Result<Place> {
        let place = Place::take(&self.metrics.in_flight);
        let limit = i64::try_from(self.settings.max_in_flight).unwrap_or(i64::MAX);
        if place.count > limit {
            return Err(overloaded("The gateway is answering as many requests as it can."));
        }
        Ok(place)
    }

    /// The metrics in the OpenMetrics text format.
    pub(crate) fn render_metrics(&self) -> std::result::Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 << 10);
        prometheus_client::encoding::text::encode(&mut text, &self.registry.read())?;
        Ok(text)
    }
}

/// One more, until dropped.
#[derive(Debug)]
pub(crate) struct Place {
    gauge: Gauge,
    count: i64,
}

impl Place {
    pub(crate) fn take(gauge: &Gauge) -> Self {
        Self { count: gauge.inc() + 1, gauge: gauge.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
