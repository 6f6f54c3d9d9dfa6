//! Self-signed certificates for tests of TLS.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A self-signed certificate and its key, both PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub pem: String,
    /// Its key.
    pub key_pem: String,
}

impl Certificate {
    /// A certificate for these names or addresses, valid now.
    #[must_use]
    pub fn of(names: &[&str]) -> Self {
        Self::ending(names, (4096, 1, 1))
    }

    /// An expired certificate for these names or addresses.
    #[must_use]
    pub fn expired(names: &[&str]) -> Self {
        Self::ending(names, (2001, 1, 1))
    }

    /// A certificate for these names or addresses that ends on a day: its year, month and day.
    #[must_use]
    pub fn ending(names: &[&str], (year, month, day): (i32, u8, u8)) -> Self {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).expect("names that a certificate can have");
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, month, day);
        let key = rcgen::KeyPair::generate().expect("a key can be made");
        let made = params.self_signed(&key).expect("a certificate can be made");
        Self { pem: made.pem(), key_pem: key.serialize_pem() }
    }

    /// Accepts TLS connections with the certificate.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        let chain = CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("our own PEM");
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).expect("our own PEM");
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions that the provider knows")
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .expect("a certificate and its key");
        TlsAcceptor::from(Arc::new(config))
    }
}
