//! A PostgreSQL database: its connections and the meaning of its errors.
//!
//! Nothing depends on the state of a session, so PgBouncer may assign the server's connections per transaction: every
//! statement runs in a transaction, none has a name, and a lock ends with its transaction. Only `listener` needs its own
//! session, and the store works without it.

mod listener;
mod migrate;
mod pool;

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::error::{Error, Result, one_line};
pub(crate) use pool::{Pool, PooledConnection};

/// Maximum time of all statements of a caller together.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Begins a transaction. The server ends it if its client freezes, so that others can lock its rows. JIT compilation takes
/// longer than any of our queries.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 10000; SET LOCAL statement_timeout = 10000; \
    SET LOCAL jit = off";

/// As [`BEGIN`], for statements that read one moment.
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL idle_in_transaction_session_timeout = 10000; SET LOCAL statement_timeout = 10000; SET LOCAL jit = off";

/// Begins a transaction for a search, which the server ends after `MAX_SEARCH_TIME` of the store. Without this
/// the server would search on for a caller that has left.
const BEGIN_SEARCH: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 10000; SET LOCAL statement_timeout = 2000; \
    SET LOCAL jit = off";

/// The shortest password that errors leave out.
const MIN_MASKED_CHARS: usize = 6;

/// A database URL as connection options.
#[derive(Clone)]
pub(crate) struct DatabaseUrl {
    options: PgConnectOptions,
    /// Without user and password.
    pub(crate) location: String,
    password: Option<String>,
}

impl DatabaseUrl {
    /// # Errors
    /// [`Error::Url`], which never repeats the URL.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        // The driver would log unknown parameters, and one of them may be a mistyped password=.
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let known = |part: &str| KNOWN.contains(&part.split('=').next().unwrap_or_default());
        if !query.split('&').filter(|part| !part.is_empty()).all(known) {
            return Err(Error::Url("has a parameter that is not known"));
        }
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| Error::Url("cannot be read as a URL of PostgreSQL"))?;
        let options = options
            .statement_cache_capacity(0)
            .extra_float_digits(None)
            .application_name("model-gateway")
            .disable_statement_logging();
        let database = options.get_database().unwrap_or_default();
        let location = match options.get_socket() {
            Some(socket) => format!("postgres://{}/{database}", socket.display()),
            None => format!("postgres://{}:{}/{database}", options.get_host(), options.get_port()),
        };
        Ok(Self { options, location: one_line(&location), password: password(url) })
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> Error {
        let location = self.location.clone();
        let sqlx::Error::Database(database) = error else {
            let reason = self.without_password(&error.to_string());
            return match error {
                sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => {
                    Error::Unreachable { location, reason }
                }
                _ => Error::Failed { location, reason },
            };
        };
        let reason = self.without_password(database.message());
        // SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
        match database.code().as_deref().unwrap_or_default() {
            "23505" => Error::Taken { location },
            "25006" => Error::ReadOnly { location, reason },
            "40001" | "40P01" | "55P03" | "57014" | "25P03" => Error::Busy { location },
            "53100" => Error::DiskFull { location },
            "53300" | "3D000" => Error::Unreachable { location, reason },
            code if ["08", "28", "57"].iter().any(|class| code.starts_with(class)) => {
                Error::Unreachable { location, reason }
            }
            _ => Error::Failed { location, reason },
        }
    }

    /// Removes the password: a server of another kind may echo what it received. A short password is part of many words, so its
    /// removal would spoil the message and tell the password.
    fn without_password(&self, text: &str) -> String {
        let text = match &self.password {
            Some(password) if password.chars().count() >= MIN_MASKED_CHARS => {
                Cow::Owned(text.replace(password.as_str(), "***"))
            }
            _ => Cow::Borrowed(text),
        };
        one_line(&text)
    }
}

/// Parameters of a URL that the driver knows.
const KNOWN: [&str; 15] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
];

/// The decoded password of a URL, which errors must not repeat.
fn password(url: &str) -> Option<String> {
    let rest = url.split_once("://")?.1;
    let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
    let written = query.split('&').find_map(|part| part.strip_prefix("password=")).or_else(|| {
        let (user, _) = authority.rsplit_once('@')?;
        Some(user.split_once(':')?.1)
    })?;
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%').then(|| tail.split_at_checked(2)).flatten();
        let decoded = escaped.and_then(|(hex, tail)| {
            Some((u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?, tail))
        });
        let (byte, tail) = decoded.unwrap_or((first, tail));
        bytes.push(byte);
        rest = tail;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
