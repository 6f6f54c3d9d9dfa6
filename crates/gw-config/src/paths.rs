//! Finds the configuration file and the data directory. Besides this file, only the command line and the `${NAME}` of the
//! configuration read the environment.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::settings::Source;

/// The configuration file in the current directory.
const DEFAULT_FILE: &str = "gateway.toml";

/// The configuration file: `--config`, else `$MODEL_GATEWAY_CONFIG`, else `./gateway.toml`, else none.
#[must_use]
pub fn config_source(named: Option<&Path>) -> Source {
    named
        .map(Path::to_owned)
        .or_else(|| set(env::var_os("MODEL_GATEWAY_CONFIG")))
        .or_else(|| exists(Path::new(DEFAULT_FILE)).then(|| PathBuf::from(DEFAULT_FILE)))
        .map_or(Source::Nothing, Source::File)
}

/// Whether this name exists. A symbolic link to a missing file counts, so that it is reported as a problem.
fn exists(path: &Path) -> bool {
    !matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

/// An environment variable as text. An empty variable counts as unset, as in most programs.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn set(value: Option<OsString>) -> Option<PathBuf> {
    value.filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The reason why there is no data directory.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// No setting and no variable names a directory.
    #[error("no data directory is known; set server.data_dir or MODEL_GATEWAY_DATA_DIR")]
    Unknown,
    /// The directory cannot be created.
    #[error("data directory {}: {source}", path.display())]
    Uncreatable {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The data directory. It is created when it is missing, for its owner alone.
///
/// # Errors
/// When no directory is known or it cannot be created.
pub fn data_dir(configured: Option<&Path>) -> Result<PathBuf, DataDirError> {
    let path = find_data_dir(configured).ok_or(DataDirError::Unknown)?;
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(DataDirError::Uncreatable { path, source }),
    }
}

/// The data directory, which need not exist yet. None: no setting and no variable names one.
#[must_use]
pub fn find_data_dir(configured: Option<&Path>) -> Option<PathBuf> {
    choose(configured, |name| env::var_os(name), Path::new("/data"))
}

/// Creates a file that only its owner may read, and writes it. A file that exists stays as it is.
///
/// # Errors
/// The file exists, or cannot be written.
pub fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn choose(
    configured: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
    volume: &Path,
) -> Option<PathBuf> {
    // The XDG base directory specification says to ignore relative paths.
    let absolute = |name: &str| set(variable(name)).filter(|path| path.is_absolute());
    configured
        .map(Path::to_owned)
        .or_else(|| set(variable("MODEL_GATEWAY_DATA_DIR")))
        .or_else(|| is_writable_mount(volume).then(|| volume.to_owned()))
        .or_else(|| absolute("XDG_DATA_HOME").map(|path| path.join("model-gateway")))
        .or_else(|| absolute("HOME").map(|path| path.join(".local/share/model-gateway")))
}

/// Whether this directory is a writable mount, such as a container's volume.
fn is_writable_mount(path: &Path) -> bool {
    #[cfg(unix)]
    fn device(path: &Path) -> Option<u64> {
        fs::metadata(path)
            .ok()
            .filter(fs::Metadata::is_dir)
            .map(|found| std::os::unix::fs::MetadataExt::dev(&found))
    }
    #[cfg(not(unix))]
    fn device(_: &Path) -> Option<u64> {
        None
    }
    let (Some(here), Some(root)) = (device(path), device(Path::new("/"))) else { return false };
    let attempt = path.join(format!(".model-gateway-{}", std::process::id()));
    here != root && fs::File::create_new(&attempt).is_ok() && fs::remove_file(&attempt).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(configured: Option<&str>, variables: &[(&str, &str)]) -> Option<PathBuf> {
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        choose(configured.map(Path::new), variable, Path::new("/nowhere"))
    }

    #[test]
    fn the_data_directory_is_the_first_that_is_named() {
        let all = [("MODEL_GATEWAY_DATA_DIR", "mine"), ("XDG_DATA_HOME", "/share"), ("HOME", "/home/me")];
        let cases = [
            (Some("/configured"), &all[..], Some("/configured")),
            (None, &all[..], Some("mine")),
            (None, &all[1..], Some("/share/model-gateway")),
            (None, &all[2..], Some("/home/me/.local/share/model-gateway")),
            (
                None,
                &[("XDG_DATA_HOME", "relative"), ("HOME", "/h")][..],
                Some("/h/.local/share/model-gateway"),
            ),
            (
                None,
                &[("MODEL_GATEWAY_DATA_DIR", ""), ("HOME", "/h")][..],
                Some("/h/.local/share/model-gateway"),
            ),
            (None, &[][..], None),
        ];
        for (configured, variables, wanted) in cases {
            assert_eq!(chosen(configured, variables), wanted.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    fn a_directory_of_the_root_file_system_is_no_volume() {
        let directory = tempfile::tempdir_in("/var").unwrap();
        assert_eq!(choose(None, |_| None, directory.path()), None);
        assert_eq!(choose(None, |_| None, Path::new("/proc")), None);
    }

    #[test]
    fn a_mounted_volume_is_taken() {
        // /dev/shm is a file system of its own on every Linux.
        let volume = Path::new("/dev/shm");
        if is_writable_mount(volume) {
            assert_eq!(choose(None, |_| None, volume), Some(volume.to_owned()));
        }
    }

    #[test]
    fn a_new_data_directory_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let wanted = directory.path().join("a/b");
        assert_eq!(data_dir(Some(&wanted)).unwrap(), wanted);
        assert_eq!(fs::metadata(&wanted).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(directory.path().join("file"), "").unwrap();
        let error = data_dir(Some(&directory.path().join("file"))).unwrap_err();
        assert!(error.to_string().contains("data directory"), "{error}");
    }

    #[test]
    fn the_named_configuration_file_comes_first() {
        assert_eq!(config_source(Some(Path::new("x.toml"))), Source::File("x.toml".into()));
    }
}
