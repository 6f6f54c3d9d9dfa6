//! `model-gateway reload`: asks the running gateway to read its configuration again.

use clap::Args;
use gw_command::{CommandError, Common, print};
use gw_config::setup;
use serde::Deserialize;

use crate::admin_client::{self, GatewayAddress};

/// The options of `reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    #[command(flatten)]
    target: GatewayAddress,
}

#[derive(Debug, Deserialize)]
struct Report {
    changes: Vec<String>,
    restart_required: Vec<String>,
}

/// Asks for the reload, and prints the changed settings.
///
/// # Errors
/// Exit code 2 when the gateway refuses the configuration or the key, 1 when it does not answer.
pub fn run(common: &Common, args: &ReloadArgs) -> Result<(), CommandError> {
    let url = match &args.target.url {
        Some(url) => url.clone(),
        None => own_address(common)?,
    };
    let answer = admin_client::reload(&url)?;
    let Report { changes, restart_required } = serde_json::from_slice(&answer)
        .map_err(|_| CommandError::Runtime(format!("{url}: the answer is not a gateway's")))?;
    print(&text(&changes, &restart_required))
}

fn text(changes: &[String], restart_required: &[String]) -> String {
    let mut text = match changes {
        [] => "The configuration is loaded. No setting has changed.\n".to_owned(),
        changes => format!("The configuration is loaded. Changed: {}\n", changes.join(", ")),
    };
    if !restart_required.is_empty() {
        text += &format!("Only a restart applies: {}\n", restart_required.join(", "));
    }
    text
}

/// The address of the management API in the configuration.
///
/// # Errors
/// The configuration cannot be used.
pub fn own_address(common: &Common) -> Result<String, CommandError> {
    let server = setup::load(common)
        .map_err(|error| {
            CommandError::Usage(format!("{error}\nGive the address of the running gateway with --url URL."))
        })?
        .config
        .server;
    let scheme = if server.tls.is_some() { "https" } else { "http" };
    let listen = server.admin_listen.unwrap_or(server.listen);
    // A listener on every interface is reached over the loopback.
    let listen = listen.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:");
    Ok(format!("{scheme}://{listen}"))
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn the_text_names_changes_and_settings_that_need_a_restart() {
        assert_eq!(text(&[], &[]), "The configuration is loaded. No setting has changed.\n");
        let changes = ["aliases.fast".to_owned(), "server.listen".to_owned()];
        assert_eq!(
            text(&changes, &changes[1..]),
            "The configuration is loaded. Changed: aliases.fast, server.listen\nOnly a restart applies: server.listen\n"
        );
    }
}
