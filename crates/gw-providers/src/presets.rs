//! What is known about providers by name: address, usual key variable, peculiarities. Data only; adding one is a row.
//!
//! Names are those of the catalogue. `(?)` marks a fact that no document of the provider's own confirmed.

mod table;

use gw_wire::request::encode::MaxTokensName;

pub use self::table::ALL;
use crate::settings::{Api, ProviderSettings};

/// How one provider's idea of OpenAI's dialect differs from OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Streams may be asked for usage (`stream_options`); otherwise it comes unasked or not at all.
    pub stream_usage: bool,
    /// What the token limit is called; None = as OpenAI calls it for a model of that name.
    pub max_tokens: Option<MaxTokensName>,
    /// `encoding_format` of embeddings may be sent; otherwise numbers come without asking.
    pub encoding_format: bool,
    /// What `dimensions` of embeddings is called.
    pub dimensions: &'static str,
    /// Its models share OpenAI's tokens, so that token arrays mean what the client meant.
    pub openai_tokens: bool,
    /// The role `developer` is known; elsewhere it is sent as `system`.
    pub developer: bool,
    /// `reasoning_content` and `reasoning_details` of earlier answers may be sent back; elsewhere they are refused.
    pub replayed_thoughts: bool,
    /// Members of a request that it refuses, or takes and ignores: left out, with a warning.
    pub unsupported: &'static [&'static str],
    /// Members with a rule (see [`gw_wire::request::Rule`]) that it takes from clients, because there they change neither
    /// the model nor the price.
    pub takes: &'static [&'static str],
    /// Choices of one call; a provider that gives one at a time is called several times.
    pub choices: u32,
}

/// What is known about one provider.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The `<provider>` of its model ids.
    pub name: &'static str,
    /// The dialect it speaks.
    pub api: Api,
    /// Where it is; None when that depends on a region or an account.
    pub base_url: Option<&'static str>,
    /// The environment variable that usually holds its key (for Ollama: its address).
    pub key_variable: Option<&'static str>,
    /// A model server on this machine, at its usual port.
    pub local: bool,
    /// Peculiarities.
    pub quirks: Quirks,
    /// How many inputs one embeddings call may carry.
    pub embedding_batch: usize,
}

/// The dialect as nearly everybody speaks it.
const PLAIN: Quirks = Quirks {
    stream_usage: true,
    max_tokens: None,
    encoding_format: true,
    dimensions: "dimensions",
    openai_tokens: false,
    developer: false,
    replayed_thoughts: true,
    unsupported: &[],
    takes: &[],
    choices: 128,
};

/// The dialect as OpenAI speaks it.
const OPENAI: Quirks = Quirks { openai_tokens: true, developer: true, replayed_thoughts: false, ..PLAIN };

/// Inputs of an embeddings call to a provider that nobody knows: what the most careful servers take.
const DEFAULT_BATCH: usize = 32;

/// The preset of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// What is known about a configured provider: by its name, else by its address.
fn of(settings: &ProviderSettings) -> Option<&'static Preset> {
    let same_address = |preset: &&Preset| {
        let wanted = settings.base_url.as_deref().map(|url| url.trim_end_matches('/'));
        !preset.local && wanted.is_some() && preset.base_url == wanted
    };
    find(&settings.name).or_else(|| ALL.iter().find(same_address)).filter(|preset| preset.api == settings.api)
}

/// The address of a provider whose settings give none: that of its name, else where everybody finds its API.
#[must_use]
pub fn base_url(settings: &ProviderSettings) -> Option<&'static str> {
    let by_api = || {
        let own = settings.api != Api::OpenAi;
        ALL.iter().find(|preset| own && preset.api == settings.api)?.base_url
    };
    of(settings).and_then(|preset| preset.base_url).or_else(by_api)
}

/// How many inputs one embeddings call to this provider may carry, unless its settings say so.
#[must_use]
pub fn embedding_batch(settings: &ProviderSettings) -> usize {
    match settings.api {
        Api::Demo => 2048,
        // Titan's models take one; for Cohere's, which take 96, `embedding_batch` is set by hand.
        Api::Bedrock => 1,
        // `batchEmbedContents` takes a hundred; on Vertex the Gemini models take one.
        Api::Gemini => 100,
        Api::Vertex => 1,
        _ => of(settings).map_or(DEFAULT_BATCH, |preset| preset.embedding_batch),
    }
}

impl Quirks {
    /// The peculiarities of a configured provider.
    #[must_use]
    pub fn of(settings: &ProviderSettings) -> Self {
        match settings.api {
            Api::Demo | Api::Azure => OPENAI,
            _ => of(settings).map_or(PLAIN, |preset| preset.quirks),
        }
    }
}

#[cfg(test)]
mod tests;
