//! Traces, metrics and logs as other programs get them.

mod alerts;
mod collector;
mod counted;
mod dashboards;
mod exposition;
mod limits;
mod logs;
mod prometheus;
mod table;
mod traces;

use std::path::{Path, PathBuf};

/// The directory of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A generated file is what its list makes it. `UPDATE=1` writes it.
#[track_caller]
fn written(file: &str, text: &str) {
    let path = root().join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("the directory is made");
        std::fs::write(&path, text).expect("the file is written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{file} is old; run `UPDATE=1 cargo test -p gw --test operating -- telemetry::`");
}
