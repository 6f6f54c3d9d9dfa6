//! Known providers by name: address, usual environment variable of the key, and deviations from OpenAI's dialect. A new
//! provider is one row of data.
//!
//! The names are those of the catalogue. `(?)` marks a fact that no document of the provider confirms.

mod quirks;
mod table;

use gw_wire::request::native_policy::Surface;

pub use self::quirks::{Quirks, TokenCounter};
pub use self::table::ALL;
use crate::settings::ProviderSettings;

/// The known facts about one provider.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The `<provider>` of the provider's model ids.
    pub name: &'static str,
    /// The name of the provider's API.
    pub api: &'static str,
    /// The address; None when it depends on a region or an account.
    pub base_url: Option<&'static str>,
    /// The environment variable that usually holds the key (for Ollama: the address).
    pub key_variable: Option<&'static str>,
    /// The provider is a model server on this machine, at its usual port.
    pub local: bool,
    /// Deviations from OpenAI's dialect.
    pub quirks: Quirks,
    /// The most inputs of one embeddings call.
    pub embedding_batch: usize,
}

/// The most inputs of an embeddings call to an unknown provider: the limit of the strictest known servers.
const DEFAULT_BATCH: usize = 32;

/// The preset with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// The preset of a configured provider, by its name or else by its address.
fn of(settings: &ProviderSettings) -> Option<&'static Preset> {
    let same_address = |preset: &&Preset| {
        let wanted = settings.base_url.as_deref().map(|url| url.trim_end_matches('/'));
        !preset.local && wanted.is_some() && preset.base_url == wanted
    };
    find(&settings.name)
        .or_else(|| ALL.iter().find(same_address))
        .filter(|preset| preset.api == settings.api.name)
}

/// The address of a provider whose settings give none: that of its preset, or else the usual address of its API.
#[must_use]
pub fn base_url(settings: &ProviderSettings) -> Option<&'static str> {
    of(settings).and_then(|preset| preset.base_url).or_else(|| of_api(settings)?.base_url)
}

/// The preset of the vendor whose API this is; None for an API that several vendors have.
fn of_api(settings: &ProviderSettings) -> Option<&'static Preset> {
    let is_own = !settings.api.is_shared;
    ALL.iter().find(|preset| is_own && preset.api == settings.api.name)
}

/// The most inputs of one embeddings call to this provider, unless its settings give a number.
#[must_use]
pub fn embedding_batch(settings: &ProviderSettings) -> usize {
    let preset = || of(settings).or_else(|| of_api(settings));
    let of_preset = || preset().map_or(DEFAULT_BATCH, |preset| preset.embedding_batch);
    settings.api.embedding_batch.unwrap_or_else(of_preset)
}

/// Whether a provider has the Responses API; None for an unknown address. Other providers than OpenAI have it in part, and
/// the gateway's own translation has all of it.
#[must_use]
pub fn has_responses(settings: &ProviderSettings) -> Option<bool> {
    if settings.api.native_surface != Some(Surface::Responses) {
        return Some(false);
    }
    of(settings).map(|preset| preset.name == "openai")
}

impl Quirks {
    /// The deviations of a configured provider.
    #[must_use]
    pub fn of(settings: &ProviderSettings) -> Self {
        let of_preset = || of(settings).map_or(Quirks::PLAIN, |preset| preset.quirks);
        let quirks = settings.api.quirks.unwrap_or_else(of_preset);
        let option = |name| settings.options.get(name).and_then(toml::Value::as_bool);
        Self {
            openai_tokens: option("token_arrays").unwrap_or(quirks.openai_tokens),
            text_parts: option("text_parts").unwrap_or(quirks.text_parts),
            ..quirks
        }
    }
}

#[cfg(test)]
mod tests;
