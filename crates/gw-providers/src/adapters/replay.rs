//! The parts of an answer that must come back in the next request, carried in the entries of `reasoning_details`.
//! Clients of OpenAI's dialect return these entries unchanged.
//!
//! The entries hold three things:
//! - signed reasoning, in OpenRouter's format ("Preserving reasoning blocks" at openrouter.ai/docs, read 2026-11-22).
//!   The signature is sealed ([`crate::seal`]), and only the target that gave it receives it back;
//! - `origin`, the provider and the model that made the entry: no other model receives an unsigned entry;
//! - the order of the answer's blocks, see [`order`], because a message of OpenAI's has one text and one list of calls.

mod entry;
pub(super) mod order;
mod plain;
mod request;
mod sealing_stream;

use std::borrow::Cow;
use std::collections::HashSet;

use gw_wire::conversation::{THOUGHT_MARK, split_thought};
use gw_wire::json::{Kind, View, write_str};
use gw_wire::reply::ChatReply;
use serde_json::value::RawValue;

use self::entry::{Entry, signed_member};
pub(super) use self::request::{keep_own, opened_entries, own_entries, own_id, sent_id};
pub(super) use self::sealing_stream::SealingStream;
use crate::seal::{ReplayTarget, SEAL_PREFIX};

/// The member of a message that holds the entries.
pub(super) const DETAILS: &str = "reasoning_details";

/// The member of an entry that names the model which made it.
const ORIGIN: &str = "origin";

/// The warning that entries or signatures of another target were left out.
pub(super) const DROPPED: &str = "reasoning_dropped";

/// Seals the signatures of a complete answer, and marks its entries. `seals_plain`: see
/// [`crate::adapter::Reading::seals_plain`].
pub(super) fn seal_reply(reply: &mut ChatReply<'_>, target: &ReplayTarget, seals_plain: bool) {
    for choice in &mut reply.choices {
        for (_, value) in choice.extras.iter_mut().filter(|(name, _)| name == DETAILS) {
            if let Some(sealed) = sealed_details(value, target) {
                *value = Cow::Owned(sealed);
            }
        }
        if seals_plain {
            plain::add(choice, target);
        }
        for call in &mut choice.tool_calls {
            if let Some(id) = sealed_id(&call.id, target) {
                call.id = id.into();
            }
        }
    }
}

/// Whether an entry signs a text of reasoning.
fn signs_reasoning(entry: View<'_>) -> bool {
    let [signature] = entry.pick(["signature"]);
    signature.and_then(View::string).is_some_and(|signature| !signature.is_empty())
}

/// The entries of a complete answer, sealed and marked; None when there is no entry. Pieces of one entry are marked once,
/// because clients join them.
fn sealed_details(details: &RawValue, target: &ReplayTarget) -> Option<Box<RawValue>> {
    let details = View::new(details.get());
    if details.kind() != Kind::Array {
        return None;
    }
    let mut begun = HashSet::new();
    let mut out = Vec::with_capacity(details.text().len() + 64);
    for entry in details.elements() {
        let is_first = index(entry).is_none_or(|index| begun.insert(index));
        push(&mut out, |out| marked(entry, target, is_first, out));
    }
    if out.is_empty() {
        return None;
    }
    out.push(b']');
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

/// Appends an element to an array whose end is missing.
fn push(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(if out.is_empty() { b'[' } else { b',' });
    write(out);
}

/// Writes an entry that needs no later piece. Its signature is sealed.
fn marked(entry: View<'_>, target: &ReplayTarget, is_first: bool, out: &mut Vec<u8>) {
    if entry.kind() != Kind::Object {
        out.extend_from_slice(entry.text().as_bytes());
    } else if target.seals() && signed_member(entry).is_some() {
        sealed_entry(&Entry::read(entry), None, target, is_first.then(|| target.name()), out);
    } else if is_first {
        stamp_one(entry, target.name(), out);
    } else {
        out.extend_from_slice(entry.text().as_bytes());
    }
}

/// Writes an entry with a sealed signature. `earlier` is the beginning of the entry, which the client has already.
fn sealed_entry(
    entry: &Entry,
    earlier: Option<&Entry>,
    target: &ReplayTarget,
    origin: Option<&str>,
    out: &mut Vec<u8>,
) {
    let sealed = target.seal_entry(&entry.payload(earlier));
    entry.write(sealed.as_deref(), origin, out);
}

fn index(entry: View<'_>) -> Option<u32> {
    let [index] = entry.pick(["index"]);
    index?.text().parse().ok()
}

/// Writes an entry with the origin. An entry that already has one comes from another gateway, which needs it back. The
/// new origin is put in front of it.
fn stamp_one(entry: View<'_>, origin: &str, out: &mut Vec<u8>) {
    let mut former = None;
    out.push(b'{');
    for (name, value) in entry.members() {
        if name.string().is_some_and(|name| name == ORIGIN) {
            former = value.string();
            continue;
        }
        out.extend_from_slice(name.text().as_bytes());
        out.push(b':');
        out.extend_from_slice(value.text().as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(b"\"origin\":");
    match former {
        Some(former) => write_str(out, &format!("{origin} {former}")),
        None => write_str(out, origin),
    }
    out.push(b'}');
}

/// The beginning of a sealed string inside the id of a call. Anthropic's ids have no dot.
const ID_SEAL_PREFIX: &str = "gw1-";

/// A sealed string as a part of an id.
fn id_form(sealed: &str) -> String {
    match sealed.strip_prefix(SEAL_PREFIX) {
        Some(rest) => format!("{ID_SEAL_PREFIX}{rest}"),
        None => sealed.to_owned(),
    }
}

/// The sealed string in a part of an id. Ids of former versions have the string itself.
fn of_id_form(part: &str) -> Cow<'_, str> {
    match part.strip_prefix(ID_SEAL_PREFIX) {
        Some(rest) => Cow::Owned(format!("{SEAL_PREFIX}{rest}")),
        None => Cow::Borrowed(part),
    }
}

/// The id of a call whose signature is sealed; None when the id has no signature or the target does not seal. A signature
/// that is too large to be sealed is left out.
fn sealed_id(id: &str, target: &ReplayTarget) -> Option<String> {
    let (id, signature) = split_thought(id);
    let signature = signature.filter(|_| target.seals())?;
    Some(match target.seal_signature(signature) {
        Some(sealed) => format!("{id}{THOUGHT_MARK}{}", id_form(&sealed)),
        None => id.to_owned(),
    })
}

#[cfg(test)]
mod tests;
