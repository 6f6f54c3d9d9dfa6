//! The TLS listener: rustls with aws-lc, TLS 1.2 and newer, HTTP/2 by ALPN. The certificate can be replaced while the gateway
//! serves, and clients may have to show a certificate of their own.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// `[server.tls]`: PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates. None: no client is asked for a certificate.
    pub client_ca: Option<PathBuf>,
    /// A client without a certificate is served, too. A wrong certificate is always refused.
    pub is_client_certificate_optional: bool,
}

/// The reason why the certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read, or it is not PEM.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: pem::Error,
    },
    /// The file holds no certificate.
    #[error("{}: no certificate in this file", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The key cannot be used, or it does not belong to the certificate.
    #[error("{}: {source}", path.display())]
    Rejected {
        /// The file of the key.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// The authorities of clients cannot be used.
    #[error("{}: {source}", path.display())]
    ClientCa {
        /// The file of the authorities.
        path: PathBuf,
        /// The reason.
        source: VerifierBuilderError,
    },
    /// The TLS library cannot be set up.
    #[error(transparent)]
    Setup(rustls::Error),
}

/// The certificate of the listeners. It can be replaced; connections keep the one that they began with.
pub struct Certificates(ArcSwap<ServerConfig>);

/// A certificate that was read and is not in use yet.
pub struct PreparedCertificate(Arc<ServerConfig>);

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl fmt::Debug for PreparedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedCertificate").finish_non_exhaustive()
    }
}

impl PreparedCertificate {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(server_config(settings)?)))
    }
}

impl Certificates {
    /// Uses this certificate.
    #[must_use]
    pub fn new(first: PreparedCertificate) -> Arc<Self> {
        Arc::new(Self(ArcSwap::new(first.0)))
    }

    /// Uses this certificate for new connections.
    pub fn replace(&self, next: PreparedCertificate) {
        self.0.store(next.0);
    }

    /// The acceptor of a new connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.load_full())
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { path: path.to_owned(), source };
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(unreadable)?;
    if chain.is_empty() { Err(TlsError::NoCertificate { path: path.to_owned() }) } else { Ok(chain) }
}

fn server_config(settings: &TlsSettings) -> Result<ServerConfig, TlsError> {
    let TlsSettings { cert, key, client_ca, is_client_certificate_optional } = settings;
    let chain = certificates(cert)?;
    let key_der = PrivateKeyDer::from_pem_file(key)
        .map_err(|source| TlsError::Unreadable { path: key.clone(), source })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            builder.with_client_cert_verifier(verifier(path, *is_client_certificate_optional, provider)?)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key_der)
        .map_err(|source| TlsError::Rejected { path: key.clone(), source })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn verifier(
    client_ca: &Path,
    is_optional: bool,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(client_ca)? {
        roots.add(authority).map_err(|source| TlsError::Rejected { path: client_ca.to_owned(), source })?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|source| TlsError::ClientCa { path: client_ca.to_owned(), source })
}
