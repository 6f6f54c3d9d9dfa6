//! Measures the members of a request that no endpoint knows. A provider that gets them may read them as a part of the prompt.

use super::body::ParsedBody;
use super::measure::value_bytes;

/// Members that are no part of the prompt, or that every endpoint counts elsewhere. Sorted.
const NOT_PROMPT: [&str; 28] = [
    "audio",
    "cache",
    "fallbacks",
    "function_call",
    "functions",
    "logit_bias",
    "metadata",
    "modalities",
    "model",
    "models",
    "moderation",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "provider",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "routing",
    "safety_identifier",
    "service_tier",
    "stop",
    "stream_options",
    "tool_choice",
    "tools",
    "user",
    "verbosity",
    "web_search_options",
];

/// The bytes beside the prompt that a usual request has: its name of a model and its settings.
const USUAL_SETTINGS_BYTES: usize = 256;

/// Bytes of the members that the endpoint does not know: `documents`, templates, grammars. `own` are the endpoint's members
/// that are counted elsewhere, and `counted` is the size of those.
pub(super) fn other_bytes(members: &ParsedBody<'_>, own: &[&str], counted: usize) -> u64 {
    // Most requests have no other members, so they are looked for only if something is left.
    if members.text.len() <= counted.saturating_add(USUAL_SETTINGS_BYTES) {
        return 0;
    }
    let is_other = |name: &str| NOT_PROMPT.binary_search(&name).is_err() && !own.contains(&name);
    let others = members.members.iter().filter(|(name, _)| is_other(name));
    others.filter_map(|(name, _)| members.get(name)).map(value_bytes).sum()
}
