//! The property of every key. The tests check it on bodies that they make, and `fuzz/` on bodies of libFuzzer.

use gw_wire::operation::PlainOperation;
use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use gw_cache::{Context, Key, Question, Scope};
use gw_wire::json::{Kind, View};
use gw_wire::request::{Body, RequestLimits, parse_chat};

/// Members of a body that do not count. The list is repeated here so that a change of it is noticed.
const IGNORED_MEMBERS: [&str; 7] =
    ["cache", "metadata", "model", "routing", "stream", "stream_options", "user"];
/// The number of changes tried on each body.
const CHANGES: usize = 8;

fn question<'a>(body: &'a Body, model: &'a str) -> Question<'a> {
    Question {
        route: PlainOperation::Chat,
        model,
        candidates: &["p/m"],
        config: 1,
        body,
        native: None,
        input: None,
    }
}

fn scope(id: &str) -> Scope {
    Scope::Key(Arc::from(id))
}

/// The key of a body. Every accepted body has one.
fn key_of(body: &str, model: &str) -> Key {
    let read = Body::parse(Bytes::from(body.to_owned()), &RequestLimits::default());
    let read = read.unwrap_or_else(|error| panic!("{error:?}: {body}"));
    Key::of(&scope("key_1"), &question(&read, model)).unwrap_or_else(|| panic!("no key: {body}"))
}

/// Checks the property on a client's body. Returns whether the body is an accepted chat.
pub(crate) fn holds(input: &[u8]) -> bool {
    let Ok(request) = parse_chat(Bytes::copy_from_slice(input), &RequestLimits::default()) else {
        return false;
    };
    let (body, model) = (&request.body, &*request.model);
    let asked = question(body, model);
    let key = Key::of(&scope("key_1"), &asked).expect("a key of a body that was accepted");
    circumstances(&asked, key);
    let members: Vec<(String, View<'_>)> =
        body.members().map(|(name, value)| (name.to_owned(), View::new(value))).collect();
    let matters = |name: &str| !IGNORED_MEMBERS.contains(&name);
    // Another spelling and additional ignored members do not change the key.
    assert_eq!(key, key_of(&respelled(&members), model));
    let counts: Vec<_> = members.iter().filter(|(name, _)| matters(name)).cloned().collect();
    let bare = respelled(&counts);
    assert_eq!(key, key_of(&bare, model), "{bare}");
    let ignored = format!("{{\"user\":\"x\",\"stream\":true,\"metadata\":{{}},{}", &bare[1..]);
    assert_eq!(key, key_of(&ignored, model), "{ignored}");
    // A removed member, an added member and a changed leaf change the key.
    for at in 0..counts.len() {
        let mut fewer = counts.clone();
        fewer.remove(at);
        assert_ne!(key, key_of(&respelled(&fewer), model), "without {}", counts[at].0);
    }
    let more = format!("{{\"\\u0000another\":0,{}", &bare[1..]);
    assert_ne!(key, key_of(&more, model), "{more}");
    let leaves: usize = counts.iter().map(|(_, value)| leaves(*value)).sum();
    let first = input.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    for turn in 0..CHANGES.min(leaves) {
        let changed = with_leaf_changed(&counts, first.wrapping_add(turn) % leaves);
        assert_ne!(key, key_of(&changed, model), "{changed} for {bare}");
    }
    true
}

/// Checks that every other field tells two questions with one body apart.
fn circumstances(asked: &Question<'_>, key: Key) {
    let one = scope("key_1");
    let longer = format!("{}x", asked.model);
    let others = [
        Key::of(&scope("key_2"), asked),
        Key::of(&Scope::Team(Arc::from("key_1")), asked),
        Key::of(&one, &Question { model: &longer, ..*asked }),
        Key::of(&one, &Question { route: PlainOperation::Completion, ..*asked }),
        Key::of(&one, &Question { candidates: &["p/m", "q/m"], ..*asked }),
        Key::of(&one, &Question { config: 2, ..*asked }),
        Context::of(&one, asked, "embedder").map(|context| context.key),
        Context::of(&scope("key_2"), asked, "embedder").map(|context| context.key),
        Context::of(&one, asked, "another").map(|context| context.key),
    ];
    let all: Vec<Key> = others.into_iter().flatten().chain([key]).collect();
    for (at, one) in all.iter().enumerate() {
        assert!(!all[at + 1..].contains(one), "{at} is not told apart");
    }
}

/// Another spelling of these members: other order, escapes, numbers and blanks.
fn respelled(members: &[(String, View<'_>)]) -> String {
    let mut out = String::from("{");
    for (name, value) in members.iter().rev() {
        separate(&mut out);
        text(name, &mut out);
        out.push(':');
        spell(*value, &mut usize::MAX.clone(), &mut out);
    }
    out.push('}');
    out
}

fn separate(out: &mut String) {
    if !out.ends_with(['{', '[']) {
        out.push_str(" ,\n");
    }
}

fn text(text: &str, out: &mut String) {
    out.push('"');
    for unit in text.encode_utf16() {
        let _ = write!(out, "\\u{unit:04X}");
    }
    out.push('"');
}

fn string(value: View<'_>) -> String {
    value.string().expect("text that was accepted is Unicode").into_owned()
}

/// The number of leaves: scalars, and empty containers.
fn leaves(value: View<'_>) -> usize {
    let inner: usize = match value.kind() {
        Kind::Object => value.members().map(|(_, value)| leaves(value)).sum(),
        Kind::Array => value.elements().map(leaves).sum(),
        _ => 0,
    };
    inner.max(1)
}

fn with_leaf_changed(members: &[(String, View<'_>)], leaf: usize) -> String {
    let mut left = leaf;
    let mut out = String::from("{");
    for (name, value) in members {
        separate(&mut out);
        text(name, &mut out);
        out.push(':');
        spell(*value, &mut left, &mut out);
    }
    out.push('}');
    out
}

/// Writes a value in another spelling. Changes the value of the leaf after `left` others.
fn spell(value: View<'_>, left: &mut usize, out: &mut String) {
    if leaves(value) == 1 && is_leaf(value) {
        let changes = *left == 0;
        *left = left.wrapping_sub(1);
        return spell_leaf(value, changes, out);
    }
    match value.kind() {
        Kind::Object => {
            let mut members: Vec<(String, View<'_>)> =
                value.members().map(|(name, value)| (string(name), value)).collect();
            // The sort is stable, so members of one name keep their order. While a leaf is searched, the order stays,
            // because leaves are counted in it.
            if *left > leaves(value) {
                members.sort_by(|(one, _), (other, _)| other.cmp(one));
            }
            out.push('{');
            for (name, value) in members {
                separate(out);
                text(&name, out);
                out.push(':');
                spell(value, left, out);
            }
            out.push('}');
        }
        _ => {
            out.push('[');
            for value in value.elements() {
                separate(out);
                spell(value, left, out);
            }
            out.push(']');
        }
    }
}

fn is_leaf(value: View<'_>) -> bool {
    match value.kind() {
        Kind::Object => value.members().next().is_none(),
        Kind::Array => value.elements().next().is_none(),
        _ => true,
    }
}

fn spell_leaf(value: View<'_>, changes: bool, out: &mut String) {
    match (value.text().as_bytes().first(), changes) {
        (Some(b'"'), false) => text(&string(value), out),
        (Some(b'"'), true) => text(&(string(value) + "x"), out),
        (Some(b'{'), true) => out.push_str("{\"x\":null}"),
        (Some(b'['), true) => out.push_str("[null]"),
        (Some(b't'), true) => out.push_str("false"),
        (Some(b'f' | b'n'), true) => out.push_str("true"),
        (Some(b'-' | b'0'..=b'9'), _) => spell_number(value.text(), changes, out),
        (_, false) => out.push_str(value.text()),
        (_, true) => panic!("no JSON: {}", value.text()),
    }
}

/// Writes a number. A digit in front changes it. A zero after the point and an exponent of 0 do not.
fn spell_number(number: &str, changes: bool, out: &mut String) {
    let digits = number.strip_prefix('-').unwrap_or(number);
    out.push_str(&number[..number.len() - digits.len()]);
    out.push_str(if changes { "1" } else { "" });
    out.push_str(digits);
    if !digits.contains(['e', 'E']) {
        out.push_str(if digits.contains('.') { "0" } else { ".0" });
        out.push_str("E-0");
    }
}
