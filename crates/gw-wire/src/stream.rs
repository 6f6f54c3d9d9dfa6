//! The normaliser: events of any provider in, the client's event stream out, under every rule of CONTRACT 1.7.
//!
//! It holds the finish reasons back until the stream is closed, because the last data chunk carries what is only
//! known then: usage, cost and the `gateway` object.

mod members;
mod resume;
pub(crate) mod tools;

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::gateway::GatewayMeta;
use crate::json::write_str;
use crate::money::Money;
use crate::render::{gateway, put, put_int, raw, text_finish, usage};
use crate::reply::{Finish, Members};
use crate::usage::{BYTES_PER_TOKEN, Usage};

/// Which object a stream's chunks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `chat.completion.chunk`.
    Chat,
    /// `text_completion`.
    Text,
}

/// What is known of a stream before its first event.
#[derive(Debug)]
pub struct Opening {
    /// Object kind.
    pub shape: Shape,
    /// Our id, shared by all chunks.
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    /// The model name when the upstream reports none.
    pub model: String,
    /// How many choices may appear.
    pub choices: u32,
    /// The client asked for the usage chunk.
    pub include_usage: bool,
}

/// What is known when a stream is over.
#[derive(Debug)]
pub struct Closing<'a> {
    /// Usage, reported or estimated.
    pub usage: Usage,
    /// What it cost.
    pub cost: Money,
    /// The `gateway` object.
    pub gateway: &'a GatewayMeta,
}

#[derive(Debug, Default)]
struct Choice {
    finish: Option<Finish>,
    tools: Vec<Tool>,
    /// Pictures so far.
    images: u32,
    /// The place of each call, by the decoder's handle.
    positions: HashMap<u32, usize>,
}

impl Choice {
    fn position(&self, call: u32) -> Option<usize> {
        self.positions.get(&call).copied()
    }
}

#[derive(Debug)]
struct Tool {
    has_arguments: bool,
    is_custom: bool,
}

/// Turns events into the client's chunks. One per stream.
#[derive(Debug)]
pub struct Normaliser {
    opening: Opening,
    /// `data: {…"choices":[{"index":`, made at the first chunk.
    head: Vec<u8>,
    /// What follows the choice: `]}` or `],"usage":null}`, and the frame's end.
    tail: &'static [u8],
    choices: Vec<Choice>,
    /// Members of the answer itself, for its last chunk.
    members: Members,
    usage: Option<Usage>,
    answer_bytes: u64,
    pieces: u64,
    has_content: bool,
    ended: bool,
    failure: Option<Failure>,
    /// The text that was sent, while that is all there was; None = not kept, or more than text.
    said: Option<String>,
    /// It goes on where another stream broke off: the client knows the role.
    resumes: bool,
}

/// The frame that ends every stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// The comment sent while an upstream is silent.
pub const KEEPALIVE: &[u8] = b": keepalive\n\n";

/// So many tool calls a stream may make.
pub const MOST_TOOL_CALLS: usize = 2048;

/// Writes the error event and the end of the stream.
pub fn write_error(out: &mut Vec<u8>, message: &str, kind: &str, code: &str) {
    put(out, "data: ");
    out.extend_from_slice(&crate::error_body::error_body(message, kind, code));
    put(out, "\n\n");
    out.extend_from_slice(DONE);
}

impl Normaliser {
    /// For one stream.
    #[must_use]
    pub fn new(opening: Opening) -> Self {
        let tail: &[u8] = if opening.include_usage { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" };
        Self {
            opening,
            head: Vec::new(),
            tail,
            choices: Vec::new(),
            members: Members::default(),
            usage: None,
            answer_bytes: 0,
            pieces: 0,
            has_content: false,
            ended: false,
            failure: None,
            said: None,
            resumes: false,
        }
    }

    /// Takes one event and appends what the client is to see of it.
    pub fn accept(&mut self, event: Event<'_>, out: &mut Vec<u8>) {
        if self.failure.is_some() || self.ended {
            return;
        }
        self.keep(&event);
        let bytes = event.answer_bytes();
        self.answer_bytes += bytes;
        self.pieces += u64::from(bytes > 0);
        match event {
            Event::Start { model, .. } => {
                if let Some(model) = model.filter(|name| !name.is_empty() && self.head.is_empty()) {
                    self.opening.model = model.into_owned();
                }
            }
            Event::Text { choice, text, logprobs } => {
                if text.is_empty() && logprobs.is_none() || !self.open(choice, out) {
                    return;
                }
                self.text(choice, &text, logprobs, out);
            }
            Event::Reasoning { choice, text } => self.delta(choice, "reasoning_content", &text, out),
            Event::Refusal { choice, text } => self.delta(choice, "refusal", &text, out),
            Event::ToolStart { choice, call, id, name } => {
                self.tool_start(choice, call, &id, &name, false, out);
            }
            Event::CustomStart { choice, call, id, name } => {
                self.tool_start(choice, call, &id, &name, true, out);
            }
            Event::ToolArgs { choice, call, fragment } => self.tool_arguments(choice, call, &fragment, out),
            Event::FunctionCall { choice, name, arguments } => {
                self.function_call(choice, name.as_deref(), arguments.as_deref(), out);
            }
            Event::Image { choice, image } => self.image(choice, &image, out),
            Event::Extra { choice, name, value } => {
                if self.opening.shape == Shape::Chat && self.open(choice, out) {
                    self.begin(choice, out);
                    write_str(out, name);
                    out.push(b':');
                    raw(out, value);
                    self.end(out);
                }
            }
            Event::Member { name, value } => self.member(name, value),
            Event::Finish { choice, reason } => {
                if self.open(choice, out)
                    && let Some(state) = self.choices.get_mut(choice as usize)
                {
                    state.finish = Some(reason);
                }
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Error(failure) => self.failure = Some(failure),
            Event::End => self.end_of_stream(),
        }
    }

    /// The upstream's body ended: without an end marker, every asked-for choice must have finished.
    pub fn eof(&mut self) {
        if self.ended || self.failure.is_some() {
            return;
        }
        let finished = self.choices.iter().filter(|choice| choice.finish.is_some()).count();
        if finished == self.opening.choices as usize {
            self.ended = true;
        } else {
            self.failure = Some(Failure::new(
                FailureKind::StreamBroken,
                "The upstream's stream ended before the answer was complete.",
            ));
        }
    }

    fn end_of_stream(&mut self) {
        if !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finish.is_some()) {
            self.ended = true;
        } else {
            self.failure = Some(Failure::new(
                FailureKind::StreamBroken,
                "The upstream ended its stream without a finish reason.",
            ));
        }
    }

    /// True once something that the client sees has come: the commit point.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// True once the answer is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended
    }

    /// The failure that ended the stream, if one did.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The failure that ended the stream, if one did, for who only looks.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// True when the stream has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The upstream's usage, as far as it has told.
    #[must_use]
    pub fn told(&self) -> Option<Usage> {
        self.usage
    }

    /// Bytes of the answer so far: of everything that a model has written, whether the client sees it or not.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        self.answer_bytes
    }

    /// Tokens of the answer so far, at the least: by its bytes, and by its pieces, because most upstreams send a token at a time.
    #[must_use]
    pub fn answer_tokens(&self) -> u64 {
        self.answer_bytes.div_ceil(BYTES_PER_TOKEN).max(self.pieces)
    }

    /// Writes the finish chunks, the usage chunk if asked for, and the end.
    pub fn close(&mut self, closing: &Closing<'_>, out: &mut Vec<u8>) {
        self.complete_tools(out);
        let last = self.choices.len().saturating_sub(1);
        for index in 0..self.choices.len() {
            let reason = self.choices.get(index).and_then(|choice| choice.finish).unwrap_or(Finish::Stop);
            out.extend_from_slice(&self.head);
            put_int(out, index as u64);
            let reason = match self.opening.shape {
                Shape::Chat => {
                    put(out, ",\"delta\":{},\"finish_reason\":\"");
                    reason
                }
                Shape::Text => {
                    put(out, ",\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"");
                    text_finish(reason)
                }
            };
            put(out, reason.as_str());
            out.push(b'"');
            if index == last && !self.opening.include_usage {
                put(out, "}]");
                self.write_members(out);
                put(out, ",\"gateway\":");
                gateway(out, closing.gateway);
                put(out, "}\n\n");
            } else {
                out.extend_from_slice(self.tail);
            }
        }
        self.tell_usage(closing, out);
        out.extend_from_slice(DONE);
    }

    /// Writes the usage chunk, if it was asked for.
    pub fn tell_usage(&self, closing: &Closing<'_>, out: &mut Vec<u8>) {
        if !self.opening.include_usage {
            return;
        }
        let shared = self.head.len().saturating_sub(CHOICE_OPEN.len());
        out.extend_from_slice(self.head.get(..shared).unwrap_or_default());
        put(out, "\"choices\":[],\"usage\":");
        usage(out, &closing.usage, Some(closing.cost));
        self.write_members(out);
        put(out, ",\"gateway\":");
        gateway(out, closing.gateway);
        put(out, "}\n\n");
    }

    /// Makes the chunk head and the role chunks of every choice up to this one, in index order.
    fn open(&mut self, choice: u32, out: &mut Vec<u8>) -> bool {
        if (choice as usize) < self.choices.len() {
            return true;
        }
        if choice >= self.opening.choices {
            self.failure = Some(Failure::new(
                FailureKind::InvalidResponse,
                "The upstream sent a choice that was not asked for.",
            ));
            return false;
        }
        if self.head.is_empty() {
            self.make_head();
        }
        self.has_content = true;
        while self.choices.len() <= choice as usize {
            if self.opening.shape == Shape::Chat && !self.resumes {
                out.extend_from_slice(&self.head);
                put_int(out, self.choices.len() as u64);
                put(out, ",\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null");
                out.extend_from_slice(self.tail);
            }
            self.choices.push(Choice::default());
        }
        true
    }

    fn make_head(&mut self) {
        let head = &mut self.head;
        put(head, "data: {\"id\":");
        write_str(head, &self.opening.id);
        put(head, ",\"object\":");
        put(
            head,
            if self.opening.shape == Shape::Chat {
                "\"chat.completion.chunk\""
            } else {
                "\"text_completion\""
            },
        );
        put(head, ",\"created\":");
        put_int(head, self.opening.created);
        put(head, ",\"model\":");
        write_str(head, &self.opening.model);
        put(head, ",");
        put(head, CHOICE_OPEN);
    }

    fn text(&self, choice: u32, text: &str, logprobs: Option<&RawValue>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        put_int(out, u64::from(choice));
        let is_chat = self.opening.shape == Shape::Chat;
        put(out, if is_chat { ",\"delta\":{\"content\":" } else { ",\"text\":" });
        write_str(out, text);
        if is_chat {
            out.push(b'}');
        }
        match logprobs {
            Some(value) => {
                put(out, ",\"logprobs\":");
                raw(out, value);
            }
            None if is_chat => {}
            None => put(out, ",\"logprobs\":null"),
        }
        put(out, ",\"finish_reason\":null");
        out.extend_from_slice(self.tail);
    }

    fn begin(&self, choice: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        put_int(out, u64::from(choice));
        put(out, ",\"delta\":{");
    }

    fn end(&self, out: &mut Vec<u8>) {
        put(out, "},\"finish_reason\":null");
        out.extend_from_slice(self.tail);
    }

    fn delta(&mut self, choice: u32, name: &str, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() || self.opening.shape == Shape::Text || !self.open(choice, out) {
            return;
        }
        self.begin(choice, out);
        out.push(b'"');
        put(out, name);
        put(out, "\":");
        write_str(out, text);
        self.end(out);
    }
}

/// The last part of every chunk head.
const CHOICE_OPEN: &str = "\"choices\":[{\"index\":";

#[cfg(test)]
mod tests;
