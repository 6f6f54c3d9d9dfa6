//! The URLs of Google's Gemini API: the method of a model behind the colon, and the key in the query.

use std::borrow::Cow;

use gw_engine::GeminiUrl;
use gw_wire::dialects::gemini::{GeminiMethod, ROOTS};
use gw_wire::percent::decode;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr2;

/// The header with the key of a client of Google's API.
pub(crate) const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The model and the method of a path. None: the path names no method of a model.
pub(crate) fn split(path: &str) -> Option<(Cow<'_, str>, GeminiMethod)> {
    // The first bytes tell nearly every other path apart.
    let end = ROOTS.into_iter().find_map(|root| path.strip_prefix(root))?;
    memchr2(b':', b'%', end.as_bytes())?;
    match decode(end)? {
        Cow::Borrowed(end) => GeminiMethod::split(end).map(|(model, method)| (Cow::Borrowed(model), method)),
        Cow::Owned(end) => {
            GeminiMethod::split(&end).map(|(model, method)| (Cow::Owned(model.to_owned()), method))
        }
    }
}

/// The facts in the URL of a request for a method of a model.
pub(crate) fn read(parts: &Parts) -> Option<GeminiUrl> {
    let path = parts.uri.path();
    let (model, method) = split(path.strip_suffix('/').unwrap_or(path))?;
    let is_array = method == GeminiMethod::Stream && values(parts, "alt").all(|value| value != "sse");
    Some(GeminiUrl { model: model.into_owned(), method, is_array })
}

/// Whether the request comes from a client of Google's API.
pub(crate) fn has_google_key(headers: &HeaderMap) -> bool {
    headers.contains_key(GOOGLE_KEY)
}

/// The keys of a client of Google's API: of the header, and of the query.
pub(crate) fn keys(parts: &Parts) -> Vec<Cow<'_, [u8]>> {
    let header = parts.headers.get_all(GOOGLE_KEY).iter().map(HeaderValue::as_bytes).map(Cow::Borrowed);
    let query = values(parts, "key").map(|key| match key {
        Cow::Borrowed(key) => Cow::Borrowed(key.as_bytes()),
        Cow::Owned(key) => Cow::Owned(key.into_bytes()),
    });
    let mut keys: Vec<Cow<'_, [u8]>> = header.chain(query).filter(|key| !key.is_empty()).collect();
    // A client may send one key in both places.
    keys.dedup();
    keys
}

/// The values of a parameter of the query.
fn values<'p>(parts: &'p Parts, name: &'static str) -> impl Iterator<Item = Cow<'p, str>> {
    let pairs = parts.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(given, _)| *given == name).filter_map(|(_, value)| decode(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_model_and_its_method() {
        for (path, model, method) in [
            ("/v1beta/models/fast:generateContent", "fast", GeminiMethod::Generate),
            ("/v1/models/acme/fast:streamGenerateContent", "acme/fast", GeminiMethod::Stream),
            ("/v1beta/models/acme%2Ffast%3AcountTokens", "acme/fast", GeminiMethod::CountTokens),
            ("/v1beta/tunedModels/a:embedContent", "a", GeminiMethod::Embed),
        ] {
            assert_eq!(split(path), Some((model.into(), method)), "{path}");
        }
        for path in
            ["/v1beta/models/fast", "/v1beta/models/fast:predict", "/v1/messages:generateContent", "/"]
        {
            assert_eq!(split(path), None, "{path}");
        }
    }

    fn parts(uri: &str, key: Option<&str>) -> Parts {
        let mut request = http::Request::post(uri);
        if let Some(key) = key {
            request = request.header(GOOGLE_KEY, key);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_key_stands_in_the_header_or_in_the_query() {
        let keys_of = |uri, key| {
            let parts = parts(uri, key);
            keys(&parts)
                .into_iter()
                .map(|key| String::from_utf8(key.into_owned()).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(keys_of("/", None), [""; 0]);
        assert_eq!(keys_of("/?key=", Some("")), [""; 0]);
        assert_eq!(keys_of("/?alt=sse&key=a%2Db", None), ["a-b"]);
        assert_eq!(keys_of("/?key=a", Some("a")), ["a"]);
        assert_eq!(keys_of("/?key=b&keys=c", Some("a")), ["a", "b"]);
    }

    #[test]
    fn a_stream_is_an_array_unless_the_query_asks_for_events() {
        let is_array = |uri: &str| read(&parts(uri, None)).unwrap().is_array;
        assert!(is_array("/v1beta/models/a:streamGenerateContent"));
        assert!(!is_array("/v1beta/models/a:streamGenerateContent?alt=sse"));
        assert!(!is_array("/v1beta/models/a:generateContent"));
    }
}
