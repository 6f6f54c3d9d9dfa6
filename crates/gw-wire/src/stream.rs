//! The normaliser: turns the events of any provider into the client's event stream.
//!
//! It holds the finish reasons back until the end, because the last data chunk carries usage, cost and the `gateway`
//! object, which are known only then.

mod encoded;
mod ending;
mod legacy;
mod members;
mod recorded;
mod resume;
mod texts;
mod tools;

use std::collections::HashMap;
use std::sync::Arc;

use self::legacy::LegacyCalls;
use self::recorded::LeaderReading;
use self::texts::{ChunkParts, TextFrame};
use crate::dialects::{AnswerEncoder, AnswerForm, ClientDialect, EncoderOpening};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::gateway::GatewayMeta;
use crate::json::{write_raw, write_str};
use crate::money::Money;
use crate::render::{put, put_int};
use crate::reply::{Finish, Members};
use crate::usage::{BYTES_PER_TOKEN, PromptWork, Usage};

pub use self::ending::close_with_error;

/// The kind of a stream's chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `chat.completion.chunk`.
    Chat,
    /// `text_completion`.
    Text,
}

/// Facts about a stream that are known before its first event.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Object kind.
    pub shape: Shape,
    /// The stream's id, shared by all chunks.
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    /// The model name if the upstream reports none.
    pub model: String,
    /// Maximum number of choices.
    pub choices: u32,
    /// Whether the client asked for the usage chunk.
    pub include_usage: bool,
    /// Writes the answer of a client that speaks another dialect than OpenAI's.
    pub form: Option<Arc<dyn AnswerForm>>,
    /// The estimate of the prompt's tokens.
    pub prompt_tokens: u64,
}

impl Opening {
    /// The encoder of a client that speaks another dialect than OpenAI's.
    #[must_use]
    pub fn encoder(&self) -> Option<Box<dyn AnswerEncoder>> {
        let opening = EncoderOpening {
            id: self.id.clone(),
            created: self.created,
            model: self.model.clone(),
            prompt_tokens: self.prompt_tokens,
        };
        self.form.as_ref().map(|form| form.encoder(opening))
    }
}

/// Facts about a stream that are known at its end.
#[derive(Debug)]
pub struct Closing<'a> {
    /// Usage, reported or estimated.
    pub usage: Usage,
    /// The request's cost; None = a price is unknown.
    pub cost: Option<Money>,
    /// The `gateway` object.
    pub gateway: &'a GatewayMeta,
}

#[derive(Debug, Default)]
struct ChoiceState {
    finish: Option<Finish>,
    /// The upstream has sent a part of this choice. Otherwise a later choice has opened it.
    is_begun: bool,
    tools: Vec<StreamedTool>,
    /// The call in OpenAI's older form, of which a choice has one.
    function: Option<StreamedFunction>,
    /// Number of images so far.
    images: u32,
    /// The position of each call, by the decoder's number.
    positions: HashMap<u32, usize>,
}

impl ChoiceState {
    fn position(&self, call: u32) -> Option<usize> {
        self.positions.get(&call).copied()
    }
}

#[derive(Debug)]
struct StreamedTool {
    has_arguments: bool,
    is_custom: bool,
}

#[derive(Debug, Default)]
struct StreamedFunction {
    is_named: bool,
    has_arguments: bool,
}

/// Turns events into the client's chunks. Each stream has its own.
#[derive(Debug)]
pub struct Normaliser {
    opening: Opening,
    /// The prompts that share the choices.
    prompts: u32,
    /// `data: {…"choices":[{"index":`, made with the first chunk.
    head: Vec<u8>,
    /// The end of a chunk after its choice: `]}` or `],"usage":null}`, and the blank line.
    tail: &'static [u8],
    text_frame: TextFrame,
    choices: Vec<ChoiceState>,
    /// Members of the answer itself, for the last chunk.
    members: Members,
    usage: Option<Usage>,
    answer_bytes: u64,
    pieces: u64,
    has_content: bool,
    /// How often the upstream has shown that its model works out of sight.
    signs_of_work: u64,
    is_complete: bool,
    failure: Option<Failure>,
    /// Whether the failure is that of an answer that came whole, but that the client's dialect cannot carry.
    is_answer_unreadable: bool,
    /// The sent text while nothing else was sent; None = not kept, or something else was sent.
    sent_text: Option<String>,
    /// Whether it continues another stream, so that the client already has the role.
    is_continuation: bool,
    /// Writes the answer of a client that speaks another dialect than OpenAI's. It writes nothing of a chat's chunks then.
    encoder: Option<Box<dyn AnswerEncoder>>,
    /// The calls in OpenAI's older form, which the encoder gets at their end.
    legacy: LegacyCalls,
    /// It writes a log of the events, and nothing for a client.
    is_recording: bool,
    /// Finds out whether the client that pays for a recorded stream can read its answer.
    reading: Option<Box<LeaderReading>>,
}

/// The frame that ends every stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// The comment sent while an upstream is silent.
pub const KEEPALIVE: &[u8] = b": keepalive\n\n";

/// The most bytes of output that are reserved before they are written.
const MAX_RESERVED_BYTES: usize = 16 << 10;

/// Maximum number of tool calls of a choice.
pub const MAX_TOOL_CALLS: usize = 2048;

impl Normaliser {
    /// A normaliser for one stream.
    #[must_use]
    pub fn new(opening: Opening) -> Self {
        let tail: &[u8] = if opening.include_usage { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" };
        Self {
            encoder: opening.encoder(),
            opening,
            prompts: 1,
            head: Vec::new(),
            tail,
            text_frame: TextFrame::default(),
            choices: Vec::new(),
            members: Members::default(),
            usage: None,
            answer_bytes: 0,
            pieces: 0,
            has_content: false,
            signs_of_work: 0,
            is_complete: false,
            failure: None,
            is_answer_unreadable: false,
            sent_text: None,
            is_continuation: false,
            legacy: LegacyCalls::default(),
            is_recording: false,
            reading: None,
        }
    }

    /// The normaliser of an answer to several prompts, each of which has as many of the choices. An answer without a choice for one of
    /// them is invalid.
    #[must_use]
    pub fn with_prompts(self, prompts: usize) -> Self {
        Self { prompts: u32::try_from(prompts).unwrap_or(u32::MAX), ..self }
    }

    /// The bytes that the client usually gets for a piece of an upstream's stream, so that its output need not grow in steps.
    #[must_use]
    pub fn usual_output(&self, piece: usize) -> usize {
        match self.opening.form.as_ref().map(|form| form.dialect()) {
            // Each event repeats the item's id, and the last events repeat the whole answer.
            Some(ClientDialect::Responses) => piece.saturating_mul(2).min(2 * MAX_RESERVED_BYTES),
            // Anthropic's events are shorter than OpenAI's.
            _ => (piece + piece / 2).min(MAX_RESERVED_BYTES),
        }
    }

    /// Consumes one event and appends the client's chunks for it.
    pub fn accept(&mut self, event: Event<'_>, out: &mut Vec<u8>) {
        if self.failure.is_some() || self.is_complete {
            return;
        }
        self.keep(&event);
        let bytes = event.answer_bytes();
        self.answer_bytes += bytes;
        self.pieces += u64::from(bytes > 0);
        // An empty piece of reasoning says that the model works out of sight.
        if bytes == 0 && matches!(event, Event::Reasoning { .. }) {
            self.signs_of_work += 1;
        }
        if self.is_recording {
            return self.accept_recorded(event, out);
        }
        if self.encoder.is_some() {
            return self.accept_encoded(event, out);
        }
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
                let is_chat = self.opening.shape == Shape::Chat;
                let parts = ChunkParts { head: &self.head, tail: self.tail, is_chat };
                self.text_frame.write(parts, choice, (&text, logprobs), out);
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
                    write_raw(out, value);
                    self.end(out);
                }
            }
            // A chat has no sound file.
            Event::Sound(_) => {}
            Event::Member { name, value } => self.member(name, value),
            // Chats have no frames of their own: a chunk of an upstream is never passed on unread.
            Event::Frame { .. } => {}
            Event::Written { .. } => self.signs_of_work += 1,
            Event::Finish { choice, reason } => {
                if self.open(choice, out)
                    && let Some(state) = self.choices.get_mut(choice as usize)
                {
                    state.finish = Some(reason);
                }
            }
            Event::Usage(usage) => self.usage = Some(usage.after(self.usage)),
            Event::Error(failure) => self.failure = Some(failure),
            Event::End => self.end_of_stream(),
        }
    }

    /// Whether the client has been sent content: from then on another upstream cannot take over silently.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// How often the upstream has shown that its model works out of sight: it reasons, or a tool of the provider runs.
    #[must_use]
    pub fn signs_of_work(&self) -> u64 {
        self.signs_of_work
    }

    /// Whether the answer is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The model that the upstream reports, or the one that was asked. None: the client speaks another dialect, whose encoder keeps it.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.encoder.is_none().then_some(self.opening.model.as_str())
    }

    /// Why each choice ended; None for a choice that has not.
    pub fn finishes(&self) -> impl Iterator<Item = Option<Finish>> {
        self.choices.iter().map(|choice| choice.finish)
    }

    /// Whether the stream ended because the client's dialect cannot carry the answer, which came whole.
    #[must_use]
    pub fn is_answer_unreadable(&self) -> bool {
        self.is_answer_unreadable
    }

    /// Takes the failure that ended the stream, if one did.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The failure that ended the stream, if one did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whether the stream has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The usage that the upstream has reported so far.
    #[must_use]
    pub fn reported_usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The reading of prompts and the calls of tools in the usage that the upstream has reported so far; None = it has reported
    /// none.
    #[must_use]
    pub fn prompt_work(&self) -> Option<PromptWork> {
        self.usage.as_ref().map(Usage::prompt_work)
    }

    /// Bytes of everything that the model has generated so far, whether or not the client sees it.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        self.answer_bytes
    }

    /// Minimum number of generated tokens so far: by their bytes, and by their pieces, because most upstreams send one token at a time.
    #[must_use]
    pub fn answer_tokens(&self) -> u64 {
        self.answer_bytes.div_ceil(BYTES_PER_TOKEN).max(self.pieces)
    }

    /// Opens this choice and all before it: makes the chunk head and writes the role chunks in the order of the choices, because
    /// openai-python finds a choice by its position.
    fn open(&mut self, choice: u32, out: &mut Vec<u8>) -> bool {
        if self.mark_begun(choice) {
            return true;
        }
        if choice >= self.opening.choices {
            return self.refuse_choice();
        }
        if self.head.is_empty() {
            self.make_head();
        }
        self.has_content = true;
        if self.opening.shape == Shape::Chat && !self.is_continuation {
            for index in self.choices.len()..=choice as usize {
                out.extend_from_slice(&self.head);
                put_int(out, index as u64);
                put(out, ",\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null");
                out.extend_from_slice(self.tail);
            }
        }
        self.add_choices(choice);
        true
    }

    /// Notes that the upstream has begun an open choice. Returns false if the choice is not open.
    fn mark_begun(&mut self, choice: u32) -> bool {
        let Some(state) = self.choices.get_mut(choice as usize) else { return false };
        state.is_begun = true;
        true
    }

    /// Adds this choice, which the upstream has begun, and the choices between the known ones and this one.
    fn add_choices(&mut self, choice: u32) {
        self.choices.resize_with(choice as usize, ChoiceState::default);
        self.choices.push(ChoiceState { is_begun: true, ..ChoiceState::default() });
    }

    /// Fails the stream because of a choice beyond those that were asked for. Returns false, as for a choice that is not open.
    fn refuse_choice(&mut self) -> bool {
        let message = "The upstream sent a choice that was not asked for.";
        self.failure = Some(Failure::new(FailureKind::InvalidResponse, message));
        false
    }

    fn make_head(&mut self) {
        let head = &mut self.head;
        put(head, "data: {\"id\":");
        write_str(head, &self.opening.id);
        put(head, ",\"object\":");
        let is_chat = self.opening.shape == Shape::Chat;
        put(head, if is_chat { "\"chat.completion.chunk\"" } else { "\"text_completion\"" });
        put(head, ",\"created\":");
        put_int(head, self.opening.created);
        put(head, ",\"model\":");
        write_str(head, &self.opening.model);
        put(head, ",");
        put(head, CHOICE_OPEN);
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
