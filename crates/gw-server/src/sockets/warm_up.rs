//! The answer to `generate: false`: the events of a response without output. No upstream is called.

use bytes::Bytes;
use gw_wire::calendar;
use gw_wire::dialects::EncoderOpening;
use gw_wire::dialects::responses::{EarlierItems, ResponsesContext, translate_with};
use gw_wire::json::View;
use gw_wire::request::RequestLimits;
use serde_json::{Value, json};
use uuid::Uuid;

/// The events, and the id of the response.
pub(super) fn events(body: &Bytes) -> (String, [String; 2]) {
    let text = std::str::from_utf8(body).unwrap_or("{}");
    let [model] = View::new(text).pick(["model"]);
    let created = calendar::since_1970().as_secs();
    let opening = EncoderOpening {
        id: format!("resp_{}", Uuid::now_v7().simple()),
        created,
        model: model.and_then(View::string).unwrap_or_default().into_owned(),
        prompt_tokens: 0,
    };
    // A part of a stored conversation may not be a whole one.
    let alone = json!({ "model": opening.model, "input": "" }).to_string();
    let context = context_of(body.clone()).or_else(|| context_of(alone.into()));
    // Nothing stores the response. The socket remembers it.
    let pending = context.map(|context| context.with_stored(false).write_pending(&opening, "in_progress"));
    let begun: Value = serde_json::from_slice(&pending.unwrap_or_default())
        .unwrap_or_else(|_| json!({ "id": opening.id, "object": "response", "output": [] }));
    let mut ended = begun.clone();
    let usage = json!({
        "input_tokens": 0,
        "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": 0,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": 0,
    });
    if let Some(members) = ended.as_object_mut() {
        let more = [("status", "completed".into()), ("completed_at", created.into()), ("usage", usage)];
        members.extend(more.map(|(name, value): (&str, Value)| (name.to_owned(), value)));
    }
    let event = |kind: &str, number: u64, response: Value| {
        json!({ "type": kind, "sequence_number": number, "response": response }).to_string()
    };
    let events = [event("response.created", 0, begun), event("response.completed", 1, ended)];
    (opening.id, events)
}

/// The members of a request that its answer repeats.
fn context_of(body: Bytes) -> Option<ResponsesContext> {
    translate_with(body, &RequestLimits::default(), &EarlierItems::default())
        .ok()
        .map(|request| request.context)
}
