//! What of an answer has to come back with the conversation, on its way through clients that speak OpenAI's dialect: the
//! entries of `reasoning_details`.
//!
//! Three things travel there. Signed thoughts, in the shape that OpenRouter made known ("Preserving reasoning blocks" at
//! openrouter.ai/docs, read 2026-11-22). The `origin` of each entry: the catalogue id of the model that gave it; nobody else
//! gets it back. And the order of the answer's blocks, see [`order`], because a message of OpenAI's has one text and one list
//! of calls. Clients send the entries back as they are.

pub(super) mod order;

use std::collections::{HashMap, HashSet};

use gw_wire::conversation::{Conversation, Message, THOUGHT_MARK, short_id, split_thought};
use gw_wire::json::{Kind, View, write_str};
use gw_wire::reply::ChatReply;
use serde_json::value::RawValue;

/// The member of a message.
pub(super) const DETAILS: &str = "reasoning_details";

/// The member of an entry that says who gave it.
const ORIGIN: &str = "origin";

/// Told when something could not be given back to its origin and was left out.
pub(super) const DROPPED: &str = "reasoning_dropped";

/// Stamps what a model gives with the model's catalogue id.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// Entries of a stream that have their stamp, by choice and `index`: pieces of one entry are put together by clients.
    stamped: HashSet<(u32, u32)>,
}

impl Stamps {
    /// Bytes that are kept. While the set grows, it is there three times.
    pub(super) fn held_bytes(&self) -> usize {
        self.stamped.capacity() * 3 * size_of::<(u32, u32)>()
    }

    /// The value of `reasoning_details` with the origin in each entry; None when there is none to put it into.
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

    /// Stamps all that a complete answer holds.
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

/// An entry that has an origin comes from another gateway, which wants it back: ours stands before it.
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

/// The id of a call whose signature says whose it is; None when there is no signature.
pub(super) fn stamped_id(id: &str, origin: &str) -> Option<String> {
    let (id, signature) = split_thought(id);
    Some(format!("{id}{THOUGHT_MARK}{}.{}", short_id(origin), signature?))
}

/// The id of a call whose signature this model gave, as it gave it; None for every other id.
pub(super) fn own_id(id: &str, origin: &str) -> Option<String> {
    let (proper, signature) = split_thought(id);
    let (digest, signature) = signature?.split_once('.')?;
    (digest == short_id(origin)).then(|| format!("{proper}{THOUGHT_MARK}{signature}"))
}

/// Who gave an entry, to somebody who asks for what is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryOrigin {
    /// This model, by way of this gateway.
    Own,
    /// The entry does not say.
    Unknown,
    /// Another one.
    Other,
}

/// The entry_origin, and the origin that stood there before ours.
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
    /// The entry_origin of an entry. A later piece of an entry has no origin: it belongs to the entry_origin of the first one.
    fn of(&mut self, entry: View<'_>, told: EntryOrigin) -> EntryOrigin {
        let Some(index) = index(entry) else { return told };
        match told {
            EntryOrigin::Unknown => self.0.get(&index).copied().unwrap_or(told),
            known => {
                self.0.insert(index, known);
                known
            }
        }
    }
}

/// Blocks of all orders of one request. Messages beyond are said in the usual order: each block is a part of what is sent.
const MAX_ORDERED_BLOCKS: usize = 20_000;

/// Leaves in a conversation only what this model gave. `format`: the dialect's own name in `format` of entries that do not say
/// whose they are; "" when it has none. True: something was left out.
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

/// Signatures in ids, which say whose they are by a digest: own ones lose the digest, others go.
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

/// The entries that a provider of OpenAI's dialect gets back, as it gave them; the second value: something was left out. An
/// entry that does not say whose it is stays: its client made it for this provider. The value is empty when nothing is left.
pub(super) fn own_entries(details: View<'_>, origin: &str) -> (String, bool) {
    let (mut out, mut lost) = (String::new(), false);
    let mut origins = EntryOrigins::default();
    for entry in details.elements() {
        let (told, former) = entry_origin(entry, origin);
        let entry_origin = origins.of(entry, told);
        // An order that nobody stamped is of no use to anybody.
        let is_order = order::is_order(entry) && former.is_none();
        if entry_origin == EntryOrigin::Other || is_order {
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
