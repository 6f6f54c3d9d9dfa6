//! The parts of a candidate, from the blocks of the answer: text, thoughts, calls and images.
//!
//! Opaque strings stand before the part that they come before, in its `thoughtSignature`: some clients keep the parts of a
//! call and of the text, and forget those of thoughts. A part without text takes those that no part follows.

use super::seals::PartSeals;
use crate::conversation::split_thought;
use crate::dialects::messages::blocks::{AnswerBlocks, AnswerPiece, BlockWriter, input_object};
use crate::json::{View, write_escaped, write_object, write_str};
use crate::render::put;
use crate::reply::Finish;

/// The state of a candidate's parts.
#[derive(Clone, Debug, Default)]
pub(super) struct PartState {
    open: OpenPart,
    /// The opaque strings for the next part.
    seals: PartSeals,
    /// The candidate has a part.
    has_parts: bool,
    /// The text of the open part has begun, in a complete answer.
    is_inside: bool,
    /// Bytes of the texts that are no thoughts.
    text_bytes: usize,
    /// Bytes of them that belong to refusals.
    refusal_bytes: usize,
}

#[derive(Clone, Debug, Default)]
enum OpenPart {
    #[default]
    None,
    Text,
    Thought,
    Call {
        id: String,
        name: String,
        arguments: String,
    },
}

impl PartState {
    /// Bytes that are kept until later.
    pub(super) fn held_bytes(&self) -> usize {
        let open = match &self.open {
            OpenPart::Call { id, name, arguments } => id.len() + name.len() + arguments.len(),
            OpenPart::None | OpenPart::Text | OpenPart::Thought => 0,
        };
        open + self.seals.held_bytes()
    }

    /// Writes the part that takes the last opaque strings. A content needs a part, so an empty text takes its place.
    pub(super) fn write_last(&mut self, out: &mut Vec<u8>) {
        out.push(b'{');
        let is_sealed = self.write_signature(out);
        put(out, if is_sealed { "\"text\":\"\",\"thought\":true}" } else { "\"text\":\"\"}" });
    }

    /// Whether a complete candidate needs [`PartState::write_last`].
    pub(super) fn needs_last(&self) -> bool {
        !self.seals.is_empty() || !self.has_parts
    }

    /// The bytes of the answer's text before the stop sequence at which the gateway cut it. None: nothing is cut.
    pub(super) fn bytes_before_cut(&self, blocks: &AnswerBlocks) -> Option<usize> {
        // Without a finish reason, only a cut counts.
        blocks.ending_sequence(None)?;
        Some(self.text_bytes.saturating_sub(self.refusal_bytes))
    }

    /// Whether the candidate has a part.
    pub(super) fn has_parts(&self) -> bool {
        self.has_parts
    }

    /// Writes `thoughtSignature`, the first member of a part, if there are opaque strings.
    fn write_signature(&mut self, out: &mut Vec<u8>) -> bool {
        if self.seals.is_empty() {
            return false;
        }
        put(out, "\"thoughtSignature\":\"");
        put(out, &std::mem::take(&mut self.seals).write());
        put(out, "\",");
        true
    }
}

/// The frames of a stream, of which each has one part.
pub(super) struct PartFrames<'w> {
    /// The stream is a JSON array.
    pub(super) is_array: bool,
    /// The stream has a frame.
    pub(super) is_open: &'w mut bool,
    /// The candidate's position.
    pub(super) index: usize,
    /// The end of a frame behind the position.
    pub(super) tail: &'w [u8],
}

impl PartFrames<'_> {
    /// Writes the beginning of a frame.
    fn begin(&mut self, out: &mut Vec<u8>) {
        begin_frame(self.is_array, self.is_open, out);
        put(out, "{\"candidates\":[{\"content\":{\"parts\":[");
    }

    fn end(&self, out: &mut Vec<u8>) {
        put(out, "],\"role\":\"model\"},\"index\":");
        put(out, itoa::Buffer::new().format(self.index));
        put(out, "}]");
        out.extend_from_slice(self.tail);
    }
}

/// Writes the text before a frame's object.
pub(super) fn begin_frame(is_array: bool, is_open: &mut bool, out: &mut Vec<u8>) {
    let is_first = !std::mem::replace(is_open, true);
    put(
        out,
        if !is_array {
            "data: "
        } else if is_first {
            "["
        } else {
            ",\n"
        },
    );
}

/// Writes the parts of a candidate: frames of a stream, or the elements of a list.
pub(super) struct PartWriter<'w> {
    pub(super) out: &'w mut Vec<u8>,
    pub(super) state: &'w mut PartState,
    /// None: a complete answer.
    pub(super) frames: Option<PartFrames<'w>>,
}

impl PartWriter<'_> {
    /// Writes a piece of the answer by way of its blocks.
    pub(super) fn write_piece(&mut self, piece: AnswerPiece<'_>, blocks: &mut AnswerBlocks) {
        // A refusal is written as text, but `logprobs.content` holds no tokens of it.
        if let AnswerPiece::Refusal(text) = &piece
            && blocks.ending_sequence(None).is_none()
        {
            self.state.refusal_bytes += text.len();
        }
        blocks.take(piece, self);
    }

    /// Begins a part.
    fn begin(&mut self) {
        match &mut self.frames {
            Some(frames) => frames.begin(self.out),
            None if self.state.has_parts => self.out.push(b','),
            None => {}
        }
        self.state.has_parts = true;
        self.out.push(b'{');
        self.state.write_signature(self.out);
    }

    /// Ends a part.
    fn end(&mut self) {
        self.out.push(b'}');
        if let Some(frames) = &self.frames {
            frames.end(self.out);
        }
    }

    fn piece(&mut self, text: &str, is_thought: bool) {
        if self.frames.is_none() {
            if !self.state.is_inside {
                self.begin();
                put(self.out, "\"text\":\"");
                self.state.is_inside = true;
            }
            return write_escaped(self.out, text);
        }
        self.begin();
        put(self.out, "\"text\":");
        write_str(self.out, text);
        if is_thought {
            put(self.out, THOUGHT);
        }
        self.end();
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let (id, signature) = split_thought(id);
        self.state.seals.call = signature.map(str::to_owned);
        self.begin();
        put(self.out, "\"functionCall\":");
        write_object(self.out, |call| {
            call.string("id", id);
            call.string("name", name);
            // Line breaks in JSON stand between its values.
            let arguments = input_object(arguments);
            let line = View::new(&arguments).text().bytes().filter(|byte| !matches!(byte, b'\n' | b'\r'));
            call.member("args").extend(line);
        });
        self.end();
    }
}

/// The member that marks a thought.
const THOUGHT: &str = ",\"thought\":true";

impl BlockWriter for PartWriter<'_> {
    fn start_thinking(&mut self) {
        self.state.open = OpenPart::Thought;
    }

    fn thinking(&mut self, text: &str) {
        self.piece(text, true);
    }

    fn signature(&mut self, signature: &str) {
        self.state.seals.details.push(signature.to_owned());
    }

    fn start_text(&mut self) {
        self.state.open = OpenPart::Text;
    }

    fn text(&mut self, text: &str) {
        self.state.text_bytes += text.len();
        self.piece(text, false);
    }

    // This API has sources for whole answers only, and they belong to Google's own search.
    fn citation(&mut self, _citation: &[u8]) {}

    fn start_tool(&mut self, id: &str, name: &str) {
        self.state.open =
            OpenPart::Call { id: id.to_owned(), name: name.to_owned(), arguments: String::new() };
    }

    fn arguments(&mut self, fragment: &str) {
        if let OpenPart::Call { arguments, .. } = &mut self.state.open {
            arguments.push_str(fragment);
        }
    }

    fn stop(&mut self) {
        match std::mem::take(&mut self.state.open) {
            OpenPart::Call { id, name, arguments } => self.call(&id, &name, &arguments),
            open if std::mem::take(&mut self.state.is_inside) => {
                put(self.out, if matches!(open, OpenPart::Thought) { "\",\"thought\":true" } else { "\"" });
                self.end();
            }
            OpenPart::None | OpenPart::Text | OpenPart::Thought => {}
        }
    }

    fn redacted(&mut self, data: &str) {
        self.state.seals.details.push(data.to_owned());
    }

    fn image(&mut self, media_type: &str, base64: &str) {
        self.out.reserve(base64.len() + 512);
        self.begin();
        put(self.out, "\"inlineData\":{\"mimeType\":\"");
        write_escaped(self.out, media_type);
        put(self.out, "\",\"data\":\"");
        write_escaped(self.out, base64);
        put(self.out, "\"}");
        self.end();
    }
}

/// `finishReason`. `is_stopped`: a stop sequence ended the answer.
pub(super) fn finish_reason(finish: Option<Finish>, is_stopped: bool) -> &'static str {
    match finish {
        _ if is_stopped => "STOP",
        Some(Finish::Length) => "MAX_TOKENS",
        Some(Finish::ContentFilter) => "SAFETY",
        // A call ends with STOP, too.
        Some(Finish::Stop | Finish::ToolCalls | Finish::FunctionCall) | None => "STOP",
    }
}
