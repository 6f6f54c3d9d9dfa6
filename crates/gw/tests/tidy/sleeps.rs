//! A test waits for a condition. Where it sleeps, the comment above says why.

use std::path::Path;

use gw_testkit::sources::{relative, root, rust_files};

use super::is_test_file;

/// The beginning of the comment above a sleep. The reason follows.
const REASON: &str = "// Sleeps: ";
/// Signs of a paused clock, on which a sleep takes no time.
const PAUSED: [&str; 2] = ["start_paused = true", "paused("];
/// Places whose sleeps need no comment, each with its reason.
const EXEMPT: [(&str, &str); 2] = [
    ("gw-engine/tests/it/", "every test runs on a paused clock"),
    ("gw-testkit/src/", "the pauses of scripted upstreams, and those between two looks at a condition"),
];

/// Whether the line calls a sleep. `pg_sleep` is a text, and `asleep` another function.
fn sleeps(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("sleep(").any(|(at, _)| {
        code.get(..at)
            .is_some_and(|before| !before.ends_with(|last: char| last.is_alphanumeric() || last == '_'))
    })
}

/// The lines of a file that belong to tests, each with its number.
fn test_lines<'s>(path: &Path, source: &'s str) -> Vec<(usize, &'s str)> {
    let is_test = is_test_file(path);
    let numbered = source.lines().enumerate();
    numbered.skip_while(|(_, line)| !is_test && *line != "mod tests {").collect()
}

#[test]
fn a_sleep_in_a_test_has_a_reason() {
    let mut silent = Vec::new();
    let (mut reasons, mut files) = (0, 0);
    for path in rust_files() {
        let place = relative(&path);
        let source = std::fs::read_to_string(&path).expect("a readable file");
        if EXEMPT.iter().any(|(folder, _)| place.starts_with(folder))
            || PAUSED.iter().any(|sign| source.contains(sign))
        {
            continue;
        }
        files += 1;
        let lines = test_lines(&path, &source);
        for (at, (number, line)) in lines.iter().enumerate().filter(|(_, (_, line))| sleeps(line)) {
            let above = at.checked_sub(1).and_then(|above| lines.get(above));
            if above.is_some_and(|(_, above)| above.trim_start().starts_with(REASON)) {
                reasons += 1;
            } else {
                silent.push(format!("{place}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(files > 100 && root().join("crates/gw-testkit/src/wait.rs").exists(), "{files} files");
    assert!(
        silent.is_empty(),
        "wait for a condition (gw_testkit::wait), or write the reason above it, as '{REASON}the token is valid for a second.':\n{}",
        silent.join("\n")
    );
    assert!(reasons <= 20, "{reasons} sleeps");
}
