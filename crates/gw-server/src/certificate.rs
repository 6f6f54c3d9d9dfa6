//! The validity of the certificate that the gateway shows to its clients.

use std::path::Path;
use std::time::Duration;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

use crate::tls::{LoadedTls, TlsError, TlsSettings};

/// The time in which a certificate is valid, in unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub not_before: u64,
    /// Its last second.
    pub not_after: u64,
}

/// The validity of the first certificate in a PEM file, once its key fits. None: the certificate states no times.
///
/// # Errors
/// The gateway could not use the certificate or the key.
pub fn certificate_validity(cert: &Path, key: &Path) -> Result<Option<Validity>, TlsError> {
    LoadedTls::read(&TlsSettings { cert: cert.to_owned(), key: key.to_owned(), ..TlsSettings::default() })?;
    let unreadable = |source| TlsError::Unreadable { path: cert.to_owned(), source };
    let first = CertificateDer::from_pem_file(cert).map_err(unreadable)?;
    Ok(validity(&first))
}

/// The verifier compares the time before it looks for an issuer, and its error states the limit.
fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let refused = |seconds: u64| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let usage = KeyUsage::server_auth();
        certificate.verify_for_usage(&[], &[], &[], time, usage, None, None).err()
    };
    let Some(Error::CertNotValidYet { not_before, .. }) = refused(0) else { return None };
    // The year 9999 is the last one that a certificate can state.
    let Some(Error::CertExpired { not_after, .. }) = refused(300_000_000_000) else { return None };
    Some(Validity { not_before: not_before.as_secs(), not_after: not_after.as_secs() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_certificate_are_read() {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2024, 1, 1);
        params.not_after = rcgen::date_time_ymd(2025, 1, 1);
        let pair = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&pair).unwrap();
        let found = validity(certificate.der());
        assert_eq!(found, Some(Validity { not_before: 1_704_067_200, not_after: 1_735_689_600 }));
    }
}
