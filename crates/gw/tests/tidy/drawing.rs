//! The drawing of the crates in ARCHITECTURE.md equals the manifests.

use std::collections::{BTreeMap, BTreeSet};

use gw_testkit::sources::root;

use super::{dependencies, files};

/// The crates that each crate imports.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let of = |name: &str| {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a manifest");
        dependencies(&manifest, "dependencies").into_iter().filter(|name| name.starts_with("gw-")).collect()
    };
    files::crates().into_iter().map(|(name, _)| (name.clone(), of(&name))).collect()
}

/// Everything that a crate imports, directly and through others.
fn reached<'a>(imports: &'a BTreeMap<String, BTreeSet<String>>, name: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> = imports[name].iter().map(String::as_str).collect();
    while let Some(next) = waiting.pop() {
        if found.insert(next) {
            waiting.extend(imports[next].iter().map(String::as_str));
        }
    }
    found
}

#[test]
fn the_drawing_shows_each_import_that_no_other_implies() {
    let imports = imports();
    let mut expected = BTreeSet::new();
    for (from, own) in &imports {
        for to in own {
            let is_implied = own.iter().any(|other| other != to && reached(&imports, other).contains(&**to));
            if !is_implied {
                expected.insert(format!("{from} --> {to}"));
            }
        }
    }
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let drawing = text.split_once("graph TD\n").expect("the drawing").1;
    let drawing = drawing.split_once("```").expect("its end").0;
    let drawn: BTreeSet<String> = drawing.lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(drawn, expected);
}
