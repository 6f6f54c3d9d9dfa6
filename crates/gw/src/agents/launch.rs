//! `model-gateway run -- PROGRAM`: starts a program that uses the gateway.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use gw_admin::AdminRequest;
use gw_admin::endpoints::CREATE_KEY;
use gw_command::{CommandError, Common};
use gw_config::paths;
use gw_wire::calendar::{rfc3339, unix_seconds};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::program::{LaunchPlan, Program};
use super::workplace::Workplace;
use super::{Endpoint, GatewayOptions, KEY};
use crate::admin_client::{self, ADMIN_KEY, AdminTarget};

/// How long a key of `--create-key` is valid.
const CREATED_KEY_SECONDS: i64 = 24 * 3600;

/// The options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    gateway: GatewayOptions,
    /// Gateway key of the program [default: the environment variable MODEL_GATEWAY_KEY]
    #[arg(long, value_name = "KEY", conflicts_with = "create_key")]
    key: Option<SecretString>,
    /// Create an inference key for the program, valid for 24 hours: in the store, or with --url by the gateway
    #[arg(long)]
    create_key: bool,
    /// Switch off the telemetry, the error reports and the updates of the program, where it has a setting for them
    #[arg(long)]
    no_telemetry: bool,
    /// Do not tell the gateway the repository, the branch and the pull request that the program works on
    #[arg(long)]
    no_git: bool,
    /// Program whose settings are used [default: by the name of the command]
    #[arg(long = "as", value_name = "PROGRAM", value_enum)]
    program: Option<Program>,
    /// Command to start, with its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replaces this process by the program, so that its signals, its terminal and its exit status are the program's own. Returns
/// only when the program cannot be started.
///
/// # Errors
/// Exit code 2 when there is no key or no address, 1 when the program cannot be started.
pub fn run(common: &Common, args: &RunArgs) -> Result<(), CommandError> {
    let Some((command, arguments)) = args.command.split_first() else {
        return Err(CommandError::Usage("write the command to start behind --".to_owned()));
    };
    let mut endpoint = Endpoint::find(common, &args.gateway, false)?;
    let program = args.program.unwrap_or_else(|| Program::of(command));
    let key = key(common, args, program)?;
    if args.gateway.url.is_some()
        && program.takes_limits()
        && let Err(error) = endpoint.ask_limits(&key)
    {
        // The program itself tells its user what is wrong with the gateway.
        let _ = writeln!(io::stderr(), "model-gateway: the limits of the model are not known: {error}");
    }
    let workplace = if args.no_git { Workplace::default() } else { Workplace::find() };
    let headers = workplace.headers();
    let LaunchPlan { arguments: settings, set, unset } =
        program.plan(&endpoint, &key, args.no_telemetry, &headers);
    let mut child = Command::new(command);
    child.args(settings).args(arguments);
    // The program must not be able to manage the gateway.
    for name in unset.into_iter().chain([ADMIN_KEY]) {
        child.env_remove(name);
    }
    child.envs(set).envs(workplace.variables());
    let error = child.exec();
    let shown = command.to_string_lossy();
    Err(CommandError::Runtime(match error.kind() {
        ErrorKind::NotFound => {
            format!("'{shown}' cannot be started: it is not installed, or its directory is not in PATH")
        }
        _ => format!("'{shown}' cannot be started: {error}"),
    }))
}

/// The key of the program: `--key`, else a new one, else `MODEL_GATEWAY_KEY`.
fn key(common: &Common, args: &RunArgs, program: Program) -> Result<String, CommandError> {
    if args.create_key {
        return create_key(common, args, program);
    }
    let (key, source) = match (&args.key, paths::variable(KEY)) {
        (Some(key), _) => (key.expose_secret().to_owned(), "--key"),
        (None, Some(key)) => (key, KEY),
        (None, None) => {
            return Err(CommandError::Usage(format!(
                "the program needs a gateway key: put one into the environment variable {KEY} ('model-gateway keys create \
                 --name NAME' makes one), or add --create-key"
            )));
        }
    };
    let key = key.trim();
    if key.is_empty() || key.chars().any(char::is_control) {
        return Err(CommandError::Usage(format!("{source} holds no key, or characters that no key has")));
    }
    Ok(key.to_owned())
}

fn create_key(common: &Common, args: &RunArgs, program: Program) -> Result<String, CommandError> {
    let name = format!("run-{program:?}").to_lowercase();
    let body = json!({ "name": name, "expires_at": rfc3339(unix_seconds() + CREATED_KEY_SECONDS) });
    let target = AdminTarget { url: args.gateway.url.clone() };
    let answer =
        admin_client::ask(common, &target, AdminRequest::new(CREATE_KEY).with_body(body.to_string()))?;
    let answer: Value = serde_json::from_slice(&answer).map_err(CommandError::runtime)?;
    let key = answer.get("key").and_then(Value::as_str).map(str::to_owned);
    key.ok_or_else(|| CommandError::Runtime("the answer holds no key".to_owned()))
}
