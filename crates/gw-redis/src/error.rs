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

/// The kind of a Redis error for logs: Redis' own word, with its meaning if it is one that an operator can act on. The detail is left
/// out: it is a text of the server.
#[must_use]
pub fn error_kind(error: &RedisError) -> &str {
    match error.code() {
        Some("NOAUTH") => "NOAUTH: it asks for a password",
        Some("WRONGPASS") => "WRONGPASS: it refuses the user or the password",
        Some("NOPERM") => "NOPERM: it does not let this user run the command",
        Some("MISCONF") => "MISCONF: it cannot save its data, so it refuses writes",
        Some("OOM") => "OOM: its memory is full",
        Some("READONLY") => "READONLY: it is a replica, which takes no writes",
        Some("NOREPLICAS") => "NOREPLICAS: it has too few replicas to take writes",
        Some("LOADING") => "LOADING: it is starting and reads its data",
        Some("BUSY") => "BUSY: another script runs in it",
        Some("MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT") => "it is a node of a Redis Cluster",
        Some(code) => code,
        None => error.category(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_server_is_told_by_its_word_alone() {
        let told = |line: &str| {
            let error = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
            let error = error.and_then(redis::Value::extract_error).expect_err("an error");
            CallError::from(error).to_string()
        };
        assert_eq!(told("WRONGPASS invalid: secret"), "WRONGPASS: it refuses the user or the password");
        assert_eq!(
            told("MISCONF Redis is configured to save"),
            "MISCONF: it cannot save its data, so it refuses writes"
        );
        assert_eq!(told("MOVED 3999 10.0.0.7:6381"), "it is a node of a Redis Cluster");
        assert_eq!(told("EXAMPLE of another secret"), "EXAMPLE");
    }
}
