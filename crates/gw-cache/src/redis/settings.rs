//! The settings of the cache over Redis.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// How replicas share answers over Redis.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// `redis://`, `rediss://` or `unix://`. May contain a password.
    pub url: SecretString,
    /// Certificates (PEM) that may sign the certificate of a `rediss://` server, besides those that the machine trusts.
    pub ca_file: Option<PathBuf>,
    /// The prefix of all keys in Redis.
    pub prefix: String,
    /// How long a lookup waits for an answer. A slow Redis delays a request by at most this time.
    pub timeout: Duration,
    /// The largest answer that is stored, in bytes.
    pub max_entry_bytes: usize,
}

impl RedisSettings {
    /// The defaults: prefix `gw:cache:`, timeout 50 ms, entries of at most 2 MiB.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_file: None,
            prefix: "gw:cache:".to_owned(),
            timeout: Duration::from_millis(50),
            max_entry_bytes: 2 << 20,
        }
    }
}
