//! Files and directories with tenants' data: only the gateway's own user may read them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Mode of a directory.
#[cfg(unix)]
const DIRECTORY: u32 = 0o700;
/// Mode of a file.
#[cfg(unix)]
const FILE: u32 = 0o600;

/// Creates a directory that only its owner may enter. An existing directory loses the permissions of others.
///
/// # Errors
/// If it cannot be created.
pub(crate) fn directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, DIRECTORY);
    builder.create(path)?;
    tighten(path);
    Ok(())
}

/// Options that create a file which only its owner may read.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE);
    options
}

/// Removes the permissions of others from a file or a directory if it exists. A failure is only logged: a file of another
/// user cannot be changed, and the gateway can still use it.
pub(crate) fn tighten(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let Ok(found) = fs::metadata(path) else { return };
        let mode = found.permissions().mode() & 0o7777;
        let wanted = mode & !0o077;
        if mode == wanted {
            return;
        }
        match fs::set_permissions(path, fs::Permissions::from_mode(wanted)) {
            Ok(()) => tracing::info!(path = %path.display(), "removed other users' permissions"),
            Err(error) => {
                tracing::warn!(path = %path.display(), "other users have permissions that cannot be removed: {error}");
            }
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}
