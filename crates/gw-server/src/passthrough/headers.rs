//! The headers of a request that go upstream: what the client accepts, what the body is, the versions of vendors, and those that
//! the operator names.

use gw_engine::passthrough_routes::PassthroughRoute;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HeaderName};
use http::{HeaderMap, HeaderValue};

use super::key::{GATEWAY_KEY, VENDOR_KEYS};
use super::path::MIN_KEY_BYTES;

/// Headers with the version or the features of a vendor's API that do not end in `-version`.
const VENDOR: [&str; 3] = ["anthropic-beta", "openai-beta", "x-goog-api-client"];
/// The beginning of headers about the client's package, such as `x-stainless-package-version`.
const OF_PACKAGE: &str = "x-stainless-";
/// Headers of the connection.
const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// The beginning of the gateway's own headers.
const OWN: &str = "x-gateway-";

/// The headers that go upstream.
pub(super) fn passed(headers: &HeaderMap, route: &PassthroughRoute) -> HeaderMap {
    let named = connection_headers(headers);
    let keys = gateway_keys(headers, route);
    // A client may write its gateway key into a second header by mistake. No upstream may see it.
    let holds_gateway_key =
        |value: &HeaderValue| keys.iter().any(|key| memchr::memmem::find(value.as_bytes(), key).is_some());
    let passes = |name: &HeaderName| {
        let is_never = is_never(name) || named.iter().any(|named| name.as_str().eq_ignore_ascii_case(named));
        let holds_key = *name == AUTHORIZATION || VENDOR_KEYS.contains(name);
        let is_passed = if holds_key {
            !route.injects()
        } else {
            is_usual(name.as_str())
                || [ACCEPT, ACCEPT_LANGUAGE].contains(name)
                || route.forward_headers.contains(name)
        };
        is_passed && !is_never
    };
    let mut passed = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, value)| passes(name) && !holds_gateway_key(value)) {
        passed.append(name.clone(), value.clone());
    }
    passed
}

/// The gateway keys that a request has: of the gateway's own header, and of all headers with keys where the gateway's credential
/// replaces them.
pub(super) fn gateway_keys<'h>(headers: &'h HeaderMap, route: &PassthroughRoute) -> Vec<&'h [u8]> {
    let own = headers.get_all(GATEWAY_KEY).into_iter();
    let others = VENDOR_KEYS.into_iter().chain([AUTHORIZATION]).filter(|_| route.injects());
    let values = own.chain(others.flat_map(|name| headers.get_all(name)));
    let keys = values.map(|value| {
        let value = value.as_bytes().trim_ascii();
        // `Bearer` stands before the key.
        value.rsplit(|byte| *byte == b' ').next().unwrap_or(value)
    });
    keys.filter(|key| key.len() >= MIN_KEY_BYTES).collect()
}

/// Headers of the body, and of a vendor's version.
fn is_usual(name: &str) -> bool {
    let is_version = name.ends_with("-version") && !name.starts_with(OF_PACKAGE);
    name.starts_with("content-") || is_version || VENDOR.contains(&name)
}

/// Cookies, headers of the connection, and the gateway's own.
pub(super) fn is_never(name: &HeaderName) -> bool {
    [COOKIE, CONTENT_LENGTH].contains(name)
        || name.as_str().starts_with(OWN)
        || HOP_BY_HOP.contains(&name.as_str())
}

/// The names that `Connection` adds to the headers of the connection.
pub(super) fn connection_headers(headers: &HeaderMap) -> Vec<&str> {
    let lines = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect()
}
