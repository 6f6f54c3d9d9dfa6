//! Known providers by name: address, usual environment variable of the key, and deviations from OpenAI's dialect. A new
//! provider is one row of data.
//!
//! The names are those of the catalogue. `(?)` marks a fact that no document of the provider confirms.

mod table;

use gw_wire::request::encode::MaxTokensName;
use gw_wire::request::native_policy::Surface;

pub use self::table::ALL;
use crate::settings::ProviderSettings;

/// How a provider's version of OpenAI's dialect differs from OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Streams report usage on request (`stream_options`). Otherwise usage comes without a request, or never.
    pub stream_usage: bool,
    /// The name of the token limit; None uses OpenAI's name for the model.
    pub max_tokens: Option<MaxTokensName>,
    /// `encoding_format` of embeddings may be sent. Otherwise the provider sends numbers without it.
    pub encoding_format: bool,
    /// The provider's name for `dimensions` of embeddings.
    pub dimensions: &'static str,
    /// The models use OpenAI's tokenizer, so token arrays keep their meaning.
    pub openai_tokens: bool,
    /// The provider knows the role `developer`. For others it is sent as `system`.
    pub developer: bool,
    /// `reasoning_content` and `reasoning_details` of earlier answers may be sent back. Other providers refuse them.
    pub replayed_thoughts: bool,
    /// Parts and tools may have Anthropic's `cache_control`. Other providers refuse it.
    pub cache_control: bool,
    /// A message may be a list of texts. For others the texts of a translated message are joined into one string.
    pub text_parts: bool,
    /// Members of a request that the provider refuses or ignores. They are left out with a warning.
    pub unsupported: &'static [&'static str],
    /// Members with a [`gw_wire::request::Rule`] that clients may send to this provider, because here they change
    /// neither the model nor the price.
    pub takes: &'static [&'static str],
    /// The most tools of a request; None: no limit is known, and the provider judges.
    pub max_tools: Option<usize>,
    /// The most choices of one call. More choices need several calls.
    pub choices: u32,
    /// How the server counts the tokens of a prompt; None if it cannot.
    pub counter: Option<TokenCounter>,
}

/// A way in which model servers count the tokens of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCounter {
    /// `POST /tokenize`, beside the path `/v1`: vLLM.
    Tokenize,
    /// `POST /v1/messages/count_tokens`, for requests of the Messages API: llama.cpp's server.
    Messages,
}

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

/// The dialect as most providers speak it.
const PLAIN: Quirks = Quirks {
    stream_usage: true,
    max_tokens: None,
    encoding_format: true,
    dimensions: "dimensions",
    openai_tokens: false,
    developer: false,
    replayed_thoughts: true,
    cache_control: false,
    text_parts: false,
    unsupported: &[],
    takes: &[],
    max_tools: None,
    choices: 128,
    counter: None,
};

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
    let by_api = || {
        let is_own = !settings.api.is_shared;
        ALL.iter().find(|preset| is_own && preset.api == settings.api.name)?.base_url
    };
    of(settings).and_then(|preset| preset.base_url).or_else(by_api)
}

/// The most inputs of one embeddings call to this provider, unless its settings give a number.
#[must_use]
pub fn embedding_batch(settings: &ProviderSettings) -> usize {
    let of_preset = || of(settings).map_or(DEFAULT_BATCH, |preset| preset.embedding_batch);
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
    /// The dialect of OpenAI itself. 128 tools: "Create chat completion", `tools` ("A max of 128 functions are
    /// supported").
    pub const OPENAI: Self = Self {
        openai_tokens: true,
        developer: true,
        replayed_thoughts: false,
        text_parts: true,
        max_tools: Some(128),
        ..PLAIN
    };

    /// The deviations of a configured provider.
    #[must_use]
    pub fn of(settings: &ProviderSettings) -> Self {
        let of_preset = || of(settings).map_or(PLAIN, |preset| preset.quirks);
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
