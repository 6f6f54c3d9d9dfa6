//! Names in `allow_members` that this release does not know. A vendor may have made them after the release, so they are
//! allowed with a note, except misspellings of known names.

use gw_providers::settings::{Api, ProviderSettings};
use gw_wire::nearest::{did_you_mean, misspelled};
use gw_wire::request::AllowedMembers;
use gw_wire::request::member_policy::{RULES, Rule, rule_of};
use gw_wire::request::native_policy::{PolicyPlace, Surface, Treatment, treatment};

/// The most notes.
const MAX_NOTES: usize = 20;

/// A note for each name that no table knows.
pub fn notes<'p>(providers: impl IntoIterator<Item = &'p ProviderSettings>) -> Vec<String> {
    let unknown = providers.into_iter().flat_map(|provider| {
        let names = provider.allow_members.iter();
        names.filter(|name| !is_known(provider.api, name)).map(move |name| (provider, name))
    });
    let note = |(provider, name): (&'p ProviderSettings, &'p String)| {
        let hint = did_you_mean(name, opened_names(provider.api));
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
        || api.native_surface.is_some_and(|surface| opens(surface, name))
}

/// The places of names that the setting opens.
const PLACES: [PolicyPlace; 4] =
    [PolicyPlace::Member, PolicyPlace::Header, PolicyPlace::Tool, PolicyPlace::Part];

/// `did you mean '…'?` for a name that differs in one letter from one that the setting opens. A new version of a known name,
/// which differs in digits, is no misspelling.
pub fn misspelling(api: Api, name: &str) -> Option<String> {
    let is_named = |surface: Surface| PLACES.iter().any(|place| treatment(surface, *place, name).is_some());
    if is_known(api, name) || Surface::ALL.into_iter().any(is_named) {
        return None;
    }
    let names = opened_names(api);
    let own = AllowedMembers::new([name]);
    let is_version = |known: &&str| own.has(known) || without_digits(known) == without_digits(name);
    if names.iter().any(is_version) { None } else { misspelled(name, names) }
}

/// The names that the setting opens at a provider of this API.
fn opened_names(api: Api) -> Vec<&'static str> {
    let surfaces = [Some(Surface::Chat), api.native_surface].into_iter().flatten();
    let rows = surfaces.flat_map(|surface| PLACES.map(|place| (surface, surface.rows(place))));
    let held = rows.flat_map(|(surface, rows)| rows.into_iter().map(move |(known, _)| (surface, known)));
    let held = held.filter(|(surface, known)| opens(*surface, known)).map(|(_, known)| known);
    let rules = RULES.iter().filter(|(_, rule)| *rule != Rule::Fallback).map(|(known, _)| *known);
    rules.chain(held).collect()
}

fn without_digits(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Whether the name opens something that the surface's table holds back.
pub fn opens(surface: Surface, name: &str) -> bool {
    let is_held = |place| {
        use Treatment::{Dropped, Priced, Refused};
        matches!(treatment(surface, place, name), Some(Dropped | Priced(_) | Refused))
    };
    name == "tools" || PLACES.into_iter().any(is_held)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::notes;

    #[test]
    fn a_misspelled_name_is_refused_with_the_known_name() {
        let parse = |api: &str, name: &str| {
            let text = format!(
                "[[providers]]\nname = \"p\"\napi = \"{api}\"\nbase_url = \"http://127.0.0.1:1/v1\"\nallow_members = [\"{name}\"]"
            );
            crate::parse(&text, Path::new("gateway.toml"), &|_: &str| None)
        };
        for (api, name, known) in [
            ("openai", "servce_tier", "service_tier"),
            ("openai", "web_serch", "web_search"),
            ("anthropic", "mcp_severs", "mcp_servers"),
            ("bedrock", "web_searhc_20250305", "web_search_20250305"),
        ] {
            let refused = parse(api, name).expect_err(name);
            let shown = format!("{refused:?}");
            assert!(shown.contains(&format!("did you mean '{known}'?")), "{name}: {shown}");
        }
        // Other spellings, new versions, new names and names that are always forwarded.
        for name in ["Service-Tier", "web_search_20270101", "next_month", "verbosity", "stop", "mcp", "tools"]
        {
            parse("openai", name).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
        }
        // Names that other vendors have, or that a vendor may make.
        let plausible = [
            "safety_mode",
            "callback",
            "toolset",
            "tool",
            "tag",
            "stores",
            "deployments",
            "organisation",
            "base_urls",
            "guardrail",
            "x-api-version",
            "map",
            "mcps",
            "users",
        ];
        for name in plausible {
            for api in ["openai", "azure", "anthropic", "bedrock", "vertex"] {
                parse(api, name).unwrap_or_else(|refused| panic!("{api}, {name}: {refused:?}"));
            }
        }
        let config = parse("openai", "tool").expect("a configuration");
        let notes = notes(&config.providers);
        assert!(notes[0].ends_with("; did you mean 'tools'?"), "{notes:?}");
    }

    #[test]
    fn a_type_of_next_month_is_allowed_with_a_note() {
        let text = "[[providers]]\nname = \"openai\"\nallow_members = [\"next_month_20270101\", \"mcp\", \"metadata\", \"tools\"]";
        let config = crate::parse(text, Path::new("gateway.toml"), &|_: &str| None).expect("a configuration");
        assert!(config.providers.iter().any(|provider| provider.allow_members.len() == 4));
        let notes = notes(&config.providers);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("'openai'") && notes[0].contains("'next_month_20270101'"), "{notes:?}");
    }
}
