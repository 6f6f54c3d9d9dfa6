//! The canonical form of JSON, fed into a hash while the text is read. Two texts with the same meaning have the same
//! form.
//!
//! Members are sorted by name. Strings count by their characters, numbers by their exact decimal value (`1`, `1.0` and
//! `10e-1` are one number). The form marks where each part ends, so different values never have the same form. The text
//! is read once, at any depth: a container in an object is hashed by itself, because its place among the sorted members
//! is known only at the end of the object.

use std::borrow::Cow;

use gw_wire::json::{MAX_DEPTH, Reader, View};

use crate::hasher::{DIGEST_BYTES, Hasher};

/// Feeds a value. None for a text without a canonical form: one that is not JSON, is deeper than 128 levels, or
/// contains half of a surrogate pair.
pub(crate) fn feed(text: &str, out: &mut Hasher) -> Option<()> {
    let mut reader = Reader::new(text);
    value(&mut reader, out, 0)?;
    reader.is_at_end().then_some(())
}

/// The digest of a JSON text in its canonical form. None for a text without one.
#[must_use]
pub fn canonical_digest(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    let mut digest = Hasher::new();
    feed(text, &mut digest)?;
    Some(digest.finalize())
}

/// Feeds a string with its length, which marks its end.
pub(crate) fn feed_text(text: &str, out: &mut Hasher) {
    out.number(b's', text.len() as u64);
    out.update(text.as_bytes());
}

fn value(reader: &mut Reader<'_>, out: &mut Hasher, depth: u32) -> Option<()> {
    match reader.peek()? {
        b'{' => object(reader, out, depth),
        b'[' => array(reader, out, depth),
        b'"' => {
            feed_text(&reader.string()?, out);
            Some(())
        }
        _ => scalar(reader.value()?, out),
    }
}

fn array(reader: &mut Reader<'_>, out: &mut Hasher, depth: u32) -> Option<()> {
    if depth == MAX_DEPTH {
        return None;
    }
    out.update([b'a']);
    reader.array(|reader| value(reader, out, depth + 1))?;
    out.update([b'e']);
    Some(())
}

/// The value of a member, until the members are sorted.
enum MemberValue<'a> {
    Scalar(View<'a>),
    Container([u8; DIGEST_BYTES]),
}

fn object(reader: &mut Reader<'_>, out: &mut Hasher, depth: u32) -> Option<()> {
    if depth == MAX_DEPTH {
        return None;
    }
    let mut members: Vec<(Cow<'_, str>, MemberValue<'_>)> = Vec::new();
    reader.members(|reader, name| {
        let member = if matches!(reader.peek()?, b'{' | b'[') {
            let mut inner = Hasher::new();
            value(reader, &mut inner, depth + 1)?;
            MemberValue::Container(inner.finalize())
        } else {
            MemberValue::Scalar(reader.value()?)
        };
        members.push((name, member));
        Some(())
    })?;
    // The sort is stable, so the order of two members of one name counts. Some readers use the first one and some the
    // last. Only a nested object can have such members.
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    out.update([b'o']);
    for (name, member) in members {
        feed_text(&name, out);
        match member {
            MemberValue::Scalar(view) => scalar(view, out)?,
            MemberValue::Container(digest) => {
                out.update([b'h']);
                out.update(digest);
            }
        }
    }
    out.update([b'e']);
    Some(())
}

fn scalar(view: View<'_>, out: &mut Hasher) -> Option<()> {
    match view.text() {
        "null" => out.update([b'n']),
        "true" => out.update([b't']),
        "false" => out.update([b'f']),
        text if text.starts_with('"') => feed_text(&view.string()?, out),
        text => number(text, out),
    }
    Some(())
}

/// Feeds a number as its sign, its digits without zeros at either end, and the power of ten of the last digit.
fn number(text: &str, out: &mut Hasher) {
    let (is_negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (mut whole, mut fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let mut zeros = 0;
    if fraction.is_empty() {
        let all = whole.len();
        whole = whole.trim_end_matches('0');
        zeros = all - whole.len();
    }
    let places = fraction.len();
    if whole.is_empty() {
        fraction = fraction.trim_start_matches('0');
    }
    let signed = |length: usize| i64::try_from(length).ok();
    let power = exponent.parse::<i64>().ok().and_then(|exponent| {
        exponent.checked_sub(signed(places)?).and_then(|power| power.checked_add(signed(zeros)?))
    });
    let digits = whole.len() + fraction.len();
    match (digits, power) {
        (0, _) => out.update([b'z']),
        // The power does not fit into 64 bits. Only the same spelling counts as the same number.
        (_, None) => {
            out.update([b'r']);
            feed_text(text, out);
        }
        (_, Some(power)) => {
            let signs = u8::from(is_negative) | u8::from(power < 0) << 1;
            out.number(b'd', power.unsigned_abs());
            out.number(signs, digits as u64);
            out.update(whole.as_bytes());
            out.update(fraction.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
