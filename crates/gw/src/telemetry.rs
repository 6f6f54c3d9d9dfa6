//! The log on standard error: readable text in a terminal, JSON elsewhere.

use std::io::{self, IsTerminal};
use std::panic;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::log_writer::{FlushOnDrop, LogWriter};

/// The reason why logging cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log level cannot be used.
    #[error("--log-level: {0}")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// The thread of the log cannot be started.
    #[error("the log cannot be started: {0}")]
    Thread(#[from] io::Error),
    /// Another log was started before.
    #[error("the log cannot be started: {0}")]
    Started(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// Starts logging. `level` is the value of `--log-level` or `RUST_LOG`, such as `info` or `gw_engine=debug,warn`.
///
/// # Errors
/// When the level cannot be used or the log's thread cannot be started.
pub fn start(level: &str) -> Result<FlushOnDrop, TelemetryError> {
    let filter = EnvFilter::try_new(level)?;
    let (writer, flush) = LogWriter::start("log", io::stderr(), Duration::ZERO)?;
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_span_events(FmtSpan::NONE).with_writer(writer);
    let started = if io::stderr().is_terminal() {
        tracing::subscriber::set_global_default(subscriber.with_target(false).finish())
    } else {
        tracing::subscriber::set_global_default(
            subscriber.with_ansi(false).json().flatten_event(true).finish(),
        )
    };
    started?;
    panic::set_hook(Box::new(|panic| {
        // The panic's message is left out, because it can quote a piece of a prompt.
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        tracing::error!(place, thread, "a bug: a task panicked");
    }));
    Ok(flush)
}
