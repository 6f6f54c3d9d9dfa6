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
    /// Google's `embedContent` and `batchEmbedContents`.
    GeminiEmbedding,
    /// Embeddings and other requests that generate no text.
    OneShot,
}

/// The names on the way to a parameter: one, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParameterPlace<'n> {
    outer: Option<&'n str>,
    name: &'n str,
}

impl<'n> ParameterPlace<'n> {
    const fn of(name: &'n str) -> Self {
        Self { outer: None, name }
    }

    const fn below(outer: &'n str, name: &'n str) -> Self {
        Self { outer: Some(outer), name }
    }

    /// The names on the way to the parameter.
    pub(super) fn path(&self) -> Vec<&'n str> {
        self.outer.into_iter().chain([self.name]).collect()
    }
}

/// The configuration of Google's generations.
const GENERATION: &str = "generationConfig";

/// Parameters of chat completions that text completions do not have, or have in another form.
const NOT_OF_COMPLETIONS: [&str; 20] = [
    "audio",
    "dimensions",
    "encoding_format",
    "function_call",
    "functions",
    "logprobs",
    "max_completion_tokens",
    "metadata",
    "modalities",
    "parallel_tool_calls",
    "prediction",
    "reasoning_effort",
    "response_format",
    "service_tier",
    "store",
    "tool_choice",
    "tools",
    "top_logprobs",
    "verbosity",
    "web_search_options",
];

/// Parameters of generated text, which embeddings and other one-shot requests do not have.
const OF_GENERATED_TEXT: [&str; 16] = [
    "frequency_penalty",
    "logit_bias",
    "max_tokens",
    "min_p",
    "n",
    "presence_penalty",
    "repetition_penalty",
    "seed",
    "stop",
    "stream_options",
    "temperature",
    "top_a",
    "top_k",
    "top_p",
    "typical_p",
    "suffix",
];

/// Parameters that Responses and chat completions share.
const OF_RESPONSES: [&str; 15] = [
    "cache",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Parameters that Messages and chat completions share.
const OF_MESSAGES: [&str; 9] = [
    "cache",
    "max_tokens",
    "metadata",
    "service_tier",
    "temperature",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

/// The places of a parameter of chat completions on a surface, the first of which tells whether a request has it. Empty: the surface
/// does not have the parameter.
pub(super) fn places(surface: PresetSurface, name: &str) -> Vec<ParameterPlace<'_>> {
    let one = |place| vec![place];
    match surface {
        PresetSurface::Chat => one(ParameterPlace::of(name)),
        PresetSurface::Completion => match name {
            "max_completion_tokens" => one(ParameterPlace::of("max_tokens")),
            _ if NOT_OF_COMPLETIONS.contains(&name) => Vec::new(),
            _ => one(ParameterPlace::of(name)),
        },
        PresetSurface::Messages => match name {
            "max_completion_tokens" => one(ParameterPlace::of("max_tokens")),
            "stop" => one(ParameterPlace::of("stop_sequences")),
            "user" | "safety_identifier" => one(ParameterPlace::below("metadata", "user_id")),
            "reasoning_effort" => one(ParameterPlace::below("output_config", "effort")),
            "response_format" => one(ParameterPlace::below("output_config", "format")),
            _ if OF_MESSAGES.contains(&name) => one(ParameterPlace::of(name)),
            _ => Vec::new(),
        },
        PresetSurface::Responses => match name {
            "max_tokens" | "max_completion_tokens" => one(ParameterPlace::of("max_output_tokens")),
            "reasoning_effort" => one(ParameterPlace::below("reasoning", "effort")),
            "verbosity" => one(ParameterPlace::below("text", "verbosity")),
            "response_format" => one(ParameterPlace::below("text", "format")),
            _ if OF_RESPONSES.contains(&name) => one(ParameterPlace::of(name)),
            _ => Vec::new(),
        },
        PresetSurface::Gemini => of_gemini(name),
        PresetSurface::GeminiEmbedding => match name {
            "dimensions" => one(ParameterPlace::of("outputDimensionality")),
            _ => Vec::new(),
        },
        PresetSurface::OneShot => {
            let is_of_text = OF_GENERATED_TEXT.contains(&name)
                || (NOT_OF_COMPLETIONS.contains(&name) && !is_of_vectors(name));
            if is_of_text { Vec::new() } else { one(ParameterPlace::of(name)) }
        }
    }
}

fn is_of_vectors(name: &str) -> bool {
    matches!(name, "dimensions" | "encoding_format")
}

fn of_gemini(name: &str) -> Vec<ParameterPlace<'_>> {
    let generation = |names: &[&'static str]| {
        names.iter().map(|name| ParameterPlace::below(GENERATION, name)).collect::<Vec<_>>()
    };
    match name {
        "max_tokens" | "max_completion_tokens" => generation(&["maxOutputTokens"]),
        "temperature" => generation(&["temperature"]),
        "top_p" => generation(&["topP"]),
        "top_k" => generation(&["topK"]),
        "stop" => generation(&["stopSequences"]),
        "seed" => generation(&["seed"]),
        "n" => generation(&["candidateCount"]),
        "presence_penalty" => generation(&["presencePenalty"]),
        "frequency_penalty" => generation(&["frequencyPenalty"]),
        "response_format" => generation(&["responseMimeType", "responseJsonSchema", "responseSchema"]),
        "tools" => vec![ParameterPlace::of("tools")],
        "tool_choice" => vec![ParameterPlace::of("toolConfig")],
        "cache" => vec![ParameterPlace::of("cache")],
        _ => Vec::new(),
    }
}

/// The places of a parameter that is taken out. A name that the surface alone has is taken out, too.
pub(super) fn stripped(surface: PresetSurface, name: &str) -> Vec<ParameterPlace<'_>> {
    match (surface, name) {
        // A request without it is wrong.
        (PresetSurface::Messages, "max_tokens" | "max_completion_tokens") => Vec::new(),
        _ => match places(surface, name) {
            places if places.is_empty() => vec![ParameterPlace::of(name)],
            places => places,
        },
    }
}

/// The other name of a parameter of chat completions that has two.
pub(super) fn twin(surface: PresetSurface, name: &str) -> Option<&'static str> {
    match (surface, name) {
        (PresetSurface::Chat, "max_tokens") => Some("max_completion_tokens"),
        (PresetSurface::Chat, "max_completion_tokens") => Some("max_tokens"),
        _ => None,
    }
}
