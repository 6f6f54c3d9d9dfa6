//! Requests to and answers of upstreams that speak this dialect. All bytes stay as they are, but for the members that are
//! the gateway's.

mod forward;
pub(super) mod seals;
pub(super) mod splice;

pub use self::forward::{EncryptedContent, Forwarding, for_upstream};
pub use self::seals::seal_items;
use self::splice::{ObjectSplice, range};
use super::echo::AnswerFacts;
use super::json_text::put_one_line;
use super::usage::{has_counts, write_usage};
use crate::json::{View, write_str};
use crate::render::{gateway, put_int};
use crate::stream::Closing;

/// A snapshot of an unfinished response, with the gateway's decisions in it.
pub(super) fn snapshot(facts: &AnswerFacts, id: &str, object: &str) -> Vec<u8> {
    let mut splice = ObjectSplice::new(object, View::new(object));
    decide(facts, id, &mut splice);
    one_line(&splice.apply())
}

/// The complete answer: the upstream's document with `gateway`, `usage.cost_usd` and the gateway's decisions. A document
/// without usage gets the usage that the call is charged for.
pub(super) fn answer(facts: &AnswerFacts, id: &str, document: &str, closing: &Closing<'_>) -> Vec<u8> {
    let mut splice = ObjectSplice::new(document, View::new(document));
    decide(facts, id, &mut splice);
    match splice.get("usage").filter(|usage| has_counts(*usage)) {
        Some(usage) if !facts.is_plain => {
            let mut members = ObjectSplice::new(usage.text(), usage);
            match closing.cost {
                Some(cost) => {
                    let mut digits = Vec::new();
                    cost.write(&mut digits);
                    members.set("cost_usd", digits);
                }
                // The upstream may be a gateway, and its cost is not the cost here.
                None => members.remove("cost_usd"),
            }
            splice.set("usage", members.apply());
        }
        Some(_) => {}
        None => {
            let mut made = Vec::new();
            let cost = (!facts.is_plain).then_some(closing.cost).flatten();
            write_usage(&mut made, &closing.usage, cost);
            splice.set("usage", made);
        }
    }
    if !facts.is_plain {
        let mut meta = Vec::new();
        gateway(&mut meta, closing.gateway);
        splice.set("gateway", meta);
    }
    one_line(&splice.apply())
}

fn one_line(object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len());
    // The changed text is UTF-8: it is made of such texts.
    put_one_line(&mut out, std::str::from_utf8(object).unwrap_or("null"));
    out
}

/// Sets the members that the gateway decides: the id, the store, the background and the conversation are its own. Members that a
/// preset changed are the client's.
fn decide(facts: &AnswerFacts, id: &str, splice: &mut ObjectSplice<'_>) {
    let mut own = Vec::with_capacity(id.len() + 2);
    write_str(&mut own, id);
    splice.set("id", own);
    splice.set("store", if facts.is_stored { "true" } else { "false" });
    for (name, value) in &facts.echo.differing {
        splice.set(name, value);
    }
    if facts.echo.is_background {
        splice.set("background", "true");
    }
    if let Some(id) = &facts.echo.previous_response_id {
        let mut literal = Vec::with_capacity(id.len() + 2);
        write_str(&mut literal, id);
        splice.set("previous_response_id", literal);
    }
}

/// Appends a frame's data with another sequence number.
pub(super) fn renumbered(data: &str, number: u64, out: &mut Vec<u8>) {
    let [old] = View::new(data).pick(["sequence_number"]);
    let Some(old) = old else {
        let mut digits = Vec::new();
        put_int(&mut digits, number);
        let mut splice = ObjectSplice::new(data, View::new(data));
        splice.set("sequence_number", digits);
        return out.extend_from_slice(&one_line(&splice.apply()));
    };
    let place = range(data, old);
    put_one_line(out, data.get(..place.start).unwrap_or_default());
    put_int(out, number);
    put_one_line(out, data.get(place.end..).unwrap_or_default());
}
