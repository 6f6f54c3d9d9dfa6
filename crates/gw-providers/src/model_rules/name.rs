//! The words of a model's name, and the search for a row's name in them.

/// The words of a name in lower case: `us.anthropic.claude-sonnet-4-6-v1:0` is `us anthropic claude sonnet 4 6 v1 0`.
pub(super) fn words(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

/// Whether a model's name has the words of a row's name side by side. After a version no other number may follow. Dates
/// and revisions (`20250929`, `2025`, `v1`, `001`) do not count as numbers. `at_start`: the model's name must begin
/// with the words.
pub(super) fn fits(pattern: &[String], name: &[String], at_start: bool) -> bool {
    let is_number = |word: &String| word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    let ends_in_number = pattern.last().is_some_and(is_number);
    name.windows(pattern.len().max(1)).enumerate().any(|(at, window)| {
        let next = name.get(at + pattern.len());
        (at == 0 || !at_start) && window == pattern && !(ends_in_number && next.is_some_and(is_number))
    })
}

#[cfg(test)]
mod tests {
    use super::{fits, words};

    #[test]
    fn versions_match_whole_and_dates_are_ignored() {
        let fits = |pattern: &str, name: &str| fits(&words(pattern), &words(name), false);
        for name in [
            "claude-opus-4-5@20251101",
            "anthropic/claude-opus-4.5",
            "us.anthropic.claude-opus-4-5-20251101-v1:0",
            "CLAUDE-OPUS-4-5",
            "claude-opus-4-5[1m]",
        ] {
            assert!(fits("claude-opus-4-5", name), "{name}");
            assert!(!fits("claude-opus-4", name), "{name}");
        }
        assert!(fits("claude-opus-4", "claude-opus-4-20250514"));
        assert!(fits("gpt-5", "gpt-5-2025-08-07") && !fits("gpt-5", "gpt-5.1"));
        assert!(!fits("claude-opus-4", "claude-sonnet-4") && !fits("o3", "") && fits("o3", "openai/o3-mini"));
        assert!(!super::fits(&words("o1"), &words("marco-o1"), true));
        assert!(super::fits(&words("o1"), &words("o1-mini"), true));
    }
}
