//! Providers of other gateways that the gateway can call, and the variables in the places of their keys.

use gw_providers::presets;

/// A provider of another gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownProvider {
    /// Its name at the other gateway.
    pub(super) source: &'static str,
    /// The name of the provider in gateway.toml.
    pub(super) name: &'static str,
    /// The dialect.
    pub(super) api: &'static str,
    /// The variable that usually holds its key.
    pub(super) variable: Option<&'static str>,
    /// Whether the gateway can ask the provider for its models.
    pub(super) has_list: bool,
}

pub(super) const fn known(
    source: &'static str,
    name: &'static str,
    api: &'static str,
    variable: Option<&'static str>,
) -> KnownProvider {
    KnownProvider { source, name, api, variable, has_list: true }
}

/// OpenAI's dialect at the address of a preset.
pub(super) const fn hosted(
    source: &'static str,
    name: &'static str,
    variable: &'static str,
) -> KnownProvider {
    known(source, name, "openai", Some(variable))
}

impl KnownProvider {
    /// The name in gateway.toml. A known name stands for a known address. Another address gets another name, without the models of
    /// the known one.
    pub(super) fn name_at(self, has_address: bool) -> String {
        let preset = presets::find(self.name).filter(|preset| preset.api == self.api);
        let is_elsewhere =
            has_address && preset.is_some_and(|preset| preset.base_url.is_some() && !preset.local);
        match (is_elsewhere, self.api) {
            (true, "openai") => "compatible".to_owned(),
            (true, _) if self.api != "ollama" => format!("{}-compatible", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Whether the gateway knows an address, or needs none.
    pub(super) fn has_address(self) -> bool {
        self.api != "openai" || presets::find(self.name).is_some_and(|preset| preset.api == self.api)
    }

    /// The variable for a key that the source does not name.
    pub(super) fn key_variable(self) -> String {
        self.variable.map_or_else(|| variable_name(self.name, "API_KEY"), str::to_owned)
    }
}

/// A variable's name from any text: `openai-key 1` and `KEY` make `OPENAI_KEY_1_KEY`.
pub(super) fn variable_name(text: &str, end: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = text.chars().map(upper).collect();
    let name = format!("{}_{end}", name.trim_matches('_'));
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// Whether a text can be the name of an environment variable.
pub(super) fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a header's value is a secret, by the header's name.
pub(super) fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password", "credential"]
        .iter()
        .any(|word| name.contains(word))
}
