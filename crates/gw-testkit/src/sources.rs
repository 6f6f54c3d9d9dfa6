//! The Rust files of the workspace, for tests that read them.

use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file of the workspace.
pub fn rust_files() -> Vec<PathBuf> {
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
pub fn shipped_sources() -> impl Iterator<Item = (String, String)> {
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
pub fn relative(path: &Path) -> String {
    let below = path.strip_prefix(root().join("crates")).unwrap_or(path);
    below.to_string_lossy().into_owned()
}
