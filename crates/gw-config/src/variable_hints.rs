//! Keys of providers that are meant as variables, in the spelling of a shell or of another gateway.

use gw_providers::settings::ProviderSettings;
use secrecy::ExposeSecret;

/// The beginnings of variables elsewhere: in LiteLLM, in scripts.
const PREFIXES: [&str; 3] = ["os.environ/", "env.", "$"];

/// Notes about the keys that name a variable and do not read it.
pub(crate) fn notes(providers: &[ProviderSettings]) -> Vec<String> {
    let keys = providers
        .iter()
        .flat_map(|provider| provider.api_keys.iter().map(move |(key, _)| (provider, key.expose_secret())));
    keys.filter_map(|(provider, key)| {
        let name = variable(key)?;
        Some(format!(
            "providers: the key of '{}' is the text '{key}'; to read the variable, write '${{{name}}}'",
            provider.name
        ))
    })
    .collect()
}

/// The name of the variable that a text means. No vendor's key looks like one.
fn variable(key: &str) -> Option<&str> {
    let name = PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix))?;
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (name.len() > 1 && name.bytes().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_another_spelling_is_noticed() {
        for (key, name) in [
            ("$OPENAI_API_KEY", Some("OPENAI_API_KEY")),
            ("os.environ/OPENAI_API_KEY", Some("OPENAI_API_KEY")),
            ("env.KEY_2", Some("KEY_2")),
            ("$", None),
            ("$ecret", None),
            ("sk-ABC", None),
            ("OPENAI_API_KEY", None),
        ] {
            assert_eq!(variable(key), name, "{key}");
        }
    }
}
