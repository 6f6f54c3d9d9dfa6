//! The requests that examine a running gateway: a drill of its routing, and a probe of one of its providers. This crate knows
//! neither, so the program runs them.

mod body;

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gw_engine::error::{Error, Kind};
use serde_json::Value;
use tokio::sync::Semaphore;

/// How long a drill or a probe may take. A probe makes about 25 calls, and a model on a slow machine needs seconds for each.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// A drill of the routing.
#[derive(Clone, Debug, PartialEq)]
pub struct DrillRequest {
    /// The aliases, names of models or ids that are drilled.
    pub only: Vec<String>,
    /// The value of `routing` in the requests. It is a JSON object.
    pub routing: Option<Value>,
}

/// A probe of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The name of the provider.
    pub provider: String,
    /// The model, by its id or by its name at the provider. None: the provider's cheapest chat model.
    pub model: Option<String>,
    /// The steps. Empty: all steps that fit the model.
    pub only: Vec<String>,
    /// The most tokens of an answer.
    pub max_tokens: u64,
    /// Whether the answer is the plan of the calls, and no call is made.
    pub is_dry_run: bool,
}

impl DrillRequest {
    /// Reads the body of `POST /admin/v1/routing/drill`.
    ///
    /// # Errors
    /// The first error in the body.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        body::drill(body)
    }

    /// The object of the audit log.
    #[must_use]
    pub fn object(&self) -> String {
        self.only.join(", ")
    }
}

impl ProbeRequest {
    /// Reads the body of `POST /admin/v1/providers/{name}/probe`, which may be empty.
    ///
    /// # Errors
    /// The first error in the body.
    pub fn read(provider: String, body: &[u8]) -> Result<Self, Error> {
        body::probe(provider, body)
    }
}

/// The report of a drill or of a probe.
pub type DiagnosticsFuture = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

/// Runs drills and probes with the configuration in force.
pub trait DiagnosticsService: Debug + Send + Sync {
    /// Runs a drill. The work ends when the future is dropped.
    fn drill(&self, request: DrillRequest) -> DiagnosticsFuture;

    /// Runs a probe. The work ends when the future is dropped.
    fn probe(&self, request: ProbeRequest) -> DiagnosticsFuture;
}

/// The drills and probes of a running gateway. One runs at a time, because a drill takes a processor for itself.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    service: Arc<dyn DiagnosticsService>,
    running: Arc<Semaphore>,
}

impl Diagnostics {
    /// The drills and probes that this service runs.
    #[must_use]
    pub fn new(service: Arc<dyn DiagnosticsService>) -> Self {
        Self { service, running: Arc::new(Semaphore::new(1)) }
    }

    /// Runs a drill in bounded time.
    ///
    /// # Errors
    /// `rate_limit_exceeded` while another drill or probe runs, `upstream_timeout` after ten minutes, else the reason why the
    /// request is wrong.
    pub async fn drill(&self, request: DrillRequest) -> gw_engine::Result<Value> {
        self.run(|service| service.drill(request)).await
    }

    /// Runs a probe in bounded time.
    ///
    /// # Errors
    /// As [`Diagnostics::drill`].
    pub async fn probe(&self, request: ProbeRequest) -> gw_engine::Result<Value> {
        self.run(|service| service.probe(request)).await
    }

    async fn run(
        &self,
        begin: impl FnOnce(&dyn DiagnosticsService) -> DiagnosticsFuture,
    ) -> gw_engine::Result<Value> {
        let Ok(_permit) = self.running.try_acquire() else {
            let message = "Another drill or probe runs. Try again when it has ended.";
            return Err(Error::new(Kind::RateLimitExceeded, message));
        };
        let finished = tokio::time::timeout(TIME_LIMIT, begin(&*self.service)).await;
        finished.unwrap_or_else(|_| {
            let message =
                "The drill or probe did not end within ten minutes. Name fewer models or steps in 'only'.";
            Err(Error::new(Kind::UpstreamTimeout, message))
        })
    }
}
