//! `model-gateway export`: writes the whole configuration to one gateway.toml.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use gw_command::{CommandError, Common, print};
use gw_config::stored_configuration::StoredConfiguration;
use gw_config::stored_configuration::export::Export;
use gw_config::{encryption_key, paths, setup};

use crate::admin_client::{self, AdminTarget};
use crate::store;

/// The options of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    target: AdminTarget,
    /// Write the configuration to this new file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the providers' keys and other secrets themselves, instead of references to environment variables
    #[arg(long, conflicts_with = "url")]
    secrets: bool,
}

/// Prints the configuration to standard output, and the variables to set to standard error.
///
/// # Errors
/// Exit code 2 for a wrong configuration, 1 when the store or the gateway does not answer.
pub fn run(common: &Common, args: &ExportArgs) -> Result<(), CommandError> {
    let text = match &args.target.url {
        Some(url) => {
            let body: Bytes = admin_client::get(url, "config/export")?;
            String::from_utf8_lossy(&body).into_owned()
        }
        None => {
            let export = gw_command::runtime()?.block_on(Box::pin(of_store(common, args.secrets)))?;
            if !export.variables.is_empty() {
                let line = format!("set these variables before a start: {}\n", export.variables.join(", "));
                let _ = io::stderr().write_all(line.as_bytes());
            }
            export.text
        }
    };
    match &args.out {
        None => print(&text),
        Some(path) => paths::create_private(path, text.as_bytes())
            .map_err(|error| CommandError::Runtime(format!("{}: {error}", path.display()))),
    }
}

async fn of_store(common: &Common, has_secrets: bool) -> Result<Export, CommandError> {
    let setup = setup::load(common)?;
    let data = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
    let store = store::open_shared(&setup).await?;
    let sealer = encryption_key::secret_sealer(&encryption_key::open(&store, &data).await?)?;
    let configuration = StoredConfiguration::new(store.clone(), sealer, setup.path.clone(), BTreeSet::new());
    let export = configuration.export(has_secrets).await;
    store.close().await;
    export.map_err(|error| CommandError::Runtime(error.message.into_owned()))
}
