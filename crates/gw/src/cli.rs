//! The command line: the commands, and the exit codes (0 success, 1 failure, 2 wrong usage or configuration, 3 a
//! difference above a threshold).

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use gw_command::{CommandError, Common, print};
use gw_import::ImportArgs;
use gw_probe::ProbeArgs;
use gw_reconcile::ReconcileArgs;

use crate::serve_args::ServeArgs;
use crate::{
    agents, alerts, audit, backup, check, clock, config_command, doctor, drill, explain, export, keys, login,
    man, models, reconcile, reload_command, requests, serve, simulate, usage,
};

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

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway (the default)
    Serve(ServeArgs),
    /// Check a configuration without calling a provider
    Check(check::CheckArgs),
    /// Write a starter configuration, print its schema, or show the settings with their origins
    Config(config_command::ConfigArgs),
    /// Examine this machine, the configuration and the services that the gateway needs
    Doctor(doctor::DoctorArgs),
    /// Show the model catalogue
    Models(models::ModelsArgs),
    /// Make the running gateway read its configuration again
    Reload(reload_command::ReloadArgs),
    /// Print a link that signs a browser in at the console, and open it
    Login(login::LoginArgs),
    /// Create, list, rotate and revoke gateway keys
    Keys(keys::KeysArgs),
    /// Report requests, tokens and costs by key, team, model, provider or time
    Usage(usage::UsageArgs),
    /// Show the request log, the newest request first
    Requests(requests::RequestsArgs),
    /// Test an alert of the running gateway
    Alerts(alerts::AlertsArgs),
    /// Show, export and verify the log of changes
    Audit(audit::AuditArgs),
    /// Show whether the gateway trusts this machine's clock, and confirm the clock
    Clock(clock::ClockArgs),
    /// Explain the routing and the worst-case cost of a request without calling a provider
    Explain(explain::ExplainArgs),
    /// Simulate failures of each provider on this machine, and show the answers that clients would get
    Drill(drill::DrillArgs),
    /// Check with small calls that a provider's endpoint keeps its API, and print a report
    Probe(ProbeArgs),
    /// Estimate the cost and the speed of logged requests with another routing strategy
    Simulate(simulate::SimulateArgs),
    /// Compare the costs in the ledger with the provider's own reports, and explain each difference
    Reconcile(ReconcileArgs),
    /// Write the file, the configuration of the API, the keys and the teams to one gateway.toml
    Export(export::ExportArgs),
    /// Convert the configuration of another gateway to a gateway.toml
    Import(ImportArgs),
    /// Write the state of the gateway to an archive, also while it serves
    Backup(backup::BackupArgs),
    /// Put the state of a backup in place
    Restore(backup::RestoreArgs),
    /// Start a coding agent or another program that uses the gateway's models
    Run(agents::launch::RunArgs),
    /// Print the configuration that connects a program to the gateway
    Setup(agents::guide::SetupArgs),
    /// Print the OpenAPI document
    Openapi,
    /// Print the manual page, or write the pages of all commands
    Man(man::ManArgs),
    /// Print shell completions
    Completions {
        /// Shell for which the script is printed
        shell: Shell,
    },
}

/// Runs the program, and returns its exit code.
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
        Err(error) => {
            let _ = writeln!(io::stderr(), "model-gateway: {error}");
            ExitCode::from(match error {
                CommandError::Usage(_) => 2,
                CommandError::Runtime(_) => 1,
                CommandError::Threshold(_) => 3,
            })
        }
    }
}

fn run(cli: Cli) -> Result<(), CommandError> {
    let Cli { common, serve: top, command } = cli;
    let has_serve_options = top.listen.is_some() || top.no_discover || top.take_over;
    match command {
        None => serve::run(&common, &top),
        Some(Command::Serve(args)) => serve::run(
            &common,
            &ServeArgs {
                listen: args.listen.or(top.listen),
                no_discover: args.no_discover || top.no_discover,
                take_over: args.take_over || top.take_over,
            },
        ),
        Some(_) if has_serve_options => Err(CommandError::Usage(
            "--listen, --no-discover and --take-over are options of serve".to_owned(),
        )),
        Some(Command::Check(args)) => check::run(&common, &args),
        Some(Command::Config(args)) => config_command::run(&common, &args),
        Some(Command::Doctor(args)) => doctor::run(&common, &args),
        Some(Command::Models(args)) => models::run(&common, &args),
        Some(Command::Reload(args)) => reload_command::run(&common, &args),
        Some(Command::Login(args)) => login::run(&common, &args),
        Some(Command::Keys(args)) => keys::run(&common, &args),
        Some(Command::Usage(args)) => usage::run(&common, &args),
        Some(Command::Requests(args)) => requests::run(&common, &args),
        Some(Command::Alerts(args)) => alerts::run(&common, &args),
        Some(Command::Audit(args)) => audit::run(&common, &args),
        Some(Command::Clock(args)) => clock::run(&common, &args),
        Some(Command::Explain(args)) => explain::run(&common, &args),
        Some(Command::Drill(args)) => drill::run(&common, &args),
        Some(Command::Probe(args)) => gw_probe::run(&common, &args),
        Some(Command::Simulate(args)) => simulate::run(&common, &args),
        Some(Command::Reconcile(args)) => reconcile::run(&common, &args),
        Some(Command::Export(args)) => export::run(&common, &args),
        Some(Command::Import(args)) => gw_import::run(&args),
        Some(Command::Backup(args)) => backup::run(&common, &args),
        Some(Command::Restore(args)) => backup::run_restore(&common, &args),
        Some(Command::Run(args)) => agents::launch::run(&common, &args),
        Some(Command::Setup(args)) => agents::guide::run(&common, &args),
        Some(Command::Openapi) => print(gw_server::OPENAPI_JSON),
        Some(Command::Man(args)) => man::run(Cli::command(), &args),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "model-gateway", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
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
    fn serve_is_the_default_command() {
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
    fn other_commands_refuse_the_options_of_serve() {
        let error = run(parse(&["--listen", "127.0.0.1:1", "check"]).unwrap()).unwrap_err();
        assert!(matches!(error, CommandError::Usage(_)));
        assert_eq!(
            parse(&["check", "--listen", "127.0.0.1:1"]).unwrap_err().kind(),
            ErrorKind::UnknownArgument
        );
    }

    #[test]
    fn commands_of_later_versions_are_not_listed() {
        assert_eq!(parse(&["evaluate"]).unwrap_err().kind(), ErrorKind::InvalidSubcommand);
    }
}
