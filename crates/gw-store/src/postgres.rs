//! A PostgreSQL server: its connections, and what its words mean.
//!
//! Nothing here depends on the state of a session, so that PgBouncer may hand out the server's connections transaction
//! by transaction: every statement is in one, none has a name, a lock ends with its transaction. Only `listener` wants a session
//! of its own, and is done without when it gets none.

mod listener;
mod migrate;
mod pool;

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::error::{Error, Result, one_line};
pub(crate) use pool::{Held, Pool};

/// A caller waits no longer than this for all of its statements together.
const PATIENCE: Duration = Duration::from_secs(5);
/// A transaction whose program is frozen is ended by the server after this time, so that others get at its rows. And no
/// question of ours is worth compiling, which takes longer than answering it.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 10000; SET LOCAL statement_timeout = 10000; \
    SET LOCAL jit = off";

/// A URL as options of a connection.
#[derive(Clone)]
pub(crate) struct Address {
    options: PgConnectOptions,
    /// Without user and password.
    pub(crate) place: String,
    password: Option<String>,
}

impl Address {
    /// # Errors
    /// [`Error::Url`], which repeats nothing of it.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        // The driver would log what it does not know, and that may be a mistyped password=.
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let known = |part: &str| KNOWN.contains(&part.split('=').next().unwrap_or_default());
        if !query.split('&').filter(|part| !part.is_empty()).all(known) {
            return Err(Error::Url("has a parameter that is not known"));
        }
        let options = PgConnectOptions::from_str(url).map_err(|_| Error::Url("is not one of PostgreSQL"))?;
        let options = options
            .statement_cache_capacity(0)
            .extra_float_digits(None)
            .application_name("model-gateway")
            .disable_statement_logging();
        let database = options.get_database().unwrap_or_default();
        let place = match options.get_socket() {
            Some(socket) => format!("postgres://{}/{database}", socket.display()),
            None => format!("postgres://{}:{}/{database}", options.get_host(), options.get_port()),
        };
        Ok(Self { options, place: one_line(&place), password: password(url) })
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> Error {
        let place = self.place.clone();
        let sqlx::Error::Database(database) = error else {
            let reason = self.without_password(&error.to_string());
            return match error {
                sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => {
                    Error::Unreachable { place, reason }
                }
                _ => Error::Failed { place, reason },
            };
        };
        let reason = self.without_password(database.message());
        // SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
        match database.code().as_deref().unwrap_or_default() {
            "23505" => Error::Taken { place },
            "25006" => Error::ReadOnly { place, reason },
            "40001" | "40P01" | "55P03" | "57014" | "25P03" => Error::Busy { place },
            "53300" | "3D000" => Error::Unreachable { place, reason },
            code if ["08", "28", "57"].iter().any(|class| code.starts_with(class)) => {
                Error::Unreachable { place, reason }
            }
            _ => Error::Failed { place, reason },
        }
    }

    /// A server that is none may send back what it was sent.
    fn without_password(&self, text: &str) -> String {
        let text = match &self.password {
            Some(password) if !password.is_empty() => Cow::Owned(text.replace(password.as_str(), "***")),
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

/// The password of a URL as the server is sent it: what errors must not repeat.
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
