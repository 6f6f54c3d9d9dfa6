//! What a model's name tells about the request that it takes.
//!
//! Which generation takes a thinking level and which a budget: <https://ai.google.dev/gemini-api/docs/thinking>; how
//! `reasoning_effort` maps to them: <https://ai.google.dev/gemini-api/docs/openai>.

use std::fmt::Write as _;

use super::Flavour;

/// A model as far as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Model {
    /// `(2, 5)` of `gemini-2.5-pro`; None for names without a version that are no Gemini.
    generation: Option<(u32, u32)>,
    is_pro: bool,
    /// Refuses a system instruction.
    is_gemma_3: bool,
}

/// What `thinkingConfig` a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    /// `thinkingLevel`.
    Level(&'static str),
    /// `thinkingBudget`, in tokens.
    Budget(u32),
}

impl Model {
    /// Of an upstream model's name, whatever path stands before it.
    pub(super) fn of(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        let is_gemma_3 = name.starts_with("gemma-3");
        let Some(rest) = name.strip_prefix("gemini-") else {
            return Self { generation: None, is_pro: false, is_gemma_3 };
        };
        let is_pro = rest.split('-').any(|word| word == "pro");
        let version = rest.split('-').next().unwrap_or_default();
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        let generation = match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) => Some((major, minor)),
            // `gemini-flash-latest` is the newest.
            _ if rest.ends_with("-latest") => Some((3, 1)),
            _ => None,
        };
        Self { generation, is_pro, is_gemma_3 }
    }

    /// Takes JSON Schema as it is (`parametersJsonSchema`, `responseJsonSchema`); others take a subset of OpenAPI's.
    pub(super) fn takes_json_schema(self) -> bool {
        self.generation >= Some((2, 5))
    }

    /// Takes penalties. Models from 2.5 answer 400 "Penalty is not enabled for this model" (vercel/ai#8943,
    /// google-gemini/cookbook#1290).
    pub(super) fn takes_penalties(self) -> bool {
        self.generation < Some((2, 5))
    }

    /// Tells log probabilities: up to 2.0 everywhere, 2.5 on Vertex AI; others answer 400 "Logprobs is not enabled"
    /// (vercel/ai#5418, googleapis/python-genai#1921, GoogleCloudPlatform/generative-ai#2947).
    pub(super) fn tells_logprobs(self, flavour: Flavour) -> bool {
        match flavour {
            Flavour::AiStudio => self.generation < Some((2, 5)),
            Flavour::Vertex => self.generation < Some((3, 0)),
        }
    }

    /// Takes a system instruction. Gemma 3 answers 400 "Developer instruction is not enabled"; there the system speaks
    /// first in the user's turn, as its own template has it: <https://ai.google.dev/gemma/docs/core/prompt-structure>.
    pub(super) fn takes_system(self) -> bool {
        !self.is_gemma_3
    }

    /// Signs its function calls, refuses a history without the signatures, and pairs calls and responses by id.
    pub(super) fn signs_calls(self) -> bool {
        self.generation >= Some((3, 0))
    }

    /// Takes tools and structured output in one request.
    pub(super) fn combines_tools_and_format(self) -> bool {
        self.generation >= Some((3, 0))
    }

    /// How this model is told a `reasoning_effort`, and whether that is the effort that was asked for. None: it cannot
    /// be told, because it does not think or nobody knows the word.
    pub(super) fn thinking(self, effort: &str) -> Option<(Thinking, bool)> {
        if self.generation? >= (3, 0) {
            let (level, exact) = self.level(effort)?;
            return Some((Thinking::Level(level), exact));
        }
        if self.generation? >= (2, 5) {
            let (budget, exact) = self.budget(effort)?;
            return Some((Thinking::Budget(budget), exact));
        }
        None
    }

    /// Thinking cannot be turned off, and the Pro models know fewer levels.
    fn level(self, effort: &str) -> Option<(&'static str, bool)> {
        Some(match effort {
            "none" if self.is_pro => ("LOW", false),
            "none" => ("MINIMAL", false),
            "minimal" if self.is_pro => ("LOW", false),
            "minimal" => ("MINIMAL", true),
            "low" => ("LOW", true),
            "medium" if self.is_pro && self.generation == Some((3, 0)) => ("HIGH", false),
            "medium" => ("MEDIUM", true),
            "high" => ("HIGH", true),
            "xhigh" | "max" => ("HIGH", false),
            _ => return None,
        })
    }

    /// The smallest budget of Pro is 128; the others can do without thinking.
    fn budget(self, effort: &str) -> Option<(u32, bool)> {
        Some(match effort {
            "none" if self.is_pro => (128, false),
            "none" => (0, true),
            "minimal" | "low" => (1024, true),
            "medium" => (8192, true),
            "high" => (24_576, true),
            "xhigh" | "max" if self.is_pro => (32_768, true),
            "xhigh" | "max" => (24_576, false),
            _ => return None,
        })
    }
}

/// A path's segments, each percent-encoded; the slashes between them stay.
pub(in crate::adapters) fn encoded_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            // Writing into a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Model, Thinking, encoded_path};

    #[test]
    fn names_tell_the_generation() {
        for (name, generation, is_pro) in [
            ("gemini-2.5-pro", Some((2, 5)), true),
            ("models/gemini-2.5-flash-lite", Some((2, 5)), false),
            ("gemini-3-pro-preview", Some((3, 0)), true),
            ("publishers/google/models/gemini-3.5-flash", Some((3, 5)), false),
            ("gemini-2.0-flash-001", Some((2, 0)), false),
            ("gemini-flash-latest", Some((3, 1)), false),
            ("gemini-embedding-001", None, false),
            ("gemma-3-27b-it", None, false),
            ("", None, false),
        ] {
            let model = Model::of(name);
            assert_eq!((model.generation, model.is_pro), (generation, is_pro), "{name}");
        }
    }

    #[test]
    fn efforts_become_levels_or_budgets_and_say_when_they_are_another() {
        use Thinking::{Budget, Level};
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
            assert_eq!(Model::of(name).thinking(effort), expected, "{name} {effort}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_the_path() {
        assert_eq!(encoded_path("a b?c#d%e:f/é"), "a%20b%3Fc%23d%25e%3Af/%C3%A9");
    }
}
