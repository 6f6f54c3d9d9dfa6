//! The headers of answers: media type, compression and rate limits.

use gw_providers::settings::Api;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use crate::endpoint::media_type;
use crate::finding::Finding;

/// The beginnings of the names of rate-limit headers.
const LIMIT_PREFIXES: [&str; 4] = ["x-ratelimit-", "anthropic-ratelimit-", "ratelimit", "retry-after"];

/// The media type of a plain answer.
pub(super) fn plain_type(headers: &HeaderMap) -> Finding {
    expect_type(headers, "application/json")
}

/// The media type of a stream.
pub(super) fn stream_type(headers: &HeaderMap, api: Api) -> Finding {
    expect_type(headers, api.stream_type)
}

fn expect_type(headers: &HeaderMap, expected: &str) -> Finding {
    let seen = media_type(headers);
    if seen == expected {
        return Finding::Passed(seen);
    }
    let seen = if seen.is_empty() { "no content-type".to_owned() } else { seen };
    Finding::failed(expected, seen)
}

/// The compression, which the probe does not accept.
pub(super) fn encoding(headers: &HeaderMap) -> Finding {
    let coding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("identity");
    if coding.eq_ignore_ascii_case("identity") {
        Finding::passed()
    } else {
        Finding::failed(
            "no compression, because accept-encoding is identity",
            format!("content-encoding {coding}"),
        )
    }
}

/// The rate-limit headers.
pub(super) fn limits(headers: &HeaderMap) -> Finding {
    let is_limit = |name: &str| LIMIT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let found = headers.iter().filter(|(name, _)| is_limit(name.as_str()));
    let found: Vec<String> =
        found.filter_map(|(name, value)| Some(format!("{name}: {}", value.to_str().ok()?))).collect();
    if found.is_empty() {
        Finding::NotOffered("no rate-limit header".to_owned())
    } else {
        Finding::Passed(found.join(", "))
    }
}
