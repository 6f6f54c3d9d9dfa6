//! The path and the query that go upstream.

use std::borrow::Cow;

use gw_engine::error::{Error, Kind, Result};
use gw_engine::passthrough_routes::PassthroughRoute;
use gw_wire::percent::{decode, decode_bytes};
use http::Uri;

/// How often a path is decoded in the search for segments that lead elsewhere. Servers behind servers may decode it again.
const MAX_DECODINGS: usize = 3;

/// A shorter text is no key, and may be a part of any header and parameter.
pub(super) const MIN_KEY_BYTES: usize = 8;

/// The parameter that may hold a key.
const KEY: &str = "key";

/// The path behind that of the route, and the query; `has_key` says whether the parameter `key` goes along. `secrets` are the
/// gateway keys of the request's headers: a parameter that holds one of them stays here.
///
/// # Errors
/// 400 for a path that may lead to another place.
pub(super) fn passed_path(
    uri: &Uri,
    route: &PassthroughRoute,
    has_key: bool,
    secrets: &[&[u8]],
) -> Result<String> {
    let rest = uri.path().strip_prefix(&*route.path).unwrap_or_default();
    if leads_elsewhere(rest) {
        let message = "The path has an empty segment, a dot segment, a backslash or a control character, so it may lead to \
                       another place.";
        return Err(Error::new(Kind::Invalid, message));
    }
    let query = uri.query().map(|query| {
        let (kept, own) = if has_key { (query.into(), None) } else { (without_key(query), key_of(query)) };
        // A key in `key` may stand in another parameter, too.
        let own = own.as_deref().map(str::as_bytes).filter(|key| key.len() >= MIN_KEY_BYTES);
        without_secrets(kept, || secrets.iter().copied().chain(own))
    });
    Ok(match query.filter(|query| !query.is_empty()) {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    })
}

/// The value of the first parameter `key`, decoded.
pub(super) fn key_of(query: &str) -> Option<Cow<'_, str>> {
    let value = query.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (decode(name).as_deref() == Some(KEY)).then_some(value)
    })?;
    decode(value).filter(|key| !key.is_empty())
}

fn without_key(query: &str) -> Cow<'_, str> {
    let is_key = |pair: &&str| decode(pair.split('=').next().unwrap_or_default()).as_deref() == Some(KEY);
    if !query.split('&').any(|pair| is_key(&pair)) {
        return query.into();
    }
    query.split('&').filter(|pair| !is_key(pair)).collect::<Vec<_>>().join("&").into()
}

/// The query without the parameters that hold a gateway key. A client may write its key into a second place by mistake, and no
/// upstream may see it.
fn without_secrets<'s, I>(query: Cow<'_, str>, secrets: impl Fn() -> I) -> Cow<'_, str>
where
    I: Iterator<Item = &'s [u8]>,
{
    let holds = |bytes: &[u8]| secrets().any(|secret| memchr::memmem::find(bytes, secret).is_some());
    let is_held = |pair: &str| {
        holds(pair.as_bytes()) || pair.contains('%') && decode_bytes(pair).is_some_and(|it| holds(&it))
    };
    if !query.split('&').any(is_held) {
        return query;
    }
    query.split('&').filter(|pair| !is_held(pair)).collect::<Vec<_>>().join("&").into()
}

/// Whether a server may read the path as another one.
fn leads_elsewhere(rest: &str) -> bool {
    if rest.contains("//") {
        return true;
    }
    let mut text = Cow::Borrowed(rest);
    for _ in 0..MAX_DECODINGS {
        let is_bad = |byte: u8| byte == b'\\' || byte.is_ascii_control();
        if text.bytes().any(is_bad) || text.split('/').any(is_dots) {
            return true;
        }
        // What cannot be decoded is not decoded by servers either.
        let Some(decoded) = decode(&text) else { return text.contains('%') };
        if decoded == text {
            return false;
        }
        text = Cow::Owned(decoded.into_owned());
    }
    // Nobody needs so many layers.
    true
}

/// Some servers cut a segment at a semicolon.
fn is_dots(segment: &str) -> bool {
    matches!(segment.split(';').next(), Some("." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_may_lead_elsewhere_are_found() {
        for path in [
            "",
            "/",
            "/a",
            "/a/",
            "/a/b.c/..d/e..",
            "/models/m:generateContent",
            "/a%20b",
            "/model/arn%3Aaws%2Fprofile/x",
            "/caf%C3%A9",
            "/a+b",
            "/...",
        ] {
            assert!(!leads_elsewhere(path), "{path}");
        }
        for path in [
            "//",
            "//a",
            "/a//b",
            "/a//",
            "/.",
            "/..",
            "/../x",
            "/a/..",
            "/a/../b",
            "/%2e%2e/x",
            "/.%2E/x",
            "/a/%2e",
            "/%252e%252e/x",
            "/%25252e%25252e/x",
            "/a%2F..%2Fb",
            "/..%2fb",
            "/a\\b",
            "/a%5c..%5cb",
            "/a%00",
            "/a%0d%0ahost:x",
            "/a%250a",
            "/..;/x",
            "/%2e%2e;x=y/z",
            "/a%",
            "/%zz",
            "/%ff",
        ] {
            assert!(leads_elsewhere(path), "{path}");
        }
    }

    #[test]
    fn a_parameter_with_a_gateway_key_stays_here() {
        for (query, rest) in [
            ("a=1&api_key=sk-secret-1&b=%20", "a=1&b=%20"),
            ("token=Bearer%20sk-secret-1", ""),
            ("x=%73k%2Dsecret-1&y", "y"),
            ("sk-secret-1", ""),
            ("a=%zz&b=sk-secret-2&c=sk-secret", "a=%zz&b=sk-secret-2&c=sk-secret"),
            ("", ""),
        ] {
            let secrets = || [&b"sk-secret-1"[..]].into_iter();
            assert_eq!(without_secrets(query.into(), secrets), rest, "{query}");
        }
    }

    #[test]
    fn the_key_is_taken_out_of_the_query_and_nothing_else() {
        for (query, key, rest) in [
            ("key=abc", Some("abc"), ""),
            ("a=1&key=a%2Bb&b=%20", Some("a+b"), "a=1&b=%20"),
            ("a=1&k%65y=x", Some("x"), "a=1"),
            ("keys=1&monkey=2", None, "keys=1&monkey=2"),
            ("key=&key=y", None, ""),
            ("key", None, ""),
        ] {
            assert_eq!(key_of(query).as_deref(), key, "{query}");
            assert_eq!(without_key(query), rest, "{query}");
        }
    }
}
