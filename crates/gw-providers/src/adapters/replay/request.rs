//! The entries and signatures of a request: those of the target go back as the provider gave them, and the others are
//! left out.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::conversation::{Conversation, Message, THOUGHT_MARK, split_thought};
use gw_wire::json::{Kind, ObjectWriter, View, write_str};

use super::entry::{restored, signed_member};
use super::{ORIGIN, index, order};
use crate::seal::{OpenedSeal, ReplayTarget};

/// The origin of an entry, from the view of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryOrigin {
    /// This target gave the entry through this gateway.
    Own,
    /// The entry names no origin.
    Unknown,
    /// Another target gave the entry.
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

/// The use of an entry in a request.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::adapters) enum EntryUse {
    /// The entry is sent unchanged.
    Kept,
    /// The entry was sealed. This is the provider's own entry.
    Opened(String),
    /// The entry was sealed reasoning without a signature. The reasoning goes back as plain text.
    Plain(String),
    /// As `Plain`, from another target. No provider signed this text, so that it may go to any model.
    Unsigned(String),
    /// The entry belongs to another target, or to an unknown one.
    Dropped,
}

/// The use of an entry. `is_known` tells whether an unsigned entry without an origin may be sent.
fn use_of(
    entry: View<'_>,
    origins: &mut EntryOrigins,
    target: &ReplayTarget,
    is_known: impl Fn(View<'_>) -> bool,
) -> EntryUse {
    if let Some((member, sealed)) = signed_member(entry).filter(|_| target.seals()) {
        let opened = opened(entry, member, &sealed, target);
        let is_other = matches!(opened, EntryUse::Dropped | EntryUse::Unsigned(_));
        let origin = if is_other { EntryOrigin::Other } else { EntryOrigin::Own };
        origins.of(entry, origin);
        return opened;
    }
    match origins.of(entry, entry_origin(entry, target.name()).0) {
        EntryOrigin::Own => EntryUse::Kept,
        // An order without an origin was read from the items of a client, and holds no more than lengths.
        EntryOrigin::Unknown if is_known(entry) || order::is_order(entry) => EntryUse::Kept,
        EntryOrigin::Unknown | EntryOrigin::Other => EntryUse::Dropped,
    }
}

fn opened(entry: View<'_>, member: &str, sealed: &str, target: &ReplayTarget) -> EntryUse {
    match target.open(sealed) {
        Some(OpenedSeal::Entry(payload)) => EntryUse::Opened(restored(&payload, entry)),
        Some(OpenedSeal::Signature(signature)) => {
            let mut payload = Vec::new();
            let mut object = ObjectWriter::begin(&mut payload);
            write_str(object.member(member), &signature);
            object.finish();
            EntryUse::Opened(restored(&String::from_utf8_lossy(&payload), entry))
        }
        Some(OpenedSeal::Plain(text)) => EntryUse::Plain(text),
        None => target.open_unsigned(sealed).map_or(EntryUse::Dropped, EntryUse::Unsigned),
    }
}

/// Whether an entry is left out of a message. Text that nobody signed goes to any model, but only if the message has a text that the
/// model gets: `sends_text`.
fn is_left_out(entry: View<'_>, used: &EntryUse, sends_text: bool) -> bool {
    match used {
        EntryUse::Dropped => !order::is_order(entry),
        EntryUse::Unsigned(_) => !sends_text,
        EntryUse::Kept | EntryUse::Opened(_) | EntryUse::Plain(_) => false,
    }
}

/// The text that takes the place of a message's reasoning; None if the reasoning stays as it is. It is the same for every dialect.
///
/// The text belongs to the entries. If one of them is left out, only the text of the others remains: the rest would reach the
/// target as plain text. A message without a text gets that of the target's own entries that nobody signed.
fn replaced_text<'u>(
    entries: impl Iterator<Item = (View<'u>, &'u EntryUse)> + Clone,
    has_text: bool,
    sends_text: bool,
) -> Option<Cow<'u, str>> {
    if !has_text {
        let plain = entries.filter_map(|(_, used)| match used {
            EntryUse::Plain(text) => Some(Cow::Borrowed(text.as_str())),
            EntryUse::Kept | EntryUse::Opened(_) | EntryUse::Unsigned(_) | EntryUse::Dropped => None,
        });
        return Some(joined(plain)).filter(|text| !text.is_empty());
    }
    if !entries.clone().any(|(entry, used)| is_left_out(entry, used, sends_text)) {
        return None;
    }
    let stays = entries.filter(|(entry, used)| !is_left_out(*entry, used, sends_text));
    Some(joined(stays.filter_map(|(entry, used)| text_of(entry, used))))
}

/// The reasoning in an entry that is not left out.
fn text_of<'u>(entry: View<'u>, used: &'u EntryUse) -> Option<Cow<'u, str>> {
    let shown = |entry: View<'u>| {
        let [text, summary] = entry.pick(["text", "summary"]);
        text.or(summary).and_then(View::string)
    };
    match used {
        EntryUse::Kept => shown(entry),
        EntryUse::Opened(own) => shown(View::new(own)),
        EntryUse::Plain(text) | EntryUse::Unsigned(text) => Some(Cow::Borrowed(text.as_str())),
        EntryUse::Dropped => None,
    }
}

fn joined<'u>(mut texts: impl Iterator<Item = Cow<'u, str>>) -> Cow<'u, str> {
    let mut joined = texts.next().unwrap_or_default();
    texts.for_each(|text| joined.to_mut().push_str(&text));
    joined
}

/// The uses of all entries, by message. `format` is the dialect's value of `format`, which identifies unsigned entries
/// without an origin; "" when the dialect has none.
pub(in crate::adapters) fn opened_entries(
    conversation: &Conversation<'_>,
    target: &ReplayTarget,
    format: &str,
) -> Vec<Vec<EntryUse>> {
    let of_message = |message: &Message<'_>| {
        let mut origins = EntryOrigins::default();
        let entries = message.reasoning_details.iter();
        entries.map(|entry| use_of(*entry, &mut origins, target, |entry| has_format(entry, format))).collect()
    };
    conversation.messages.iter().map(of_message).collect()
}

/// The most blocks of all orders in one request. Further messages are written in the usual order, because each block
/// becomes a part of the request.
const MAX_ORDERED_BLOCKS: usize = 20_000;

/// Keeps only the entries and signatures that this target gave, as its provider gave them. `uses` comes from
/// [`opened_entries`]. Returns true if something was left out. The text of the reasoning goes with its entries.
/// `sends_reasoning` tells whether the dialect sends the text of a message's reasoning.
pub(in crate::adapters) fn keep_own<'a>(
    conversation: &mut Conversation<'a>,
    uses: &'a [Vec<EntryUse>],
    target: &ReplayTarget,
    sends_reasoning: impl Fn(&Message<'_>) -> bool,
) -> bool {
    let mut lost = false;
    let mut room = MAX_ORDERED_BLOCKS;
    for (message, uses) in conversation.messages.iter_mut().zip(uses) {
        let has_text = message.reasoning.as_deref().is_some_and(|text| !text.is_empty());
        let sends_text = has_text && sends_reasoning(message);
        let entries = std::mem::take(&mut message.reasoning_details);
        // Text without any entry is that of a client that knows only chats.
        lost |= entries.is_empty() && has_text && !sends_text;
        if let Some(text) = replaced_text(entries.iter().copied().zip(uses), has_text, sends_text) {
            message.reasoning = Some(text).filter(|text| !text.is_empty());
        }
        // The order counts the entries, so those that are left out keep their places.
        let is_ordered = entries.iter().any(|entry| order::is_order(*entry));
        for (entry, used) in entries.into_iter().zip(uses) {
            if order::is_order(entry) && !order::takes(entry, &mut room) {
                continue;
            }
            let is_out = is_left_out(entry, used, sends_text);
            lost |= is_out;
            let place = |text| is_ordered.then(|| View::new(text));
            match used {
                _ if is_out => message.reasoning_details.extend(place(order::DROPPED_PLACE)),
                EntryUse::Kept => message.reasoning_details.push(entry),
                EntryUse::Opened(own) => message.reasoning_details.push(View::new(own)),
                EntryUse::Plain(_) | EntryUse::Unsigned(_) => {
                    message.reasoning_details.extend(place(order::PLAIN_PLACE));
                }
                // The order of another target.
                EntryUse::Dropped => {}
            }
        }
        if target.seals() && keep_own_ids(message, target) {
            lost = true;
            // The order is that of an answer with these signatures. A dialect completes calls only in the usual order.
            message.reasoning_details.retain(|entry| !order::is_order(*entry));
        }
    }
    lost
}

fn has_format(entry: View<'_>, format: &str) -> bool {
    let [given] = entry.pick(["format"]);
    !format.is_empty() && given.and_then(View::string).is_some_and(|given| given == format)
}

/// The id of a call as this target gave it, if its signature is this target's; None for every other id.
pub(in crate::adapters) fn own_id(id: &str, target: &ReplayTarget) -> Option<String> {
    let (proper, signature) = split_thought(id);
    let signature = target.open_signature(&super::of_id_form(signature?))?;
    Some(format!("{proper}{THOUGHT_MARK}{signature}"))
}

/// The id of a call for this target, which gets its own signature back and no other. Sets `has_lost` if a signature is left out. None:
/// the id has no signature and stays.
pub(in crate::adapters) fn sent_id(id: &str, target: &ReplayTarget, has_lost: &mut bool) -> Option<String> {
    let (proper, signature) = split_thought(id);
    signature?;
    let own = own_id(id, target);
    *has_lost |= own.is_none();
    Some(own.unwrap_or_else(|| proper.to_owned()))
}

/// Opens the signatures in call ids, and removes those of other targets.
fn keep_own_ids(message: &mut Message<'_>, target: &ReplayTarget) -> bool {
    let mut lost = false;
    let ids = message.tool_calls.iter_mut().map(|call| &mut call.id);
    for id in ids.chain([&mut message.tool_call_id]) {
        if let Some(sent) = sent_id(id, target, &mut lost) {
            *id = sent.into();
        }
    }
    lost
}

/// The reasoning that goes back to a provider of OpenAI's dialect.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::adapters) struct OwnEntries {
    /// The JSON text of `reasoning_details`; empty when no entry is left.
    pub(in crate::adapters) details: String,
    /// The text that takes the place of the message's own; None if that stays as it is.
    pub(in crate::adapters) text: Option<String>,
    /// Whether reasoning was left out.
    pub(in crate::adapters) has_lost: bool,
}

/// The entries that go back to a provider of OpenAI's dialect, which gets the text of the reasoning, too, if the message
/// has one (`has_text`). An unsigned entry without an origin stays, because the client made it for this provider.
pub(in crate::adapters) fn own_entries(
    details: View<'_>,
    has_text: bool,
    target: &ReplayTarget,
) -> OwnEntries {
    let mut own = OwnEntries::default();
    let mut origins = EntryOrigins::default();
    let mut entries = Vec::new();
    for entry in details.elements() {
        let former = entry_origin(entry, target.name()).1;
        // An order without the gateway's mark has no use for any provider.
        let is_order = order::is_order(entry) && former.is_none();
        let used = use_of(entry, &mut origins, target, |_| true);
        own.has_lost |= is_left_out(entry, &used, has_text);
        match &used {
            _ if is_order => {}
            EntryUse::Opened(entry) => {
                own.details.push(if own.details.is_empty() { '[' } else { ',' });
                own.details.push_str(entry);
            }
            EntryUse::Kept => {
                own.details.push(if own.details.is_empty() { '[' } else { ',' });
                unstamped(entry, former.as_deref(), &mut own.details);
            }
            EntryUse::Plain(_) | EntryUse::Unsigned(_) | EntryUse::Dropped => {}
        }
        entries.push((entry, used));
    }
    if !own.details.is_empty() {
        own.details.push(']');
    }
    let entries = entries.iter().map(|(entry, used)| (*entry, used));
    own.text = replaced_text(entries, has_text, has_text).map(Cow::into_owned);
    own
}

fn unstamped(entry: View<'_>, former: Option<&str>, out: &mut String) {
    let [stamp] = entry.pick([ORIGIN]);
    if stamp.is_none() || entry.kind() != Kind::Object {
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
