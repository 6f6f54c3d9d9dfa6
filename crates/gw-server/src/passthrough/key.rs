//! The gateway key of a request on a pass-through route.

use std::net::IpAddr;

use gw_engine::Caller;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::passthrough_routes::PassthroughRoute;
use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use super::path::key_of;
use crate::state::ServerState;

/// The gateway's own header for its keys.
pub(super) const GATEWAY_KEY: HeaderName = HeaderName::from_static("x-gateway-key");
/// The headers in which the SDKs of vendors send a bare key.
pub(super) const VENDOR_KEYS: [HeaderName; 3] = [
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// The holder of the request's gateway key.
///
/// # Errors
/// `invalid_api_key`.
pub(crate) fn caller(
    state: &ServerState,
    parts: &Parts,
    route: &PassthroughRoute,
    address: IpAddr,
) -> Result<Caller> {
    let found =
        if route.injects() { of_any_header(state, parts) } else { of_own_header(state, &parts.headers) };
    found.map_err(|error| state.count_bad_key(error, address))
}

fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).into_iter().map(HeaderValue::as_bytes)
}

/// Whether the parameter `key` of the query stays here: it is a key of the gateway, or the operator's credential takes its place.
pub(super) fn keeps_key_of_query(state: &ServerState, parts: &Parts, route: &PassthroughRoute) -> bool {
    let Some(key) = parts.uri.query().and_then(key_of) else { return true };
    route.takes_key_in_query()
        || state.engine.identify(std::iter::empty(), std::iter::once(key.as_bytes())).is_ok()
}

/// The client's own credential stands in the other headers.
fn of_own_header(state: &ServerState, headers: &HeaderMap) -> Result<Caller> {
    if !headers.contains_key(GATEWAY_KEY) {
        let message = "You didn't provide an API key of the gateway. On this route it stands in the header x-gateway-key.";
        return Err(Error::new(Kind::InvalidApiKey, message));
    }
    state.engine.identify(std::iter::empty(), values(headers, GATEWAY_KEY))
}

fn of_any_header(state: &ServerState, parts: &Parts) -> Result<Caller> {
    let headers = &parts.headers;
    if headers.contains_key(GATEWAY_KEY) {
        return state.engine.identify(std::iter::empty(), values(headers, GATEWAY_KEY));
    }
    let bare = VENDOR_KEYS.into_iter().flat_map(|name| values(headers, name));
    let mut bare = bare.map(<[u8]>::trim_ascii).filter(|key| !key.is_empty()).peekable();
    if bare.peek().is_none() && !headers.contains_key(AUTHORIZATION) {
        // With a key in a header, the parameter is one of the upstream's own.
        let of_query = parts.uri.query().and_then(key_of);
        return state.engine.identify(std::iter::empty(), of_query.as_deref().map(str::as_bytes).into_iter());
    }
    let first = bare.next();
    if bare.any(|other| Some(other) != first) {
        let message = "The request has different API keys in its headers. Send one of them.";
        return Err(Error::new(Kind::InvalidApiKey, message));
    }
    state.engine.identify(values(headers, AUTHORIZATION), first.into_iter())
}
