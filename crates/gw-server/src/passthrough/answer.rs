//! The answer of an upstream as the client gets it.

use gw_engine::passthrough::PassthroughReply;
use http::header::{
    ALT_SVC, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, DATE, HeaderName, SERVER, SET_COOKIE,
    STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, StatusCode};

use super::headers::{connection_headers, is_never};
use crate::response::{Content, GatewayReply, HttpReply, REQUEST_ID};

/// Headers of an upstream that say something about its site, not about the answer.
const OF_SITE: [HeaderName; 13] = [
    ALT_SVC,
    CONTENT_SECURITY_POLICY,
    DATE,
    SERVER,
    SET_COOKIE,
    STRICT_TRANSPORT_SECURITY,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("reporting-endpoints"),
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("set-cookie2"),
    REQUEST_ID,
];
/// Headers about the operator's account.
const OF_ACCOUNT: [&str; 4] =
    ["anthropic-organization-id", "openai-organization", "openai-project", "x-goog-user-project"];
/// Beginnings of headers with the limits of the operator's account.
const LIMITS: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// The answer to the client.
pub(super) fn reply(reply: PassthroughReply, injects: bool) -> GatewayReply {
    let PassthroughReply { status, headers, budget_left, body } = reply;
    let mut headers = passed(&headers, injects);
    headers.extend(budget_left);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    HttpReply { status, headers, content: Content::Relay(Box::new(body)), code: None }
}

fn passed(headers: &HeaderMap, injects: bool) -> HeaderMap {
    // The body was decoded.
    let is_decoded = headers.contains_key(CONTENT_ENCODING);
    let named = connection_headers(headers);
    let passes = |name: &HeaderName| {
        let text = name.as_str();
        let is_of_account = OF_ACCOUNT.contains(&text)
            || *name == WWW_AUTHENTICATE
            || LIMITS.iter().any(|start| text.starts_with(start));
        let is_length = *name == CONTENT_LENGTH;
        let is_never = is_never(name) && !is_length
            || *name == CONTENT_ENCODING
            || is_length && is_decoded
            || OF_SITE.contains(name)
            || text.starts_with("access-control-")
            || named.iter().any(|named| text.eq_ignore_ascii_case(named));
        !(is_never || injects && is_of_account)
    };
    let mut all = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| passes(name)) {
        all.append(name.clone(), value.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn names(injects: bool, headers: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        passed(&map, injects).keys().map(ToString::to_string).collect()
    }

    #[test]
    fn the_client_gets_what_belongs_to_the_answer() {
        let upstream = [
            ("content-type", "text/plain"),
            ("content-length", "3"),
            ("location", "https://a.example"),
            ("retry-after", "3"),
            ("set-cookie", "a=b"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("proxy-authenticate", "Basic"),
            ("proxy-connection", "close"),
            ("access-control-allow-origin", "*"),
            ("content-security-policy", "script-src *"),
            ("clear-site-data", "\"*\""),
            ("report-to", "{}"),
            ("x-gateway-cost-usd", "0"),
            ("x-request-id", "r"),
            ("openai-organization", "o"),
            ("x-ratelimit-limit-requests", "1"),
            ("x-vendor", "v"),
        ];
        assert_eq!(
            names(true, &upstream),
            ["content-type", "content-length", "location", "retry-after", "x-vendor"]
        );
        let own = names(false, &upstream);
        assert!(own.contains(&"openai-organization".to_owned()) && !own.contains(&"set-cookie".to_owned()));
        assert!(!own.contains(&"proxy-authenticate".to_owned()));
        assert_eq!(names(true, &[("content-encoding", "gzip"), ("content-length", "3")]), [""; 0]);
    }
}
