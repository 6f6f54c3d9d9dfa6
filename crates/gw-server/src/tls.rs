//! The TLS listener: rustls with aws-lc, TLS 1.2 and newer, HTTP/2 by ALPN, certificates of clients, and certificate files
//! that are read again while the gateway serves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// `[server.tls]`: PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The authorities of client certificates. None: clients are asked for no certificate.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is served. A client with a wrong one never is.
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
    /// The key cannot be used, or it does not belong to the certificate. Or a certificate cannot be an authority.
    #[error("{}: {source}", path.display())]
    Rejected {
        /// The file of the key or of the authorities.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// The TLS library cannot be set up.
    #[error(transparent)]
    Setup(rustls::Error),
    /// The authorities of client certificates cannot be used.
    #[error("{}: {source}", path.display())]
    ClientCa {
        /// The file of the authorities.
        path: PathBuf,
        /// The reason.
        source: rustls::server::VerifierBuilderError,
    },
}

/// The TLS configuration that was made of the files once.
#[derive(Debug)]
pub struct LoadedTls {
    config: Arc<ServerConfig>,
    /// The certificates of the files, for comparison. A new key has a new certificate.
    certificates: [Vec<CertificateDer<'static>>; 2],
    is_client_certificate_optional: bool,
}

impl LoadedTls {
    /// Reads the files. It blocks, so an async caller runs it in a thread of its own.
    ///
    /// # Errors
    /// When a file cannot be read or used.
    pub fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let chain = certificates(&settings.cert)?;
        let key = PrivateKeyDer::from_pem_file(&settings.key)
            .map_err(|source| TlsError::Unreadable { path: settings.key.clone(), source })?;
        let client_cas = settings.client_ca.as_deref().map(certificates).transpose()?.unwrap_or_default();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let builder = match &settings.client_ca {
            Some(path) => builder.with_client_cert_verifier(verifier(
                path,
                &client_cas,
                settings.is_client_certificate_optional,
            )?),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain.clone(), key)
            .map_err(|source| TlsError::Rejected { path: settings.key.clone(), source })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            certificates: [chain, client_cas],
            is_client_certificate_optional: settings.is_client_certificate_optional,
        })
    }
}

/// The certificates of a PEM file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })?;
    if found.is_empty() { Err(TlsError::NoCertificate { path: path.to_owned() }) } else { Ok(found) }
}

/// Checks certificates of clients against these authorities.
fn verifier(
    path: &Path,
    authorities: &[CertificateDer<'static>],
    is_optional: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots
            .add(authority.clone())
            .map_err(|source| TlsError::Rejected { path: path.to_owned(), source })?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|source| TlsError::ClientCa { path: path.to_owned(), source })
}

/// The TLS configuration of new connections. It can be replaced while the gateway serves. Open connections keep theirs.
#[derive(Clone, Debug)]
pub struct LiveTls(Arc<ArcSwap<LoadedTls>>);

impl LiveTls {
    pub(crate) fn new(loaded: LoadedTls) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(loaded)))
    }

    /// Whether these certificates are in force.
    #[must_use]
    pub fn is_current(&self, loaded: &LoadedTls) -> bool {
        let current = self.0.load();
        current.certificates == loaded.certificates
            && current.is_client_certificate_optional == loaded.is_client_certificate_optional
    }

    /// Uses these certificates for connections from now on.
    pub fn replace(&self, loaded: LoadedTls) {
        self.0.store(Arc::new(loaded));
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.load().config))
    }
}
