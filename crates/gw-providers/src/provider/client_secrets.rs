//! The secrets of a client in a request that passes through, and their removal from the words of the upstream.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use gw_wire::percent;
use http::HeaderMap;
use memchr::memmem::Finder;

use super::secret_mask::{MIN_SECRET_BYTES, REDACTED, is_secret_name, parts_of};
use super::secret_patterns::{joined, marked};
use super::unescaped::Unescaped;

/// The most secrets of one request. The client chooses their number, and each one costs a search.
const MAX_SECRETS: usize = 32;

/// The secrets with which a client calls an upstream. Operators read the words of the upstream, and these secrets are not theirs.
///
/// A search takes linear time for any secret and any text, because the client chooses the one and may influence the other. So it
/// knows fewer forms than the search for the secrets of a provider: a secret as it is, and with escapes of JSON, URLs and HTML.
#[derive(Default)]
pub struct ClientSecrets {
    values: Vec<String>,
}

impl ClientSecrets {
    /// The secrets in the headers, and in the query of the path.
    #[must_use]
    pub fn of(headers: &HeaderMap, path: &str) -> Self {
        let named = headers.iter().filter(|(name, _)| is_secret_name(name.as_str()));
        let texts = named.filter_map(|(_, value)| std::str::from_utf8(value.as_bytes()).ok());
        let query = path.split_once('?').map_or("", |(_, query)| query);
        let all = texts.flat_map(parts_of).chain(query.split('&').flat_map(values_of));
        let mut values: Vec<String> =
            all.filter(|value| value.len() >= MIN_SECRET_BYTES).take(MAX_SECRETS).collect();
        values.sort_unstable();
        values.dedup();
        Self { values }
    }

    /// The bytes without these secrets.
    #[must_use]
    pub fn censored<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.values.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut found = self.places(bytes);
        if let Some(unescaped) = Unescaped::of(bytes) {
            let escaped = self.places(&unescaped.bytes);
            found.extend(escaped.into_iter().filter_map(|place| unescaped.place(place)));
        }
        marked(bytes, &joined(found), REDACTED).map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// The places of the secrets as they are.
    fn places(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for value in &self.values {
            found.extend(Finder::new(value).find_iter(bytes).map(|at| at..at + value.len()));
            // Secrets may overlap. Joined, they are no more than the bytes.
            found = joined(found);
        }
        found
    }

    /// Removes these secrets from a text.
    pub fn censor_text(&self, text: &mut String) {
        if let Cow::Owned(censored) = self.censored(text.as_bytes()) {
            *text = String::from_utf8_lossy(&censored).into_owned();
        }
    }
}

impl fmt::Debug for ClientSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSecrets").field("count", &self.values.len()).finish_non_exhaustive()
    }
}

/// The value of a parameter whose name is that of a secret, as it is and decoded.
fn values_of(pair: &str) -> Vec<String> {
    let Some((name, value)) = pair.split_once('=') else { return Vec::new() };
    let name = percent::decode(name).unwrap_or(Cow::Borrowed(name)).to_ascii_lowercase();
    if !is_secret_name(&name) {
        return Vec::new();
    }
    let decoded = percent::decode(value).map(Cow::into_owned);
    decoded.into_iter().chain(std::iter::once(value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    type Headers<'h> = &'h [(&'static str, &'h str)];

    fn censored(headers: Headers<'_>, path: &str, text: &str) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).expect("a value"));
        }
        String::from_utf8_lossy(&ClientSecrets::of(&map, path).censored(text.as_bytes())).into_owned()
    }

    #[test]
    fn credentials_of_headers_and_of_the_query_are_removed() {
        let bearer = ("authorization", "Bearer own/secret-1");
        let cases: [(Headers<'_>, &str, &str, &str); 9] = [
            (&[bearer], "/x", "bad key own/secret-1!", "bad key [redacted]!"),
            (&[bearer], "/x", "you sent Bearer own/secret-1", "you sent [redacted]"),
            (&[bearer], "/x", "own\\/secret-1 own%2Fsecret-1", "[redacted] [redacted]"),
            // "Basic dXNlcjpwYXNzd29yZC0x" has the password "password-1".
            (&[("authorization", "Basic dXNlcjpwYXNzd29yZC0x")], "/x", "no password-1", "no [redacted]"),
            (
                &[("x-api-key", "secret-1-and-more"), ("api-key", "secret-1")],
                "",
                "secret-1-and-more",
                "[redacted]",
            ),
            (&[], "/x?a=b&key=own%2Bsecret", "own+secret own%2Bsecret", "[redacted] [redacted]"),
            (&[], "/x?Access_Token=own-secret", "own-secret", "[redacted]"),
            // No secret, and one that is as short as a word.
            (
                &[("content-type", "text/plain-1")],
                "/x?page=12345678",
                "text/plain-1 12345678",
                "text/plain-1 12345678",
            ),
            (&[("x-api-key", "none")], "/x?key=1", "none 1", "none 1"),
        ];
        for (headers, path, text, expected) in cases {
            assert_eq!(censored(headers, path, text), expected, "{headers:?} {path}");
        }
    }

    #[test]
    fn a_secret_is_found_in_each_form_in_which_an_upstream_may_write_it() {
        let secret: Headers<'_> = &[("x-api-key", "own/secret+<&>=1")];
        for form in [
            "own/secret+<&>=1",
            "own\\/secret+<&>=1",
            "own/secret+\\u003c\\u0026\\u003E=1",
            "own%2Fsecret%2B%3C%26%3E%3D1",
            "own%2fsecret%2b%3c%26%3e%3d1",
            "own/secret+&lt;&amp;&gt;=1",
            "own&#x2F;secret&#43;&lt;&amp;&gt;&#x3d;1",
        ] {
            assert_eq!(censored(secret, "", &format!("100% of {form}.")), "100% of [redacted].", "{form}");
        }
        // An escape within a secret belongs to it.
        let escaped: Headers<'_> = &[("x-api-key", "own%2Fsecret")];
        assert_eq!(censored(escaped, "", "own%2Fsecret own%252Fsecret"), "[redacted] [redacted]");
    }

    #[test]
    fn its_debug_form_shows_no_secret() {
        let secrets = ClientSecrets::of(&HeaderMap::new(), "?key=own-secret");
        assert_eq!(format!("{secrets:?}"), "ClientSecrets { count: 1, .. }");
    }
}
