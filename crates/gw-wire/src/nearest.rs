//! Suggests the known name that is most similar to a misspelled one.

/// `did you mean 'a'?`, with every name at the smallest distance; None when no name is similar.
#[must_use]
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    within(usize::MAX, written, known)
}

/// As [`did_you_mean`], for names that differ in two letters at most.
#[must_use]
pub fn misspelled<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    within(2, written, known)
}

/// The hint with the names at the smallest distance, which is `most` at most.
fn within<'a>(most: usize, written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let written = folded(written);
    let length = written.len();
    let mut best = usize::MAX;
    let mut names: Vec<&str> = Vec::new();
    for name in known {
        let candidate = folded(name);
        // Up to a third of the longer name may differ, and always one letter.
        let allowed = (length.max(candidate.len()) / 3).clamp(1, most);
        if length.abs_diff(candidate.len()) > allowed {
            continue;
        }
        let distance = distance(&written, &candidate);
        if distance > allowed || distance > best {
            continue;
        }
        if distance < best {
            best = distance;
            names.clear();
        }
        names.push(name);
    }
    if names.is_empty() {
        return None;
    }
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    Some(format!("did you mean {}?", names.join(" or ")))
}

/// Lower case, with underscores for dashes: people do not see these differences.
fn folded(name: &str) -> Vec<char> {
    name.chars().take(100).flat_map(char::to_lowercase).map(|c| if c == '-' { '_' } else { c }).collect()
}

/// Edit distance: insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(last.len());
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut cost =
                (get(&last, j) + usize::from(x != y)).min(get(&last, j + 1) + 1).min(get(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                cost = cost.min(get(&before_last, j - 1) + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{did_you_mean, distance};

    fn between(a: &str, b: &str) -> usize {
        distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
    }

    #[test]
    fn edit_distances_match_known_values() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("url", "urls", 1),
            ("a", "b", 1),
        ] {
            assert_eq!(between(a, b), expected, "{a} {b}");
            assert_eq!(between(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn a_hint_names_all_names_at_the_same_distance() {
        let known = ["rpm", "tpm", "models"];
        assert_eq!(did_you_mean("pm", known).as_deref(), Some("did you mean 'rpm' or 'tpm'?"));
        assert_eq!(did_you_mean("Model", known).as_deref(), Some("did you mean 'models'?"));
        assert_eq!(did_you_mean("entirely", known), None);
    }
}
