//! The canonical form of JSON, fed to a hash as it is read: what means the same is the same bytes.
//!
//! Members are in the order of their names, strings are their characters, numbers their decimal value (`1`, `1.0` and
//! `10e-1` are one number; no digit is lost, however many there are). The form says where each part ends, so that two
//! different values never give the same bytes. The text is read once, whatever its depth: a container inside an object
//! counts by its own hash, because where it stands among its siblings is known only at their end.

use std::borrow::Cow;

use gw_wire::json::{MAX_DEPTH, Reader, View};
use sha2::{Digest, Sha256};

/// Feeds a value. None when the text is no JSON value, is deeper than 128 levels or holds half of a surrogate pair: such
/// a text has no canonical form.
pub(crate) fn feed(text: &str, out: &mut Sha256) -> Option<()> {
    let mut reader = Reader::new(text);
    value(&mut reader, out, 0)?;
    reader.is_at_end().then_some(())
}

/// Feeds a string so that it is clear where it ends.
pub(crate) fn feed_text(text: &str, out: &mut Sha256) {
    out.update([b's']);
    out.update((text.len() as u64).to_le_bytes());
    out.update(text.as_bytes());
}

fn value(reader: &mut Reader<'_>, out: &mut Sha256, depth: u32) -> Option<()> {
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

fn array(reader: &mut Reader<'_>, out: &mut Sha256, depth: u32) -> Option<()> {
    if depth == MAX_DEPTH {
        return None;
    }
    out.update([b'a']);
    reader.array(|reader| value(reader, out, depth + 1))?;
    out.update([b'e']);
    Some(())
}

/// A member's value until its turn comes.
enum Part<'a> {
    Scalar(View<'a>),
    Container([u8; 32]),
}

fn object(reader: &mut Reader<'_>, out: &mut Sha256, depth: u32) -> Option<()> {
    if depth == MAX_DEPTH {
        return None;
    }
    let mut members: Vec<(Cow<'_, str>, Part<'_>)> = Vec::new();
    reader.members(|reader, name| {
        let part = if matches!(reader.peek()?, b'{' | b'[') {
            let mut inner = Sha256::new();
            value(reader, &mut inner, depth + 1)?;
            Part::Container(inner.finalize().into())
        } else {
            Part::Scalar(reader.value()?)
        };
        members.push((name, part));
        Some(())
    })?;
    // Stable: of two members of one name, which only a nested object can have, some readers take the first and some the last.
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    out.update([b'o']);
    for (name, part) in members {
        feed_text(&name, out);
        match part {
            Part::Scalar(view) => scalar(view, out)?,
            Part::Container(digest) => {
                out.update([b'h']);
                out.update(digest);
            }
        }
    }
    out.update([b'e']);
    Some(())
}

fn scalar(view: View<'_>, out: &mut Sha256) -> Option<()> {
    match view.text() {
        "null" => out.update([b'n']),
        "true" => out.update([b't']),
        "false" => out.update([b'f']),
        text if text.starts_with('"') => feed_text(&view.string()?, out),
        text => number(text, out),
    }
    Some(())
}

/// A number as sign, digits without zeros at either end, and the power of ten that the last digit counts.
fn number(text: &str, out: &mut Sha256) {
    let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
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
        // A power that no reader computes with: only the same spelling is the same number.
        (_, None) => {
            out.update([b'r']);
            feed_text(text, out);
        }
        (_, Some(power)) => {
            out.update([b'd', u8::from(negative)]);
            out.update(power.to_le_bytes());
            out.update((digits as u64).to_le_bytes());
            out.update(whole.as_bytes());
            out.update(fraction.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
