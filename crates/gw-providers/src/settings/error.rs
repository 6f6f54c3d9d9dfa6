//! Faults in the settings of a provider. No message holds a secret or a whole URL.

use std::io;
use std::path::PathBuf;

use crate::client::error::ClientError;

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
    /// Neither the settings, the environment nor the shared credentials file has AWS credentials.
    #[error(
        "no credentials were found: set api_key (a Bedrock API key), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a \
         profile `{profile}` in the shared credentials file"
    )]
    NoAwsCredentials {
        /// The profile that was looked for.
        profile: String,
    },
    /// The file of Google credentials cannot be used.
    #[error("the credentials file {} {fault}", path.display())]
    GoogleCredentials {
        /// The file.
        path: PathBuf,
        /// The fault in the file.
        #[source]
        fault: GoogleCredentialsError,
    },
}

/// A fault in a file of Google credentials. The messages continue a sentence about the file.
#[derive(Debug, thiserror::Error)]
pub enum GoogleCredentialsError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::ErrorKind),
    /// The file is larger than any file of credentials.
    #[error("is larger than 64 KiB")]
    TooLarge,
    /// The content is not a JSON object, or a member has a value of another kind.
    #[error("is not a JSON object of credentials")]
    NotJson,
    /// The credentials are of a type that the gateway does not support.
    #[error("is not of type service_account or authorized_user")]
    UnsupportedType,
    /// A member is missing.
    #[error("has no {0}")]
    Missing(&'static str),
    /// The private key cannot be used.
    #[error("has a private_key that is not an RSA key in PKCS #8")]
    PrivateKey,
    /// The address of the token endpoint is malformed.
    #[error("has a token_uri that is not a URL")]
    TokenUri,
    /// The credentials would be sent over the network without TLS.
    #[error("has a token_uri that is not https")]
    InsecureTokenUri,
}
