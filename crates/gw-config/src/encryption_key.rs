//! The encryption key of the gateway: from the environment, else from the store that replicas share, else from a file in
//! the data directory. It is created at the first start. No output shows it.

use std::io::{self, Write as _};
use std::path::Path;
use std::{env, fs};

use gw_providers::seal::{EncryptionKey, Sealer, SecretSealer};
use gw_store::Store;
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use gw_command::CommandError;

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
/// Exit code 2 for a wrong value in the environment, 1 when the store or the file cannot be used.
pub async fn open(store: &Store, data: &Path) -> Result<EncryptionKey, CommandError> {
    if let Some(key) = of_environment().map_err(CommandError::Usage)? {
        return Ok(key);
    }
    let new = EncryptionKey::generate()
        .ok_or_else(|| CommandError::Runtime("the system gives no random numbers for a key".to_owned()))?;
    if store.is_server() {
        return of_store(store, &new).await;
    }
    let path = data.join(FILE_NAME);
    of_file(&path, &new).map_err(|fault| CommandError::Runtime(format!("{}: {fault}", path.display())))
}

async fn of_store(store: &Store, new: &EncryptionKey) -> Result<EncryptionKey, CommandError> {
    let new = SecretSlice::from(new.to_base64().expose_secret().as_bytes().to_vec());
    let kept = store.shared_secret(STORED_NAME, &new).await.map_err(CommandError::runtime)?;
    let text = std::str::from_utf8(kept.expose_secret()).unwrap_or_default();
    EncryptionKey::parse(text)
        .map_err(|fault| CommandError::Runtime(format!("the store's secret '{STORED_NAME}' {fault}")))
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
        found => return found,
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
    tighten(path);
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
