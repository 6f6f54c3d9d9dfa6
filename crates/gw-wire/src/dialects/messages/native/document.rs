//! A complete answer of an upstream that speaks the Messages API, with the gateway's own members and sealed signatures.

use super::super::blocks::AnswerPiece;
use super::super::context::MessagesContext;
use super::super::extras::extra_pieces;
use super::edits::Edits;
use crate::gateway::GatewayMeta;
use crate::json::{Kind, ObjectWriter, View, write_str};
use crate::money::Money;
use crate::render::{Envelope, gateway, put};
use crate::reply::ChatReply;

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
    if !context.plain {
        append_gateway(&mut edits, body, envelope.cost, Some(envelope.gateway));
    }
    edits.apply()
}

/// Adds the gateway's own members to a message, or to a `message_delta`.
pub(in super::super) fn with_gateway(text: &str, cost: Option<Money>, meta: Option<&GatewayMeta>) -> Vec<u8> {
    let object = View::new(text);
    if object.kind() != Kind::Object {
        return text.as_bytes().to_vec();
    }
    let mut edits = Edits::new(text);
    append_gateway(&mut edits, object, cost, meta);
    edits.apply()
}

fn append_gateway<'t>(
    edits: &mut Edits<'t>,
    object: View<'t>,
    cost: Option<Money>,
    meta: Option<&GatewayMeta>,
) {
    let [usage] = object.pick(["usage"]);
    let usage = usage.filter(|usage| usage.kind() == Kind::Object);
    let mut members = Vec::new();
    if let Some(cost) = cost {
        let mut member = b"\"cost_usd\":".to_vec();
        cost.write(&mut member);
        match usage {
            Some(usage) => {
                let kept = edits.remove_members(usage, |name| name == "cost_usd");
                edits.append(usage, kept, &member);
            }
            None => {
                put(&mut members, "\"usage\":{");
                members.extend_from_slice(&member);
                members.push(b'}');
            }
        }
    }
    if let (None, Some(usage), Some(_)) = (cost, usage, meta) {
        // The upstream may be a gateway, and its cost is not the cost here.
        edits.remove_members(usage, |name| name == "cost_usd");
    }
    if let Some(meta) = meta {
        if !members.is_empty() {
            members.push(b',');
        }
        put(&mut members, "\"gateway\":");
        gateway(&mut members, meta);
        let is_made = |name: &str| name == "gateway" || name == "usage" && usage.is_none();
        let kept = edits.remove_members(object, is_made);
        edits.append(object, kept, &members);
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
