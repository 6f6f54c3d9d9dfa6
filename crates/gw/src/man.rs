//! `model-gateway man`: the manual pages, made from the definition of the command line.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;
use gw_command::{CommandError, print};

/// The options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write one page for each command into this folder, as model-gateway.1, model-gateway-keys.1 and so on
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints the page of the program, or writes all pages.
///
/// # Errors
/// Exit code 1 when a page cannot be written.
pub fn run(command: clap::Command, args: &ManArgs) -> Result<(), CommandError> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(CommandError::runtime)?;
        return print(&String::from_utf8_lossy(&page));
    };
    let failed = |error: io::Error| CommandError::Runtime(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)
}
