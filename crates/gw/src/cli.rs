//! The command line: what can be asked of the program, and its exit codes (0 fine, 1 runtime failure, 2 usage or
//! configuration).

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::{check, clock, drill, explain, keys, models, serve, simulate, telemetry, usage};

/// One API in front of many model providers.
#[derive(Debug, Parser)]
#[command(name = "model-gateway", version, about, long_about = None)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    serve: ServeArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Configuration file [default: $MODEL_GATEWAY_CONFIG, else ./gateway.toml, else none]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// What is logged: off, error, warn, info, debug, trace, or a filter such as gw_engine=debug,warn
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

/// How the gateway is run.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Address to listen on instead of the configuration's
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub listen: Option<String>,
    /// Do not look for model servers on this machine
    #[arg(long)]
    pub no_discover: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway (the default)
    Serve(ServeArgs),
    /// Validate a configuration; calls no provider
    Check(check::CheckArgs),
    /// Show the catalogue
    Models(models::ModelsArgs),
    /// Make, list, rotate and revoke gateway keys
    Keys(keys::KeysArgs),
    /// What was spent, by whom and on what
    Usage(usage::UsageArgs),
    /// Whether old rows and payloads are purged, or the clock is doubted
    Clock(clock::ClockArgs),
    /// Why a request would go where: the route, and what it can cost; calls no provider
    Explain(explain::ExplainArgs),
    /// Simulate the failures of each provider on this machine, and show what clients would see
    Drill(drill::DrillArgs),
    /// What the requests of the log would have cost with another strategy, and how fast they would have been
    Simulate(simulate::SimulateArgs),
    /// Print the OpenAPI document
    Openapi,
    /// Print shell completions
    Completions {
        /// The shell they are for
        shell: Shell,
    },
}

/// Why a command ended without success.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// Something asked for cannot be: exit code 2.
    Usage(String),
    /// Something went wrong: exit code 1.
    Runtime(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Runtime(message) => f.write_str(message),
        }
    }
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            let _ = writeln!(io::stderr(), "model-gateway: {stop}");
            ExitCode::from(match stop {
                Stop::Usage(_) => 2,
                Stop::Runtime(_) => 1,
            })
        }
    }
}

fn run(cli: Cli) -> Result<(), Stop> {
    let Cli { common, serve: top, command } = cli;
    let given = top.listen.is_some() || top.no_discover;
    match command {
        None => serve::run(&common, &top),
        Some(Command::Serve(args)) => serve::run(
            &common,
            &ServeArgs {
                listen: args.listen.or(top.listen),
                no_discover: args.no_discover || top.no_discover,
            },
        ),
        Some(_) if given => Err(Stop::Usage("--listen and --no-discover belong to serve".to_owned())),
        Some(Command::Check(args)) => check::run(&common, &args),
        Some(Command::Models(args)) => models::run(&common, &args),
        Some(Command::Keys(args)) => keys::run(&common, &args),
        Some(Command::Usage(args)) => usage::run(&common, &args),
        Some(Command::Clock(args)) => clock::run(&common, &args),
        Some(Command::Explain(args)) => explain::run(&common, &args),
        Some(Command::Drill(args)) => drill::run(&common, &args),
        Some(Command::Simulate(args)) => simulate::run(&common, &args),
        Some(Command::Openapi) => print(gw_server::OPENAPI_JSON),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "model-gateway", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Stop::Runtime(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn host_and_port(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').ok_or("expected HOST:PORT")?;
    port.parse::<u16>().map_err(|_| format!("'{port}' is not a port"))?;
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || bare_ipv6 {
        return Err("expected HOST:PORT, an IPv6 address in brackets".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("model-gateway").chain(args.iter().copied()))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_is_what_is_done_when_nothing_is_asked() {
        assert!(parse(&[]).unwrap().command.is_none());
        let cli = parse(&["--config", "f.toml", "--listen", "127.0.0.1:0"]).unwrap();
        assert_eq!(cli.common.config, Some("f.toml".into()));
        assert_eq!(cli.serve.listen.as_deref(), Some("127.0.0.1:0"));
        let cli = parse(&["serve", "--config", "f.toml", "--listen", "[::1]:80"]).unwrap();
        assert_eq!(cli.common.config, Some("f.toml".into()));
        assert!(
            matches!(cli.command, Some(Command::Serve(args)) if args.listen.as_deref() == Some("[::1]:80"))
        );
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:4000", "localhost:0", "[::]:4000", "0.0.0.0:65535"] {
            assert!(host_and_port(good).is_ok(), "{good}");
        }
        for bad in ["", "4000", ":4000", "::1:4000", "127.0.0.1", "127.0.0.1:", "host:65536", "host:x"] {
            assert!(host_and_port(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_of_serve_do_not_slip_into_other_commands() {
        let stop = run(parse(&["--listen", "127.0.0.1:1", "check"]).unwrap()).unwrap_err();
        assert!(matches!(stop, Stop::Usage(_)));
        assert_eq!(
            parse(&["check", "--listen", "127.0.0.1:1"]).unwrap_err().kind(),
            ErrorKind::UnknownArgument
        );
    }

    #[test]
    fn commands_of_later_versions_are_not_listed() {
        assert_eq!(parse(&["login"]).unwrap_err().kind(), ErrorKind::InvalidSubcommand);
    }
}
