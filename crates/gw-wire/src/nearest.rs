//! Suggests the known name that is most similar to a misspelled one.

/// `did you mean 'a'?`, with every name at the smallest distance; None when no name is similar.
#[must_use]
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let written = folded(written);
    let length = written.len();
    let mut best = usize::MAX;
    let mut names: Vec<&str> = Vec::new();
    for name in known {
        let candidate = folded(name);
        // Up to a third of the longer name may differ, and always one letter.
        let allowed = (length.max(candidate.len()) / 3).max(1);
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
        if !names.contains(&name) {
            names.push(name);
        }
    }
    question(&names)
}

/// The shortest name that [`misspelled`] compares. Short names differ in one letter by chance.
const MIN_COMPARED: usize = 6;

/// `did you mean 'a'?` for a name that is certainly meant to be a known one: it differs in one letter. Other words and other forms
/// of a word are no misspellings: names that differ in a digit, in the first letter (`callback` and `fallback`), in the last letter
/// (`tool` and `tools`, `safety_mode` and `safety_model`) or in `s` and `z` (`organisation`), and short names.
#[must_use]
pub fn misspelled<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let written = folded(written);
    let mut names: Vec<&str> = Vec::new();
    for name in known {
        let candidate = folded(name);
        let is_meant = candidate.len() >= MIN_COMPARED
            && candidate.len().abs_diff(written.len()) <= 1
            && distance(&written, &candidate) == 1
            && !is_other_form(&written, &candidate);
        if is_meant && !names.contains(&name) {
            names.push(name);
        }
    }
    question(&names)
}

/// Whether two names that differ in one edit can be two words, or two forms of a word.
fn is_other_form(a: &[char], b: &[char]) -> bool {
    let start = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (a.get(start..).unwrap_or_default(), b.get(start..).unwrap_or_default());
    match (a, b) {
        ([_], [_] | []) | ([], [_]) => true,
        ([x, ..], [y, ..]) if a.len() == b.len() => {
            let is_spelling = matches!((x, y), ('s', 'z') | ('z', 's'));
            // Two letters that changed their places differ in more than the first.
            let is_one_letter = a.get(1..) == b.get(1..);
            x.is_ascii_digit() || y.is_ascii_digit() || is_one_letter && (start == 0 || is_spelling)
        }
        _ => {
            let longer = if a.len() > b.len() { a } else { b };
            start == 0 || longer.first().is_some_and(char::is_ascii_digit)
        }
    }
}

/// The question with these names.
fn question(names: &[&str]) -> Option<String> {
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
    use super::{did_you_mean, distance, misspelled};

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
        let twice = ["models", "tools", "models"];
        assert_eq!(did_you_mean("model", twice).as_deref(), Some("did you mean 'models'?"));
    }

    #[test]
    fn one_wrong_letter_is_a_misspelling_and_another_form_of_the_word_is_none() {
        let known = [
            "service_tier",
            "safety_model",
            "organization",
            "plugins",
            "tools",
            "search_20250305",
            "plugins",
        ];
        for (written, meant) in [
            ("servce_tier", "service_tier"),
            ("serviice_tier", "service_tier"),
            ("Service-Toer", "service_tier"),
            ("service_teir", "service_tier"),
            ("organizaton", "organization"),
            ("plugns", "plugins"),
            ("lpugins", "plugins"),
            ("serach_20250305", "search_20250305"),
        ] {
            let hint = format!("did you mean '{meant}'?");
            assert_eq!(misspelled(written, known), Some(hint), "{written}");
        }
        for written in [
            "service_tier",
            "srvice_ter",
            "safety_mode",
            "organisation",
            "plugin",
            "tool",
            "toolz",
            "tols",
            "search_20250306",
            "search_2025030",
            "search_220250305",
            "plugins2",
            "xplugins",
            "lugins",
            "blugins",
            "pluginz",
            "",
        ] {
            assert_eq!(misspelled(written, known), None, "{written}");
        }
    }
}
