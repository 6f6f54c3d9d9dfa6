//! The modules of the crates of the workspace.

use std::path::{Path, PathBuf};

use gw_testkit::sources::{relative, root};

use super::modules::Crate;

/// The name of the crate in which a file stands.
pub(super) fn crate_of(path: &Path) -> String {
    relative(path).split('/').next().unwrap_or_default().to_owned()
}

/// Each crate of the workspace with its modules, tests left out.
pub(super) fn crates() -> Vec<(String, Crate)> {
    let folders = std::fs::read_dir(root().join("crates")).expect("the crates");
    let mut names: Vec<_> = folders.map(|entry| entry.expect("a readable entry").path()).collect();
    names.retain(|folder| folder.join("Cargo.toml").exists());
    names.sort();
    let read = |folder: PathBuf| {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        let roots: Vec<_> = roots.into_iter().filter(|file| file.exists()).collect();
        let source = |path: &Path| {
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        (crate_of(&folder), Crate::read(&roots, &source))
    };
    names.into_iter().map(read).collect()
}
