//! A streamed answer: each frame is a response with one part, and the last one has the reasons of the end and the usage.
//!
//! Google's clients take every line for JSON, so a sign of life is an empty line, and no comment.

use super::context::GeminiContext;
use super::errors::write_stream_error;
use super::logprobs::CandidateLogprobs;
use super::parts::{PartFrames, PartState, PartWriter, begin_frame, finish_reason};
use super::usage;
use crate::dialects::messages::blocks::{AnswerBlocks, AnswerPiece};
use crate::dialects::messages::extras::extra_pieces;
use crate::dialects::{AnswerEncoder, EncoderOpening, StreamError};
use crate::event::Event;
use crate::json::{ObjectWriter, View, write_array, write_str};
use crate::render::{made_tool_id, put};
use crate::reply::Finish;
use crate::stream::Closing;

/// Writes the frames of one streamed answer.
#[derive(Clone, Debug)]
pub struct GeminiEncoder {
    context: GeminiContext,
    opening: EncoderOpening,
    /// A frame is written.
    is_open: bool,
    /// The end of a frame behind its candidates.
    tail: Vec<u8>,
    candidates: Vec<StreamedCandidate>,
}

/// A candidate of the stream.
#[derive(Clone, Debug)]
struct StreamedCandidate {
    blocks: AnswerBlocks,
    parts: PartState,
    logprobs: CandidateLogprobs,
    finish: Option<Finish>,
}

impl GeminiEncoder {
    /// An encoder for one stream.
    #[must_use]
    pub fn new(context: GeminiContext, opening: EncoderOpening) -> Self {
        let mut tail = Vec::new();
        put(&mut tail, ",\"modelVersion\":");
        write_str(&mut tail, &opening.model);
        put(&mut tail, ",\"responseId\":");
        write_str(&mut tail, &opening.id);
        put(&mut tail, if context.is_array { "}" } else { "}\n\n" });
        Self { context, opening, is_open: false, tail, candidates: Vec::new() }
    }

    /// The candidate of a choice, and a writer of its parts.
    fn with_candidate<T>(
        &mut self,
        choice: u32,
        out: &mut Vec<u8>,
        each: impl FnOnce(&mut AnswerBlocks, &mut PartWriter<'_>) -> T,
    ) -> Option<T> {
        let index = choice as usize;
        while self.candidates.len() <= index {
            self.candidates.push(StreamedCandidate {
                blocks: AnswerBlocks::new(&self.context.content),
                parts: PartState::default(),
                logprobs: CandidateLogprobs::new(&self.context.content),
                finish: None,
            });
        }
        let StreamedCandidate { blocks, parts, .. } = self.candidates.get_mut(index)?;
        let (is_array, is_open, tail) = (self.context.is_array, &mut self.is_open, &self.tail);
        let frames = Some(PartFrames { is_array, is_open, index, tail });
        Some(each(blocks, &mut PartWriter { out, state: parts, frames }))
    }

    fn piece(&mut self, choice: u32, piece: AnswerPiece<'_>, out: &mut Vec<u8>) {
        self.with_candidate(choice, out, |blocks, writer| writer.write_piece(piece, blocks));
    }

    fn call(&mut self, choice: u32, call: u32, id: &str, name: &str, is_custom: bool, out: &mut Vec<u8>) {
        let position = self.candidates.get(choice as usize).map_or(0, |candidate| candidate.blocks.calls());
        let made =
            if id.is_empty() { made_tool_id(&self.opening.id, choice, position) } else { String::new() };
        let id = if id.is_empty() { made.as_str() } else { id };
        self.piece(choice, AnswerPiece::Call { call, id: id.into(), name: name.into(), is_custom }, out);
    }

    fn logprobs(&mut self, choice: u32, value: View<'_>) {
        if let Some(candidate) = self.candidates.get_mut(choice as usize) {
            candidate.logprobs.add(value);
        }
    }

    /// Writes the last frame.
    fn write_last(&mut self, finish: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        begin_frame(self.context.is_array, &mut self.is_open, out);
        let mut frame = ObjectWriter::begin(out);
        // A candidate that the upstream never sent is left out, as in a plain answer.
        let has_finished = self.candidates.iter().any(|candidate| candidate.finish.is_some());
        let sent = self.candidates.iter_mut().enumerate();
        let sent = sent.filter(|(_, candidate)| candidate.finish.is_some() || !has_finished);
        write_array(frame.member("candidates"), sent, |out, (at, it)| {
            let mut candidate = ObjectWriter::begin(out);
            candidate.object("content", |content| {
                let out = content.member("parts");
                out.push(b'[');
                it.parts.write_last(out);
                out.push(b']');
                content.string("role", "model");
            });
            let finish = it.finish.or(finish);
            let is_stopped = it.blocks.ending_sequence(finish).is_some();
            candidate.string("finishReason", finish_reason(finish, is_stopped));
            candidate.integer("index", at as u64);
            it.logprobs.write(&mut candidate, it.parts.bytes_before_cut(&it.blocks));
            candidate.finish();
        });
        usage::write(frame.member("usageMetadata"), &closing.usage);
        let tail = self.tail.clone();
        out.extend_from_slice(&tail);
    }
}

impl AnswerEncoder for GeminiEncoder {
    fn accept(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match event {
            Event::Text { choice, text, logprobs } => {
                let was_cut = self.with_candidate(*choice, out, |blocks, writer| {
                    let was_cut = blocks.ending_sequence(None).is_some();
                    if !text.is_empty() {
                        blocks.text(text, writer);
                    }
                    was_cut
                });
                // The client gets no text behind a cut, so its tokens need no memory.
                if let (Some(logprobs), Some(false)) = (logprobs, was_cut) {
                    self.logprobs(*choice, View::new(logprobs.get()));
                }
            }
            Event::Reasoning { choice, text } if !text.is_empty() => {
                self.piece(*choice, AnswerPiece::Thinking(text.as_ref().into()), out);
            }
            Event::Refusal { choice, text } if !text.is_empty() => {
                self.piece(*choice, AnswerPiece::Refusal(text.as_ref().into()), out);
            }
            Event::ToolStart { choice, call, id, name } => self.call(*choice, *call, id, name, false, out),
            Event::CustomStart { choice, call, id, name } => self.call(*choice, *call, id, name, true, out),
            Event::ToolArgs { choice, call, fragment } => {
                let fragment = fragment.as_ref().into();
                self.piece(*choice, AnswerPiece::Arguments { call: *call, fragment }, out);
            }
            Event::Image { choice, image } => {
                let (media_type, base64) = (image.media_type.as_ref().into(), image.base64.as_ref().into());
                self.piece(*choice, AnswerPiece::Image { media_type, base64 }, out);
            }
            Event::Extra { choice, name, value } => {
                extra_pieces(name, View::new(value.get()), |piece| self.piece(*choice, piece, out));
            }
            Event::Finish { choice, reason } => {
                self.with_candidate(*choice, out, |_, _| {});
                if let Some(candidate) = self.candidates.get_mut(*choice as usize) {
                    candidate.finish = Some(*reason);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, finish: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        let count = u32::try_from(self.candidates.len()).unwrap_or(u32::MAX).max(1);
        for choice in 0..count {
            self.with_candidate(choice, out, |blocks, writer| blocks.finish(writer));
        }
        self.write_last(finish, closing, out);
        if self.context.is_array {
            put(out, "]\n");
        }
    }

    fn fail(&mut self, error: &StreamError<'_>, out: &mut Vec<u8>) {
        begin_frame(self.context.is_array, &mut self.is_open, out);
        write_stream_error(out, error);
        put(out, if self.context.is_array { "]\n" } else { "\n\n" });
    }

    fn keepalive(&mut self, out: &mut Vec<u8>) {
        put(out, "\n\n");
    }

    fn closer(&self) -> Box<dyn AnswerEncoder> {
        let empty = Self::new(self.context.clone(), self.opening.clone());
        Box::new(Self { is_open: self.is_open, ..empty })
    }

    fn boxed_clone(&self) -> Box<dyn AnswerEncoder> {
        Box::new(self.clone())
    }

    fn held_bytes(&self) -> usize {
        let of = |candidate: &StreamedCandidate| {
            candidate.blocks.held_bytes() + candidate.parts.held_bytes() + candidate.logprobs.held_bytes()
        };
        self.candidates.iter().map(of).sum()
    }
}
