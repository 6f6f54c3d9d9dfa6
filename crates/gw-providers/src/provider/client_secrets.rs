//! The secrets of a client in a request that passes through, and their removal from the words of the upstream.

use std::borrow::Cow;
use std::fmt;

use gw_wire::percent;
use http::HeaderMap;
use memchr::memmem::Finder;

use super::secret_mask::{MIN_SECRET_BYTES, REDACTED, is_secret_name, parts_of};

/// The most secrets of one request. The client chooses their number, and each one costs a search.
const MAX_SECRETS: usize = 32;

/// The secrets with which a client calls an upstream. Operators read the words of the upstream, and these secrets are not theirs.
///
/// A search takes linear time for any secret and any text, because the client chooses the one and may influence the other. So it
/// knows fewer forms than the search for the secrets of a provider.
#[derive(Default)]
pub struct ClientSecrets {
    /// The longest stand first, because a shorter one may be a part of a longer one.
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
        values.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        values.dedup();
        Self { values }
    }

    /// The bytes without these secrets.
    #[must_use]
    pub fn censored<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let mut censored = Cow::Borrowed(bytes);
        for form in self.values.iter().flat_map(|value| forms(value)) {
            if let Some(without) = without(&censored, form.as_bytes()) {
                censored = Cow::Owned(without);
            }
        }
        censored
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

/// The secret as it is, with the escape that some writers of JSON use, and with percent codes.
fn forms(secret: &str) -> [String; 3] {
    [secret.to_owned(), secret.replace('/', "\\/"), percent::encode(secret)]
}

/// The text with a mark in the place of the secret. None: it has no such secret.
fn without(text: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut kept_until) = (Vec::new(), 0);
    for at in Finder::new(secret).find_iter(text) {
        out.extend_from_slice(text.get(kept_until..at).unwrap_or_default());
        out.extend_from_slice(REDACTED.as_bytes());
        kept_until = at + secret.len();
    }
    if kept_until == 0 {
        return None;
    }
    out.extend_from_slice(text.get(kept_until..).unwrap_or_default());
    Some(out)
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
    fn its_debug_form_shows_no_secret() {
        let secrets = ClientSecrets::of(&HeaderMap::new(), "?key=own-secret");
        assert_eq!(format!("{secrets:?}"), "ClientSecrets { count: 1, .. }");
    }
}
