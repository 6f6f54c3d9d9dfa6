//! `model-gateway check`: lists every problem of a configuration, with its line. It calls no provider and opens no store.

use std::path::PathBuf;

use clap::Args;
use gw_command::{CommandError, Common, first_lines, print};
use gw_config::Source;
use gw_config::setup::{self, Setup};
use gw_config::{encryption_key, opened_members, paths};

use crate::store::StoreLocation;
use crate::{certificate_times, serve, store};

/// The options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file to check; --config FILE means the same
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
}

/// Prints the problems and the notes.
///
/// # Errors
/// Exit code 2 when the configuration cannot be used.
pub fn run(common: &Common, args: &CheckArgs) -> Result<(), CommandError> {
    let source = paths::config_source(args.file.as_deref().or(common.config.as_deref()));
    let name = match &source {
        Source::File(path) => path.display().to_string(),
        Source::Nothing => "no configuration file".to_owned(),
    };
    let (setup, mut problems) = match gw_config::load(source) {
        Err(refused) => setup::refused_offline(refused),
        Ok(loaded) => {
            let (setup, problems) = setup::offline(loaded);
            (Some(setup), problems)
        }
    };
    if let Some(mut setup) = setup {
        match check_keys(&setup) {
            KeyCheck::Passes => {}
            KeyCheck::Fails(problem) => problems.push(problem),
            KeyCheck::Unknown(note) => setup.notes.push(note),
        }
        let opened = opened_members::notes(&setup.config.providers);
        // A file that has a fault may be no regular file, and reading it may never end.
        let tls = setup.config.server.tls.as_ref().filter(|_| problems.is_empty());
        let certificate = tls.and_then(certificate_times::note);
        let notes: Vec<String> = setup
            .notes
            .iter()
            .chain(&opened)
            .chain(&certificate)
            .map(|note| format!("note: {note}"))
            .collect();
        print(&first_lines(&notes))?;
    }
    problems.extend(encryption_key::of_environment().err());
    problems.extend(encryption_key::previous_of_environment().err());
    if problems.is_empty() {
        return print(&format!("{name}: no problems\n"));
    }
    let count = problems.len();
    print(&first_lines(&problems))?;
    Err(CommandError::Usage(format!("{name}: {count} problem{}", if count == 1 { "" } else { "s" })))
}

/// Whether `serve` would refuse to listen because there is no key.
enum KeyCheck {
    Passes,
    Fails(String),
    Unknown(String),
}

/// Checks the addresses and the existence of the store's file. It opens no store and asks no name server.
fn check_keys(setup: &Setup) -> KeyCheck {
    if !setup.config.engine.keys.is_empty() || !setup.config.store.content.keys.is_empty() {
        return KeyCheck::Passes;
    }
    let server = &setup.config.server;
    let mut listens = std::iter::once(&server.listen).chain(&server.admin_listen);
    let Some(listen) = listens.find(|listen| serve::is_written_reachable(listen)) else {
        return KeyCheck::Passes;
    };
    match store::location(setup) {
        Ok(StoreLocation::File(file)) if !file.exists() => KeyCheck::Fails(serve::needs_a_key(setup, listen)),
        _ => KeyCheck::Unknown(format!(
            "server: 'serve' refuses to listen on {listen} unless the store holds a key that is neither revoked nor expired"
        )),
    }
}
