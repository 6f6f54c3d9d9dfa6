//! The response object. Every snapshot carries all members of it, because strict clients need them.

use super::echo::AnswerFacts;
use super::usage::write_usage;
use crate::gateway::GatewayMeta;
use crate::json::{ObjectWriter, write_str};
use crate::render::{gateway, put, put_int};
use crate::stream::Closing;

/// A state of a response.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) id: &'a str,
    /// Unix seconds.
    pub(super) created: u64,
    pub(super) model: &'a str,
    /// `in_progress`, `completed`, ….
    pub(super) status: &'a str,
    /// The code and the message of a failed response.
    pub(super) error: Option<(&'a str, &'a str)>,
    /// The reason of an incomplete response.
    pub(super) incomplete: Option<&'a str>,
    /// `service_tier` that the upstream reports.
    pub(super) service_tier: Option<&'a str>,
    /// The items as JSON text, separated by commas.
    pub(super) output: &'a [u8],
    /// Usage and the gateway's members; None = not known yet.
    pub(super) closing: Option<&'a Closing<'a>>,
    /// The `gateway` object of an answer without usage, which failed.
    pub(super) gateway: Option<&'a GatewayMeta>,
}

impl Snapshot<'_> {
    /// Writes the object.
    pub(super) fn write(&self, facts: &AnswerFacts, out: &mut Vec<u8>) {
        out.reserve(512 + facts.echo.members.len() + self.output.len());
        let mut object = ObjectWriter::begin(out);
        object.string("id", self.id);
        object.string("object", "response");
        object.integer("created_at", self.created);
        object.string("status", self.status);
        let completed = self.closing.filter(|_| self.status == "completed");
        let at = completed.map(|closing| self.created.saturating_add(closing.gateway.latency_ms / 1000));
        object.number_or_null("completed_at", at);
        self.write_ending(&mut object);
        object.string("model", self.model);
        let out = object.member("output");
        out.push(b'[');
        out.extend_from_slice(self.output);
        out.push(b']');
        out.extend_from_slice(&facts.echo.members);
        object.raw("store", if facts.is_stored { "true" } else { "false" });
        object.string("service_tier", self.tier(facts));
        match self.closing {
            Some(closing) => {
                let cost = (!facts.is_plain).then_some(closing.cost).flatten();
                write_usage(object.member("usage"), &closing.usage, cost);
            }
            None => object.raw("usage", "null"),
        }
        let served = self.closing.map(|closing| closing.gateway).or(self.gateway);
        if let Some(served) = served.filter(|_| !facts.is_plain) {
            gateway(object.member("gateway"), served);
        }
        object.finish();
    }

    fn write_ending(&self, object: &mut ObjectWriter<'_>) {
        match self.error {
            Some((code, message)) => object.object("error", |error| {
                error.string("code", code);
                error.string("message", message);
            }),
            None => object.raw("error", "null"),
        }
        match self.incomplete {
            Some(reason) => object.object("incomplete_details", |details| details.string("reason", reason)),
            None => object.raw("incomplete_details", "null"),
        }
    }

    fn tier<'s>(&'s self, facts: &'s AnswerFacts) -> &'s str {
        let asked = facts.echo.service_tier.as_deref().filter(|tier| *tier != "auto");
        self.service_tier.or(asked).unwrap_or("default")
    }
}

/// The identity of an item: its id and its place in the output.
#[derive(Clone, Debug)]
pub(super) struct ItemPlace {
    pub(super) id: String,
    pub(super) index: u32,
}

impl ItemPlace {
    /// The place of the next item. `prefix` is the kind of the id (`msg`, `rs`, …).
    pub(super) fn new(prefix: &str, response_id: &str, index: u32) -> Self {
        let unique = response_id.strip_prefix("resp_").unwrap_or(response_id);
        Self { id: format!("{prefix}_{unique}_{index}"), index }
    }

    /// Appends `,"item_id":…,"output_index":…`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, ",\"item_id\":");
        write_str(out, &self.id);
        self.write_index(out);
    }

    /// Appends `,"output_index":…`.
    pub(super) fn write_index(&self, out: &mut Vec<u8>) {
        put(out, ",\"output_index\":");
        put_int(out, u64::from(self.index));
    }
}
