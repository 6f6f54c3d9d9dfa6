//! What the program says about itself on standard error: for people on a terminal, JSON for everything else.

use std::io::{self, IsTerminal};
use std::panic;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::lines::{Flusher, Lines};

/// Checks what `--log-level` or `RUST_LOG` says. A filter without a level would be taken for the name of a module and log
/// nothing of the gateway, so each part needs one.
///
/// # Errors
/// One line that says what to write instead.
pub fn log_level(text: &str) -> Result<String, String> {
    const LEVELS: &str = "off, error, warn, info, debug or trace";
    if text.trim().is_empty() {
        return Ok("info".to_owned());
    }
    // Spans of a filter (`target[span{field=value}]=level`) may hold commas: only the parser knows their parts.
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty() && !text.contains('['));
    for part in parts {
        match part.rsplit_once('=') {
            Some((_, level)) if level.trim().parse::<LevelFilter>().is_ok() && !level.trim().is_empty() => {}
            Some((target, level)) => {
                return Err(format!("'{level}' is not a level; write {target}= and one of {LEVELS}"));
            }
            None if part.parse::<LevelFilter>().is_ok() => {}
            None => {
                return Err(format!(
                    "'{part}' is not a level; write {LEVELS}, or a level for one module, such as gw_engine=debug,warn"
                ));
            }
        }
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

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

#[cfg(test)]
mod tests {
    use super::log_level;

    #[test]
    fn each_part_of_a_filter_has_a_level() {
        for good in
            ["info", "WARN", "off", "gw_engine=debug,warn", "gw=trace,info", "gw[span{a=1}]=debug", "5"]
        {
            assert_eq!(log_level(good).as_deref(), Ok(good));
        }
        assert_eq!(log_level(" ").as_deref(), Ok("info"));
        for bad in ["loud", "gw_engine", "gw_engine=loud", "gw_engine=", "info,loud", "9"] {
            let said = log_level(bad).expect_err(bad);
            assert!(said.contains("off, error, warn, info, debug or trace"), "{bad}: {said}");
        }
    }
}
