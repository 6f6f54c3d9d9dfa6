//! The parts of an answer that must come back in the next request, carried in the entries of `reasoning_details`.
//! Clients of OpenAI's dialect return these entries unchanged.
//!
//! The entries hold three things:
//! - signed reasoning, in OpenRouter's format ("Preserving reasoning blocks" at openrouter.ai/docs, read 2026-11-22);
//! - `origin`, the catalogue id of the model that made the entry: no other model receives it;
//! - the order of the answer's blocks, see [`order`], because a message of OpenAI's has one text and one list of calls.

pub(super) mod order;

use std::collections::{HashMap, HashSet};

use gw_wire::conversation::{Conversation, Message, THOUGHT_MARK, short_id, split_thought};
use gw_wire::json::{Kind, View, write_str};
use gw_wire::reply::ChatReply;
use serde_json::value::RawValue;

/// The member of a message that holds the entries.
pub(super) const DETAILS: &str = "reasoning_details";

/// The member of an entry that names the model which made it.
const ORIGIN: &str = "origin";

/// The warning that entries or signatures of another model were left out.
pub(super) const DROPPED: &str = "reasoning_dropped";

/// Marks the entries and call ids of an answer with the catalogue id of the model.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// Entries of a stream that are marked, by choice and `index`. Clients join the pieces of an entry, so only the
    /// first piece is marked.
    stamped: HashSet<(u32, u32)>,
}

impl Stamps {
    /// Bytes that the set keeps. A growing set temporarily needs three times its size.
    pub(super) fn held_bytes(&self) -> usize {
        self.stamped.capacity() * 3 * size_of::<(u32, u32)>()
    }

    /// The value of `reasoning_details` with the origin in each entry; None when there is no entry.
    pub(super) fn stamp(&mut self, choice: u32, details: &RawValue, origin: &str) -> Option<Box<RawValue>> {
        let details = View::new(details.get());
        if details.kind() != Kind::Array {
            return None;
        }
        let mut out = Vec::with_capacity(details.text().len() + 64);
        for entry in details.elements() {
            out.push(if out.is_empty() { b'[' } else { b',' });
            let index = index(entry);
            if entry.kind() == Kind::Object && index.is_none_or(|index| self.stamped.insert((choice, index)))
            {
                stamp_one(entry, origin, &mut out);
            } else {
                out.extend_from_slice(entry.text().as_bytes());
            }
        }
        if out.is_empty() {
            return None;
        }
        out.push(b']');
        RawValue::from_string(String::from_utf8(out).ok()?).ok()
    }

    /// Marks all entries and call ids of a complete answer.
    pub(super) fn reply(reply: &mut ChatReply<'_>, origin: &str) {
        let mut stamps = Self::default();
        for choice in &mut reply.choices {
            for (_, value) in choice.extras.iter_mut().filter(|(name, _)| name == DETAILS) {
                if let Some(stamped) = stamps.stamp(choice.index, value, origin) {
                    *value = std::borrow::Cow::Owned(stamped);
                }
            }
            for call in &mut choice.tool_calls {
                if let Some(id) = stamped_id(&call.id, origin) {
                    call.id = id.into();
                }
            }
        }
    }
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

/// The id of a call whose signature is marked with the origin; None when the id has no signature.
pub(super) fn stamped_id(id: &str, origin: &str) -> Option<String> {
    let (id, signature) = split_thought(id);
    Some(format!("{id}{THOUGHT_MARK}{}.{}", short_id(origin), signature?))
}

/// The id of a call as this model gave it, if its signature is this model's; None for every other id.
pub(super) fn own_id(id: &str, origin: &str) -> Option<String> {
    let (proper, signature) = split_thought(id);
    let (digest, signature) = signature?.split_once('.')?;
    (digest == short_id(origin)).then(|| format!("{proper}{THOUGHT_MARK}{signature}"))
}

/// The origin of an entry, from the view of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryOrigin {
    /// This model gave the entry through this gateway.
    Own,
    /// The entry names no origin.
    Unknown,
    /// Another model gave the entry.
    Other,
}

/// The origin of an entry, and the older origin that this gateway's mark precedes.
fn entry_origin(entry: View<'_>, origin: &str) -> (EntryOrigin, Option<String>) {
    let [given] = entry.pick([ORIGIN]);
    let Some(given) = given.and_then(View::string) else { return (EntryOrigin::Unknown, None) };
    match given.strip_prefix(origin) {
        Some("") => (EntryOrigin::Own, None),
        Some(rest) if rest.starts_with(' ') => (EntryOrigin::Own, Some(rest.trim_start().to_owned())),
        _ => (EntryOrigin::Other, None),
    }
}

/// The origins of a message's entries, by `index`.
#[derive(Default)]
struct EntryOrigins(HashMap<u32, EntryOrigin>);

impl EntryOrigins {
    /// The origin of an entry. Later pieces of an entry have no mark and take the origin of the first piece.
    fn of(&mut self, entry: View<'_>, marked: EntryOrigin) -> EntryOrigin {
        let Some(index) = index(entry) else { return marked };
        match marked {
            EntryOrigin::Unknown => self.0.get(&index).copied().unwrap_or(marked),
            known => {
                self.0.insert(index, known);
                known
            }
        }
    }
}

/// The most blocks of all orders in one request. Further messages are written in the usual order, because each block
/// becomes a part of the request.
const MAX_ORDERED_BLOCKS: usize = 20_000;

/// Keeps only the entries and signatures that this model gave. `format` is the dialect's value of `format`, which
/// identifies entries without an origin; "" when the dialect has none. Returns true if something was left out.
pub(super) fn keep_own(conversation: &mut Conversation<'_>, origin: &str, format: &str) -> bool {
    let mut lost = false;
    let mut room = MAX_ORDERED_BLOCKS;
    for message in &mut conversation.messages {
        let mut origins = EntryOrigins::default();
        message.reasoning_details.retain(|entry| {
            if order::is_order(*entry) && !order::takes(*entry, &mut room) {
                return false;
            }
            let is_own = match origins.of(*entry, entry_origin(*entry, origin).0) {
                EntryOrigin::Own => true,
                EntryOrigin::Unknown => has_format(*entry, format),
                EntryOrigin::Other => false,
            };
            lost |= !is_own && !order::is_order(*entry);
            is_own
        });
        lost |= keep_own_ids(message, origin);
    }
    lost
}

fn has_format(entry: View<'_>, format: &str) -> bool {
    let [given] = entry.pick(["format"]);
    !format.is_empty() && given.and_then(View::string).is_some_and(|given| given == format)
}

/// Handles signatures in call ids, which carry a digest of the origin. This model's ids lose the digest, and other ids
/// lose the signature.
fn keep_own_ids(message: &mut Message<'_>, origin: &str) -> bool {
    let mut lost = false;
    let ids = message.tool_calls.iter_mut().map(|call| &mut call.id);
    for id in ids.chain([&mut message.tool_call_id]) {
        if let Some(own) = own_id(id, origin) {
            *id = own.into();
        } else if let (proper, Some(signature)) = split_thought(id)
            && signature.contains('.')
        {
            lost = true;
            *id = proper.to_owned().into();
        }
    }
    lost
}

/// The entries that go back to a provider of OpenAI's dialect, and whether some were left out. An entry without an
/// origin stays, because the client made it for this provider. The text is empty when no entry is left.
pub(super) fn own_entries(details: View<'_>, origin: &str) -> (String, bool) {
    let (mut out, mut lost) = (String::new(), false);
    let mut origins = EntryOrigins::default();
    for entry in details.elements() {
        let (marked, former) = entry_origin(entry, origin);
        let model = origins.of(entry, marked);
        // An order without the gateway's mark has no use for any provider.
        let is_order = order::is_order(entry) && former.is_none();
        if model == EntryOrigin::Other || is_order {
            lost |= !is_order;
            continue;
        }
        out.push(if out.is_empty() { '[' } else { ',' });
        unstamped(entry, former.as_deref(), &mut out);
    }
    if !out.is_empty() {
        out.push(']');
    }
    (out, lost)
}

fn unstamped(entry: View<'_>, former: Option<&str>, out: &mut String) {
    let [stamp] = entry.pick([ORIGIN]);
    if stamp.is_none() {
        return out.push_str(entry.text());
    }
    let mut mark = '{';
    for (name, value) in entry.members() {
        let is_origin = name.string().is_some_and(|name| name == ORIGIN);
        if is_origin && former.is_none() {
            continue;
        }
        out.push(mark);
        mark = ',';
        out.push_str(name.text());
        out.push(':');
        match former.filter(|_| is_origin) {
            Some(former) => {
                let mut literal = Vec::with_capacity(former.len() + 2);
                write_str(&mut literal, former);
                out.push_str(&String::from_utf8_lossy(&literal));
            }
            None => out.push_str(value.text()),
        }
    }
    out.push_str(if mark == '{' { "{}" } else { "}" });
}

#[cfg(test)]
mod tests;
