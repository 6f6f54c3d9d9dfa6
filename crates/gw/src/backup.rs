//! `model-gateway backup FILE` and `restore FILE`: the state of a gateway in one tar archive, taken while it serves.

mod archive;
mod restore;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use gw_command::{CommandError, Common, print};
use gw_config::stored_configuration::{self, MergeError};
use gw_config::{catalogue_update, encryption_key, paths, setup};
use gw_store::inspection::{inspect_file, inspect_server};
use secrecy::ExposeSecret;

use crate::store;
use crate::store::StoreLocation;
use archive::{Manifest, STORE_NAME, StoreKind};
pub use restore::RestoreArgs;
pub(crate) use restore::run as run_restore;

/// The folder of the journal in the data directory.
const JOURNAL: &str = "journal";
/// The file of the encryption key in the data directory.
const SECRET: &str = "secret.key";

/// The options of `backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Archive to write, which must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Leave out the encryption key, so that the archive opens no secret. After `restore`, a gateway whose store has secrets of
    /// the configuration API (keys of providers, addresses of alerts) does not start without the old key: in secret.key of the
    /// data directory, or in MODEL_GATEWAY_ENCRYPTION_KEY
    #[arg(long)]
    without_secret_key: bool,
}

/// Writes the backup.
///
/// # Errors
/// Exit code 2 for a file that exists or a store that has no files, 1 when something cannot be read or written.
pub fn run(common: &Common, args: &BackupArgs) -> Result<(), CommandError> {
    let text = gw_command::runtime()?.block_on(Box::pin(back_up(common, args)))?;
    print(&text)
}

async fn back_up(common: &Common, args: &BackupArgs) -> Result<String, CommandError> {
    let setup = setup::load(common)?;
    let name = args.file.display();
    if fs::symlink_metadata(&args.file).is_ok() {
        return Err(CommandError::Usage(format!("{name} exists already; name another file")));
    }
    let data = paths::find_data_dir(setup.config.data_dir.as_deref())
        .ok_or_else(|| CommandError::runtime(paths::DataDirError::Unknown))?;
    let directory = args.file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let failed = |error: std::io::Error| CommandError::Runtime(format!("{name}: {error}"));
    // Only the owner may enter the folder. The copies have the file modes of their writers.
    let staging = tempfile::Builder::new()
        .prefix(".model-gateway-backup-")
        .tempdir_in(directory.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    // The journal comes first. A request that ends between the two copies is then in the store, in the journal or in
    // both, and a start counts it once. In the other order it could be in neither.
    copy_files(&data, staging.path(), !args.without_secret_key).map_err(failed)?;
    let (store, schema, note) = copy_store(&setup, staging.path()).await?;
    let manifest =
        archive::write(staging.path(), &args.file, store, schema).map_err(CommandError::runtime)?;
    let mut text = summary(&args.file, &manifest, note);
    if let Some(fault) = key_fault(&setup, &data).await {
        text += &format!("warning: a gateway does not start with this state: {fault}\n");
    }
    Ok(text)
}

/// The reason why the encryption key of this moment does not open the secrets of the configuration API. A store that an update
/// would change is not opened.
async fn key_fault(setup: &setup::Setup, data: &Path) -> Option<String> {
    let StoreLocation::File(file) = store::location(setup).ok()? else { return None };
    let inspection = inspect_file(&file).await.ok()?;
    if inspection.found != Some(inspection.known) {
        return None;
    }
    let store = store::open_shared(setup).await.ok()?;
    let key = encryption_key::preview(&store, data).await;
    let fault = match key.and_then(|key| encryption_key::secret_sealer(&key)) {
        Err(error) => Some(error.to_string()),
        Ok(sealer) => match stored_configuration::check(setup, &store, &sealer).await {
            Err(error @ MergeError::Overlay(_)) => Some(error.to_string()),
            // Whether the entries fit the file is the matter of a start.
            Ok(_) | Err(MergeError::Problems(_)) => None,
        },
    };
    store.close().await;
    fault
}

/// Copies the store. Returns its kind, its schema version, and a sentence about what is not in the archive.
async fn copy_store(
    setup: &setup::Setup,
    staging: &Path,
) -> Result<(StoreKind, Option<i64>, &'static str), CommandError> {
    match store::location(setup).map_err(CommandError::runtime)? {
        StoreLocation::File(file) => {
            let inspection = inspect_file(&file).await.map_err(CommandError::runtime)?;
            if inspection.found.is_none() {
                return Err(CommandError::Usage(format!("{} holds no store yet", inspection.location)));
            }
            let copy = staging.join(STORE_NAME);
            gw_store::backup::copy(&file, &copy).await.map_err(CommandError::runtime)?;
            Ok((StoreKind::Sqlite, inspection.found, ""))
        }
        StoreLocation::Server(url) => {
            let inspection = inspect_server(url.expose_secret()).await.map_err(CommandError::runtime)?;
            let note = "The keys, the teams, the request log and the encryption key are in PostgreSQL. Back it up at the \
                        same time with pg_dump.\n";
            Ok((StoreKind::Postgres, inspection.found, note))
        }
        StoreLocation::Memory => Err(CommandError::Usage(
            "the store is in the memory of the running gateway, and there is nothing to back up".to_owned(),
        )),
    }
}

/// Copies the files of the data directory. A segment of the journal that ends meanwhile is in the store.
fn copy_files(data: &Path, staging: &Path, with_secret: bool) -> std::io::Result<()> {
    let into = staging.join(JOURNAL);
    fs::create_dir(&into)?;
    for segment in gw_store::journal::segment_files(&data.join(JOURNAL)) {
        if let Some(name) = segment.file_name() {
            copy_if_there(&segment, &into.join(name))?;
        }
    }
    let secret = with_secret.then_some(SECRET);
    for name in catalogue_update::FILES.into_iter().chain(secret) {
        copy_if_there(&data.join(name), &staging.join(name))?;
    }
    Ok(())
}

fn copy_if_there(from: &Path, to: &Path) -> std::io::Result<()> {
    match fs::copy(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        copied => copied.map(drop),
    }
}

fn summary(file: &Path, manifest: &Manifest, note: &str) -> String {
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let has = |name: &str| manifest.files.iter().any(|file| file.name == name);
    let secret = if has(SECRET) {
        "It holds the encryption key: keep it as secret as the key itself.\n"
    } else {
        "It holds no encryption key.\n"
    };
    let (name, count) = (file.display(), manifest.files.len());
    format!("wrote {name}: {count} files, {bytes} bytes\n{secret}{note}")
}
