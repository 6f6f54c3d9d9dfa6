//! The settings of providers and timeouts: `[timeouts]` and `[[providers]]` of gateway.toml.

mod api;
mod error;
mod prompt_cache;

use std::time::Duration;

use gw_wire::request::AllowedMembers;
use secrecy::SecretString;

pub use self::api::{Api, ApiRow, VariableHolds};
pub use self::error::{GoogleCredentialsError, ProviderError, SettingsError};
pub use self::prompt_cache::{BreakpointTtl, PromptCacheMode, PromptCacheSettings};
use crate::presets::Quirks;

/// The timeouts of upstream calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Connecting, TLS included.
    pub connect: Duration,
    /// From sending the request to the first token (streams) or to the response head.
    pub first_token: Duration,
    /// Between two pieces of a stream's content.
    pub idle: Duration,
    /// The whole request with all its attempts.
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

/// Timeouts of one provider or model. Each None keeps the value of the level above.
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
    /// The timeouts of the level above, with these values in their place.
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

/// One `[[providers]]` entry, after the checks of the configuration loader.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The `<provider>` of the provider's model ids.
    pub name: String,
    /// The API of the provider.
    pub api: Api,
    /// The address; None uses the preset's. It is never None for an `openai` API without a preset of that name.
    pub base_url: Option<String>,
    /// Keys with their weights, which are at least 1. An empty list sends no Authorization header.
    pub api_keys: Vec<(SecretString, u32)>,
    /// Extra request headers.
    pub headers: Vec<(String, SecretString)>,
    /// The gateway's price is the official price times this factor (1 = 10^9 nanos).
    pub price_multiplier: gw_wire::money::Price,
    /// The models are taken from the provider's own list.
    pub discover: bool,
    /// Timeouts of this provider.
    pub timeouts: TimeoutOverrides,
    /// The most inputs of one upstream embeddings call.
    pub embedding_batch: Option<usize>,
    /// Private and loopback addresses are allowed. Link-local addresses never are.
    pub allow_private_network: bool,
    /// Unencrypted calls (`http://`) may go to public addresses.
    pub allow_plain_http: bool,
    /// Clients may name files that are stored at the provider or addresses in its network.
    pub file_ids: bool,
    /// Members that clients may send although they choose a model, an upstream or a price.
    pub allow_members: Vec<String>,
    /// Beta features of the Messages API that clients may not ask for.
    pub deny_betas: Vec<String>,
    /// Breakpoints of prompt caches.
    pub prompt_cache: Option<PromptCacheSettings>,
    /// Options of single APIs (`num_ctx_max`, `region`, `project`, `api_version`, `deployments`), as in the file.
    pub options: toml::Table,
}

impl ProviderSettings {
    /// A provider with this name and API, without keys, and defaults for all other settings.
    #[must_use]
    pub fn plain(name: &str, api: Api) -> Self {
        Self {
            name: name.to_owned(),
            api,
            base_url: None,
            api_keys: Vec::new(),
            headers: Vec::new(),
            price_multiplier: gw_wire::money::Price::from_nanos(1_000_000_000),
            discover: false,
            timeouts: TimeoutOverrides::default(),
            embedding_batch: None,
            allow_private_network: true,
            allow_plain_http: false,
            file_ids: false,
            allow_members: Vec::new(),
            deny_betas: Vec::new(),
            prompt_cache: None,
            options: toml::Table::new(),
        }
    }

    /// An option that is a text.
    ///
    /// # Errors
    /// The option is empty or has a value of another kind.
    pub(crate) fn text_option(&self, name: &'static str) -> Result<Option<&str>, SettingsError> {
        match self.options.get(name) {
            None => Ok(None),
            Some(toml::Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(SettingsError::Option { name, expected: "a string that is not empty" }),
        }
    }

    /// The guarded members that may be sent: those that the operator allows and those that the preset takes.
    #[must_use]
    pub fn allowed_members(&self) -> AllowedMembers {
        if self.api.is_demo {
            return AllowedMembers::all();
        }
        let taken = Quirks::of(self).takes.iter().copied();
        AllowedMembers::new(self.allow_members.iter().map(String::as_str).chain(taken))
    }
}
