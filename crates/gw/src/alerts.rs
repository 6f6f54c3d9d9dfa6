//! The alerts of a running gateway, and `model-gateway alerts`, which tests one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use gw_alerts::conditions::Conditions;
use gw_alerts::{Alerts, PreparedAlerts, delivery, watcher};
use gw_command::{CommandError, Common, print};
use gw_config::Config;
use gw_engine::Engine;
use gw_server::certificate_validity;
use gw_store::Store;
use gw_store::journal::Journal;
use prometheus_client::registry::Registry;
use serde::Deserialize;

use crate::admin_client::{self, GatewayAddress};
use crate::reload_command::own_address;

/// Starts the tasks that watch the gateway and deliver messages.
///
/// # Errors
/// Exit code 2 for an alert that cannot be used.
pub fn start(
    config: &Config,
    store: &Store,
    engine: &Arc<Engine>,
    journal: &Arc<Journal>,
    registry: &mut Registry,
) -> Result<Alerts, CommandError> {
    let first =
        PreparedAlerts::new(&config.alerts).map_err(|error| CommandError::Usage(error.to_string()))?;
    let alerts = Alerts::new(store.clone(), first, registry);
    let certificate = config.server.tls.as_ref().map(|tls| (tls.cert.clone(), tls.key.clone()));
    let conditions = Arc::new(GatewayConditions { journal: Arc::clone(journal), certificate });
    tokio::spawn(delivery::run(alerts.clone()));
    tokio::spawn(watcher::run(alerts.clone(), Arc::clone(engine), conditions));
    Ok(alerts)
}

/// The state of this gateway.
#[derive(Debug)]
struct GatewayConditions {
    journal: Arc<Journal>,
    /// The files of the listener's certificate and of its key.
    certificate: Option<(PathBuf, PathBuf)>,
}

impl Conditions for GatewayConditions {
    fn ledger_lag(&self) -> Duration {
        self.journal.lag()
    }

    fn certificate(&self) -> Option<(String, i64)> {
        let (cert, key) = self.certificate.as_ref()?;
        let validity = certificate_validity(cert, key).ok().flatten()?;
        Some((cert.display().to_string(), i64::try_from(validity.not_after).unwrap_or(i64::MAX)))
    }
}

/// The options of `alerts`.
#[derive(Debug, Args)]
pub struct AlertsArgs {
    #[command(flatten)]
    target: GatewayAddress,
    #[command(subcommand)]
    command: AlertsCommand,
}

#[derive(Debug, Subcommand)]
enum AlertsCommand {
    /// Send a test message once, and tell whether the receiver took it
    Test {
        /// Name of the alert
        name: String,
    },
}

#[derive(Debug, Deserialize)]
struct TestReport {
    delivered: bool,
    status: Option<u16>,
    error: Option<String>,
    latency_ms: u64,
}

/// Runs `alerts`.
///
/// # Errors
/// Exit code 1 when the message was not delivered or the gateway does not answer, 2 when it knows no such alert or refuses the
/// key.
pub fn run(common: &Common, args: &AlertsArgs) -> Result<(), CommandError> {
    let AlertsCommand::Test { name } = &args.command;
    let url = match &args.target.url {
        Some(url) => url.clone(),
        None => own_address(common)?,
    };
    let answer = admin_client::test_alert(&url, name)?;
    let report: TestReport = serde_json::from_slice(&answer)
        .map_err(|_| CommandError::Runtime(format!("{url}: the answer is not a gateway's")))?;
    let TestReport { delivered, status, error, latency_ms } = report;
    let status = status.map_or_else(String::new, |status| format!(" (status {status})"));
    if delivered {
        return print(&format!("The alert '{name}' was delivered in {latency_ms} ms{status}.\n"));
    }
    let error = error.unwrap_or_default();
    Err(CommandError::Runtime(format!("the alert '{name}' was not delivered in {latency_ms} ms: {error}")))
}
