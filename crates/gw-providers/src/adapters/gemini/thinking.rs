//! `thinkingConfig`: the thinking level or budget for an effort, from the model's rules.
//!
//! The mapping of `reasoning_effort`: <https://ai.google.dev/gemini-api/docs/openai>.

use crate::model_rules::{Effort, Off, Row};

/// The level or the budget of a `thinkingConfig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeminiThinking {
    /// `thinkingLevel`.
    Level(&'static str),
    /// `thinkingBudget`, in tokens.
    Budget(u64),
}

/// Returns the translation of a `reasoning_effort`, and whether it is exactly the requested effort. None if the model
/// does not think or the word is unknown.
pub(super) fn thinking(rules: &Row, word: &str) -> Option<(GeminiThinking, bool)> {
    let effort = Effort::read(word)?;
    if let Some(level) = rules.effort(effort) {
        return Some((GeminiThinking::Level(level.as_level()), level == effort));
    }
    let (sent, budget) = rules.budgets.range(..=effort).last()?;
    let is_off = effort != Effort::None || rules.thinking_off == Off::Disabled;
    Some((GeminiThinking::Budget(*budget), *sent == effort && is_off))
}

#[cfg(test)]
mod tests {
    use super::{GeminiThinking, thinking};
    use crate::model_rules::{ModelRules, Table};
    use crate::settings::Api;

    #[test]
    fn efforts_become_levels_or_budgets_and_clamping_warns() {
        use GeminiThinking::{Budget, Level};
        for (name, effort, expected) in [
            ("gemini-3-pro-preview", "none", Some((Level("LOW"), false))),
            ("gemini-3-pro-preview", "minimal", Some((Level("LOW"), false))),
            ("gemini-3-pro-preview", "medium", Some((Level("HIGH"), false))),
            ("gemini-3.1-pro-preview", "medium", Some((Level("MEDIUM"), true))),
            ("gemini-3-flash-preview", "none", Some((Level("MINIMAL"), false))),
            ("gemini-3-flash-preview", "minimal", Some((Level("MINIMAL"), true))),
            ("gemini-3-flash-preview", "low", Some((Level("LOW"), true))),
            ("gemini-3-flash-preview", "high", Some((Level("HIGH"), true))),
            ("gemini-3-flash-preview", "xhigh", Some((Level("HIGH"), false))),
            ("gemini-3.8-flash", "minimal", Some((Level("LOW"), false))),
            ("gemini-4-argon", "none", Some((Level("LOW"), false))),
            ("gemini-4-argon", "max", Some((Level("HIGH"), false))),
            ("gemini-2.5-flash", "none", Some((Budget(0), true))),
            ("gemini-2.5-pro", "none", Some((Budget(128), false))),
            ("gemini-2.5-pro", "low", Some((Budget(1024), true))),
            ("gemini-2.5-pro", "medium", Some((Budget(8192), true))),
            ("gemini-2.5-flash", "high", Some((Budget(24_576), true))),
            ("gemini-2.5-pro", "xhigh", Some((Budget(32_768), true))),
            ("gemini-2.5-flash", "max", Some((Budget(24_576), false))),
            ("gemini-2.5-flash", "furious", None),
            ("gemini-2.0-flash", "high", None),
            ("gemma-3-27b-it", "high", None),
        ] {
            let rules = ModelRules::of(Api::GEMINI.rules, name, "");
            assert_eq!(thinking(&rules, effort), expected, "{name} {effort}");
        }
    }

    #[test]
    fn a_row_with_xhigh_is_enough_for_the_level_xhigh() {
        let row = "[[rows]]\nname = 'a'\nthinks = 'always'\nefforts = ['low', 'high', 'xhigh']\nsource = 'x.y'\nas_of = '2026-11-22'";
        let table = Table::parse(&format!("vendor = 'gemini'\n{row}")).unwrap();
        for (effort, level, is_exact) in [
            ("high", "HIGH", true),
            ("medium", "LOW", false),
            ("xhigh", "XHIGH", true),
            ("max", "XHIGH", false),
        ] {
            let expected = Some((GeminiThinking::Level(level), is_exact));
            assert_eq!(thinking(&table.rows[0], effort), expected, "{effort}");
        }
    }
}
