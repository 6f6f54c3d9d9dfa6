//! What the program says about itself on standard error: for people on a terminal, JSON for everything else.

use std::io::{self, IsTerminal};
use std::panic;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::lines::{Flusher, Lines};

/// Starts logging. `level` is what `--log-level` or `RUST_LOG` says: `info`, or `gw_engine=debug,warn`.
///
/// # Errors
/// One line, when the level cannot be read or a thread cannot be started.
pub fn start(level: &str) -> Result<Flusher, String> {
    let filter = EnvFilter::try_new(level).map_err(|error| format!("--log-level: {error}"))?;
    let (lines, flusher) =
        Lines::start("log", io::stderr(), Duration::ZERO).map_err(|error| error.to_string())?;
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_span_events(FmtSpan::NONE).with_writer(lines);
    let started = if io::stderr().is_terminal() {
        tracing::subscriber::set_global_default(subscriber.with_target(false).finish())
    } else {
        tracing::subscriber::set_global_default(
            subscriber.with_ansi(false).json().flatten_event(true).finish(),
        )
    };
    started.map_err(|error| error.to_string())?;
    panic::set_hook(Box::new(|panic| {
        // Not the panic's message: it can hold a piece of a prompt (a cut inside a character quotes the text).
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        tracing::error!(place, thread, "a bug: a task panicked");
    }));
    Ok(flusher)
}
