//! The providers without a configuration file: those whose key is in the environment, and the demo when there is no other.

use gw_providers::presets;
use gw_providers::settings::{Api, ProviderSettings, VariableHolds};
use secrecy::SecretString;

/// The environment variables with the region of Amazon Bedrock.
const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// The providers whose usual key variable is set, and a note about each that lacks another setting.
#[must_use]
pub fn providers(variable: &dyn Fn(&str) -> Option<String>) -> (Vec<ProviderSettings>, Vec<String>) {
    let (mut providers, mut notes) = (Vec::new(), Vec::new());
    for preset in presets::ALL {
        let Some(name) = preset.key_variable else { continue };
        let Some(value) = variable(name).filter(|value| !value.trim().is_empty()) else { continue };
        let Some(api) = Api::named(preset.api) else { continue };
        let mut provider = ProviderSettings::plain(preset.name, api);
        if api.variable == VariableHolds::Address {
            let base_url = Some(ollama_address(value.trim()));
            providers.push(ProviderSettings { base_url, discover: true, ..provider });
            continue;
        }
        let has_region =
            || REGION_VARIABLES.iter().any(|region| variable(region).is_some_and(|value| !value.is_empty()));
        if api.variable == VariableHolds::KeyBesideRegion && !has_region() {
            notes
                .push(format!("{name} is set, but AWS_REGION is not: provider '{}' is skipped", preset.name));
            continue;
        }
        provider.api_keys.push((SecretString::from(value.trim().to_owned()), 1));
        providers.push(provider);
    }
    (providers, notes)
}

/// The demo provider.
#[must_use]
pub fn demo() -> ProviderSettings {
    ProviderSettings::plain("demo", Api::DEMO)
}

/// The address in `OLLAMA_HOST`, read as Ollama's own programs read it. Scheme and port may be missing. An address for
/// every interface means this machine.
fn ollama_address(value: &str) -> String {
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, port)
        }
        _ => (rest, if scheme == "https" { "443" } else { "11434" }),
    };
    let host = if ["", "0.0.0.0", "[::]"].contains(&host) { "127.0.0.1" } else { host };
    format!("{scheme}://{host}:{port}")
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn with(variables: &[(&str, &str)]) -> (Vec<ProviderSettings>, Vec<String>) {
        let owned = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        providers(&owned)
    }

    #[test]
    fn providers_whose_key_is_set_are_configured() {
        let (providers, notes) =
            with(&[("OPENAI_API_KEY", " sk-1\n"), ("ANTHROPIC_API_KEY", "k2"), ("XAI_API_KEY", " ")]);
        let names: Vec<_> = providers.iter().map(|provider| provider.name.as_str()).collect();
        assert_eq!(names, ["openai", "anthropic"]);
        assert_eq!(providers[0].api_keys[0].0.expose_secret(), "sk-1");
        assert!(notes.is_empty());
        assert!(with(&[]).0.is_empty());
    }

    #[test]
    fn a_provider_that_lacks_a_setting_gets_a_note_without_its_key() {
        let region = [("AWS_BEARER_TOKEN_BEDROCK", "k"), ("AWS_REGION", "eu-west-1")];
        assert_eq!(with(&region).0.len(), 1);
        let (providers, notes) = with(&[("AWS_BEARER_TOKEN_BEDROCK", "bedrock-secret")]);
        assert!(providers.is_empty());
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].starts_with("AWS_BEARER_TOKEN_BEDROCK is set") && notes[0].contains("skipped"),
            "{notes:?}"
        );
        assert!(!notes[0].contains("secret"));
    }

    #[test]
    fn ollama_is_called_at_the_address_of_its_variable() {
        for (value, address) in [
            ("box", "http://box:11434"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            (":1234", "http://127.0.0.1:1234"),
            ("http://box:80/", "http://box:80"),
            ("https://box", "https://box:443"),
            ("[::1]:5", "http://[::1]:5"),
        ] {
            assert_eq!(ollama_address(value), address, "{value}");
        }
        let (providers, notes) = with(&[("OLLAMA_HOST", "box")]);
        assert_eq!(providers[0].base_url.as_deref(), Some("http://box:11434"));
        assert!(providers[0].discover && providers[0].api_keys.is_empty() && notes.is_empty());
    }
}
