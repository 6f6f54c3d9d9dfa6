//! The TLS client configuration: rustls with aws-lc-rs and the machine's root certificates. Verification cannot be
//! switched off.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::error::{ClientError, TlsError};

/// Shared by all providers without own root certificates, so the roots are in memory once.
static COMMON: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();

/// The TLS settings of a provider. Nothing is loaded before the first connection.
#[derive(Default)]
pub(crate) struct Tls {
    extra_roots: Vec<CertificateDer<'static>>,
    own: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    /// TLS that also trusts the certificates in `ca_file` (PEM).
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, ClientError> {
        let Some(path) = ca_file else { return Ok(Self::default()) };
        let unreadable = |fault: &dyn std::fmt::Display| ClientError::CaFile {
            path: path.to_owned(),
            fault: fault.to_string(),
        };
        let pem = std::fs::read(path).map_err(|error| unreadable(&error))?;
        let extra_roots: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| unreadable(&error))?;
        if extra_roots.is_empty() {
            return Err(unreadable(&"no certificate in it"));
        }
        Ok(Self { extra_roots, own: OnceCell::new() })
    }

    /// The connector. The first call reads the machine's root certificates on a blocking thread.
    ///
    /// # Errors
    /// TLS cannot be configured.
    pub(crate) async fn connector(&self) -> Result<TlsConnector, TlsError> {
        let cell = if self.extra_roots.is_empty() { &COMMON } else { &self.own };
        let config = cell
            .get_or_try_init(|| {
                let extra_roots = self.extra_roots.clone();
                async move {
                    tokio::task::spawn_blocking(move || load(extra_roots))
                        .await
                        .map_err(|error| TlsError::Task(error.to_string()))?
                }
            })
            .await?;
        Ok(TlsConnector::from(Arc::clone(config)))
    }

    /// As [`Tls::connector`], for a connection that must speak HTTP/1.1.
    ///
    /// # Errors
    /// As [`Tls::connector`].
    pub(crate) async fn http1_connector(&self) -> Result<TlsConnector, TlsError> {
        let connector = self.connector().await?;
        let mut config = ClientConfig::clone(connector.config());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

fn load(extra_roots: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    // An unreadable root certificate of the machine is skipped.
    let (native, _ignored) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if native == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for root in extra_roots {
        roots.add(root).map_err(|error| TlsError::RootCertificate(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Configuration(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
