//! The drills and probes that operators start in a running gateway.
//!
//! Each runs on a thread and a runtime of its own. A drill computes for seconds, and its requests must not delay the
//! gateway's own.

use std::sync::Arc;
use std::thread;

use gw_admin::{DiagnosticsFuture, DiagnosticsService, DrillRequest, ProbeRequest};
use gw_command::CommandError;
use gw_config::setup::Setup;
use gw_engine::error::{Error, Kind};
use gw_probe::ProbeArgs;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::drill;
use crate::reload::Reloader;

/// Runs drills and probes with the configuration that the reloader reads.
#[derive(Clone, Debug)]
pub struct GatewayDiagnostics {
    reloader: Arc<Reloader>,
}

impl GatewayDiagnostics {
    /// The drills and probes of the gateway whose configuration `reloader` reads.
    #[must_use]
    pub fn new(reloader: Arc<Reloader>) -> Arc<Self> {
        Arc::new(Self { reloader })
    }
}

impl DiagnosticsService for GatewayDiagnostics {
    fn drill(&self, request: DrillRequest) -> DiagnosticsFuture {
        Box::pin(self.clone().examine(async move |setup: Setup| drill::report(&setup, &request).await))
    }

    fn probe(&self, request: ProbeRequest) -> DiagnosticsFuture {
        Box::pin(self.clone().examine(async move |setup: Setup| probe(setup, request).await))
    }
}

impl GatewayDiagnostics {
    /// Runs a drill or a probe with the present configuration on a thread of its own.
    async fn examine<F, W>(self, work: W) -> Result<Value, Error>
    where
        F: Future<Output = Result<Value, CommandError>>,
        W: FnOnce(Setup) -> F + Send + 'static,
    {
        let setup = self.reloader.read().await.map_err(|problems| {
            let message = format!("The configuration cannot be used. {}", problems.join("; "));
            Error::new(Kind::Invalid, message)
        })?;
        let (mut answer, result) = oneshot::channel();
        let thread = move || {
            let finished = gw_command::runtime().and_then(|runtime| {
                runtime.block_on(async {
                    tokio::select! {
                        finished = Box::pin(work(setup)) => finished,
                        // The operator has left, or the time is over.
                        () = answer.closed() => Err(CommandError::Runtime(String::new())),
                    }
                })
            });
            let _ = answer.send(finished);
        };
        thread::Builder::new().name("diagnostics".to_owned()).spawn(thread).map_err(|_| Error::internal())?;
        match result.await {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(CommandError::Usage(message))) => Err(Error::new(Kind::Invalid, sentence(&message))),
            Ok(Err(CommandError::Runtime(message) | CommandError::Threshold(message))) => {
                tracing::error!(error = message, "a drill or a probe failed");
                Err(Error::internal())
            }
            Err(_) => Err(Error::internal()),
        }
    }
}

async fn probe(setup: Setup, request: ProbeRequest) -> Result<Value, CommandError> {
    let ProbeRequest { provider, model, only, max_tokens, is_dry_run } = request;
    let args = ProbeArgs::of_configured(provider, model, only, max_tokens);
    if is_dry_run {
        return gw_probe::plan_configured(setup, &args);
    }
    gw_probe::probe_configured(setup, &args).await
}

/// A message of the command line as a sentence of the API.
fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}
