//! Lists of what breaks a rule today. A list may only become shorter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Compares what breaks a rule with the lines of a file in this folder.
///
/// `found` maps a line to the place that it stands for. Fails when something is found that no line lists, and when a line
/// is no longer needed. `UPDATE=1` takes out the lines that are no longer needed and never adds one.
pub(super) fn assert_listed(rule: &str, file: &str, found: &BTreeMap<String, String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tidy").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let listed: BTreeSet<&str> = text.lines().collect();
    let new: Vec<_> = found.iter().filter(|(line, _)| !listed.contains(line.as_str())).collect();
    let new: Vec<_> = new.iter().map(|(line, place)| format!("    {line}: {place}")).collect();
    let mut gone: Vec<_> = listed.iter().copied().filter(|line| !found.contains_key(*line)).collect();
    if std::env::var_os("UPDATE").is_some() && !gone.is_empty() {
        let kept: String =
            text.lines().filter(|line| !gone.contains(line)).map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, kept).expect("the list is writable");
        gone.clear();
    }
    assert!(
        new.is_empty() && gone.is_empty(),
        "{rule}: {} in all\nnot listed in {file}:\n{}\nlisted in {file}, but no longer needed (UPDATE=1 takes them out): {gone:?}",
        found.len(),
        new.join("\n")
    );
}
