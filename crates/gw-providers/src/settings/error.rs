//! Faults in the settings of a provider. No message holds a secret or a whole URL.

use crate::client::ClientError;

/// A provider that cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("provider `{provider}`: {fault}")]
pub struct ProviderError {
    /// The name of the provider.
    pub provider: String,
    /// The fault in its settings.
    #[source]
    pub fault: SettingsError,
}

/// A fault in the settings of a provider.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// `base_url` or `ca_file` cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An option has a value of another kind.
    #[error("{name} must be {expected}")]
    Option {
        /// The option.
        name: &'static str,
        /// The values that it takes.
        expected: &'static str,
    },
    /// Settings that contradict each other, or one that is missing.
    #[error("{0}")]
    Rule(&'static str),
    /// There is no address: the settings give none, and no preset has this name.
    #[error("base_url is required: '{0}' is not a known provider")]
    NoAddress(String),
    /// The key is empty.
    #[error("api_key is empty")]
    EmptyKey,
    /// The key holds control characters.
    #[error("api_key holds characters that cannot be sent in a header")]
    UnsendableKey,
    /// The name of a configured header is not one.
    #[error("`{0}` is not a header name")]
    HeaderName(String),
    /// The header belongs to the transport.
    #[error("the header `{0}` is not configurable")]
    ReservedHeader(String),
    /// The value of a configured header holds control characters.
    #[error("the value of the header `{0}` cannot be sent")]
    HeaderValue(String),
    /// `authority` is not a valid address.
    #[error("authority: {0}")]
    Authority(String),
    /// A fault that the dialect describes.
    #[error("{0}")]
    Dialect(String),
}

impl From<String> for SettingsError {
    fn from(fault: String) -> Self {
        Self::Dialect(fault)
    }
}
