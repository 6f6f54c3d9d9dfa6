//! The ways in which a call to Redis fails.

use redis::{ErrorKind, RedisError};

/// A call without a usable answer. The message never repeats a text of the server, which may hold the data of others.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The answer did not come in time.
    #[error("no answer in time")]
    TimedOut,
    /// The answer has a shape that this program never asked for.
    #[error("it does not answer as Redis does")]
    UnexpectedAnswer,
    /// The connection broke, or Redis answered with an error.
    #[error("{}", error_kind(.0))]
    Redis(RedisError),
}

impl From<RedisError> for CallError {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl CallError {
    /// Whether the connection cannot be used after this error. An error that Redis answers proves that the connection
    /// works. An answer with an unknown shape counts like a late one, because it may come from another server.
    pub(crate) fn is_disconnect(&self, on_timeout: OnTimeout) -> bool {
        match self {
            Self::TimedOut | Self::UnexpectedAnswer => on_timeout == OnTimeout::Disconnect,
            Self::Redis(error) => {
                !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::Parse)
            }
        }
    }
}

/// The consequence of a late answer for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    /// The connection is given up at once.
    Disconnect,
    /// The connection is given up after [`crate::MAX_MISSED_ANSWERS`] late answers in a row.
    CountMiss,
}

/// The kind of a Redis error as a word for logs. The detail is left out: it is a text of the server.
#[must_use]
pub fn error_kind(error: &RedisError) -> &str {
    error.code().unwrap_or_else(|| error.category())
}
