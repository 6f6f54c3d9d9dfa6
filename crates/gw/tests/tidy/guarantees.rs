//! tests/guarantees.md names a test for each promise: every name in it is a test that exists.

use std::collections::BTreeSet;

use gw_testkit::sources::{root, rust_files};

/// Names of functions that follow a test attribute.
fn tests_of(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut marked = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if let Some((_, rest)) =
            line.split_once("fn ").filter(|(before, _)| before.is_empty() || *before == "async ")
            && marked
        {
            names.extend(rest.split('(').next().map(str::to_owned));
            marked = false;
        }
    }
    names
}

#[test]
fn every_row_is_listed_and_every_named_test_exists() {
    let text = std::fs::read_to_string(root().join("tests/guarantees.md")).expect("tests/guarantees.md");
    let sources: Vec<_> = rust_files().iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let tests: BTreeSet<_> = sources.iter().flat_map(|source| tests_of(source)).collect();
    let (mut rows, mut shown) = (BTreeSet::new(), 0);
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, _, state, evidence] = cells.as_slice() else { panic!("four columns: {line}") };
        if !id.chars().last().is_some_and(|last| last.is_ascii_digit()) {
            continue;
        }
        assert!(rows.insert((*id).to_owned()), "{id} is listed twice");
        assert!(matches!(*state, "shown" | "part" | "open"), "{id}: {state}");
        if *state == "open" {
            assert!(evidence.contains("issue"), "{id} names the issue that brings it: {evidence}");
            continue;
        }
        shown += usize::from(*state == "shown");
        let named: Vec<_> = evidence.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{id} names its test");
        for name in named {
            assert!(tests.contains(name), "{id}: no test is called {name}");
        }
    }
    let expected: [(&str, u32); 9] =
        [("U", 28), ("C", 32), ("S", 16), ("P", 13), ("R", 6), ("K", 14), ("X", 3), ("T", 6), ("I", 0)];
    for (letter, count) in expected {
        for number in 1..=count {
            assert!(rows.contains(&format!("{letter}{number}")), "{letter}{number} is not listed");
        }
    }
    let sentence = format!("{shown} of {} guarantees are shown", rows.len());
    assert!(text.contains(&sentence), "the page's first lines must say: {sentence}");
}
