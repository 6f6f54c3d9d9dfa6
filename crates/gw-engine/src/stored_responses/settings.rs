//! The settings of the stored responses.

use std::time::Duration;

/// `[responses]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredResponseSettings {
    /// The place of the responses.
    pub place: ResponsePlace,
    /// How long a response is kept.
    pub ttl: Duration,
    /// The most bytes that one key may store.
    pub max_bytes_per_key: u64,
    /// The most bytes of a request together with the conversation that it continues.
    pub max_conversation_bytes: u64,
}

/// The place of stored responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponsePlace {
    /// Nothing is stored.
    Off,
    /// The memory of this process, up to this many bytes.
    Memory {
        /// The largest size of all responses.
        max_bytes: u64,
    },
    /// The database of the gateway.
    Database,
}

impl Default for ResponsePlace {
    fn default() -> Self {
        Self::Memory { max_bytes: 64 << 20 }
    }
}

impl Default for StoredResponseSettings {
    fn default() -> Self {
        Self {
            place: ResponsePlace::default(),
            ttl: Duration::from_secs(3600),
            max_bytes_per_key: 1 << 30,
            max_conversation_bytes: 32 << 20,
        }
    }
}
