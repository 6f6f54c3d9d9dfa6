//! The address of a Redis server, and the dialling of it.

use std::io;
use std::path::{Path, PathBuf};

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use rustls_pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::tls;

/// Where Redis listens, and how to log in.
pub struct Address {
    info: ConnectionInfo,
    is_tls: bool,
    ca_file: Option<PathBuf>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The rest may contain a password.
        f.debug_struct("Address").field("is_tls", &self.is_tls).finish_non_exhaustive()
    }
}

/// A URL that is not a Redis address. The message leaves the URL out, because it may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address cannot be read")]
pub struct AddressError;

impl Address {
    /// Parses a `redis://`, `rediss://` or `unix://` URL. A `rediss://` server's certificate may be signed by a
    /// certificate of `ca_file` (PEM) or by one that the machine trusts.
    ///
    /// # Errors
    /// The URL has another scheme, or is malformed.
    pub fn parse(url: &SecretString, ca_file: Option<&Path>) -> Result<Self, AddressError> {
        let url = url.expose_secret();
        // The redis crate understands `rediss` only with its own TLS feature. This crate brings its own TLS.
        let plain = url.strip_prefix("rediss://").map(|rest| format!("redis://{rest}"));
        let info = plain.as_deref().unwrap_or(url).into_connection_info().map_err(|_| AddressError)?;
        Ok(Self { info, is_tls: plain.is_some(), ca_file: ca_file.map(Path::to_path_buf) })
    }

    /// The database number and the login.
    pub(crate) fn redis_settings(&self) -> &RedisConnectionInfo {
        self.info.redis_settings()
    }

    /// Opens a stream to the server. The caller sets the time limit.
    pub(crate) async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) if self.is_tls => {
                let stream = dial_tcp(host, *port).await?;
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let ca_file = self.ca_file.clone();
                let config = tokio::task::spawn_blocking(move || tls::client_config(ca_file.as_deref()));
                let config = config.await.map_err(io::Error::other)??;
                Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
            }
            ConnectionAddr::Tcp(host, port) => Ok(Box::new(dial_tcp(host, *port).await?)),
            ConnectionAddr::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }
}

/// A stream of bytes in both directions: TCP, TLS or a Unix socket.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn dial_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_rediss_and_unix_urls_are_addresses_and_other_urls_are_not() {
        let parse = |url: &str| Address::parse(&SecretString::from(url), None);
        for (url, is_tls) in [
            ("redis://host:6379/1", false),
            ("rediss://:password@host/0", true),
            ("unix:///run/redis.sock", false),
        ] {
            assert_eq!(parse(url).unwrap().is_tls, is_tls, "{url}");
        }
        for url in ["", "redis://", "redis://h:notaport", "http://h"] {
            assert_eq!(parse(url).map(drop), Err(AddressError), "{url}");
        }
    }

    #[test]
    fn an_address_does_not_show_its_password() {
        let address = Address::parse(&SecretString::from("redis://:c4nary@host/0"), None).unwrap();
        assert!(!format!("{address:?}").contains("c4nary"));
    }
}
