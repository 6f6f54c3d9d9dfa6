//! The Rust files of the workspace and the modules of its crates.

use std::path::{Path, PathBuf};

use super::modules::Crate;

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file of the workspace.
pub(crate) fn rust_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join("crates")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target" && name != "node_modules") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The sources of the program without tests, test kit and benchmark: their paths below `crates/`, and their texts.
pub(crate) fn shipped_sources() -> impl Iterator<Item = (String, String)> {
    rust_files().into_iter().filter_map(|path| {
        let name = relative(&path);
        let is_test = ["tests", "gw-testkit/", "gw-bench/"].iter().any(|part| name.contains(part));
        if is_test || !name.contains("/src/") {
            return None;
        }
        let source = std::fs::read_to_string(&path).expect("a readable file");
        Some((name, source))
    })
}

/// The path of a file below `crates/`.
pub(super) fn relative(path: &Path) -> String {
    let below = path.strip_prefix(root().join("crates")).unwrap_or(path);
    below.to_string_lossy().into_owned()
}

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
