//! The folders of gw-engine are floors: a file imports only from its own floor and from lower ones.

use std::path::Path;

use gw_testkit::sources::root;

use super::files::crates;
use super::modules::Crate;

/// Reads the table of ARCHITECTURE.md that lists the floors, the lowest first, each with the names of its modules.
fn documented_floors() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (_, section) = text.split_once("## The floors of gw-engine\n").expect("the section with the floors");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let names = |row: &str| -> Vec<String> {
        let modules = row.split('`').next().unwrap_or_default().split_whitespace();
        modules.map(|module| module.trim_end_matches('/').to_owned()).collect()
    };
    section.lines().filter_map(|line| line.strip_prefix("| `")).map(names).collect()
}

/// Returns the module below the root of a crate to which a file belongs: `plan` for `src/plan.rs` and `src/plan/size.rs`.
fn module_of(path: &Path) -> String {
    let below =
        path.components().skip_while(|part| part.as_os_str() != "src").nth(1).expect("a file below src");
    below.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
}

/// Lists the files without a floor and the imports from a higher floor.
fn violations(read: &Crate, floors: &[Vec<String>]) -> Vec<String> {
    let floor = |file: usize| {
        let module = module_of(&read.files[file]);
        floors.iter().position(|modules| modules.contains(&module))
    };
    let mut wrong = Vec::new();
    for (file, imports) in read.imports_of_files().iter().enumerate() {
        // The root of the crate only names its modules.
        if read.files[file].ends_with("lib.rs") {
            continue;
        }
        let from = read.files[file].display();
        let Some(own) = floor(file) else {
            wrong.push(format!("{from} is on no floor"));
            continue;
        };
        let higher = imports.iter().filter(|next| floor(**next).is_some_and(|floor| floor > own));
        wrong.extend(higher.map(|next| format!("{from} imports {}", read.files[*next].display())));
    }
    wrong
}

#[test]
fn gw_engine_imports_only_lower_floors() {
    let floors = documented_floors();
    assert!(floors.len() >= 7, "the table of floors has {} rows", floors.len());
    let engine = crates().into_iter().find(|(name, _)| name == "gw-engine").expect("gw-engine").1;
    let wrong = violations(&engine, &floors);
    assert!(
        wrong.is_empty(),
        "imports that break the table of floors in ARCHITECTURE.md:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn an_import_from_a_higher_floor_is_found() {
    let source = |path: &Path| -> String {
        let text = match path.to_str().expect("a path") {
            "src/lib.rs" => "mod low; mod high; mod lost;",
            "src/low.rs" => "mod inner; pub struct Low;",
            "src/low/inner.rs" => "use crate::high::High; fn f(_: High) {}",
            "src/high.rs" => "use crate::low::Low; pub struct High(Low);",
            "src/lost.rs" => "pub struct Lost;",
            other => panic!("no file {other}"),
        };
        text.to_owned()
    };
    let read = Crate::read(&["src/lib.rs".into()], &source);
    let floors = [vec!["low".to_owned()], vec!["high".to_owned()]];
    assert_eq!(
        violations(&read, &floors),
        ["src/low/inner.rs imports src/high.rs", "src/lost.rs is on no floor"]
    );
}
