//! The configuration in force as the management API shows it, and its reload.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use gw_engine::Engine;
use gw_engine::error::{Error, Kind};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::time::format_millis;

/// The most problems that an answer lists.
const MAX_PROBLEMS: usize = 50;

/// The state of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationState {
    /// The file that the configuration was read from.
    pub file: Option<String>,
    /// The unix milliseconds at which the configuration in force was loaded.
    pub loaded_at_ms: i64,
    /// The changed settings that only a restart applies, as paths such as `server.listen`.
    pub restart_required: Vec<String>,
    /// The last reload, if it was refused.
    pub refused: Option<RefusedReload>,
}

/// A reload that was refused. The configuration before it is in force.
#[derive(Clone, Debug)]
pub struct RefusedReload {
    /// The unix milliseconds of the reload.
    pub at_ms: i64,
    /// Every problem, as a sentence without secrets.
    pub problems: Vec<String>,
}

/// A reload that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// The settings that differ from those before, as paths such as `providers.acme`.
    pub changes: Vec<String>,
    /// The changed settings that only a restart applies.
    pub restart_required: Vec<String>,
}

/// The result of a reload; an error lists every problem.
pub type ReloadFuture<'a> = Pin<Box<dyn Future<Output = Result<ReloadReport, Vec<String>>> + Send + 'a>>;

/// The source of the configuration, which can be read again.
pub trait ConfigurationSource: Send + Sync + fmt::Debug {
    /// The state of the configuration.
    fn state(&self) -> ConfigurationState;

    /// Reads the configuration again and applies it whole, or keeps the configuration in force.
    fn reload(&self) -> ReloadFuture<'_>;
}

/// The configuration of a running gateway.
#[derive(Clone, Debug)]
pub struct LiveConfiguration {
    engine: Arc<Engine>,
    source: Arc<dyn ConfigurationSource>,
    /// The runtime of the source; requests arrive on other threads.
    runtime: Handle,
}

impl LiveConfiguration {
    /// The configuration of this engine. `runtime` must be the runtime of the source.
    #[must_use]
    pub fn new(engine: Arc<Engine>, source: Arc<dyn ConfigurationSource>, runtime: Handle) -> Self {
        Self { engine, source, runtime }
    }

    /// `GET /admin/v1/config`: the settings in force, with masked secrets, and the state of the last reload.
    #[must_use]
    pub fn show(&self) -> Bytes {
        let configured = self.engine.configured();
        let settings = match configured.settings.shown.as_str() {
            "" => "{}",
            shown => shown,
        };
        let state = self.source.state();
        let refused = state.refused.map(|refused| {
            json!({"at": format_millis(refused.at_ms), "problems": first_problems(refused.problems)})
        });
        let state = json!({
            "file": state.file,
            "loaded_at": format_millis(state.loaded_at_ms),
            "restart_required": state.restart_required,
            "refused_reload": refused,
        });
        Bytes::from(format!("{{\"object\":\"config\",\"settings\":{settings},\"state\":{state}}}"))
    }

    /// `POST /admin/v1/reload`. The reload is completed even if the caller drops the future.
    ///
    /// # Errors
    /// `invalid_configuration` with the problems of the new configuration.
    pub async fn reload(&self) -> gw_engine::Result<Bytes> {
        let source = Arc::clone(&self.source);
        let reloaded = self.runtime.spawn(async move { source.reload().await }).await;
        let reloaded = reloaded.map_err(|_| Error::internal())?;
        let ReloadReport { changes, restart_required } = reloaded.map_err(|problems| refusal(&problems))?;
        let answer = json!({
            "object": "config.reload",
            "changes": changes,
            "restart_required": restart_required,
        });
        Ok(Bytes::from(answer.to_string()))
    }
}

fn first_problems(mut problems: Vec<String>) -> Value {
    problems.truncate(MAX_PROBLEMS);
    json!(problems)
}

fn refusal(problems: &[String]) -> Error {
    let first: Vec<&str> = problems.iter().take(MAX_PROBLEMS).map(String::as_str).collect();
    let message =
        format!("The configuration cannot be used; the one before stays in force. {}", first.join("; "));
    Error { code: Some("invalid_configuration".into()), ..Error::new(Kind::Invalid, message) }
}
