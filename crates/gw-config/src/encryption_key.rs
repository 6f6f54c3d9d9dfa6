//! The encryption key of the gateway: from the environment, else from the store that replicas share, else from a file in
//! the data directory. It is created at the first start, unless the store has secrets that a lost key sealed. No output shows it.

use std::io::{self, Write as _};
use std::path::Path;
use std::{env, fs};

use gw_providers::seal::{EncryptionKey, Sealer, SecretSealer};
use gw_store::Store;
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use gw_command::CommandError;

use crate::stored_configuration::overlay::{self, OverlayError};

/// The variable that holds the key.
const VARIABLE: &str = "MODEL_GATEWAY_ENCRYPTION_KEY";

/// The variable that holds the keys before rotations, the newest first, with commas between them. They open what they
/// have sealed: secrets of the store, which are sealed again with the current key, stored responses, and the sealed texts
/// that clients keep.
const PREVIOUS_VARIABLE: &str = "MODEL_GATEWAY_PREVIOUS_ENCRYPTION_KEY";

/// The most keys before rotations. A text that no key opens is tried with each of them.
const MAX_PREVIOUS: usize = 4;

/// The name of the key in the store.
const STORED_NAME: &str = "encryption_key";

/// The file of the key in the data directory.
const FILE_NAME: &str = "secret.key";

/// The largest file that can be a key.
const MAX_FILE_BYTES: u64 = 1024;

/// The key of the environment; None if the variable is not set.
///
/// # Errors
/// The value is not a key. The message does not show the value.
pub fn of_environment() -> Result<Option<EncryptionKey>, String> {
    of_variable(VARIABLE)
}

/// The keys before rotations; none if the variable is not set.
///
/// # Errors
/// A value is not a key, or there are too many. The message does not show the value.
pub fn previous_of_environment() -> Result<Vec<EncryptionKey>, String> {
    let Some(text) = variable(PREVIOUS_VARIABLE) else { return Ok(Vec::new()) };
    let keys: Result<Vec<_>, _> = text.expose_secret().split(',').map(EncryptionKey::parse).collect();
    match keys {
        Ok(keys) if keys.len() > MAX_PREVIOUS => Err(format!(
            "{PREVIOUS_VARIABLE} holds {} keys, and at most {MAX_PREVIOUS} are tried",
            keys.len()
        )),
        keys => keys.map_err(|fault| format!("{PREVIOUS_VARIABLE} {fault}")),
    }
}

fn of_variable(name: &str) -> Result<Option<EncryptionKey>, String> {
    let Some(text) = variable(name) else { return Ok(None) };
    EncryptionKey::parse(text.expose_secret()).map(Some).map_err(|fault| format!("{name} {fault}"))
}

/// The value of a variable. An empty variable is an error and not a missing one: a secret that a deployment lost must not
/// become a new key.
fn variable(name: &str) -> Option<SecretString> {
    env::var_os(name).map(|text| SecretString::from(text.into_string().unwrap_or_default()))
}

/// The sealer of the secrets that the store keeps, with this key and the keys before rotations.
///
/// # Errors
/// Exit code 2 for a wrong value in the environment.
pub fn secret_sealer(key: &EncryptionKey) -> Result<SecretSealer, CommandError> {
    let previous = previous_of_environment().map_err(CommandError::Usage)?;
    Ok(SecretSealer::new(key, &previous))
}

/// The sealer of stored responses and of the texts that clients keep, with this key and the keys before rotations.
///
/// # Errors
/// Exit code 2 for a wrong value in the environment.
pub fn sealer(key: &EncryptionKey) -> Result<Sealer, CommandError> {
    let previous = previous_of_environment().map_err(CommandError::Usage)?;
    Ok(Sealer::rotated(key, &previous))
}

/// The key, which is created if there is none.
///
/// # Errors
/// Exit code 2 for a wrong value in the environment, 1 when the store or the file cannot be used, or when the key is lost that the
/// store's secrets need.
pub async fn open(store: &Store, data: &Path) -> Result<EncryptionKey, CommandError> {
    if let Some(key) = of_environment().map_err(CommandError::Usage)? {
        return Ok(key);
    }
    if store.is_server() {
        if let Some(key) = in_store(store).await? {
            return Ok(key);
        }
        let new = new_key(store, None).await?;
        let new = SecretSlice::from(new.to_base64().expose_secret().as_bytes().to_vec());
        return parse_stored(&store.shared_secret(STORED_NAME, &new).await.map_err(CommandError::runtime)?);
    }
    let path = data.join(FILE_NAME);
    if let Some(key) = in_file(&path)? {
        tighten(&path);
        return Ok(key);
    }
    let new = new_key(store, Some(&path)).await?;
    of_file(&path, &new).map_err(|fault| unusable(&path, &fault))
}

/// The key that a start would use. A new one is not kept.
///
/// # Errors
/// As [`open`].
pub async fn preview(store: &Store, data: &Path) -> Result<EncryptionKey, CommandError> {
    if let Some(key) = of_environment().map_err(CommandError::Usage)? {
        return Ok(key);
    }
    let file = (!store.is_server()).then(|| data.join(FILE_NAME));
    let known = match &file {
        Some(path) => in_file(path)?,
        None => in_store(store).await?,
    };
    match known {
        Some(key) => Ok(key),
        None => new_key(store, file.as_deref()).await,
    }
}

/// A new key. A secret that a lost key sealed refuses it: the gateway could not start with the new key, and the wrong key would
/// hide that the right one is missing. `file` is the file of the key; None: the key is a row of the store.
async fn new_key(store: &Store, file: Option<&Path>) -> Result<EncryptionKey, CommandError> {
    let new = EncryptionKey::generate()
        .ok_or_else(|| CommandError::Runtime("the system gives no random numbers for a key".to_owned()))?;
    // After a rotation, the keys before it may open every secret.
    let sealer = secret_sealer(&new)?;
    let entry = match overlay::load(store, &sealer).await {
        Ok(_) => return Ok(new),
        Err(OverlayError::Secret { place, .. }) => place,
        Err(error) => return Err(CommandError::runtime(error)),
    };
    let remedy = match file {
        Some(path) => format!("put the old {} back, or set {VARIABLE} to its content", path.display()),
        None => format!("set {VARIABLE} to it"),
    };
    Err(CommandError::Runtime(format!(
        "the encryption key is missing, and a secret of the stored configuration of {entry} cannot be read without it: {remedy}"
    )))
}

async fn in_store(store: &Store) -> Result<Option<EncryptionKey>, CommandError> {
    let kept = store.secret(STORED_NAME).await.map_err(CommandError::runtime)?;
    kept.as_ref().map(parse_stored).transpose()
}

fn parse_stored(kept: &SecretSlice<u8>) -> Result<EncryptionKey, CommandError> {
    let text = std::str::from_utf8(kept.expose_secret()).unwrap_or_default();
    EncryptionKey::parse(text)
        .map_err(|fault| CommandError::Runtime(format!("the store's secret '{STORED_NAME}' {fault}")))
}

/// The key in this file. None: there is no file.
fn in_file(path: &Path) -> Result<Option<EncryptionKey>, CommandError> {
    match read(path) {
        Ok(key) => Ok(Some(key)),
        Err(KeyFileError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(fault) => Err(unusable(path, &fault)),
    }
}

fn unusable(path: &Path, fault: &KeyFileError) -> CommandError {
    CommandError::Runtime(format!("{}: {fault}", path.display()))
}

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
enum KeyFileError {
    #[error("the file of the encryption key cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("the file of the encryption key cannot be created: {0}")]
    Uncreatable(io::Error),
    #[error("the content {0}; restore the file, or delete it to get a new key")]
    Damaged(gw_providers::seal::KeyFormatError),
}

/// The key in this file. If there is no file, it is created with `new`, readable only by its owner.
fn of_file(path: &Path, new: &EncryptionKey) -> Result<EncryptionKey, KeyFileError> {
    match read(path) {
        Err(KeyFileError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {}
        found => {
            tighten(path);
            return found;
        }
    }
    create(path, new).map_err(KeyFileError::Uncreatable)?;
    // Another process may have been first.
    read(path)
}

fn read(path: &Path) -> Result<EncryptionKey, KeyFileError> {
    let length = fs::metadata(path).map_err(KeyFileError::Unreadable)?.len();
    let text = match length <= MAX_FILE_BYTES {
        true => fs::read_to_string(path).map(SecretString::from).map_err(KeyFileError::Unreadable)?,
        false => SecretString::from(""),
    };
    EncryptionKey::parse(text.expose_secret()).map_err(KeyFileError::Damaged)
}

/// Writes the key to a file of another name first, so that no process sees an incomplete key. An existing key stays.
fn create(path: &Path, new: &EncryptionKey) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    writeln!(file, "{}", new.to_base64().expose_secret())?;
    file.sync_all()?;
    let linked = match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Not every file system has hard links.
        Err(_) if !path.exists() => return fs::rename(&draft, path),
        linked => linked,
    };
    fs::remove_file(&draft)?;
    linked
}

/// Removes the permissions of others from the file. A failure is only logged: a file of another user cannot be changed.
fn tighten(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let Ok(found) = fs::metadata(path) else { return };
        let mode = found.permissions().mode() & 0o7777;
        if mode & 0o077 == 0 {
            return;
        }
        if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(mode & !0o077)) {
            tracing::warn!(path = %path.display(), "other users may read the encryption key: {error}");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use gw_providers::seal::KEY_BYTES;

    use super::*;

    fn key(byte: u8) -> EncryptionKey {
        EncryptionKey::from_bytes(&[byte; KEY_BYTES])
    }

    fn text(key: &EncryptionKey) -> String {
        key.to_base64().expose_secret().to_owned()
    }

    #[test]
    fn the_first_start_creates_a_private_file_and_later_ones_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        assert_eq!(text(&of_file(&path, &key(1)).unwrap()), text(&key(1)));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", text(&key(1))));
        assert_eq!(text(&of_file(&path, &key(2)).unwrap()), text(&key(1)));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        of_file(&path, &key(2)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_another_process_created_first_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        create(&path, &key(1)).unwrap();
        create(&path, &key(2)).unwrap();
        assert_eq!(text(&read(&path).unwrap()), text(&key(1)));
    }

    #[test]
    fn a_damaged_file_is_an_error_that_does_not_show_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        for content in ["", "hunter2hunter2", &"A".repeat(5000)] {
            fs::write(&path, content).unwrap();
            let error = of_file(&path, &key(1)).unwrap_err().to_string();
            assert!(error.contains("32 bytes") && !error.contains("hunter2"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content, "the file stays");
        }
    }
}
