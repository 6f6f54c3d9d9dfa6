//! The content blocks of an answer, from its pieces in the order in which the model made them. Streams and complete
//! answers go through the same state, so both have the same blocks.
//!
//! One block is open at a time. A tool call whose arguments are incomplete stays open. The pieces of later blocks wait
//! until its arguments are complete.

mod arguments;
mod waiting;

use std::borrow::Cow;

use self::arguments::CallArguments;
use self::waiting::{WaitingCall, WaitingPieces};
use super::context::{MessagesContext, ThinkingDisplay};
use super::stops::StopCutter;
use crate::json::View;
use crate::reply::Finish;
use crate::stream::MAX_TOOL_CALLS;

pub(in crate::dialects) use self::arguments::input_object;

/// Writes blocks. Each block begins with a `start_` call and ends with `stop`.
pub(in crate::dialects) trait BlockWriter {
    /// Begins a thinking block.
    fn start_thinking(&mut self);
    /// Appends thinking.
    fn thinking(&mut self, text: &str);
    /// Signs the open thinking block. It is the last piece of the block.
    fn signature(&mut self, signature: &str);
    /// Begins a text block.
    fn start_text(&mut self);
    /// Appends text.
    fn text(&mut self, text: &str);
    /// Adds a citation, a JSON object, to the open text block.
    fn citation(&mut self, citation: &[u8]);
    /// Begins a call.
    fn start_tool(&mut self, id: &str, name: &str);
    /// Appends a fragment of the call's arguments. All fragments are a JSON object.
    fn arguments(&mut self, fragment: &str);
    /// Ends the open block.
    fn stop(&mut self);
    /// Writes a whole block of encrypted thinking.
    fn redacted(&mut self, data: &str);
    /// Writes a whole block with an image.
    fn image(&mut self, media_type: &str, base64: &str);
}

/// A piece of an answer.
#[derive(Clone, Debug)]
pub(in crate::dialects) enum AnswerPiece<'a> {
    Text(Cow<'a, str>),
    Refusal(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    /// The signature of the thinking before it.
    Signature(Cow<'a, str>),
    Redacted(Cow<'a, str>),
    Image {
        media_type: Cow<'a, str>,
        base64: Cow<'a, str>,
    },
    /// A citation of the text before it: a JSON object.
    Citation(Vec<u8>),
    /// A call begins. `call` is the decoder's number of it.
    Call {
        call: u32,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        is_custom: bool,
    },
    /// A fragment of a call's arguments.
    Arguments {
        call: u32,
        fragment: Cow<'a, str>,
    },
}

#[derive(Clone, Debug, Default)]
enum OpenBlock {
    #[default]
    None,
    Thinking {
        /// The block has its signature, so nothing can be added to it.
        is_signed: bool,
    },
    Text,
    Refusal,
    Call {
        call: u32,
        arguments: CallArguments,
    },
}

/// The most bytes of a refusal that are kept for `stop_details`.
const MAX_EXPLANATION_BYTES: usize = 4096;

/// The state of an answer's blocks.
#[derive(Clone, Debug, Default)]
pub(in crate::dialects) struct AnswerBlocks {
    open: OpenBlock,
    thinking: ThinkingDisplay,
    cutter: Option<StopCutter>,
    waiting: WaitingPieces,
    calls: usize,
    refusal: Option<String>,
    /// The stop sequence that the upstream reports.
    reported_stop: Option<String>,
    /// The arguments of a call that ended were no JSON.
    has_broken_call: bool,
}

impl AnswerBlocks {
    /// The blocks of an answer to this request.
    pub(in crate::dialects) fn new(context: &MessagesContext) -> Self {
        Self { thinking: context.thinking, cutter: StopCutter::new(&context.extra_stops), ..Self::default() }
    }

    /// The blocks after an open text block that another encoder began.
    pub(super) fn in_text(context: &MessagesContext) -> Self {
        Self { open: OpenBlock::Text, ..Self::new(context) }
    }

    /// Number of calls so far.
    pub(in crate::dialects) fn calls(&self) -> usize {
        self.calls
    }

    /// The beginning of the refusal, if the model refused.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// The stop sequence at which the answer was cut.
    fn stop_sequence(&self) -> Option<&str> {
        self.cutter.as_ref().and_then(StopCutter::found)
    }

    /// Takes the stop sequence that the upstream reports, if it is one of the client's. Upstreams report the end of a turn
    /// in the same way.
    pub(super) fn report_stop(&mut self, context: &MessagesContext, value: View<'_>) {
        let found = |stop: Cow<'_, str>| context.sent_stops.iter().find(|sent| **sent == *stop).cloned();
        self.reported_stop = value.string().and_then(found);
    }

    /// The stop sequence that ended the answer: the one at which it was cut, or else the one that the upstream reports.
    pub(in crate::dialects) fn ending_sequence(&self, finish: Option<Finish>) -> Option<&str> {
        let is_stopped = finish == Some(Finish::Stop) && self.calls == 0;
        self.stop_sequence().or(self.reported_stop.as_deref().filter(|_| is_stopped))
    }

    /// Whether the arguments of a call so far are no JSON object.
    pub(super) fn has_broken_call(&self) -> bool {
        let is_broken = |(text, is_custom): (&str, bool)| {
            let mut arguments = CallArguments::new(is_custom);
            arguments.push(text);
            !arguments.is_json()
        };
        self.has_broken_call
            || matches!(&self.open, OpenBlock::Call { arguments, .. } if !arguments.is_json())
            || self.stop_sequence().is_none() && self.waiting.calls().any(is_broken)
    }

    /// Bytes that are kept until later.
    pub(in crate::dialects) fn held_bytes(&self) -> usize {
        let open = match &self.open {
            OpenBlock::Call { arguments, .. } => arguments.held_bytes(),
            _ => 0,
        };
        open + self.waiting.bytes() + self.cutter.as_ref().map_or(0, StopCutter::held_bytes)
    }

    /// Appends text: the usual piece.
    pub(in crate::dialects) fn text(&mut self, text: &str, writer: &mut impl BlockWriter) {
        if matches!(self.open, OpenBlock::Text) && self.cutter.is_none() {
            return writer.text(text);
        }
        self.take(AnswerPiece::Text(Cow::Borrowed(text)), writer);
    }

    /// Takes one piece.
    pub(in crate::dialects) fn take(&mut self, piece: AnswerPiece<'_>, writer: &mut impl BlockWriter) {
        if self.stop_sequence().is_some() {
            return;
        }
        if let AnswerPiece::Arguments { call, fragment } = &piece {
            return self.take_arguments(*call, fragment, writer);
        }
        if matches!(piece, AnswerPiece::Call { .. }) {
            if self.calls >= MAX_TOOL_CALLS {
                return;
            }
            self.calls += 1;
        }
        if self.must_wait() {
            return self.waiting.push(piece);
        }
        self.write(piece, writer);
    }

    /// Writes all pieces that wait, and ends the open block.
    pub(in crate::dialects) fn finish(&mut self, writer: &mut impl BlockWriter) {
        self.close(writer);
        while let Some((piece, arguments)) = self.waiting.pop() {
            self.write_waiting(piece, arguments, writer);
        }
        self.close(writer);
    }

    fn must_wait(&self) -> bool {
        let is_incomplete =
            matches!(&self.open, OpenBlock::Call { arguments, .. } if !arguments.is_complete());
        is_incomplete || !self.waiting.is_empty()
    }

    fn take_arguments(&mut self, call: u32, fragment: &str, writer: &mut impl BlockWriter) {
        match &mut self.open {
            OpenBlock::Call { call: open, arguments } if *open == call => {
                let piece = arguments.push(fragment);
                if !piece.is_empty() {
                    writer.arguments(&piece);
                }
                if arguments.is_complete() && !self.waiting.is_empty() {
                    self.drain(writer);
                }
            }
            _ => self.waiting.add_arguments(call, fragment),
        }
    }

    /// Writes the pieces that wait, up to the next incomplete call.
    fn drain(&mut self, writer: &mut impl BlockWriter) {
        loop {
            let is_incomplete =
                matches!(&self.open, OpenBlock::Call { arguments, .. } if !arguments.is_complete());
            if is_incomplete {
                return;
            }
            let Some((piece, arguments)) = self.waiting.pop() else { return };
            self.write_waiting(piece, arguments, writer);
        }
    }

    fn write_waiting(
        &mut self,
        piece: AnswerPiece<'static>,
        arguments: Option<WaitingCall>,
        writer: &mut impl BlockWriter,
    ) {
        if self.stop_sequence().is_some() {
            return;
        }
        self.write(piece, writer);
        if let (Some(waiting), OpenBlock::Call { arguments, .. }) = (arguments, &mut self.open) {
            let piece = arguments.push(&waiting.arguments);
            if !piece.is_empty() {
                writer.arguments(&piece);
            }
        }
    }

    fn write(&mut self, piece: AnswerPiece<'_>, writer: &mut impl BlockWriter) {
        match piece {
            AnswerPiece::Text(text) => self.write_text(&text, writer),
            AnswerPiece::Refusal(text) => self.write_refusal(&text, writer),
            AnswerPiece::Thinking(text) => self.write_thinking(&text, writer),
            AnswerPiece::Signature(signature) => self.write_signature(&signature, writer),
            AnswerPiece::Redacted(data) => {
                if self.thinking != ThinkingDisplay::Hidden {
                    self.close(writer);
                    writer.redacted(&data);
                }
            }
            AnswerPiece::Image { media_type, base64 } => {
                self.close(writer);
                writer.image(&media_type, &base64);
            }
            AnswerPiece::Citation(citation) => {
                if matches!(self.open, OpenBlock::Text) {
                    writer.citation(&citation);
                }
            }
            AnswerPiece::Call { call, id, name, is_custom } => {
                self.close(writer);
                // The text that was held back can end the answer.
                if self.stop_sequence().is_none() {
                    writer.start_tool(&id, &name);
                    self.open = OpenBlock::Call { call, arguments: CallArguments::new(is_custom) };
                }
            }
            AnswerPiece::Arguments { .. } => {}
        }
    }

    fn write_text(&mut self, text: &str, writer: &mut impl BlockWriter) {
        let text = match &mut self.cutter {
            Some(cutter) => Cow::Owned(cutter.push(text)),
            None => Cow::Borrowed(text),
        };
        if !text.is_empty() {
            self.write_whole_text(&text, writer);
        }
    }

    fn write_whole_text(&mut self, text: &str, writer: &mut impl BlockWriter) {
        if !matches!(self.open, OpenBlock::Text) {
            self.close_block(writer);
            writer.start_text();
            self.open = OpenBlock::Text;
        }
        writer.text(text);
    }

    fn write_refusal(&mut self, text: &str, writer: &mut impl BlockWriter) {
        if !matches!(self.open, OpenBlock::Refusal) {
            self.close(writer);
            writer.start_text();
            self.open = OpenBlock::Refusal;
        }
        writer.text(text);
        let kept = self.refusal.get_or_insert_default();
        let room = MAX_EXPLANATION_BYTES.saturating_sub(kept.len());
        kept.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
    }

    fn write_thinking(&mut self, text: &str, writer: &mut impl BlockWriter) {
        if self.thinking != ThinkingDisplay::Shown {
            return;
        }
        self.open_thinking(writer);
        writer.thinking(text);
    }

    fn open_thinking(&mut self, writer: &mut impl BlockWriter) {
        if !matches!(self.open, OpenBlock::Thinking { is_signed: false }) {
            self.close(writer);
            writer.start_thinking();
            self.open = OpenBlock::Thinking { is_signed: false };
        }
    }

    /// Signs the open thinking. A signature that comes later gets a block of its own, because it must not be lost.
    fn write_signature(&mut self, signature: &str, writer: &mut impl BlockWriter) {
        if self.thinking == ThinkingDisplay::Hidden || signature.is_empty() {
            return;
        }
        self.open_thinking(writer);
        writer.signature(signature);
        self.open = OpenBlock::Thinking { is_signed: true };
    }

    /// Ends the open block, after the text that was held back for it.
    fn close(&mut self, writer: &mut impl BlockWriter) {
        if let Some(cutter) = &mut self.cutter {
            let held = cutter.end();
            if !held.is_empty() {
                self.write_whole_text(&held, writer);
            }
        }
        self.close_block(writer);
    }

    fn close_block(&mut self, writer: &mut impl BlockWriter) {
        match std::mem::take(&mut self.open) {
            OpenBlock::None => return,
            OpenBlock::Call { arguments, .. } => {
                self.has_broken_call |= !arguments.is_json();
                let rest = arguments.end();
                if !rest.is_empty() {
                    writer.arguments(&rest);
                }
            }
            OpenBlock::Thinking { .. } | OpenBlock::Text | OpenBlock::Refusal => {}
        }
        writer.stop();
    }
}
