//! `model-gateway check`: every fault of a configuration, with its place; calls nobody.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use secrecy::ExposeSecret;

use crate::cli::{Common, Stop, print};
use crate::config::{self, Source};
use crate::setup::{self, Setup};
use crate::{places, serve};

/// The file to check.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file to check, as with --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
}

/// Prints what is wrong or worth knowing.
///
/// # Errors
/// Exit code 2 when the configuration cannot be used.
pub fn run(common: &Common, args: &CheckArgs) -> Result<(), Stop> {
    let source = places::config_source(args.file.as_deref().or(common.config.as_deref()));
    let name = match &source {
        Source::File(path) => path.display().to_string(),
        Source::Nothing => "no configuration file".to_owned(),
    };
    let (setup, mut problems) = match config::load(source) {
        Err(refused) => setup::refused_offline(refused),
        Ok(loaded) => {
            let (setup, problems) = setup::offline(loaded);
            (Some(setup), problems)
        }
    };
    if let Some(mut setup) = setup {
        match open_without_key(&setup) {
            Open::No => {}
            Open::Yes(problem) => problems.push(problem),
            Open::Unknown(note) => setup.notes.push(note),
        }
        let notes = setup.config.later.iter().map(|later| format!("note: {later}"));
        let notes: Vec<String> =
            notes.chain(setup.notes.iter().map(|note| format!("note: {note}"))).collect();
        print(&shown(&notes))?;
    }
    if problems.is_empty() {
        return print(&format!("{name}: no problems\n"));
    }
    let count = problems.len();
    print(&shown(&problems))?;
    Err(Stop::Usage(format!("{name}: {count} problem{}", if count == 1 { "" } else { "s" })))
}

/// The most problems, and the most notes, that `check` prints.
const MAX_SHOWN: usize = 50;

/// The first lines, and how many more there are.
pub(crate) fn shown(lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines.iter().take(MAX_SHOWN) {
        text.push_str(line);
        text.push('\n');
    }
    let more = lines.len().saturating_sub(MAX_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    text
}

/// Whether `serve` would refuse to listen because nobody has a key.
enum Open {
    No,
    Yes(String),
    Unknown(String),
}

/// Looks at addresses and at whether there is a store, without opening it and without asking a name server.
fn open_without_key(setup: &Setup) -> Open {
    if !setup.config.engine.keys.is_empty() {
        return Open::No;
    }
    let server = &setup.config.server;
    let mut listens = std::iter::once(&server.listen).chain(&server.admin_listen);
    let Some(listen) = listens.find(|listen| serve::is_written_reachable(listen)) else { return Open::No };
    match store_file(setup) {
        Some(file) if !file.exists() => Open::Yes(serve::needs_a_key(listen)),
        _ => Open::Unknown(format!(
            "server: 'serve' listens on {listen} only if the store holds a key that is neither revoked nor expired"
        )),
    }
}

/// The file of a SQLite store; None when the store is a server or its place is not known.
fn store_file(setup: &Setup) -> Option<PathBuf> {
    let Some(url) = &setup.config.store.url else {
        return Some(places::find_data_dir(setup.config.data_dir.as_deref())?.join("gateway.db"));
    };
    let path = url.expose_secret().strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    Some(Path::new(path).to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_problems_are_shown_and_the_others_counted() {
        let problems = |count: usize| (0..count).map(|at| format!("p{at}")).collect::<Vec<_>>();
        assert_eq!(super::shown(&problems(2)), "p0\np1\n");
        assert_eq!(super::shown(&problems(50)).lines().last(), Some("p49"));
        let many = super::shown(&problems(1234));
        assert_eq!((many.lines().count(), many.lines().last()), (51, Some("and 1184 more")));
    }
}
