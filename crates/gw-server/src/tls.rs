//! The TLS listener: rustls with aws-lc, TLS 1.2 and newer, HTTP/2 by ALPN.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

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
    /// The TLS library cannot be set up.
    #[error(transparent)]
    Setup(rustls::Error),
}

/// Builds the acceptor from a certificate chain and its key, both PEM files.
pub(crate) fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Unreadable { path, source }
    };
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(cert).and_then(Iterator::collect).map_err(unreadable(cert))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: cert.to_owned() });
    }
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .map_err(|source| TlsError::Rejected { path: key.to_owned(), source })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
