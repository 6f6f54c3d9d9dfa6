//! What a model's name tells about the parameters it takes.
//!
//! From "Migrating to newer models", "Effort", "Thinking" and "Structured outputs" at platform.claude.com. Names are
//! parsed, not listed, so that dated, prefixed and coming names are understood; a name that says nothing is taken for the
//! newest, because that is what new names are.

/// When a model thinks, and how it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinks {
    /// Not at all.
    Never,
    /// `thinking: {type: enabled, budget_tokens}`, off without it.
    Budget,
    /// `thinking: {type: adaptive}`, off without it.
    WhenAsked,
    /// By itself, unless told not to.
    Usually,
    /// By itself, and cannot be told not to.
    Always,
}

/// What the API takes for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent capabilities, not a state")]
pub(super) struct Model {
    /// When it thinks.
    pub(super) thinks: Thinks,
    /// Thinking is turned down by `between_tools`, not `disabled`.
    pub(super) between_tools: bool,
    /// `effort` may be `xhigh`.
    pub(super) xhigh: bool,
    /// The text of its thoughts is given only on demand (`display: summarized`).
    pub(super) hides_thoughts: bool,
    /// `temperature` and `top_p` are taken.
    pub(super) sampling: bool,
    /// `tool_choice` may be `any` or `tool`.
    pub(super) forced_tools: bool,
    /// `output_config.format` and strict tools.
    pub(super) structured: bool,
}

/// Claude Opus 5.5 and Claude Fable 5.1, and whatever nobody knows.
const NEWEST: Model = Model {
    thinks: Thinks::Always,
    between_tools: false,
    xhigh: true,
    hides_thoughts: true,
    sampling: false,
    forced_tools: false,
    structured: true,
};

/// Claude 3.5 and before.
const OLDEST: Model = Model {
    thinks: Thinks::Never,
    between_tools: false,
    xhigh: false,
    hides_thoughts: false,
    sampling: true,
    forced_tools: true,
    structured: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Haiku,
    Sonnet,
    Opus,
    /// Fable and Mythos: the same model with other safeguards.
    Fable,
}

type Version = (u32, u32);

impl Model {
    /// Of a model name as the provider spells it, or as a cloud or a router does.
    pub(super) fn named(name: &str) -> Self {
        let Some((family, version)) = parse(name) else { return NEWEST };
        match version {
            (..3, _) | (3, ..7) => OLDEST,
            (3, _) | (4, ..5) => Self { thinks: Thinks::Budget, ..OLDEST },
            (4, 5) => Self { thinks: Thinks::Budget, structured: true, ..OLDEST },
            (4, 6) => Self { thinks: Thinks::WhenAsked, structured: true, ..OLDEST },
            (4, _) => Self { thinks: Thinks::WhenAsked, forced_tools: true, ..NEWEST },
            _ => Self::fifth(family, version),
        }
    }

    /// From the fifth generation on the families differ.
    fn fifth(family: Option<Family>, version: Version) -> Self {
        let usual = Self { thinks: Thinks::Usually, forced_tools: true, ..NEWEST };
        match (family, version) {
            (Some(Family::Opus | Family::Sonnet), (5, ..5)) | (Some(Family::Haiku), (5, ..=5)) => usual,
            (Some(Family::Sonnet), (5, 5)) => Self { thinks: Thinks::Usually, between_tools: true, ..NEWEST },
            (Some(Family::Fable), (5, 0)) => Self { forced_tools: true, ..NEWEST },
            _ => NEWEST,
        }
    }
}

/// Family and version: `claude-3-5-sonnet-20241022`, `claude-opus-4-5@20251101`, `us.anthropic.claude-sonnet-4-6-v1:0`,
/// `claude-haiku-4.5`. None without a version.
fn parse(name: &str) -> Option<(Option<Family>, Version)> {
    let name = name.to_ascii_lowercase();
    let claude = name.rfind("claude").and_then(|at| name.get(at..));
    let name = claude.unwrap_or(&name);
    let words = || name.split(|c: char| !c.is_ascii_alphanumeric());
    let family = words().find_map(|word| match word {
        "haiku" => Some(Family::Haiku),
        "sonnet" => Some(Family::Sonnet),
        "opus" => Some(Family::Opus),
        "fable" | "mythos" => Some(Family::Fable),
        _ => None,
    });
    if claude.is_none() && family.is_none() {
        return None;
    }
    // A date has eight digits, a cloud's own revision begins with a `v`: neither is part of the version.
    let number = |word: &str| (word.len() <= 2).then(|| word.parse::<u32>().ok()).flatten();
    let mut numbers = words().skip_while(|word| number(word).is_none()).map_while(number);
    let major = numbers.next()?;
    Some((family, (major, numbers.next().unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::{Model, NEWEST, OLDEST, Thinks, parse};

    #[test]
    fn versions_are_found_in_every_spelling() {
        for (name, version) in [
            ("claude-3-5-sonnet-20241022", (3, 5)),
            ("claude-3-5-haiku-latest", (3, 5)),
            ("claude-3-opus-20240229", (3, 0)),
            ("claude-3-7-sonnet-20250219", (3, 7)),
            ("claude-2.1", (2, 1)),
            ("claude-instant-1.2", (1, 2)),
            ("claude-sonnet-4-20250514", (4, 0)),
            ("claude-opus-4-1-20250805", (4, 1)),
            ("claude-opus-4-5@20251101", (4, 5)),
            ("anthropic/claude-haiku-4.5", (4, 5)),
            ("us.anthropic.claude-sonnet-4-6-v1:0", (4, 6)),
            ("anthropic.claude-3-5-sonnet-20241022-v2:0", (3, 5)),
            ("claude-sonnet-4-5[1m]", (4, 5)),
            ("CLAUDE-OPUS-5-5", (5, 5)),
            ("claude-fable-5", (5, 0)),
            ("claude-opus-12-3", (12, 3)),
        ] {
            assert_eq!(parse(name).map(|(_, version)| version), Some(version), "{name}");
        }
        for name in
            ["claude-opus-latest", "claude-mythos-preview", "", "-", "claude", "my-model-20251101", "glm-4.6"]
        {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn every_generation_has_its_rules() {
        let thinks = |name: &str| Model::named(name).thinks;
        assert_eq!(Model::named("claude-3-5-haiku-20241022"), OLDEST);
        for name in ["claude-3-7-sonnet-latest", "claude-opus-4-1", "claude-haiku-4-5", "claude-opus-4-5"] {
            assert_eq!(thinks(name), Thinks::Budget, "{name}");
        }
        for name in ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8"] {
            assert_eq!(thinks(name), Thinks::WhenAsked, "{name}");
        }
        for name in ["claude-sonnet-5", "claude-opus-5", "claude-haiku-5-5", "claude-sonnet-5-5"] {
            assert_eq!(thinks(name), Thinks::Usually, "{name}");
        }
        for name in ["claude-opus-5-5", "claude-fable-5", "claude-fable-5-1", "claude-mythos-preview"] {
            assert_eq!(thinks(name), Thinks::Always, "{name}");
        }
        let forced = |name: &str| Model::named(name).forced_tools;
        assert!(forced("claude-opus-4-8") && forced("claude-opus-5") && forced("claude-haiku-5-5"));
        assert!(forced("claude-fable-5") && !forced("claude-fable-5-1") && !forced("claude-mythos-5-1"));
        assert!(!forced("claude-opus-5-5") && !forced("claude-sonnet-5-5"));
        let structured = |name: &str| Model::named(name).structured;
        assert!(!structured("claude-opus-4-1") && structured("claude-haiku-4-5"));
        let sampling = |name: &str| Model::named(name).sampling;
        assert!(sampling("claude-sonnet-4-6") && !sampling("claude-opus-4-7"));
        for name in ["claude-opus-6", "claude-haiku-6", "claude-sonnet-5-6", "claude-song-7", "something-new"]
        {
            assert_eq!(Model::named(name), NEWEST, "{name}");
        }
    }
}
