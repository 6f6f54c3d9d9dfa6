//! The parts that all commands share: the common options, the error of a command, and standard output.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use crate::telemetry;

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
        value_parser = telemetry::log_level
    )]
    pub log_level: String,
}

/// The options of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Address to listen on, instead of the configured one
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub listen: Option<String>,
    /// Do not search for model servers on this machine
    #[arg(long)]
    pub no_discover: bool,
    /// Take the listening sockets over from the gateway that runs with this data directory. That one finishes its requests
    /// and ends. Without such a gateway this is a usual start.
    #[arg(long)]
    pub take_over: bool,
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

/// Why an address cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The address has no colon.
    #[error("write HOST:PORT, such as 127.0.0.1:4000")]
    NoPort,
    /// The text behind the last colon is not a port.
    #[error("the port must be a number from 0 to 65535")]
    BadPort,
    /// The host is missing.
    #[error(
        "the host is missing; write 127.0.0.1:PORT for this machine alone, or 0.0.0.0:PORT for every interface"
    )]
    NoHost,
    /// An IPv6 address without brackets.
    #[error("write an IPv6 address in brackets, such as [::1]:4000")]
    NoBrackets,
}

fn host_and_port(text: &str) -> Result<String, AddressError> {
    let (host, port) = text.rsplit_once(':').ok_or(AddressError::NoPort)?;
    port.parse::<u16>().map_err(|_| AddressError::BadPort)?;
    if host.is_empty() {
        return Err(AddressError::NoHost);
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(AddressError::NoBrackets);
    }
    Ok(text.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:4000", "localhost:0", "[::]:4000", "0.0.0.0:65535"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for (bad, error) in [
            ("", AddressError::NoPort),
            ("4000", AddressError::NoPort),
            (":4000", AddressError::NoHost),
            ("::1:4000", AddressError::NoBrackets),
            ("127.0.0.1", AddressError::NoPort),
            ("127.0.0.1:", AddressError::BadPort),
            ("host:65536", AddressError::BadPort),
            ("host:x", AddressError::BadPort),
        ] {
            assert_eq!(host_and_port(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn the_first_lines_are_shown_and_the_others_counted() {
        let lines = |count: usize| (0..count).map(|at| format!("p{at}")).collect::<Vec<_>>();
        assert_eq!(first_lines(&lines(2)), "p0\np1\n");
        assert_eq!(first_lines(&lines(50)).lines().last(), Some("p49"));
        let many = first_lines(&lines(1234));
        assert_eq!((many.lines().count(), many.lines().last()), (51, Some("and 1184 more")));
    }
}
