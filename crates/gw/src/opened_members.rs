//! Names in `allow_members` that this release does not know. A vendor may have made them after the release, so they are
//! allowed with a note.

use gw_providers::settings::{Api, ProviderSettings};
use gw_wire::nearest::did_you_mean;
use gw_wire::request::member_policy::{RULES, rule_of};
use gw_wire::request::native_policy::{PolicyPlace, Surface, Treatment, treatment};

/// The most notes.
const MAX_NOTES: usize = 20;

/// A note for each name that no table knows.
pub fn notes(providers: &[ProviderSettings]) -> Vec<String> {
    let unknown = providers.iter().flat_map(|provider| {
        let names = provider.allow_members.iter();
        names.filter(|name| !is_known(provider.api, name)).map(move |name| (provider, name))
    });
    let note = |(provider, name): (&ProviderSettings, &String)| {
        let hint = did_you_mean(name, RULES.iter().map(|(known, _)| *known));
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        format!(
            "provider '{}': allow_members names '{name}', which this release does not know. Clients may send it, and the gateway \
             does not know its price{hint}",
            provider.name
        )
    };
    unknown.take(MAX_NOTES).map(note).collect()
}

fn is_known(api: Api, name: &str) -> bool {
    name == "metadata"
        || rule_of(name).is_some()
        || native_surface(api).is_some_and(|surface| opens(surface, name))
}

/// The surface whose requests a provider of this API gets as the client wrote them.
pub fn native_surface(api: Api) -> Option<Surface> {
    match api {
        Api::OpenAi => Some(Surface::Responses),
        Api::Anthropic | Api::Bedrock | Api::Vertex => Some(Surface::Messages),
        Api::Azure | Api::Gemini | Api::Cohere | Api::Mistral | Api::Ollama | Api::Demo => None,
    }
}

/// Whether the name opens something that the surface's table holds back.
pub fn opens(surface: Surface, name: &str) -> bool {
    let is_held = |place| {
        use Treatment::{Dropped, Priced, Refused};
        matches!(treatment(surface, place, name), Some(Dropped | Priced(_) | Refused))
    };
    name == "tools"
        || [PolicyPlace::Member, PolicyPlace::Header, PolicyPlace::Tool, PolicyPlace::Part]
            .into_iter()
            .any(is_held)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::notes;

    #[test]
    fn a_type_of_next_month_is_allowed_with_a_note() {
        let text = "[[providers]]\nname = \"openai\"\nallow_members = [\"next_month_20270101\", \"mcp\", \"metadata\", \"tools\"]";
        let config =
            crate::config::parse(text, Path::new("gateway.toml"), &|_: &str| None).expect("a configuration");
        assert!(config.providers.iter().any(|provider| provider.allow_members.len() == 4));
        let notes = notes(&config.providers);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("'openai'") && notes[0].contains("'next_month_20270101'"), "{notes:?}");
    }
}
