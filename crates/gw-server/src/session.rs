//! The session that a request belongs to: a run of an agent, as its client names it.

use std::sync::{Arc, LazyLock};

use gw_wire::attribution::is_printable;
use gw_wire::hex;
use gw_wire::json::View;
use http::header::{HeaderMap, HeaderName};
use memchr::memchr_iter;
use memchr::memmem::Finder;
use sha2::{Digest, Sha256};

/// The headers that name a session, in the order in which they count: ours, Claude Code's, and Codex's.
static SESSION_HEADERS: [HeaderName; 6] = [
    HeaderName::from_static("x-gateway-session"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session_id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("conversation_id"),
    HeaderName::from_static("conversation-id"),
];
/// The members of a body that name a session, and where each has its first underscore.
const BODY_MEMBERS: [(&[u8], usize); 2] = [(b"\"prompt_cache_key\"", 7), (b"\"user_id\"", 5)];
/// Looks for the members in bodies with many underscores.
static FINDERS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| BODY_MEMBERS.map(|(member, _)| Finder::new(member)));
/// Most bodies have a few underscores, and a search for one byte takes less than a search for two texts.
const FEW_UNDERSCORES: usize = 32;
/// The longest name of a session or an end user. A longer one counts by its digest.
const MAX_NAME_CHARS: usize = 128;

/// The session of a request: the first header that names one, else the body's `prompt_cache_key`, else its
/// `metadata.user_id`. It has 1 to 128 printable characters. A name of another form is replaced by its SHA-256 in hex.
pub(crate) fn session_of(headers: &HeaderMap, body: &[u8]) -> Option<Arc<str>> {
    // Most requests have none of these headers, and one look at all headers costs less than six searches. The length and the first
    // byte of a name tell most other headers apart for next to nothing.
    let is_alike = |name: &HeaderName| {
        let name = name.as_str();
        matches!(
            (name.len(), name.as_bytes().first()),
            (17 | 24, Some(b'x')) | (10, Some(b's')) | (15, Some(b'c'))
        )
    };
    let names_session = headers.keys().any(|name| is_alike(name) && names_a_session(name));
    let of_headers = || {
        let mut values = SESSION_HEADERS.iter().filter_map(|name| headers.get(name));
        values.find_map(|value| short_name(value.as_bytes()))
    };
    names_session.then(of_headers).flatten().or_else(|| session_of_body(body))
}

/// Whether the header is one of those that name a session. Inlined, it would load all of them before the first look at a header.
#[cold]
#[inline(never)]
fn names_a_session(name: &HeaderName) -> bool {
    SESSION_HEADERS.contains(name)
}

fn session_of_body(body: &[u8]) -> Option<Arc<str>> {
    // Most bodies name no session, and this search costs much less than reading them.
    if !may_name_session(body) {
        return None;
    }
    let [cache_key, metadata] =
        View::new(std::str::from_utf8(body).ok()?).pick(["prompt_cache_key", "metadata"]);
    let user = || metadata.and_then(|metadata| metadata.pick(["user_id"]).into_iter().flatten().next());
    let name = |view: View<'_>| short_name(view.string()?.as_bytes());
    cache_key.and_then(name).or_else(|| user().and_then(name))
}

/// Whether a body has the name of one of the members, perhaps inside a text.
fn may_name_session(body: &[u8]) -> bool {
    let begins_member = |at: usize| {
        // `prompt_cache…` and `user_id`: the next byte tells nearly every other name apart.
        if !matches!(body.get(at + 1), Some(b'c' | b'i')) {
            return false;
        }
        let mut members = BODY_MEMBERS.iter();
        members.any(|(member, offset)| {
            at >= *offset && body.get(at - offset..).is_some_and(|rest| rest.starts_with(member))
        })
    };
    let mut underscores = memchr_iter(b'_', body);
    if underscores.by_ref().take(FEW_UNDERSCORES).any(begins_member) {
        return true;
    }
    underscores.next().is_some() && FINDERS.iter().any(|member| member.find(body).is_some())
}

/// A name of 1 to 128 printable characters, or the SHA-256 in hex of a name of another form. None: the name is blank.
pub(crate) fn short_name<T: for<'a> From<&'a str>>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return None;
    }
    let is_short = |text: &&str| text.chars().count() <= MAX_NAME_CHARS && text.chars().all(is_printable);
    if let Some(name) = std::str::from_utf8(bytes).ok().filter(is_short) {
        return Some(name.into());
    }
    Some(T::from(&hex::encode(&Sha256::digest(bytes))))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::{HeaderName, HeaderValue};

    use proptest::prelude::*;

    use super::{BODY_MEMBERS, may_name_session, session_of};

    proptest! {
        #[test]
        fn a_member_is_found_wherever_it_stands(
            pieces in prop::collection::vec(prop::sample::select(vec!["_", "\"user", "\"user_id\"", "\"prompt_cache_key\"", "_id\"", "\"prompt_", " text "]), 0..80),
        ) {
            let body = pieces.concat();
            let holds = |(member, _): &(&[u8], usize)| memchr::memmem::find(body.as_bytes(), member).is_some();
            prop_assert_eq!(may_name_session(body.as_bytes()), BODY_MEMBERS.iter().any(holds));
        }
    }

    fn session(headers: &[(&'static str, &[u8])], body: &str) -> Option<String> {
        let header = |(name, value): &(&'static str, &[u8])| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        session_of(&headers, body.as_bytes()).map(|session| session.to_string())
    }

    #[test]
    fn the_first_source_with_a_name_counts() {
        let body = r#"{"metadata":{"user_id":"u"},"prompt_cache_key":"p"}"#;
        let sources: [(&'static str, &[u8]); 6] = [
            ("x-gateway-session", b"a"),
            ("x-claude-code-session-id", b"b"),
            ("session_id", b"c"),
            ("session-id", b"d"),
            ("conversation_id", b"e"),
            ("conversation-id", b"f"),
        ];
        for from in 0..sources.len() {
            let expected = String::from_utf8(sources[from].1.to_vec()).unwrap();
            assert_eq!(session(&sources[from..], body), Some(expected));
        }
        assert_eq!(session(&[("x-gateway-session", b" ")], body).as_deref(), Some("p"));
        let other = r#"{"metadata":{"user_id":"u"},"prompt_cache_key":""}"#;
        assert_eq!(session(&[], other).as_deref(), Some("u"));
        for none in [
            "",
            "{}",
            "[1,",
            "\"user_id\"",
            r#"{"metadata":{"user_id":7}}"#,
            r#"{"metadata":"\"user_id\""}"#,
            r#"{"messages":[{"prompt_cache_key":"x"}]}"#,
        ] {
            assert_eq!(session(&[], none), None, "{none}");
        }
    }

    #[test]
    fn a_name_is_short_and_printable() {
        let longest = "ä".repeat(128);
        assert_eq!(session(&[], &format!(r#"{{"prompt_cache_key":"{longest}"}}"#)), Some(longest.clone()));
        for name in [format!("{longest}a"), "a\\nb".to_owned(), "a\\u202eb".to_owned()] {
            let found = session(&[], &format!(r#"{{"prompt_cache_key":"{name}"}}"#)).unwrap();
            assert!(found.len() == 64 && found.bytes().all(|byte| byte.is_ascii_hexdigit()), "{found}");
        }
        assert_eq!(session(&[("x-gateway-session", b"\xff")], "").unwrap().len(), 64, "it is not Unicode");
        let equal = session(&[("session_id", "b".repeat(129).as_bytes())], "");
        assert_eq!(equal, session(&[("x-gateway-session", "b".repeat(129).as_bytes())], ""));
    }
}
