//! Whose model it is. Converse says most things alike for all models; the rest depends on the family, which is read off
//! the model id: `anthropic.claude-sonnet-4-5-20250929-v1:0`, `us.amazon.nova-2-lite-v1:0`, an ARN with such a name.

use crate::adapter::Target;

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Anthropic's, with its generation.
    Claude(Generation),
    /// Amazon Nova; the second generation reasons.
    Nova {
        /// Nova 2.
        second: bool,
    },
    /// OpenAI's open models.
    GptOss,
    /// Mistral AI's.
    Mistral,
    /// Meta's, which take no forced tools.
    Llama,
    /// DeepSeek's, which take no forced tools.
    DeepSeek,
    /// Another known maker's.
    Other,
    /// An ARN that does not say: an application inference profile, a custom model.
    Unknown,
}

/// How a Claude model thinks and what it refuses. User Guide, "Extended thinking", "Adaptive thinking".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Generation {
    /// Up to 3.5: does not think.
    Plain,
    /// 3.7 to 4.0: thinks within a budget.
    Budget,
    /// 4.1 to 4.5: as before, and takes only one of temperature and top_p.
    OneSampler,
    /// 4.6: thinks as it sees fit; a budget is deprecated.
    Adaptive,
    /// From 4.7: refuses budgets and any temperature or top_p.
    Fixed,
}

/// The makers of other families.
const OTHERS: [&str; 13] = [
    "ai21.",
    "openai.",
    "cohere.",
    "qwen.",
    "writer.",
    "titan-text",
    "luma.",
    "stability.",
    "google.",
    "minimax.",
    "moonshot",
    "nvidia.",
    "zai.",
];

impl Family {
    /// The family of a model: by its name at the provider, else by its catalogue id.
    pub(super) fn of(target: &Target<'_>) -> Self {
        Self::of_name(target.upstream_model).or_else(|| Self::of_name(target.id)).unwrap_or(Self::Unknown)
    }

    fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let has = |part: &str| name.contains(part);
        Some(if let Some((_, model)) = name.split_once("claude-") {
            Self::Claude(Generation::of(model))
        } else if has("nova-") {
            Self::Nova { second: has("nova-2") }
        } else if has("gpt-oss") {
            Self::GptOss
        } else if ["mistral", "mixtral", "pixtral", "magistral", "ministral", "devstral", "voxtral"]
            .into_iter()
            .any(has)
        {
            Self::Mistral
        } else if has("llama") {
            Self::Llama
        } else if has("deepseek") {
            Self::DeepSeek
        } else if OTHERS.into_iter().any(has) {
            Self::Other
        } else {
            return None;
        })
    }

    /// Whether one tool of several can be named as the one to be called (`SpecificToolChoice`).
    pub(super) fn names_tools(self) -> bool {
        self != Self::Mistral
    }

    /// Whether it can be made to call a tool at all.
    pub(super) fn forces_tools(self) -> bool {
        !matches!(self, Self::Llama | Self::DeepSeek)
    }

    /// Whether it takes cache points in messages and in the system prompt. User Guide, "Prompt caching".
    pub(super) fn caches(self) -> bool {
        matches!(self, Self::Claude(_) | Self::Nova { .. } | Self::Unknown)
    }

    /// Whether it takes cache points behind tools.
    pub(super) fn caches_tools(self) -> bool {
        matches!(self, Self::Claude(_) | Self::Unknown)
    }

    /// Whether what is cached can be kept for an hour: a cache point that says so is refused by others.
    pub(super) fn caches_for_an_hour(self) -> bool {
        matches!(self, Self::Claude(generation) if generation >= Generation::OneSampler)
            || self == Self::Unknown
    }

    /// Whether it signs its reasoning and wants it back; others refuse the signature, or reasoning as a whole.
    pub(super) fn signs(self) -> bool {
        matches!(self, Self::Claude(_) | Self::Unknown)
    }
}

impl Generation {
    /// Of what follows `claude-`: `3-7-sonnet-20250219-v1:0`, `sonnet-4-5-20250929-v1:0`, `v2:1`, `instant-v1`.
    fn of(model: &str) -> Self {
        if model.starts_with('v') || model.starts_with("instant") {
            return Self::Plain;
        }
        // A date is no version, and neither is what follows a `v`.
        let mut numbers = model.split(['-', '.', ':', '/']).filter_map(|part| part.parse::<u32>().ok());
        let Some(major) = numbers.next().filter(|major| *major < 100) else { return Self::Fixed };
        let minor = model
            .split(['-', '.', ':', '/'])
            .skip_while(|part| part.parse() != Ok(major))
            .nth(1)
            .and_then(|part| part.parse().ok())
            .filter(|minor| *minor < 100)
            .unwrap_or(0);
        match (major, minor) {
            (0..=2, _) | (3, 0..=6) => Self::Plain,
            (3, _) | (4, 0) => Self::Budget,
            (4, 1..=5) => Self::OneSampler,
            (4, 6) => Self::Adaptive,
            _ => Self::Fixed,
        }
    }
}
