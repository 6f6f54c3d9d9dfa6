//! A streamed answer: `message_start`, the content blocks one after the other, `message_delta` and `message_stop`.

mod frames;

use self::frames::{BlockFrames, FrameWriter};
use super::blocks::{AnswerBlocks, AnswerPiece};
use super::context::MessagesContext;
use super::extras::extra_pieces;
use super::frame::{PING, put_frame};
use super::native::MessagesFrames;
use super::{errors, native, response, usage};
use crate::dialects::{AnswerEncoder, ClientDialect, EncoderOpening, StreamError};
use crate::event::Event;
use crate::json::{View, write_str};
use crate::render::{made_tool_id, put};
use crate::reply::{Finish, STOP_SEQUENCE};
use crate::stream::Closing;
use crate::usage::Usage;

/// Writes the frames of one streamed answer.
#[derive(Clone, Debug)]
pub struct MessagesEncoder {
    context: MessagesContext,
    opening: EncoderOpening,
    /// `message_start` is written.
    is_open: bool,
    /// The usage that the upstream reported so far.
    usage: Option<Usage>,
    blocks: AnswerBlocks,
    frames: BlockFrames,
    native: MessagesFrames,
}

impl MessagesEncoder {
    /// An encoder for one stream.
    #[must_use]
    pub fn new(context: MessagesContext, opening: EncoderOpening) -> Self {
        Self {
            blocks: AnswerBlocks::new(&context),
            context,
            opening,
            is_open: false,
            usage: None,
            frames: BlockFrames::default(),
            native: MessagesFrames::default(),
        }
    }

    /// Writes `message_start` if it is not written yet.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        if let Some(start) = self.native.take_start() {
            return put_frame(out, "message_start", &start);
        }
        put(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":");
        write_str(out, &self.opening.id);
        put(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
        write_str(out, &self.opening.model);
        put(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
        let estimate = Usage { prompt: self.opening.prompt_tokens, ..Usage::default() };
        let reported = self.usage.filter(|usage| usage.prompt > 0);
        usage::write_first(out, &reported.unwrap_or(estimate));
        put(out, "}}\n\n");
    }

    /// Takes a frame of an upstream that speaks this dialect, before the events that were decoded from it. From the
    /// first frame on, the stream consists of the upstream's frames. Only the gateway's own members are added, and
    /// signatures are replaced by those of the events.
    pub fn native_frame(&mut self, name: &str, data: &str, out: &mut Vec<u8>) {
        if !self.native.begin() {
            return;
        }
        match name {
            "message_start" if self.is_open => {}
            "message_start" => {
                let [message] = View::new(data).pick(["message"]);
                message.into_iter().for_each(|message| self.context.answer_ids.tell(message));
                let estimate = Usage { prompt: self.opening.prompt_tokens, ..Usage::default() };
                self.native.keep_start(&native::with_first_usage(data, &estimate));
            }
            "ping" if self.is_open => put(out, PING),
            "message_delta" => self.native.message_delta(data, out),
            // The end of the stream is written by `finish` and `fail`.
            "ping" | "message_stop" | "error" => {}
            // A block without a delta is no content yet: another upstream may still take over.
            "content_block_start" if !self.is_open && !self.native.has_block() => {
                self.native.keep_block(data);
            }
            _ if name.bytes().any(|byte| byte.is_ascii_control()) => {}
            _ => {
                self.begin_native(out);
                self.native.block_frame(name, data, out);
            }
        }
    }

    /// Writes the first frames of a native stream, if they are not written yet.
    fn begin_native(&mut self, out: &mut Vec<u8>) {
        self.open(out);
        if let Some(block) = self.native.take_block() {
            self.native.block_frame("content_block_start", &block, out);
        }
    }

    fn piece(&mut self, piece: AnswerPiece<'_>, out: &mut Vec<u8>) {
        self.open(out);
        self.blocks.take(piece, &mut FrameWriter { out, frames: &mut self.frames });
    }

    fn call(&mut self, call: u32, id: &str, name: &str, is_custom: bool, out: &mut Vec<u8>) {
        let made = if id.is_empty() {
            made_tool_id(&self.opening.id, 0, self.blocks.calls())
        } else {
            String::new()
        };
        let id = if id.is_empty() { made.as_str() } else { id };
        self.piece(AnswerPiece::Call { call, id: id.into(), name: name.into(), is_custom }, out);
    }

    fn content(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match event {
            Event::Text { choice: 0, text, .. } if !text.is_empty() => {
                self.open(out);
                self.blocks.text(text, &mut FrameWriter { out, frames: &mut self.frames });
            }
            Event::Reasoning { choice: 0, text } if !text.is_empty() => {
                self.piece(AnswerPiece::Thinking(text.as_ref().into()), out);
            }
            Event::Refusal { choice: 0, text } if !text.is_empty() => {
                self.piece(AnswerPiece::Refusal(text.as_ref().into()), out);
            }
            Event::ToolStart { choice: 0, call, id, name } => self.call(*call, id, name, false, out),
            Event::CustomStart { choice: 0, call, id, name } => self.call(*call, id, name, true, out),
            Event::ToolArgs { choice: 0, call, fragment } => {
                let fragment = fragment.as_ref().into();
                self.piece(AnswerPiece::Arguments { call: *call, fragment }, out);
            }
            Event::Image { choice: 0, image } => {
                let (media_type, base64) = (image.media_type.as_ref().into(), image.base64.as_ref().into());
                self.piece(AnswerPiece::Image { media_type, base64 }, out);
            }
            Event::Extra { choice: 0, name, value } => {
                extra_pieces(name, View::new(value.get()), |piece| self.piece(piece, out));
            }
            _ => {}
        }
    }

    /// Takes the sealed signatures that belong to native frames, and the arguments of calls. Text and calls come after the
    /// signatures.
    fn seals(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match event {
            Event::Extra { choice: 0, name: "reasoning_details", value } => {
                extra_pieces("reasoning_details", View::new(value.get()), |piece| {
                    if let AnswerPiece::Signature(seal) | AnswerPiece::Redacted(seal) = piece {
                        self.native.seal(&seal, out);
                    }
                });
            }
            Event::ToolStart { call, .. } => {
                self.native.calls.start(*call);
                self.native.flush(out);
            }
            Event::ToolArgs { call, fragment, .. } => self.native.calls.push(*call, fragment),
            Event::Text { .. } | Event::Refusal { .. } => self.native.flush(out),
            _ => {}
        }
    }

    fn finish_native(&mut self, closing: &Closing<'_>, out: &mut Vec<u8>) -> bool {
        self.native.flush(out);
        let Some(end) = self.native.take_end() else { return false };
        let spliced = native::with_gateway(&end, closing, self.context.plain);
        put_frame(out, "message_delta", &String::from_utf8_lossy(&spliced));
        true
    }

    fn message_delta(&self, finish: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        put(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
        response::write_stop(out, finish, &self.blocks);
        put(out, "},\"usage\":");
        let cost = (!self.context.plain).then_some(closing.cost).flatten();
        usage::write_last(out, &closing.usage, cost);
        if !self.context.plain {
            put(out, ",\"gateway\":");
            crate::render::gateway(out, closing.gateway);
        }
        put(out, "}\n\n");
    }
}

/// The error of a stream with a tool call that a client could not read. Its blocks are sent already.
const BROKEN_CALL: &str = "The upstream's answer has a tool call whose arguments are not valid JSON.";

impl AnswerEncoder for MessagesEncoder {
    fn accept(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match event {
            Event::Start { model, .. } => {
                if let Some(model) = model.as_deref().filter(|name| !name.is_empty() && !self.is_open) {
                    model.clone_into(&mut self.opening.model);
                }
            }
            Event::Usage(usage) => self.usage = Some(usage.after(self.usage)),
            Event::Frame { dialect: ClientDialect::Messages, name, data } => {
                self.native_frame(name, data, out)
            }
            Event::Member { name, value } => {
                if *name == STOP_SEQUENCE {
                    self.blocks.report_stop(&self.context, View::new(value.get()));
                }
            }
            _ if self.native.is_active() => {
                self.begin_native(out);
                self.seals(event, out);
            }
            _ => self.content(event, out),
        }
    }

    fn finish(&mut self, finish: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        if self.usage.is_none() {
            self.usage = Some(closing.usage);
        }
        self.begin_native(out);
        if !self.finish_native(closing, out) {
            // The normaliser notices the fault of a stream. A stored answer has none.
            if let Some(message) = self.fault(finish) {
                let error = StreamError::new(message, "upstream_error", "upstream_stream_error");
                return self.fail(&error, out);
            }
            self.blocks.finish(&mut FrameWriter { out, frames: &mut self.frames });
            self.message_delta(finish, closing, out);
        }
        put(out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    }

    fn fail(&mut self, error: &StreamError<'_>, out: &mut Vec<u8>) {
        self.open(out);
        put(out, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"");
        put(out, errors::stream_error_type(error));
        put(out, "\",\"message\":");
        write_str(out, error.message);
        put(out, "}}\n\n");
    }

    fn fault(&self, finish: Option<Finish>) -> Option<&'static str> {
        // The other ends tell the client that the answer is not whole.
        let is_whole = !matches!(finish, Some(Finish::Length | Finish::ContentFilter));
        let has_broken_call = || self.blocks.has_broken_call() || self.native.calls.has_broken();
        (is_whole && has_broken_call()).then_some(BROKEN_CALL)
    }

    fn keepalive(&mut self, out: &mut Vec<u8>) {
        put(out, PING);
    }

    fn closer(&self) -> Box<dyn AnswerEncoder> {
        let empty = Self::new(self.context.clone(), self.opening.clone());
        Box::new(Self { is_open: self.is_open, usage: self.usage, ..empty })
    }

    fn boxed_clone(&self) -> Box<dyn AnswerEncoder> {
        let mut copy = self.clone();
        if let Some(open) = self.native.continued() {
            // Another upstream's frames would count their blocks from 0 again, so its events are translated.
            copy.native = MessagesFrames::refused();
            copy.frames = BlockFrames::after(open.index, open.is_text);
            copy.blocks = if open.is_text {
                AnswerBlocks::in_text(&self.context)
            } else {
                AnswerBlocks::new(&self.context)
            };
        }
        Box::new(copy)
    }

    fn held_bytes(&self) -> usize {
        self.blocks.held_bytes() + self.native.held_bytes()
    }
}
