//! The digest of a client's own body, for a request that an upstream gets as the client wrote it. Such a body has members
//! that its translation into a chat does not have.

use gw_wire::json::View;

use crate::canonical;
use crate::hasher::Hasher;

/// Members that do not change the answer, or that the gateway decides.
const IGNORED_MEMBERS: [&str; 13] = [
    "background",
    "cache",
    "fallback_model",
    "fallbacks",
    "metadata",
    "model",
    "models",
    "previous_response_id",
    "routing",
    "store",
    "stream",
    "stream_options",
    "user",
];

/// The conversation, which a [`crate::Context`] holds.
const CONVERSATION: [&str; 2] = ["input", "messages"];

/// The digests of a client's own body and of its forwarded headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeDigests {
    /// Of everything that the upstream gets.
    pub(crate) all: [u8; 32],
    /// Of everything but the conversation.
    pub(crate) around: [u8; 32],
}

impl NativeDigests {
    /// The digests of a JSON object. A text without a canonical form counts by its bytes.
    #[must_use]
    pub fn of<'h>(body: &[u8], headers: impl Iterator<Item = (&'h str, &'h str)>) -> Self {
        let headers: Vec<_> = headers.collect();
        let of = |is_counted: &dyn Fn(&str) -> bool| {
            let mut out = Hasher::new();
            if members(body, is_counted, &mut out).is_none() {
                out = Hasher::new();
                out.update(body);
            }
            for (name, value) in &headers {
                canonical::feed_text(name, &mut out);
                canonical::feed_text(value, &mut out);
            }
            out.finalize()
        };
        let counts = |name: &str| !IGNORED_MEMBERS.contains(&name);
        Self { all: of(&counts), around: of(&|name| counts(name) && !CONVERSATION.contains(&name)) }
    }
}

/// Feeds the members that count, sorted by name.
fn members(body: &[u8], is_counted: &dyn Fn(&str) -> bool, out: &mut Hasher) -> Option<()> {
    let body = View::new(std::str::from_utf8(body).ok()?);
    let named = body.members().map(|(name, value)| Some((name.string()?, value.text())));
    let mut members = named.collect::<Option<Vec<_>>>()?;
    members.sort_unstable();
    for (name, value) in members.iter().filter(|(name, value)| is_counted(name) && *value != "null") {
        canonical::feed_text(name, out);
        canonical::feed(value, out)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(body: &str, betas: &str) -> NativeDigests {
        NativeDigests::of(body.as_bytes(), [("anthropic-beta", betas)].into_iter())
    }

    #[test]
    fn t1_equal_bodies_have_equal_digests_and_each_change_makes_another() {
        let body = r#"{"model":"m","top_k":4,"messages":[{"role":"user","content":"a"}],"stop_sequences":["a","b","c","d","e","f"]}"#;
        let same = r#"{ "stop_sequences":["a","b","c","d","e","\u0066"],"messages":[{"content":"a","role":"user"}],"top_k":4.0,"model":"n","stream":true,
            "metadata":{"user_id":"u"},"cache":{"enabled":true},"future":null}"#;
        assert_eq!(digests(body, "x"), digests(same, "x"));
        for (other, beta) in [
            (body.replace("\"top_k\":4", "\"top_k\":5"), "x"),
            (body.replace("\"f\"", "\"g\""), "x"),
            (body.replace("\"top_k\"", "\"future\""), "x"),
            (body.to_owned(), "y"),
        ] {
            let other = digests(&other, beta);
            assert_ne!(digests(body, "x").all, other.all);
            assert_ne!(digests(body, "x").around, other.around);
        }
        let other = digests(&body.replace("\"content\":\"a\"", "\"content\":\"b\""), "x");
        assert_ne!(digests(body, "x").all, other.all);
        assert_eq!(digests(body, "x").around, other.around, "the conversation is not part of it");
    }
}
