//! `model-gateway restore FILE`: puts the state of a backup in place. The replaced state is kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use gw_admin::time::format_millis;
use gw_command::{CommandError, Common, print};
use gw_config::setup::Setup;
use gw_config::{catalogue_update, paths, setup};
use gw_store::{Error, journal};
use gw_wire::calendar;

use super::archive::{self, STORE_NAME, StoreKind};
use super::{JOURNAL, SECRET};
use crate::store;
use crate::store::StoreLocation;

/// The options of `restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Archive of `model-gateway backup`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Move the present state to a folder in the data directory, and put that of the backup in its place
    #[arg(long)]
    replace: bool,
}

/// Restores a backup.
///
/// # Errors
/// Exit code 2 for a state or an archive that does not allow it, 1 when a file cannot be read or written.
pub(crate) fn run(common: &Common, args: &RestoreArgs) -> Result<(), CommandError> {
    let text = gw_command::runtime()?.block_on(Box::pin(restore(common, args)))?;
    print(&text)
}

async fn restore(common: &Common, args: &RestoreArgs) -> Result<String, CommandError> {
    let setup = setup::load(common)?;
    let data = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
    refuse_running(&data)?;
    let staging = tempfile::Builder::new()
        .prefix(".restore-")
        .tempdir_in(&data)
        .map_err(|error| CommandError::Runtime(format!("{}: {error}", data.display())))?;
    let manifest = archive::read(&args.file, staging.path()).map_err(CommandError::runtime)?;
    let target = target(&setup, manifest.store)?;
    if target.is_some() {
        gw_store::backup::verify(&staging.path().join(STORE_NAME)).await.map_err(unusable)?;
    }
    let present = present(&data, target.as_deref());
    let mut text = String::new();
    if !present.is_empty() {
        if !args.replace {
            let names: Vec<_> = present.iter().map(|path| path.display().to_string()).collect();
            return Err(CommandError::Usage(format!(
                "there is a state already ({}); --replace moves it to a folder in {}",
                names.join(", "),
                data.display()
            )));
        }
        if let Some(file) = target.as_deref().filter(|file| file.exists()) {
            match gw_store::backup::take_offline(file).await {
                // A damaged file is moved aside as it is.
                Ok(()) | Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(CommandError::Usage(error.to_string())),
            }
        }
        let aside = data.join(format!("replaced-{}", calendar::unix_millis()));
        move_aside(&present, &aside)
            .map_err(|error| CommandError::Runtime(format!("{}: {error}", aside.display())))?;
        text = format!("moved the replaced state to {}\n", aside.display());
    }
    put_in_place(staging.path(), &data, target.as_deref())
        .map_err(|error| CommandError::Runtime(format!("{}: {error}", data.display())))?;
    let (made, count) = (format_millis(manifest.made_at), manifest.files.len());
    text += &format!("restored {count} files of {made} to {}\n", data.display());
    if manifest.store == StoreKind::Postgres {
        text += "PostgreSQL is not part of the backup: restore it with pg_restore or psql, from the dump of the same time.\n";
    }
    Ok(text)
}

fn unusable(error: Error) -> CommandError {
    match error {
        Error::Newer { .. } | Error::Damaged { .. } => {
            CommandError::Usage(format!("the store of the backup cannot be used: {error}"))
        }
        error => CommandError::runtime(error),
    }
}

fn refuse_running(data: &Path) -> Result<(), CommandError> {
    if journal::is_in_use(&data.join(JOURNAL)) {
        return Err(CommandError::Usage(format!("a running gateway uses {}; stop it first", data.display())));
    }
    Ok(())
}

/// The file of the store that is restored. None: the store is a server, which a backup does not hold.
fn target(setup: &Setup, kind: StoreKind) -> Result<Option<PathBuf>, CommandError> {
    let refuse = |text: &str| Err(CommandError::Usage(text.to_owned()));
    match (store::location(setup).map_err(CommandError::runtime)?, kind) {
        (StoreLocation::File(file), StoreKind::Sqlite) => Ok(Some(file)),
        (StoreLocation::Server(_), StoreKind::Postgres) => Ok(None),
        (StoreLocation::File(_), StoreKind::Postgres) => refuse(
            "the backup is of a gateway with PostgreSQL, and this configuration has a SQLite store; set store.url",
        ),
        (StoreLocation::Server(_), StoreKind::Sqlite) => refuse(
            "the backup has a SQLite store, and store.url names a server; restore it with a configuration of SQLite",
        ),
        (StoreLocation::Memory, _) => {
            refuse("the configured store is in memory, so nothing can be restored to it")
        }
    }
}

/// The files and folders of the present state.
fn present(data: &Path, target: Option<&Path>) -> Vec<PathBuf> {
    let store = target.into_iter().flat_map(|file| {
        ["", "-wal", "-shm"].into_iter().map(move |ending| {
            let mut name = file.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        })
    });
    let files = [JOURNAL, SECRET].into_iter().chain(catalogue_update::FILES).map(|name| data.join(name));
    let is_state = |path: &PathBuf| {
        // An empty folder of the journal is left by every gateway that ended in order.
        // A link that leads nowhere is a file, too.
        fs::read_dir(path).map_or_else(|_| is_there(path), |mut entries| entries.next().is_some())
    };
    store.chain(files).filter(is_state).collect()
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn move_aside(present: &[PathBuf], aside: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(aside)?;
    for path in present.iter().filter(|path| is_there(path)) {
        if let Some(name) = path.file_name() {
            shift(path, &aside.join(name))?;
        }
    }
    Ok(())
}

fn put_in_place(staging: &Path, data: &Path, target: Option<&Path>) -> io::Result<()> {
    if let Some(target) = target {
        shift(&staging.join(STORE_NAME), target)?;
    }
    for entry in fs::read_dir(staging)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let place = data.join(name);
        if path.is_dir() && place.is_dir() {
            fs::remove_dir(&place)?;
        }
        shift(&path, &place)?;
    }
    Ok(())
}

/// Moves a file. The store may be on another disk than the data directory.
fn shift(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices && from.is_file() => {
            fs::copy(from, to)?;
            fs::remove_file(from)
        }
        moved => moved,
    }
}
