//! The parts that all commands share: the common options, the error of a command, standard output, and text in columns.

mod log_level;
pub mod table;

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

pub use self::log_level::{LogLevelError, log_level};

/// The options of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Configuration file [default: $MODEL_GATEWAY_CONFIG, else ./gateway.toml, else none]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Log level: off, error, warn, info, debug, trace, or a filter such as gw_engine=debug,warn
    #[arg(
        long,
        value_name = "LEVEL",
        env = "RUST_LOG",
        global = true,
        default_value = "info",
        hide_env_values = true,
        value_parser = log_level
    )]
    pub log_level: String,
}

/// The reason why a command failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The command line or the configuration is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Something failed while the command ran: exit code 1.
    #[error("{0}")]
    Runtime(String),
    /// A compared figure is above its threshold: exit code 3.
    #[error("{0}")]
    Threshold(String),
}

impl CommandError {
    /// A failure while the command ran.
    pub fn runtime(error: impl fmt::Display) -> Self {
        Self::Runtime(error.to_string())
    }

    /// A wrong configuration; one problem a line.
    #[must_use]
    pub fn problems(problems: &[String]) -> Self {
        Self::Usage(problems.join("\n"))
    }
}

/// The most lines of a list of problems or notes that are printed.
const MAX_LINES: usize = 50;

/// The first lines of a list, and the number of the others.
#[must_use]
pub fn first_lines(lines: &[String]) -> String {
    let shown = lines.iter().take(MAX_LINES).map(|line| format!("{line}\n"));
    let mut text: String = shown.collect();
    let more = lines.len().saturating_sub(MAX_LINES);
    if more > 0 {
        text += &format!("and {more} more\n");
    }
    text
}

/// Writes to standard output. A reader that has closed the pipe (`| head`) is no failure.
///
/// # Errors
/// Exit code 1 when standard output cannot be written.
pub fn print(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::Runtime(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Builds the runtime of a command.
///
/// # Errors
/// Exit code 1 when the system refuses it.
pub fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::Runtime(format!("the runtime cannot be started: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_shown_and_the_others_counted() {
        let lines = |count: usize| (0..count).map(|at| format!("p{at}")).collect::<Vec<_>>();
        assert_eq!(first_lines(&lines(2)), "p0\np1\n");
        assert_eq!(first_lines(&lines(50)).lines().last(), Some("p49"));
        let many = first_lines(&lines(1234));
        assert_eq!((many.lines().count(), many.lines().last()), (51, Some("and 1184 more")));
    }
}
