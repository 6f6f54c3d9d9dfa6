//! Files of one crate that import each other in a circle: no more than three.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gw_testkit::sources::relative;

use super::files::crates;
use super::modules::Crate;

/// The largest number of files that may import each other in a circle.
const MAX_CIRCLE_FILES: usize = 3;

/// Crates that exceed the limit today, with the size of their largest circle. The test fails when a number is wrong, so
/// that a smaller circle stays small.
const EXCEPTIONS: [(&str, usize); 0] = [];

/// The largest group of files that all reach each other, by index.
fn largest_circle(edges: &[BTreeSet<usize>]) -> Vec<usize> {
    let reached: Vec<_> = (0..edges.len()).map(|from| reach(edges, from)).collect();
    let circle_of = |file: usize| -> Vec<usize> {
        (0..edges.len()).filter(|other| reached[file][*other] && reached[*other][file]).collect()
    };
    (0..edges.len()).map(circle_of).max_by_key(Vec::len).unwrap_or_default()
}

/// For each file whether it is reached over at least one import.
fn reach(edges: &[BTreeSet<usize>], from: usize) -> Vec<bool> {
    let mut reached = vec![false; edges.len()];
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for &next in &edges[file] {
            if !std::mem::replace(&mut reached[next], true) {
                open.push(next);
            }
        }
    }
    reached
}

/// The files of a circle, each with the files of the circle that it imports.
fn describe(read: &Crate, edges: &[BTreeSet<usize>], circle: &[usize]) -> String {
    let line = |file: &usize| {
        let imports: Vec<_> = edges[*file].iter().filter(|next| circle.contains(next)).collect();
        let imports: Vec<_> = imports.iter().map(|next| relative(&read.files[**next])).collect();
        format!("    {} imports {}", relative(&read.files[*file]), imports.join(", "))
    };
    circle.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_circle_has_more_than_three_files() {
    let mut figures = Vec::new();
    let mut wrong = Vec::new();
    for (name, read) in crates() {
        let edges = read.imports_of_files();
        let circle = largest_circle(&edges);
        figures.push(format!("{name}: {}", circle.len()));
        let allowed = EXCEPTIONS.iter().find(|(excepted, _)| *excepted == name).map(|(_, size)| *size);
        match allowed {
            Some(size) if circle.len() <= MAX_CIRCLE_FILES => {
                wrong.push(format!(
                    "{name}: remove its line from EXCEPTIONS (listed {size}, largest {})",
                    circle.len()
                ));
            }
            Some(size) if circle.len() != size => {
                wrong.push(format!("{name}: largest circle {}, listed {size}", circle.len()));
                wrong.push(describe(&read, &edges, &circle));
            }
            None if circle.len() > MAX_CIRCLE_FILES => {
                wrong.push(format!("{name}: largest circle {}", circle.len()));
                wrong.push(describe(&read, &edges, &circle));
            }
            Some(_) | None => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "largest circle of each crate: {}\nmore than {MAX_CIRCLE_FILES} files, or a wrong exception:\n{}",
        figures.join(", "),
        wrong.join("\n")
    );
}

#[test]
fn imports_are_followed_to_the_file_that_defines_the_item() {
    let source = |path: &Path| -> String {
        let text = match path.to_str().expect("a path") {
            "src/lib.rs" => "mod a; mod b; mod c; mod inner; pub use c::Shown;",
            // By a name that lib.rs hands on, and by the path of a module that was imported.
            "src/a.rs" => "use crate::Shown; use crate::inner; fn f() { inner::deep::go(); }",
            "src/b.rs" => "use crate::a::{self, f as g}; #[cfg(test)] mod tests { use crate::c::Shown; }",
            "src/c.rs" => "pub struct Shown; fn x() { crate::b::Missing::new() }",
            "src/inner.rs" => "pub mod deep; pub use self::deep::go; ",
            "src/inner/deep.rs" => "pub fn go() { super::super::a::f() }",
            other => panic!("no file {other}"),
        };
        text.to_owned()
    };
    let read = Crate::read(&[PathBuf::from("src/lib.rs")], &source);
    let edges = read.imports_of_files();
    let named: Vec<String> = read
        .files
        .iter()
        .zip(&edges)
        .flat_map(|(file, to)| {
            to.iter().map(|next| format!("{} -> {}", file.display(), read.files[*next].display()))
        })
        .collect();
    assert_eq!(
        named,
        [
            "src/a.rs -> src/c.rs",
            "src/a.rs -> src/inner/deep.rs",
            "src/b.rs -> src/a.rs",
            "src/inner/deep.rs -> src/a.rs"
        ]
    );
    let circle: Vec<_> =
        largest_circle(&edges).iter().map(|file| read.files[*file].display().to_string()).collect();
    assert_eq!(circle, ["src/a.rs", "src/inner/deep.rs"]);
}
