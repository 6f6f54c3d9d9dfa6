//! Certificates for tests of TLS: made on the spot, trusted by nobody else.

/// A self-signed certificate for 127.0.0.1 and `localhost`, and its key, both PEM.
#[must_use]
pub fn self_signed() -> (String, String) {
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate can be made");
    (made.cert.pem(), made.signing_key.serialize_pem())
}
