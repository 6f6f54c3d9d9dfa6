//! The small answers of the Responses API: deletion, token counts and compaction.

use bytes::Bytes;

use super::json_text::put_one_line;
use super::request::{EarlierItems, ResponsesRequest, translate_with};
use super::usage::write_usage;
use crate::json::ObjectWriter;
use crate::request::{Invalid, RequestLimits};
use crate::stream::Closing;

/// The answer to `DELETE /v1/responses/{id}`.
#[must_use]
pub fn deleted(id: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut answer = ObjectWriter::begin(&mut out);
    answer.string("id", id);
    answer.string("object", "response");
    answer.raw("deleted", "true");
    answer.finish();
    out
}

/// The answer to `POST /v1/responses/input_tokens`. Its request has the members of a response's, so that [`translate_with`]
/// reads it.
#[must_use]
pub fn input_tokens(tokens: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut answer = ObjectWriter::begin(&mut out);
    answer.string("object", "response.input_tokens");
    answer.integer("input_tokens", tokens);
    answer.finish();
    out
}

/// The instruction that ends the conversation of a compaction.
const SUMMARISE: &str = "Summarise this conversation for a model that continues it without seeing it. Keep the task, all \
                         decisions and constraints, names, paths, values and results that later steps need, the state of \
                         the work, and the next steps. Answer with the summary only.";

/// Translates a request of `POST /v1/responses/compact` into a chat that asks for a summary. Its answer's text, sealed, is
/// the `encrypted_content` of [`compaction`].
///
/// # Errors
/// The first fault, with its error code.
pub fn translate_compaction(
    bytes: Bytes,
    limits: &RequestLimits,
    earlier: &EarlierItems<'_>,
) -> Result<ResponsesRequest, Invalid> {
    let earlier = EarlierItems {
        items: earlier.items,
        candidates: earlier.candidates,
        open_compaction: earlier.open_compaction,
        closing_message: Some(SUMMARISE),
        own_body: earlier.own_body,
    };
    translate_with(bytes, limits, &earlier)
}

/// The parts of a compaction's answer.
#[derive(Debug)]
pub struct Compaction<'c> {
    /// `resp_…`.
    pub id: &'c str,
    /// Unix seconds.
    pub created: u64,
    /// Items that stay as they are, as JSON text.
    pub kept: &'c [String],
    /// The sealed summary.
    pub encrypted: &'c str,
    /// Usage and cost of the summary.
    pub closing: &'c Closing<'c>,
    /// Whether the answer has none of the gateway's own members.
    pub is_plain: bool,
}

/// Writes the answer to `POST /v1/responses/compact`.
#[must_use]
pub fn compaction(parts: &Compaction<'_>) -> Vec<u8> {
    let unique = parts.id.strip_prefix("resp_").unwrap_or(parts.id);
    let mut out = Vec::new();
    let mut answer = ObjectWriter::begin(&mut out);
    answer.string("id", parts.id);
    answer.string("object", "response.compaction");
    answer.integer("created_at", parts.created);
    let output = answer.member("output");
    output.push(b'[');
    for item in parts.kept {
        put_one_line(output, item);
        output.push(b',');
    }
    let mut item = ObjectWriter::begin(output);
    item.string("id", &format!("cmp_{unique}"));
    item.string("type", "compaction");
    item.string("encrypted_content", parts.encrypted);
    item.finish();
    output.push(b']');
    let cost = (!parts.is_plain).then_some(parts.closing.cost).flatten();
    write_usage(answer.member("usage"), &parts.closing.usage, cost);
    if !parts.is_plain {
        crate::render::gateway(answer.member("gateway"), parts.closing.gateway);
    }
    answer.finish();
    out
}
