//! The settings of limits over Redis.

use std::path::PathBuf;
use std::time::Duration;

use gw_redis::Address;
use secrecy::SecretString;

/// How replicas share limits over Redis.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// `redis://`, `rediss://` or `unix://`. May contain a password.
    pub url: SecretString,
    /// Certificates (PEM) that may sign the certificate of a `rediss://` server, besides those that the machine trusts.
    pub ca_file: Option<PathBuf>,
    /// The prefix of all keys in Redis.
    pub prefix: String,
    /// How long a request waits for an answer.
    pub timeout: Duration,
    /// The lifetime of a reservation that is never settled. It is longer than any request takes.
    pub lease: Duration,
    /// The handling of limits other than budgets while Redis does not answer.
    pub when_away: WhenAway,
    /// How long a new replica waits for others to report, if Redis remembers nothing.
    pub unknown_replicas: Duration,
}

impl RedisSettings {
    /// The defaults: prefix `gw:`, timeout 50 ms, lease 20 minutes, local counting while Redis does not answer.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_file: None,
            prefix: "gw:".to_owned(),
            timeout: Duration::from_millis(50),
            lease: Duration::from_secs(20 * 60),
            when_away: WhenAway::default(),
            unknown_replicas: Duration::from_secs(2),
        }
    }

    /// Whether the URL is well-formed. A Redis with a malformed URL counts as one that never answers.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        Address::parse(&self.url, self.ca_file.as_deref()).is_ok()
    }
}

/// The handling of limits of requests, tokens and requests in flight while Redis does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenAway {
    /// Each replica counts its share of the limit by itself.
    #[default]
    Local,
    /// A subject with such a limit is refused.
    Closed,
}
