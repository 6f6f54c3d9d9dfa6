//! The members of a body that hold tags: `tags` and `metadata.tags`. No upstream gets them.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;

use crate::json::{Kind, View, check};

/// The end of the member's name, as nearly every client writes it.
static NAME_END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"tags\""));
/// The beginning of an escape that may stand for a letter of the name.
static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u00"));

/// A body without its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyTags {
    /// The body without the members.
    pub body: Bytes,
    /// The tags in their order. None: an element that is no text.
    pub tags: Vec<Option<String>>,
    /// The body had the member `tags` with an element.
    pub had_own: bool,
    /// `metadata` had the member `tags` with a value, and other members.
    pub had_inner: bool,
    /// `metadata.tags` was no list, so that none of its tags counts.
    pub is_inner_no_list: bool,
    /// Nothing but tags was in `metadata`, and it is gone.
    pub lost_metadata: bool,
}

/// Takes the members `tags` and `metadata.tags` out of a body, and `metadata` if nothing else is in it. All other members stay byte for
/// byte. None: the body has no such member, or is no JSON object. A member `tags` that is neither an array nor null stays: the rules of
/// members leave it out.
#[must_use]
pub fn take_tags(body: &[u8]) -> Option<BodyTags> {
    // Nearly all bodies have no tags, and these searches cost much less than reading them.
    if !may_have_tags(body) {
        return None;
    }
    let text = std::str::from_utf8(body).ok().filter(|text| check(text).is_ok())?;
    let root = View::new(text);
    let is_named = |view: View<'_>, name: &str| view.string().is_some_and(|given| given == name);
    let is_tags = |(name, _): &(View<'_>, View<'_>)| is_named(*name, "tags");
    let is_list = |value: View<'_>| matches!(value.kind(), Kind::Array | Kind::Null);
    let mut taken = BodyTags::default();
    let (mut inner, mut kept, mut is_changed) = (Vec::new(), Vec::new(), false);
    for (name, value) in root.members() {
        if is_named(name, "tags") && is_list(value) {
            is_changed = true;
            taken.tags.extend(elements(value));
        } else if is_named(name, "metadata") && value.members().any(|member| is_tags(&member)) {
            is_changed = true;
            let (tags, others): (Vec<_>, Vec<_>) = value.members().partition(is_tags);
            taken.is_inner_no_list |= tags.iter().any(|(_, value)| !is_list(*value));
            inner.extend(tags.into_iter().flat_map(|(_, value)| elements(value)));
            let has_value = taken.is_inner_no_list || !inner.is_empty();
            if others.is_empty() {
                taken.lost_metadata |= has_value;
            } else {
                taken.had_inner |= has_value;
                kept.push((name, object(others.into_iter().map(|(name, value)| (name, value.text())))));
            }
        } else {
            kept.push((name, value.text().to_owned()));
        }
    }
    if !is_changed {
        return None;
    }
    taken.had_own = !taken.tags.is_empty();
    taken.tags.extend(inner);
    taken.body = object(kept.iter().map(|(name, value)| (*name, &**value))).into();
    Some(taken)
}

fn may_have_tags(body: &[u8]) -> bool {
    if NAME_END.find(body).is_some() {
        return true;
    }
    // Any letter of the name may be an escape: `t` is \u0074, `a` \u0061, `g` \u0067 and `s` \u0073.
    memchr::memchr(b'\\', body).is_some()
        && ESCAPE.find_iter(body).any(|at| matches!(body.get(at + 4), Some(b'6' | b'7')))
}

fn elements(tags: View<'_>) -> Vec<Option<String>> {
    tags.elements().map(|tag| tag.string().map(Into::into)).collect()
}

/// An object of these members, whose names and values are JSON.
fn object<'a>(members: impl Iterator<Item = (View<'a>, &'a str)>) -> String {
    let mut out = String::from("{");
    for (name, value) in members {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(name.text());
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(body: &str) -> Option<(String, Vec<Option<String>>)> {
        let BodyTags { body, tags, .. } = take_tags(body.as_bytes())?;
        Some((String::from_utf8(body.to_vec()).unwrap(), tags))
    }

    #[test]
    fn tags_are_taken_out_and_all_other_members_stay() {
        let text = |tag: &str| Some(tag.to_owned());
        for (body, left, tags) in [
            (
                r#"{"model":"m","tags":["a","b"],"n":1.0}"#,
                r#"{"model":"m","n":1.0}"#,
                vec![text("a"), text("b")],
            ),
            (r#"{"metadata":{"tags":["a"]},"x":{"tags":[1]}}"#, r#"{"x":{"tags":[1]}}"#, vec![text("a")]),
            (
                r#"{ "metadata" : {"k": "v" , "tags":["i"]}, "tags" : ["o", 7] }"#,
                r#"{"metadata":{"k":"v"}}"#,
                vec![text("o"), None, text("i")],
            ),
            (r#"{"t\u0061gs":["a"],"model":"m"}"#, r#"{"model":"m"}"#, vec![text("a")]),
            (r#"{"tags":[],"model":"m"}"#, r#"{"model":"m"}"#, vec![]),
            (r#"{"tags":null}"#, "{}", vec![]),
            (r#"{"a":1,"tags":["x"],"tags":["y"]}"#, r#"{"a":1}"#, vec![text("x"), text("y")]),
            (r#"{"metadata":{"tags":"a","k":"v"}}"#, r#"{"metadata":{"k":"v"}}"#, vec![]),
            (r#"{"metadata":{"tags":{"a":["b"]}}}"#, "{}", vec![]),
        ] {
            assert_eq!(taken(body), Some((left.to_owned(), tags)), "{body}");
        }
    }

    #[test]
    fn a_body_without_tags_stays_as_it_is() {
        for body in [
            "",
            "{}",
            r#"{"tags":["#,
            r#"[{"tags":[]}]"#,
            r#"{"messages":[{"content":"my \"tags\" are","tags":["x"]}]}"#,
            r#"{"metadata":{"a":{"tags":[]}}}"#,
            r#"{"metadata":"tags"}"#,
            r#"{"tags":"a,b","metadata":{"k":"tags"}}"#,
            r#"{"Tags":["a"]}"#,
            r#"{"content":"\u0061\u00e9"}"#,
        ] {
            assert_eq!(taken(body), None, "{body}");
        }
    }
}
