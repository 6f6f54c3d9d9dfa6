//! Writes the table of the console's files: every `.gz` file of `assets/`, with its `.br` file where there is one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("assets");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    list(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[");
    for file in &files {
        let path = file.strip_prefix(&root).map_err(io::Error::other)?.with_extension("");
        let path = path.to_string_lossy().replace('\\', "/");
        let brotli = file.with_extension("br");
        let brotli =
            if brotli.exists() { format!("Some(include_bytes!({brotli:?}))") } else { "None".into() };
        write!(table, "Asset {{ path: {path:?}, gzip: include_bytes!({file:?}), brotli: {brotli} }},")
            .map_err(io::Error::other)?;
    }
    table.push(']');
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("assets.rs"), table)
}

/// Lists the `.gz` files of a folder and of the folders in it.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "gz") {
            files.push(path);
        }
    }
    Ok(())
}
