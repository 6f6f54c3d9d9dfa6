//! A complete answer of an upstream that speaks the Messages API, with the gateway's own members and sealed signatures.

use std::borrow::Cow;

use super::super::blocks::AnswerPiece;
use super::super::context::MessagesContext;
use super::super::extras::extra_pieces;
use super::super::usage::{has_counts, write_complete, write_first, write_last};
use super::edits::Edits;
use crate::gateway::GatewayMeta;
use crate::json::{Kind, ObjectWriter, View, write_str};
use crate::money::Money;
use crate::render::{Envelope, gateway, put};
use crate::reply::ChatReply;
use crate::stream::Closing;
use crate::usage::Usage;

/// Writes a usage object.
type UsageWriter = fn(&mut Vec<u8>, &Usage, Option<Money>);

/// The members that the gateway adds to an answer.
struct OwnMembers<'a> {
    /// The usage that the call is charged for. It is written if the answer has none.
    usage: &'a Usage,
    write_usage: UsageWriter,
    cost: Option<Money>,
    /// None = the client wants no extra members.
    meta: Option<&'a GatewayMeta>,
}

impl<'a> OwnMembers<'a> {
    fn of(closing: &'a Closing<'_>, plain: bool, write_usage: UsageWriter) -> Self {
        let cost = (!plain).then_some(closing.cost).flatten();
        Self { usage: &closing.usage, write_usage, cost, meta: (!plain).then_some(closing.gateway) }
    }
}

/// Writes the upstream's own answer. `reply` is the same answer as its adapter read it: its `reasoning_details` hold the
/// sealed signatures in the order of the document's thinking blocks.
#[must_use]
pub fn write_native(
    document: &str,
    reply: &ChatReply<'_>,
    envelope: &Envelope<'_>,
    context: &MessagesContext,
) -> Vec<u8> {
    let body = View::new(document);
    if body.kind() != Kind::Object {
        return document.as_bytes().to_vec();
    }
    context.answer_ids.tell(body);
    let mut edits = Edits::new(document);
    let [content] = body.pick(["content"]);
    if let Some(content) = content {
        replace_seals(&mut edits, content, seals(reply));
    }
    let Envelope { usage, cost, gateway, .. } = *envelope;
    let closing = Closing { usage, cost, gateway };
    append_own(&mut edits, body, &OwnMembers::of(&closing, context.plain, write_complete));
    edits.apply()
}

/// Adds the gateway's own members to a `message_delta`.
pub(in super::super) fn with_gateway(text: &str, closing: &Closing<'_>, plain: bool) -> Vec<u8> {
    let object = View::new(text);
    if object.kind() != Kind::Object {
        return text.as_bytes().to_vec();
    }
    let mut edits = Edits::new(text);
    append_own(&mut edits, object, &OwnMembers::of(closing, plain, write_last));
    edits.apply()
}

/// Adds the usage to a `message_start` that has none. The usage is an estimate.
pub(in super::super) fn with_first_usage<'t>(text: &'t str, estimate: &Usage) -> Cow<'t, str> {
    let [message] = View::new(text).pick(["message"]);
    let Some(message) = message.filter(|message| message.kind() == Kind::Object) else {
        return Cow::Borrowed(text);
    };
    let [usage] = message.pick(["usage"]);
    if usage.is_some_and(has_counts) {
        return Cow::Borrowed(text);
    }
    let mut member = b"\"usage\":".to_vec();
    write_first(&mut member, estimate);
    let mut edits = Edits::new(text);
    let kept = edits.remove_members(message, |name| name == "usage");
    edits.append(message, kept, &member);
    String::from_utf8(edits.apply()).map_or(Cow::Borrowed(text), Cow::Owned)
}

fn append_own<'t>(edits: &mut Edits<'t>, object: View<'t>, own: &OwnMembers<'_>) {
    let [usage] = object.pick(["usage"]);
    let usage = usage.filter(|usage| has_counts(*usage));
    let mut members = Vec::new();
    match usage {
        Some(usage) => set_cost(edits, usage, own),
        None => {
            put(&mut members, "\"usage\":");
            (own.write_usage)(&mut members, own.usage, own.cost);
        }
    }
    if let Some(meta) = own.meta {
        if !members.is_empty() {
            members.push(b',');
        }
        put(&mut members, "\"gateway\":");
        gateway(&mut members, meta);
    }
    if members.is_empty() {
        return;
    }
    let is_made = |name: &str| match name {
        "gateway" => own.meta.is_some(),
        "usage" => usage.is_none(),
        _ => false,
    };
    let kept = edits.remove_members(object, is_made);
    edits.append(object, kept, &members);
}

/// Sets the cost in the upstream's own usage.
fn set_cost<'t>(edits: &mut Edits<'t>, usage: View<'t>, own: &OwnMembers<'_>) {
    if own.meta.is_none() {
        return;
    }
    // The upstream may be a gateway, and its cost is not the cost here.
    let kept = edits.remove_members(usage, |name| name == "cost_usd");
    if let Some(cost) = own.cost {
        let mut member = b"\"cost_usd\":".to_vec();
        cost.write(&mut member);
        edits.append(usage, kept, &member);
    }
}

/// The sealed signatures of an answer.
fn seals(reply: &ChatReply<'_>) -> Vec<String> {
    let mut seals = Vec::new();
    let extras = reply.choices.iter().flat_map(|choice| &choice.extras);
    for (_, value) in extras.filter(|(name, _)| name == "reasoning_details") {
        extra_pieces("reasoning_details", View::new(value.get()), |piece| {
            if let AnswerPiece::Signature(seal) | AnswerPiece::Redacted(seal) = piece {
                seals.push(seal.into_owned());
            }
        });
    }
    seals
}

/// Puts the sealed signatures into the thinking blocks, if there is one for each.
fn replace_seals<'t>(edits: &mut Edits<'t>, content: View<'t>, seals: Vec<String>) {
    let places = content.elements().filter_map(|block| {
        let [kind, signature, data] = block.pick(["type", "signature", "data"]);
        let place = match &*kind?.string()? {
            "thinking" => signature?,
            "redacted_thinking" => data?,
            _ => return None,
        };
        place.string().is_some_and(|seal| !seal.is_empty()).then_some(place)
    });
    let places: Vec<View<'t>> = places.collect();
    if places.len() != seals.len() {
        return;
    }
    for (place, seal) in places.into_iter().zip(seals) {
        let mut literal = Vec::with_capacity(seal.len() + 2);
        write_str(&mut literal, &seal);
        edits.replace(place, literal);
    }
}

/// Replaces the string of a member inside another member: `delta.signature` or `content_block.data`.
pub(super) fn with_seal(frame: &str, outer: &str, inner: &str, seal: &str) -> String {
    let mut edits = Edits::new(frame);
    let [object] = View::new(frame).pick([outer]);
    if let Some(object) = object {
        let [value] = object.pick([inner]);
        let mut literal = Vec::with_capacity(seal.len() + 2);
        write_str(&mut literal, seal);
        match value {
            Some(value) => edits.replace(value, literal),
            None => {
                let mut member = Vec::new();
                ObjectWriter::resume(&mut member).raw(inner, &literal);
                // The writer separates the member from others, which `append` does, too.
                edits.append(object, object.members().count(), member.get(1..).unwrap_or_default());
            }
        }
    }
    String::from_utf8(edits.apply()).unwrap_or_else(|_| frame.to_owned())
}
