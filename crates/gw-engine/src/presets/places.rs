//! The places of a preset's parameters on each surface.

/// The surfaces as presets see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetSurface {
    /// Chat completions, whose names a preset has.
    Chat,
    /// Text completions.
    Completion,
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// Google's `generateContent` and its streams.
    Gemini,
    /// Embeddings and other requests that generate no text.
    OneShot,
}

/// The place of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParameterPlace<'n> {
    /// The names on the way to the parameter.
    pub(super) path: [&'n str; 2],
    /// The number of these names.
    pub(super) depth: usize,
    /// A single text becomes a list.
    pub(super) is_list: bool,
}

impl<'n> ParameterPlace<'n> {
    const fn of(name: &'n str) -> Self {
        Self { path: [name, ""], depth: 1, is_list: false }
    }

    const fn below(outer: &'n str, name: &'n str) -> Self {
        Self { path: [outer, name], depth: 2, is_list: false }
    }

    const fn list(self) -> Self {
        Self { is_list: true, ..self }
    }

    /// The names on the way to the parameter.
    pub(super) fn names(&self) -> &[&'n str] {
        self.path.get(..self.depth).unwrap_or_default()
    }
}

/// Parameters of chat completions that no other surface of OpenAI's has, or that have another form there.
const OF_CHATS: [&str; 18] = [
    "audio",
    "function_call",
    "functions",
    "max_completion_tokens",
    "max_tokens",
    "modalities",
    "parallel_tool_calls",
    "prediction",
    "reasoning_effort",
    "response_format",
    "stop",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "verbosity",
    "web_search_options",
];

/// Parameters of text completions, too.
const OF_COMPLETIONS: [&str; 4] = ["max_tokens", "stop", "stream_options", "temperature"];

/// The place of a parameter of chat completions on a surface. None: the surface does not have it.
pub(super) fn place(surface: PresetSurface, name: &str) -> Option<ParameterPlace<'_>> {
    const GENERATION: &str = "generationConfig";
    Some(match (surface, name) {
        (PresetSurface::Chat, _) => ParameterPlace::of(name),
        (PresetSurface::Completion | PresetSurface::Messages, "max_completion_tokens") => {
            ParameterPlace::of("max_tokens")
        }
        (PresetSurface::Completion, _) if OF_COMPLETIONS.contains(&name) => ParameterPlace::of(name),
        (PresetSurface::Messages, "stop") => ParameterPlace::of("stop_sequences").list(),
        (PresetSurface::Messages, "user" | "safety_identifier") => {
            ParameterPlace::below("metadata", "user_id")
        }
        (PresetSurface::Messages, "reasoning_effort") => ParameterPlace::below("output_config", "effort"),
        (PresetSurface::Messages, "max_tokens" | "temperature" | "top_p" | "top_k" | "cache") => {
            ParameterPlace::of(name)
        }
        (PresetSurface::Responses, "max_tokens" | "max_completion_tokens") => {
            ParameterPlace::of("max_output_tokens")
        }
        (PresetSurface::Responses, "reasoning_effort") => ParameterPlace::below("reasoning", "effort"),
        (PresetSurface::Responses, "verbosity") => ParameterPlace::below("text", "verbosity"),
        (PresetSurface::Responses, "parallel_tool_calls" | "temperature" | "top_logprobs") => {
            ParameterPlace::of(name)
        }
        (
            PresetSurface::Responses,
            "n" | "seed" | "stop" | "presence_penalty" | "frequency_penalty" | "logit_bias" | "logprobs",
        )
        | (PresetSurface::Messages, _) => return None,
        (PresetSurface::Gemini, "max_tokens" | "max_completion_tokens") => {
            ParameterPlace::below(GENERATION, "maxOutputTokens")
        }
        (PresetSurface::Gemini, "temperature") => ParameterPlace::below(GENERATION, "temperature"),
        (PresetSurface::Gemini, "top_p") => ParameterPlace::below(GENERATION, "topP"),
        (PresetSurface::Gemini, "top_k") => ParameterPlace::below(GENERATION, "topK"),
        (PresetSurface::Gemini, "stop") => ParameterPlace::below(GENERATION, "stopSequences").list(),
        (PresetSurface::Gemini, "seed") => ParameterPlace::below(GENERATION, "seed"),
        (PresetSurface::Gemini, "n") => ParameterPlace::below(GENERATION, "candidateCount"),
        (PresetSurface::Gemini, "presence_penalty") => ParameterPlace::below(GENERATION, "presencePenalty"),
        (PresetSurface::Gemini, "frequency_penalty") => ParameterPlace::below(GENERATION, "frequencyPenalty"),
        (PresetSurface::Gemini, "cache") => ParameterPlace::of(name),
        (PresetSurface::Gemini, _) => return None,
        (PresetSurface::Completion | PresetSurface::Responses | PresetSurface::OneShot, _) => {
            return (!OF_CHATS.contains(&name)).then_some(ParameterPlace::of(name));
        }
    })
}

/// The other name of a parameter of chat completions that has two.
pub(super) fn twin(surface: PresetSurface, name: &str) -> Option<&'static str> {
    match (surface, name) {
        (PresetSurface::Chat, "max_tokens") => Some("max_completion_tokens"),
        (PresetSurface::Chat, "max_completion_tokens") => Some("max_tokens"),
        _ => None,
    }
}
