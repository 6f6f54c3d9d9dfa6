//! The starter file of `config init`: the providers whose key is in the environment, and the usual settings as comments.

use gw_providers::presets::{self, Preset};
use gw_providers::settings::{Api, VariableHolds};

/// The text before and after the providers.
const HEAD: &str = include_str!("starter_head.toml");
const TAIL: &str = include_str!("starter_tail.toml");

/// The text of a starter file. `variable` reads the environment. The file refers to keys by `${NAME}` and holds none.
pub(super) fn starter(variable: &dyn Fn(&str) -> Option<String>) -> String {
    let known: Vec<String> = presets::ALL.iter().filter_map(|preset| provider(preset, variable)).collect();
    let providers = if known.is_empty() {
        "# The environment has no key of a known provider, so this file begins with the demo: it answers without a network.\n\
         [[providers]]\nname = \"demo\"\n\n#[[providers]]\n#name = \"openai\"\n#api_key = \"${OPENAI_API_KEY}\"\n"
            .to_owned()
    } else {
        known.join("\n")
    };
    format!("{HEAD}\n{providers}\n{TAIL}")
}

/// The entry of a provider whose key is in the environment. Providers that need more settings than a key are left out.
fn provider(preset: &Preset, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let key = preset.key_variable?;
    variable(key)?;
    let name = preset.name;
    match Api::named(preset.api)?.variable {
        VariableHolds::KeyBesideRegion => None,
        VariableHolds::Address => Some(format!("[[providers]]\nname = \"{name}\"\ndiscover = true\n")),
        VariableHolds::Key => Some(format!("[[providers]]\nname = \"{name}\"\napi_key = \"${{{key}}}\"\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::starter;

    /// The file with all settings that are switched off switched on, except for the certificate, whose files are missing.
    fn switched_on(text: &str) -> String {
        let lines = text.lines().map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') && !setting.starts_with("tls") => setting,
            _ => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_starter_file_has_the_providers_of_the_environment_and_no_problem() {
        let env = |name: &str| {
            ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CI_KEY"]
                .contains(&name)
                .then(|| "sk-secret-canary".to_owned())
        };
        let text = starter(&env);
        assert!(!text.contains("sk-secret-canary"), "{text}");
        let providers = |text: &str| -> Vec<String> {
            let config = gw_config::parse(text, Path::new("gateway.toml"), &env).unwrap();
            config.providers.into_iter().map(|provider| provider.name).collect()
        };
        assert_eq!(providers(&text), ["openai", "anthropic"]);
        assert_eq!(providers(&switched_on(&text)), ["openai", "anthropic", "local"]);
    }

    #[test]
    fn without_a_key_the_starter_file_has_the_demo() {
        let text = starter(&|_| None);
        let config = gw_config::parse(&text, Path::new("gateway.toml"), &|_| None).unwrap();
        let names: Vec<_> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
        assert_eq!(names, ["demo"]);
    }
}
