//! Sealed reasoning without a provider's signature, for clients whose API wants an opaque string beside each reasoning. Each
//! run of reasoning that no entry signs gets an entry of its own behind it.

use std::borrow::Cow;

use gw_wire::json::{ObjectWriter, View};
use gw_wire::reply::ChatChoice;
use gw_wire::reply::order::{is_order, text_len};
use serde_json::value::RawValue;

use super::{DETAILS, ORIGIN, push, signs_reasoning};
use crate::seal::ReplayTarget;

/// Adds the entries of a complete answer, whose own entries are sealed already.
pub(super) fn add(choice: &mut ChatChoice<'_>, target: &ReplayTarget) {
    let Some(text) = choice.reasoning.as_deref().filter(|text| !text.is_empty()) else { return };
    let values = choice.extras.iter().filter(|(name, _)| name == DETAILS);
    let entries: Vec<View<'_>> = values.flat_map(|(_, value)| View::new(value.get()).elements()).collect();
    let Some(value) = in_order(text, &entries, target).or_else(|| in_front(text, &entries, target)) else {
        return;
    };
    choice.extras.retain(|(name, _)| name != DETAILS);
    choice.extras.push((Cow::Borrowed(DETAILS), Cow::Owned(value)));
}

/// The entries with one for the whole reasoning before them; None if an entry signs the reasoning.
fn in_front(text: &str, entries: &[View<'_>], target: &ReplayTarget) -> Option<Box<RawValue>> {
    if entries.iter().any(|entry| signs_reasoning(*entry)) {
        return None;
    }
    let mut out = Vec::new();
    let plain = entry(text, target)?;
    push(&mut out, |out| out.extend_from_slice(&plain));
    for entry in entries {
        push(&mut out, |out| out.extend_from_slice(entry.text().as_bytes()));
    }
    raw_list(out)
}

/// The entries of an answer with an order, one for each run of reasoning among them; None without an order that fits.
fn in_order(text: &str, entries: &[View<'_>], target: &ReplayTarget) -> Option<Box<RawValue>> {
    let order = entries.iter().rev().find(|entry| is_order(**entry))?;
    let [words] = order.pick(["order"]);
    let words = words.and_then(View::string)?;
    let own: Vec<View<'_>> = entries.iter().copied().filter(|entry| !is_order(*entry)).collect();
    let signs: Vec<bool> = own.iter().map(|entry| signs_reasoning(*entry)).collect();
    let amended = with_plain(&words, &signs)?;
    let (mut rest, mut run) = (text, String::new());
    let mut own = own.into_iter();
    let mut out = Vec::new();
    for word in amended.split(' ') {
        match word.as_bytes().first()? {
            b'r' => {
                let (piece, after) = rest.split_at_checked(word.get(1..)?.parse().ok()?)?;
                run.push_str(piece);
                rest = after;
            }
            b'S' => {
                let plain = entry(&std::mem::take(&mut run), target)?;
                push(&mut out, |out| out.extend_from_slice(&plain));
            }
            b'd' | b's' => {
                let own = own.next()?;
                if signs_reasoning(own) {
                    run.clear();
                }
                if word == "d" {
                    rest = rest.get(text_len(own)..)?;
                }
                push(&mut out, |out| out.extend_from_slice(own.text().as_bytes()));
            }
            _ => {}
        }
    }
    if own.next().is_some() || !rest.is_empty() {
        return None;
    }
    let order = amended_entry(*order, &amended.replace('S', "s"));
    push(&mut out, |out| out.extend_from_slice(&order));
    raw_list(out)
}

/// The words of an order with `S` behind each run of reasoning that no entry signs. `signs` tells of each entry whether it
/// signs reasoning. None if the entries do not fit.
fn with_plain(words: &str, signs: &[bool]) -> Option<String> {
    let mut signs = signs.iter();
    let mut amended = String::with_capacity(words.len() + 16);
    let mut has_run = false;
    for word in words.split(' ') {
        let first = *word.as_bytes().first()?;
        let is_entry = matches!(first, b'd' | b's');
        let is_signed = is_entry && *signs.next()?;
        if has_run && first != b'r' && !is_signed {
            amended.push_str(" S");
        }
        has_run = first == b'r';
        if !amended.is_empty() {
            amended.push(' ');
        }
        amended.push_str(word);
    }
    if has_run {
        amended.push_str(" S");
    }
    Some(amended)
}

/// An order for the client of a stream, in which the entries of unsigned reasoning are counted; None if it does not fit.
pub(super) fn amended_order(order: View<'_>, signs: &[bool]) -> Option<Vec<u8>> {
    let [words] = order.pick(["order"]);
    let words = words.and_then(View::string)?;
    Some(amended_entry(order, &with_plain(&words, signs)?.replace('S', "s")))
}

fn amended_entry(order: View<'_>, words: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(order.text().len() + 16);
    let mut object = ObjectWriter::begin(&mut out);
    for (name, value) in order.members() {
        match name.string() {
            Some(name) if name == "order" => object.string("order", words),
            Some(name) => object.raw(&name, value.text()),
            None => {}
        }
    }
    object.finish();
    out
}

/// An entry of `reasoning_details` with sealed reasoning instead of a provider's signature. It has no text, because the
/// text stands in the answer already.
pub(super) fn entry(text: &str, target: &ReplayTarget) -> Option<Vec<u8>> {
    let sealed = target.seal_plain(text)?;
    let mut out = Vec::with_capacity(sealed.len() + 64);
    let mut object = ObjectWriter::begin(&mut out);
    object.string("type", "reasoning.text");
    object.string("signature", &sealed);
    object.string(ORIGIN, target.name());
    object.finish();
    Some(out)
}

/// The list whose end is missing.
fn raw_list(mut out: Vec<u8>) -> Option<Box<RawValue>> {
    out.push(b']');
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::with_plain;

    #[test]
    fn each_run_of_unsigned_reasoning_has_its_entry() {
        for (words, signs, expected) in [
            ("r10 t5 r9 c", &[][..], "r10 S t5 r9 S c"),
            ("r10 r2 t5", &[], "r10 r2 S t5"),
            ("t5 r9", &[], "t5 r9 S"),
            ("r10 s t5 s r9 c", &[true, false], "r10 s t5 s r9 S c"),
            ("r10 s t5", &[false], "r10 S s t5"),
            ("d t5 d c t3", &[true, false], "d t5 d c t3"),
        ] {
            assert_eq!(with_plain(words, signs).as_deref(), Some(expected), "{words}");
        }
        assert_eq!(with_plain("d t5 d", &[true]), None);
    }
}
