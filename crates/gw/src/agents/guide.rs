//! `model-gateway setup PROGRAM`: prints the configuration that connects a program to the gateway.

use std::io::{self, Write};

use clap::Args;
use gw_command::{CommandError, Common, print};

use super::snippets::Tool;
use super::{Endpoint, GatewayOptions};

/// The options of `setup`.
#[derive(Debug, Args)]
pub struct SetupArgs {
    #[command(flatten)]
    gateway: GatewayOptions,
    /// Program to connect
    #[arg(value_enum, value_name = "PROGRAM")]
    tool: Tool,
}

/// Prints the configuration to standard output, and where it belongs to standard error.
///
/// # Errors
/// Exit code 2 when the address is not known.
pub fn run(common: &Common, args: &SetupArgs) -> Result<(), CommandError> {
    let endpoint = Endpoint::find(common, &args.gateway, true)?;
    let _ = writeln!(io::stderr(), "{}", args.tool.place());
    print(&args.tool.snippet(&endpoint))
}
