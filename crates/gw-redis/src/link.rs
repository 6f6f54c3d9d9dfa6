//! One connection to Redis: opened in bounded time, read in bounded memory, gone when it is dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisError,
    Value,
};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// How much Redis may send: a server that sends without end is not Redis.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Bytes ahead of what it is asked.
    pub ahead: i64,
    /// Bytes for each byte that it is asked.
    pub per_byte: i64,
    /// Bytes that it may owe at most.
    pub most: i64,
}

impl Default for Allowance {
    /// For answers of a few hundred bytes each.
    fn default() -> Self {
        Self { ahead: 1 << 20, per_byte: 16, most: 4 << 20 }
    }
}

/// Requests that may wait for the connection's own task.
const WAITING: usize = 1024;

/// Where Redis is.
pub struct Address {
    info: ConnectionInfo,
    tls: bool,
    ca_file: Option<PathBuf>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // There may be a password in it.
        f.debug_struct("Address").field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl Address {
    /// Reads a `redis://`, `rediss://` or `unix://` URL; None when it is none. `ca_file` holds certificates (PEM) that a
    /// `rediss://` server's may be signed by, besides those that the machine trusts.
    #[must_use]
    pub fn read(url: &SecretString, ca_file: Option<&Path>) -> Option<Self> {
        let url = url.expose_secret();
        // The crate reads `rediss` only with a TLS of its own.
        let plain = url.strip_prefix("rediss://").map(|rest| format!("redis://{rest}"));
        let info = plain.as_deref().unwrap_or(url).into_connection_info().ok()?;
        Some(Self { info, tls: plain.is_some(), ca_file: ca_file.map(Path::to_path_buf) })
    }
}

/// A connection that all requests share: answers come in the order of the questions, and one that nobody waits for any
/// more is thrown away.
#[derive(Debug)]
pub struct Link {
    connection: MultiplexedConnection,
    driver: tokio::task::AbortHandle,
    /// Calls without an answer since the last one with.
    failures: AtomicU32,
}

impl Link {
    /// Connects and logs in. It is for the caller to set a time limit.
    ///
    /// # Errors
    /// Redis cannot be reached, or refuses.
    pub async fn open(address: &Address, allowance: Allowance) -> Result<Self, RedisError> {
        let info = &address.info;
        let stream = Metered { inner: dial(address).await?, allowance, credit: allowance.ahead };
        let config =
            AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(WAITING);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await?;
        let driver = tokio::spawn(driver).abort_handle();
        Ok(Self { connection, driver, failures: AtomicU32::new(0) })
    }

    /// Asks one thing. It is for the caller to set a time limit.
    ///
    /// # Errors
    /// No answer, or Redis answers an error.
    pub async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        // An error that Redis answers is an answer, here made an error.
        self.connection.clone().req_packed_command(command).await.and_then(Value::extract_error)
    }

    /// Asks several things at once; errors that Redis answers are among the answers.
    ///
    /// # Errors
    /// No answer.
    pub async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        self.connection.clone().req_packed_commands(commands, 0, commands.len()).await
    }

    /// An answer came.
    pub fn answered(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// No answer came; how often that was in a row.
    pub fn missed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }
}

/// What kind of error it is. Never its detail: that may be what somebody else's server says.
#[must_use]
pub fn why(error: &RedisError) -> &str {
    error.code().unwrap_or_else(|| error.category())
}

impl Drop for Link {
    fn drop(&mut self) {
        // The task would go on reading for as long as answers are outstanding.
        self.driver.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn dial(address: &Address) -> Result<Box<dyn Stream>, RedisError> {
    match address.info.addr() {
        ConnectionAddr::Tcp(host, port) if address.tls => {
            let stream = tcp(host, *port).await?;
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let ca_file = address.ca_file.clone();
            let config = tokio::task::spawn_blocking(move || tls(ca_file.as_deref()));
            let config = config.await.map_err(io::Error::other)??;
            Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
        }
        ConnectionAddr::Tcp(host, port) => Ok(Box::new(tcp(host, *port).await?)),
        ConnectionAddr::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        _ => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Trusts the machine's roots, else Mozilla's, and those of a file. There is no way not to verify.
fn tls(ca_file: Option<&Path>) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let (native, _unreadable) =
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if native == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(path) = ca_file {
        for root in CertificateDer::pem_file_iter(path).map_err(io::Error::other)? {
            roots.add(root.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Reads no more than a Redis could have to say.
struct Metered {
    inner: Box<dyn Stream>,
    allowance: Allowance,
    /// Bytes that may still come.
    credit: i64,
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().len().saturating_sub(before);
        self.credit = self.credit.saturating_sub(i64::try_from(read).unwrap_or(i64::MAX));
        if self.credit < 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "more than Redis would say")));
        }
        polled
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            let written = i64::try_from(written).unwrap_or(i64::MAX);
            let Allowance { per_byte, most, .. } = self.allowance;
            self.credit = self.credit.saturating_add(written.saturating_mul(per_byte)).min(most);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
