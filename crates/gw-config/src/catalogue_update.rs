//! The catalogue in the data directory, which replaces that of the program.

mod document;
mod signed_file;

use std::sync::Arc;

pub use self::document::{Rejection, UpdateDocument, shipped_time};
pub use self::signed_file::{MAX_BYTES, MAX_SIGNATURE_BYTES, SignedFile, SignedFileError, read_bounded};
use crate::paths;
use crate::settings::Config;

/// The files of updates in the data directory: the installed one and the one before it, each with its signature.
pub const FILES: [&str; 4] = [
    "catalogue.json",
    "catalogue.json.minisig",
    "catalogue.previous.json",
    "catalogue.previous.json.minisig",
];

/// The catalogue in the data directory.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    /// Its entries; None: the catalogue of the program is used.
    pub(crate) document: Option<Arc<str>>,
    /// The reason why an installed catalogue is not used.
    pub(crate) note: Option<String>,
}

/// Reads the installed catalogue, and checks its signature again. A file that somebody has changed is not used.
pub(crate) fn installed(config: &Config) -> Installed {
    let Some(data) = paths::find_data_dir(config.data_dir.as_deref()) else { return Installed::default() };
    let [path, signature, ..] = FILES.map(|name| data.join(name));
    if !path.exists() {
        return Installed::default();
    }
    let refused = |reason: &str| Installed {
        document: None,
        note: Some(format!(
            "catalogue: the update {} is not used, but the catalogue of the program: {reason}",
            path.display()
        )),
    };
    let found = match SignedFile::read(&path, &signature) {
        Ok(found) => found,
        Err(error) => return refused(&error.to_string()),
    };
    match UpdateDocument::verify(&found, &config.catalogue_keys) {
        Ok(update) if update.made_at < shipped_time() => {
            refused("the program is newer; `model-gateway models update --revert` removes the update")
        }
        Ok(update) => Installed { document: Some(update.models.into()), note: None },
        Err(rejection) => refused(&rejection.to_string()),
    }
}
