//! Suggests the right URL for a request to an unknown one. The cause is nearly always a wrong base URL.

use gw_engine::error::{Error, Kind};
use gw_wire::operation::Operation;
use http::request::Parts;

/// The endpoints that clients append to their base URL, beside those of the operations on models.
const ENDPOINTS: [&str; 3] = ["/messages/count_tokens", "/models/compare", "/models"];

/// The longest endpoint that ends the path.
fn endpoint(path: &str) -> Option<&'static str> {
    let operations =
        Operation::ALL.into_iter().filter_map(|operation| operation.row().path.strip_prefix("/v1"));
    let endpoints = ENDPOINTS.into_iter().chain(operations);
    endpoints.filter(|endpoint| path.ends_with(endpoint)).max_by_key(|endpoint| endpoint.len())
}

/// A sentence to append to "Unknown request URL", with a blank before it. None: no URL of the gateway is similar.
pub(crate) fn hint(path: &str) -> Option<String> {
    let path = path.trim_end_matches('/');
    if path == "/v1" {
        return Some(
            " This is the base URL; an endpoint follows it, as in /v1/chat/completions or /v1/models."
                .to_owned(),
        );
    }
    let right = match endpoint(path) {
        Some(endpoint) => format!("/v1{endpoint}"),
        None => model(path)?,
    };
    // The path itself is a URL of the gateway, but not on the listener of this request.
    let base = if right.starts_with("/v1/messages") { "has no path" } else { "ends in /v1" };
    (right != path).then(|| format!(" Did you mean {right}? The base URL {base}."))
}

/// The URL that `/models/{id}` behind a wrong base URL means.
fn model(path: &str) -> Option<String> {
    let (before, id) = path.split_once("/models/")?;
    let is_base = before.split('/').all(|part| matches!(part, "" | "v1" | "api" | "openai"));
    let id: String = id.chars().take(100).collect();
    (is_base && !id.is_empty()).then(|| format!("/v1/models/{id}"))
}

/// The error for a URL that no endpoint answers.
pub(crate) fn unknown_url(parts: &Parts) -> Error {
    let path: String = parts.uri.path().chars().take(200).collect();
    let hint = hint(parts.uri.path()).unwrap_or_default();
    Error::new(Kind::UnknownUrl, format!("Unknown request URL: {} {path}.{hint}", parts.method))
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn a_wrong_base_url_is_answered_with_the_right_one() {
        for (path, right) in [
            ("/chat/completions", "/v1/chat/completions"),
            ("/v1/v1/chat/completions/", "/v1/chat/completions"),
            ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
            ("/api/v1/chat/completions", "/v1/chat/completions"),
            ("/openai/deployments/x/chat/completions", "/v1/chat/completions"),
            ("/completions", "/v1/completions"),
            ("/embeddings", "/v1/embeddings"),
            ("/models", "/v1/models"),
            ("/api/models", "/v1/models"),
            ("/models/acme/fast", "/v1/models/acme/fast"),
            ("/v1/v1/models/acme%2Ffast", "/v1/models/acme%2Ffast"),
            ("/models/compare", "/v1/models/compare"),
        ] {
            let expected = format!(" Did you mean {right}? The base URL ends in /v1.");
            assert_eq!(hint(path).as_deref(), Some(expected.as_str()), "{path}");
        }
        for (path, expected) in [
            ("/responses", " Did you mean /v1/responses? The base URL ends in /v1."),
            ("/v1/v1/messages", " Did you mean /v1/messages? The base URL has no path."),
            ("/messages/count_tokens", " Did you mean /v1/messages/count_tokens? The base URL has no path."),
        ] {
            assert_eq!(hint(path).as_deref(), Some(expected), "{path}");
        }
        assert!(hint("/v1/").unwrap().contains("/v1/chat/completions"));
    }

    #[test]
    fn a_path_without_a_similar_url_gets_no_hint() {
        for path in
            ["", "/", "/v1/files", "/nothing", "/admin/v1/nothing", "/v1/chat/completions", "/x/models/y"]
        {
            assert_eq!(hint(path), None, "{path}");
        }
    }
}
