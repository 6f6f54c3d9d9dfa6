//! What a person writes about providers and upstream clocks: `[timeouts]` and `[[providers]]` of gateway.toml.

mod error;

use std::time::Duration;

use gw_wire::request::AllowedMembers;
use secrecy::SecretString;

pub use self::error::{ProviderError, SettingsError};
use crate::presets::Quirks;

/// The upstream clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP and TLS connect.
    pub connect: Duration,
    /// From the request sent to the first token (streams) or the response head.
    pub first_token: Duration,
    /// Between two pieces of content of a stream.
    pub idle: Duration,
    /// The whole request, all attempts included.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(5_000),
            first_token: Duration::from_millis(120_000),
            idle: Duration::from_millis(120_000),
            total: Duration::from_millis(600_000),
        }
    }
}

/// Clocks set again on a provider or a model: each None keeps the level above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeoutOverrides {
    /// See [`Timeouts::connect`].
    pub connect: Option<Duration>,
    /// See [`Timeouts::first_token`].
    pub first_token: Option<Duration>,
    /// See [`Timeouts::idle`].
    pub idle: Option<Duration>,
    /// See [`Timeouts::total`].
    pub total: Option<Duration>,
}

impl TimeoutOverrides {
    /// The level above with these set again.
    #[must_use]
    pub fn over(&self, above: Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.unwrap_or(above.connect),
            first_token: self.first_token.unwrap_or(above.first_token),
            idle: self.idle.unwrap_or(above.idle),
            total: self.total.unwrap_or(above.total),
        }
    }
}

/// The wire dialects a provider can speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the name of a provider's API")]
pub enum Api {
    OpenAi,
    Azure,
    Anthropic,
    Gemini,
    Vertex,
    Bedrock,
    Cohere,
    Mistral,
    Ollama,
    Demo,
}

impl Api {
    /// All, in the order of the contract.
    pub const ALL: [Self; 10] = [
        Self::OpenAi,
        Self::Azure,
        Self::Anthropic,
        Self::Gemini,
        Self::Vertex,
        Self::Bedrock,
        Self::Cohere,
        Self::Mistral,
        Self::Ollama,
        Self::Demo,
    ];

    /// The spelling in gateway.toml.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Azure => "azure",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Vertex => "vertex",
            Self::Bedrock => "bedrock",
            Self::Cohere => "cohere",
            Self::Mistral => "mistral",
            Self::Ollama => "ollama",
            Self::Demo => "demo",
        }
    }

    /// The members with a [`gw_wire::request::Rule`] that its dialect forwards where the operator allows it, as their API
    /// spells them; None: all of them.
    #[must_use]
    pub fn guarded_members(self) -> Option<&'static [&'static str]> {
        match self {
            Self::OpenAi | Self::Azure | Self::Demo => None,
            Self::Mistral => Some(&["guardrails"]),
            Self::Ollama => Some(&["keep_alive"]),
            Self::Anthropic | Self::Gemini | Self::Vertex | Self::Bedrock | Self::Cohere => Some(&[]),
        }
    }
}

/// One `[[providers]]` entry, checked by the configuration loader.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The `<provider>` of its model ids.
    pub name: String,
    /// Its dialect.
    pub api: Api,
    /// Where it is; None = the preset's (never None for `openai` APIs without a preset of that name).
    pub base_url: Option<String>,
    /// Keys with weights (weight ≥ 1). Empty = no Authorization header.
    pub api_keys: Vec<(SecretString, u32)>,
    /// Extra request headers.
    pub headers: Vec<(String, SecretString)>,
    /// Gateway price = official price × this (a price-like decimal, 1 = 10^9 nanos).
    pub price_multiplier: gw_wire::money::Price,
    /// Take the model list from the provider's own list.
    pub discover: bool,
    /// Clocks set again for this provider.
    pub timeouts: TimeoutOverrides,
    /// Inputs of one upstream embeddings call.
    pub embedding_batch: Option<usize>,
    /// Private and loopback addresses allowed. Link-local is always refused.
    pub allow_private_network: bool,
    /// Clients may name what is stored at the provider or lies in its network.
    pub file_ids: bool,
    /// Members that clients may send it although they choose a model, an upstream or a price.
    pub allow_members: Vec<String>,
    /// Options only some APIs know (`num_ctx_max`, `region`, `project`, `api_version`, `deployments`), as written.
    pub options: toml::Table,
}

impl ProviderSettings {
    /// The guarded members that it may be sent: those of the operator and those that its preset takes.
    #[must_use]
    pub fn allowed_members(&self) -> AllowedMembers {
        let taken = Quirks::of(self).takes.iter().copied();
        AllowedMembers::new(self.allow_members.iter().map(String::as_str).chain(taken))
    }
}
