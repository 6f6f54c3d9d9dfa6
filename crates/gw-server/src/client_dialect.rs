//! The dialect in which a client is answered.

use gw_wire::dialects::ClientDialect;
use gw_wire::percent::decode;
use http::request::Parts;
use http::{HeaderMap, HeaderName};

use crate::gemini_url::{self, has_google_key};

/// The status of overload in the Messages API.
pub(crate) const OVERLOADED: u16 = 529;

/// Clients of Anthropic's API send it with every request.
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// The dialect of a request: its URL tells it. Only the model catalogue has one URL for three dialects, and no other API has a
/// comparison of models.
pub(crate) fn of(parts: &Parts) -> ClientDialect {
    let path = parts.uri.path();
    if is_below(path, "/v1/models") && !is_comparison(path) {
        if speaks_anthropic(&parts.headers) {
            return ClientDialect::Messages;
        }
        if has_google_key(&parts.headers) {
            return ClientDialect::Gemini;
        }
    }
    of_path(path)
}

/// The dialect of a URL that has only one.
pub(crate) fn of_path(path: &str) -> ClientDialect {
    if is_below(path, "/v1/messages") {
        ClientDialect::Messages
    } else if is_below(path, "/v1/responses") {
        ClientDialect::Responses
    } else if is_below(path, "/v1beta") || gemini_url::split(path).is_some() {
        ClientDialect::Gemini
    } else {
        ClientDialect::OpenAi
    }
}

/// Whether the request comes from a client of Anthropic's API.
pub(crate) fn speaks_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key(ANTHROPIC_VERSION)
}

/// Whether the path is that of the comparison of models, in any spelling.
fn is_comparison(path: &str) -> bool {
    let name = path.strip_prefix("/v1/models/").and_then(decode);
    name.is_some_and(|name| name.trim_end_matches('/') == "compare")
}

/// Whether the path is this URL, or one below it.
fn is_below(path: &str, url: &str) -> bool {
    path.strip_prefix(url).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(path: &str, version: Option<&str>) -> ClientDialect {
        let mut request = http::Request::get(path);
        if let Some(version) = version {
            request = request.header(ANTHROPIC_VERSION, version);
        }
        of(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn the_url_tells_the_dialect() {
        for (path, version, expected) in [
            ("/v1/messages", None, ClientDialect::Messages),
            ("/v1/messages/", None, ClientDialect::Messages),
            ("/v1/messages?beta=true", None, ClientDialect::Messages),
            ("/v1/messages/batches/x", None, ClientDialect::Messages),
            ("/v1/messagesx", None, ClientDialect::OpenAi),
            ("/v1/responses", None, ClientDialect::Responses),
            ("/v1/responses/resp_1/cancel", Some("2023-06-01"), ClientDialect::Responses),
            ("/v1/models", None, ClientDialect::OpenAi),
            ("/v1/models", Some("2023-06-01"), ClientDialect::Messages),
            ("/v1/models/a/b", Some("2023-06-01"), ClientDialect::Messages),
            ("/v1/models/compare", Some("2023-06-01"), ClientDialect::OpenAi),
            ("/v1/models/compar%65%2F", Some("2023-06-01"), ClientDialect::OpenAi),
            ("/v1/models/comparex", Some("2023-06-01"), ClientDialect::Messages),
            ("/v1/chat/completions", Some("2023-06-01"), ClientDialect::OpenAi),
            ("/v1beta", None, ClientDialect::Gemini),
            ("/v1beta/models/a/b", None, ClientDialect::Gemini),
            ("/v1beta/x", None, ClientDialect::Gemini),
            ("/v1betas", None, ClientDialect::OpenAi),
            ("/v1/models/a/b:generateContent", None, ClientDialect::Gemini),
            ("/v1/models/a/b:predict", None, ClientDialect::OpenAi),
            ("/v1/tunedModels/a:countTokens", None, ClientDialect::Gemini),
        ] {
            assert_eq!(dialect(path, version), expected, "{path} {version:?}");
        }
    }
}
