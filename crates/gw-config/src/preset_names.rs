//! Notes about parameters of presets that the gateway does not know.

use gw_engine::settings::Aliases;
use gw_wire::nearest::did_you_mean;
use gw_wire::request::known_parameters;

/// Parameters that some providers have beside those of chats. Sorted.
const OTHERS: [&str; 20] = [
    "chat_template_kwargs",
    "documents",
    "enable_thinking",
    "guided_json",
    "include_reasoning",
    "input_type",
    "min_p",
    "min_tokens",
    "plugins",
    "provider",
    "reasoning",
    "repetition_penalty",
    "safe_prompt",
    "safety_settings",
    "search_parameters",
    "thinking",
    "top_a",
    "top_k",
    "transforms",
    "truncation",
];

/// A note about each parameter that a preset sets and that the gateway does not know.
pub(crate) fn notes(aliases: &Aliases) -> Vec<String> {
    let mut notes = Vec::new();
    for (alias, settings) in aliases {
        let preset = &settings.preset;
        for (list, parameters) in [("defaults", &preset.defaults), ("overrides", &preset.overrides)] {
            for (name, _) in parameters {
                if OTHERS.binary_search(&name.as_str()).is_ok()
                    || known_parameters().any(|known| known == name)
                {
                    continue;
                }
                let hint = did_you_mean(name, known_parameters()).map(|hint| format!("; {hint}"));
                notes.push(format!(
                    "aliases: '{alias}' has '{name}' in {list}, which is no parameter of chats; providers get it as it is{}",
                    hint.unwrap_or_default()
                ));
            }
        }
    }
    notes
}
