//! Rules about the code itself: sizes, names of files, first lines, and imports between crates. These tests read sources and run no program.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod circles;
mod drawing;
mod exceptions;
mod files;
mod floors;
mod guarantees;
mod modules;
mod old_names;
mod sleeps;
mod string_literals;
mod tokens;
mod type_names;

use std::path::Path;

use gw_testkit::sources::{relative, root, rust_files};

/// Files that may be longer than the limit, each with its reason.
const LONG: [(&str, &str); 0] = [];

fn is_test_file(path: &Path) -> bool {
    let text = relative(path);
    text.ends_with("/tests.rs")
        || text.ends_with("_tests.rs")
        || text.contains("/tests/")
        || text.starts_with("gw-testkit/")
}

#[test]
fn files_are_short_enough_to_read() {
    let (mut long, mut checked) = (Vec::new(), 0);
    for path in rust_files().into_iter().filter(|path| !is_test_file(path)) {
        checked += 1;
        let source = std::fs::read_to_string(&path).expect("a readable file");
        let lines = source.lines().take_while(|line| *line != "#[cfg(test)]").count();
        if lines > 500 && !LONG.iter().any(|(name, _)| path.ends_with(name)) {
            long.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(checked > 500, "{checked} files");
    assert!(long.is_empty(), "longer than 500 lines:\n{}", long.join("\n"));
}

#[test]
fn every_file_says_first_what_lives_in_it() {
    let mut silent = Vec::new();
    for path in rust_files() {
        let source = std::fs::read_to_string(&path).expect("a readable file");
        let first = source.lines().next().unwrap_or_default();
        if !first.starts_with("//! ") || first.contains("placeholder") {
            silent.push(format!("{}: {first:?}", path.display()));
        }
    }
    assert!(silent.is_empty(), "a file begins with a `//!` sentence:\n{}", silent.join("\n"));
}

#[test]
fn modules_are_named_after_themselves() {
    let wrong: Vec<_> = rust_files().into_iter().filter(|path| path.ends_with("mod.rs")).collect();
    assert!(wrong.is_empty(), "foo.rs and foo/, never mod.rs: {wrong:?}");
    for vague in ["utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs", "manager.rs"] {
        let wrong: Vec<_> = rust_files().into_iter().filter(|path| path.ends_with(vague)).collect();
        assert!(wrong.is_empty(), "a name without meaning: {wrong:?}");
    }
}

/// The names in a section of a Cargo.toml.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let lines = manifest.lines().map(str::trim).skip_while(|line| *line != format!("[{section}]")).skip(1);
    let names = lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_owned).collect()
}

/// A crate, the crates of this workspace it may import, and what it must never import.
const FLOORS: [(&str, &[&str], &[&str]); 22] = [
    ("gw-wire", &[], &["tokio", "hyper", "hyper-util", "http", "axum", "sqlx", "rustls", "jiff"]),
    ("gw-store", &["gw-wire"], &["hyper", "http", "axum", "rustls"]),
    ("gw-redis", &[], &["hyper", "http", "axum", "sqlx"]),
    ("gw-limits", &["gw-redis", "gw-store"], &["hyper", "http", "axum", "sqlx"]),
    ("gw-cache", &["gw-redis", "gw-wire"], &["hyper", "http", "axum", "sqlx"]),
    ("gw-providers", &["gw-wire"], &["sqlx", "axum"]),
    ("gw-routing", &["gw-wire"], &["tokio", "hyper", "http", "axum", "sqlx", "rustls", "jiff", "rand"]),
    ("gw-identity", &["gw-wire", "gw-store"], &["hyper", "http", "axum", "sqlx", "rustls"]),
    (
        "gw-engine",
        &["gw-wire", "gw-cache", "gw-providers", "gw-routing", "gw-store", "gw-limits", "gw-identity"],
        &["axum", "hyper", "hyper-util", "sqlx", "rustls"],
    ),
    (
        "gw-admin",
        &["gw-wire", "gw-cache", "gw-providers", "gw-routing", "gw-store", "gw-engine", "gw-identity"],
        &["axum", "hyper", "hyper-util", "http", "sqlx", "rustls"],
    ),
    ("gw-console", &[], &["axum", "http", "hyper", "hyper-util", "rustls", "sqlx", "tokio"]),
    ("gw-server", &["gw-admin", "gw-console", "gw-engine", "gw-identity", "gw-wire"], &["sqlx"]),
    ("gw-telemetry", &["gw-engine", "gw-providers", "gw-wire"], &["axum", "hyper", "hyper-util", "sqlx"]),
    (
        "gw-alerts",
        &["gw-admin", "gw-engine", "gw-providers", "gw-routing", "gw-store", "gw-wire"],
        &["axum", "hyper", "hyper-util", "sqlx"],
    ),
    ("gw-command", &[], &["hyper", "http", "axum", "sqlx", "rustls"]),
    (
        "gw-config",
        &[
            "gw-wire",
            "gw-store",
            "gw-cache",
            "gw-limits",
            "gw-providers",
            "gw-routing",
            "gw-engine",
            "gw-identity",
            "gw-admin",
            "gw-server",
            "gw-telemetry",
            "gw-alerts",
            "gw-command",
        ],
        &["axum", "http", "hyper", "hyper-util", "sqlx", "rustls"],
    ),
    (
        "gw-import",
        &["gw-wire", "gw-providers", "gw-engine", "gw-command", "gw-config"],
        &["axum", "http", "hyper", "hyper-util", "sqlx", "rustls", "tokio"],
    ),
    (
        "gw-probe",
        &["gw-wire", "gw-providers", "gw-engine", "gw-command", "gw-config"],
        &["axum", "hyper", "hyper-util", "sqlx", "rustls"],
    ),
    (
        "gw-reconcile",
        &["gw-wire", "gw-store", "gw-providers", "gw-engine", "gw-command", "gw-config"],
        &["axum", "hyper", "hyper-util", "sqlx", "rustls"],
    ),
    ("gw-testkit", &["gw-wire"], &["hyper", "axum", "sqlx"]),
    ("gw-bench", &["gw-routing", "gw-store", "gw-wire"], &["axum", "hyper", "sqlx"]),
    (
        "gw",
        &[
            "gw-wire",
            "gw-store",
            "gw-cache",
            "gw-limits",
            "gw-providers",
            "gw-routing",
            "gw-engine",
            "gw-identity",
            "gw-admin",
            "gw-server",
            "gw-telemetry",
            "gw-alerts",
            "gw-command",
            "gw-config",
            "gw-import",
            "gw-probe",
            "gw-reconcile",
            "gw-console",
        ],
        &["axum", "hyper", "sqlx"],
    ),
];

#[test]
fn crates_import_only_what_their_floor_allows() {
    for (name, _) in files::crates() {
        assert!(FLOORS.iter().any(|(row, ..)| *row == name), "{name} has no row in FLOORS");
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, allowed, never) in FLOORS {
        let manifest = std::fs::read_to_string(crates.join(name).join("Cargo.toml")).expect("a manifest");
        for dependency in dependencies(&manifest, "dependencies") {
            if dependency.starts_with("gw-") {
                assert!(allowed.contains(&dependency.as_str()), "{name} must not import {dependency}");
            }
            assert!(!never.contains(&dependency.as_str()), "{name} must never import {dependency}");
        }
    }
}

#[test]
fn architecture_lists_each_crate_above_the_crates_that_it_imports() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (_, section) = text.split_once("## Bird's eye\n").expect("the section with the crates");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let listed: Vec<_> =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(listed.len(), FLOORS.len(), "every crate has a row");
    for (place, name) in listed.iter().enumerate() {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a manifest");
        // The test kit and the benchmark stand beside the layers.
        let is_layer = !["gw-testkit", "gw-bench"].contains(name);
        for dependency in
            dependencies(&manifest, "dependencies").iter().filter(|name| name.starts_with("gw-"))
        {
            let below = listed.iter().position(|other| other == dependency).expect("a row of the dependency");
            assert!(!is_layer || below > place, "{name} stands below {dependency}, which it imports");
        }
    }
}

#[test]
fn what_is_named_internal_is_not_reached_around_the_manifest() {
    // A `use` of a crate that the manifest does not name cannot compile; a glob of a whole crate can hide an arrow.
    for path in rust_files().into_iter().filter(|path| !is_test_file(path)) {
        let source = std::fs::read_to_string(&path).expect("a readable file");
        for crate_name in [
            "gw_wire",
            "gw_store",
            "gw_redis",
            "gw_limits",
            "gw_cache",
            "gw_providers",
            "gw_routing",
            "gw_engine",
            "gw_admin",
            "gw_server",
            "gw_command",
            "gw_config",
        ] {
            assert!(
                !source.contains(&format!("use {crate_name}::*")),
                "{}: name what is imported",
                path.display()
            );
        }
    }
}

#[test]
fn nothing_is_ignored_and_nothing_is_left_to_do() {
    for path in rust_files() {
        if path.ends_with("tidy/main.rs") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a readable file");
        for (number, line) in source.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            assert!(!line.trim_start().starts_with("#[ignore"), "{place}: an ignored test shows nothing");
            assert!(!line.trim_start().starts_with("#[allow("), "{place}: expect, with a reason");
            let unfinished = line.contains("TODO") && !line.contains('#');
            assert!(!unfinished, "{place}: a TODO names its issue");
        }
    }
}
