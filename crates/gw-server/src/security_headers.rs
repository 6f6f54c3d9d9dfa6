//! The security headers that browsers obey.

use http::HeaderValue;
use http::header::{
    CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
};

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Adds the security headers that browsers obey. Every response has them, except a generated answer.
pub(crate) fn harden(headers: &mut HeaderMap, is_encrypted: bool) {
    if is_encrypted {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}

/// Adds the headers that keep a browser from running what an upstream wrote as a page of the gateway.
pub(crate) fn sandbox(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k09_only_an_encrypted_connection_demands_encryption() {
        for is_encrypted in [true, false] {
            let mut headers = HeaderMap::new();
            harden(&mut headers, is_encrypted);
            assert_eq!(headers.contains_key(STRICT_TRANSPORT_SECURITY), is_encrypted);
            assert_eq!(headers.len(), 4 + usize::from(is_encrypted));
        }
    }
}
