//! A complete answer.

use super::context::GeminiContext;
use super::logprobs::CandidateLogprobs;
use super::parts::{PartState, PartWriter, finish_reason};
use super::usage;
use crate::dialects::messages::blocks::AnswerBlocks;
use crate::dialects::messages::response::pieces::reply_pieces;
use crate::json::{ObjectWriter, View, write_array};
use crate::render::{Envelope, put};
use crate::reply::{ChatChoice, ChatReply, Finish};

/// Writes a complete answer.
pub(super) fn write(reply: &ChatReply<'_>, envelope: &Envelope<'_>, context: &GeminiContext) -> Vec<u8> {
    let texts = reply.choices.iter().filter_map(|choice| choice.content.as_deref()).map(str::len);
    let mut out = Vec::with_capacity(1024 + texts.sum::<usize>());
    let mut choices: Vec<&ChatChoice<'_>> = reply.choices.iter().collect();
    choices.sort_by_key(|choice| choice.index);
    // An answer without a choice was filtered.
    let filtered = ChatChoice { finish: Some(Finish::ContentFilter), ..ChatChoice::default() };
    if choices.is_empty() {
        choices.push(&filtered);
    }
    let mut body = ObjectWriter::begin(&mut out);
    write_array(body.member("candidates"), choices, |out, choice| {
        candidate(out, choice, envelope.id, context);
    });
    usage::write(body.member("usageMetadata"), &envelope.usage);
    let model = reply.model.as_deref().filter(|name| !name.is_empty()).unwrap_or(envelope.model);
    body.string("modelVersion", model);
    body.string("responseId", envelope.id);
    body.finish();
    out
}

fn candidate(out: &mut Vec<u8>, choice: &ChatChoice<'_>, id: &str, context: &GeminiContext) {
    let mut candidate = ObjectWriter::begin(out);
    let mut blocks = AnswerBlocks::new(&context.content);
    let mut state = PartState::default();
    candidate.object("content", |content| {
        let out = content.member("parts");
        out.push(b'[');
        let mut writer = PartWriter { out, state: &mut state, frames: None };
        // Calls of several candidates need ids of their own.
        let id = if choice.index == 0 { id.to_owned() } else { format!("{id}{}", choice.index) };
        reply_pieces(choice, &id, |piece| writer.write_piece(piece, &mut blocks));
        blocks.finish(&mut writer);
        if state.needs_last() {
            put(out, if state.has_parts() { "," } else { "" });
            state.write_last(out);
        }
        out.push(b']');
        content.string("role", "model");
    });
    let is_stopped = blocks.ending_sequence(choice.finish).is_some();
    candidate.string("finishReason", finish_reason(choice.finish, is_stopped));
    candidate.integer("index", choice.index.into());
    if let Some(logprobs) = &choice.logprobs {
        let mut result = CandidateLogprobs::new(&context.content);
        result.add(View::new(logprobs.get()));
        result.write(&mut candidate, state.bytes_before_cut(&blocks));
    }
    candidate.finish();
}
