//! Writes a streamed answer. The items come one after the other: parallel calls wait until the call before them is
//! complete.
//!
//! The final object repeats all items, so they are kept until the end.

mod call;
mod frames;
mod image;
mod items;
mod message;
mod native_frames;
mod native_message;
mod native_partial;
mod reasoning;

use std::sync::Arc;

use self::frames::{Frames, end};
use self::items::Items;
use self::native_frames::NativeFrames;
use super::details::{MEMBER, SignedReasoning};
use super::echo::AnswerFacts;
use super::errors::{failed_code, write_error};
use super::snapshot::Snapshot;
use crate::dialects::{AnswerEncoder, ClientDialect, EncoderOpening, StreamError};
use crate::event::Event;
use crate::json::{ObjectWriter, View};
use crate::render::put;
use crate::reply::Finish;
use crate::stream::{Closing, DONE, KEEPALIVE};

/// Encodes one stream.
#[derive(Clone, Debug)]
pub struct ResponsesEncoder {
    facts: AnswerFacts,
    id: Arc<str>,
    /// Unix seconds.
    created: u64,
    model: Arc<str>,
    frames: Frames,
    /// Whether the opening frames are written.
    is_open: bool,
    /// Whether the terminal frame is written.
    is_over: bool,
    items: Items,
    /// `service_tier` that the upstream reports.
    service_tier: Option<String>,
    /// The frames of an upstream that speaks this dialect.
    native: Option<NativeFrames>,
    /// It stands in for the encoder of the stream, which counts the events and is elsewhere.
    is_stand_in: bool,
}

/// The end of an answer: its status, and the reason if it is incomplete.
#[derive(Clone, Copy)]
struct ResponseEnd {
    status: &'static str,
    incomplete: Option<&'static str>,
}

impl ResponsesEncoder {
    pub(super) fn new(facts: AnswerFacts, opening: EncoderOpening) -> Self {
        Self {
            facts,
            id: opening.id.into(),
            created: opening.created,
            model: opening.model.into(),
            frames: Frames::default(),
            is_open: false,
            is_over: false,
            items: Items::default(),
            service_tier: None,
            native: None,
            is_stand_in: false,
        }
    }

    /// Writes the opening frames, if they are not written yet.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        self.frames.begin("response.created", out);
        put(out, ",\"response\":");
        let start = out.len();
        self.snapshot("in_progress").write(&self.facts, out);
        let object = start..out.len();
        end(out);
        self.frames.begin("response.in_progress", out);
        put(out, ",\"response\":");
        out.extend_from_within(object);
        end(out);
    }

    /// Writes a frame of an upstream that speaks this dialect: its number is replaced, and the last frame waits for the
    /// gateway's members. From the first frame on, the translated events write nothing.
    pub fn native_frame(&mut self, name: &str, data: &str, out: &mut Vec<u8>) {
        // A stream that begins with translated events goes on with them.
        if self.is_over || self.native.is_none() && self.is_open {
            return;
        }
        let native = self.native.get_or_insert_with(NativeFrames::default);
        if let Some(object) = native.opening(name, data) {
            if let Some(identity) = native_frames::identity(object) {
                self.created = identity.created;
                self.model = identity.model.into();
            }
            return;
        }
        native.flush(&mut self.frames, out);
        if native.take_terminal(name, data) {
            return;
        }
        if !std::mem::replace(&mut self.is_open, true) {
            native.write_opening(&self.facts, &self.id, &mut self.frames, out);
        }
        if !NativeFrames::write_state((name, data), &self.facts, &self.id, &mut self.frames, out) {
            native.write(name, data, &mut self.frames, out);
        }
    }

    /// Writes the opaque string of a thought.
    pub(super) fn sign(&mut self, entry: &SignedReasoning<'_>, out: &mut Vec<u8>) {
        self.open(out);
        let Self { items, frames, facts, id, .. } = self;
        items.sign_with(entry.encrypted.clone(), id, &facts.echo, frames, out);
    }

    fn snapshot<'s>(&'s self, status: &'s str) -> Snapshot<'s> {
        Snapshot {
            id: &self.id,
            created: self.created,
            model: &self.model,
            status,
            error: None,
            incomplete: None,
            service_tier: self.service_tier.as_deref(),
            output: self.items.output(),
            closing: None,
            gateway: None,
        }
    }

    /// Writes the terminal frame and the end. `write` writes the final object.
    fn terminate(&mut self, kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&Self, &mut Vec<u8>)) {
        self.frames.begin(kind, out);
        put(out, ",\"response\":");
        write(self, out);
        end(out);
        out.extend_from_slice(DONE);
        self.is_over = true;
    }

    /// Ends the items of a complete answer.
    fn end_items(&mut self, finish: Option<Finish>, out: &mut Vec<u8>) -> ResponseEnd {
        let incomplete = match finish {
            Some(Finish::Length) => Some("max_output_tokens"),
            // A refusal in words is an answer of its own.
            Some(Finish::ContentFilter) if !self.items.has_refusal() => Some("content_filter"),
            Some(Finish::Stop | Finish::ToolCalls | Finish::FunctionCall | Finish::ContentFilter) | None => {
                None
            }
        };
        let status = if incomplete.is_some() { "incomplete" } else { "completed" };
        let Self { items, frames, facts, id, .. } = self;
        items.end(status, id, &facts.echo, frames, out);
        ResponseEnd { status, incomplete }
    }

    fn write_end(&self, ended: ResponseEnd, closing: &Closing<'_>, out: &mut Vec<u8>) {
        let ResponseEnd { status, incomplete } = ended;
        Snapshot { incomplete, closing: Some(closing), ..self.snapshot(status) }.write(&self.facts, out);
    }

    /// The final object of a complete answer.
    pub(super) fn into_object(mut self, finish: Option<Finish>, closing: &Closing<'_>) -> Vec<u8> {
        let mut frames = Vec::new();
        self.open(&mut frames);
        let ended = self.end_items(finish, &mut frames);
        let mut object = Vec::new();
        self.write_end(ended, closing, &mut object);
        object
    }

    fn finish_native(&mut self, closing: &Closing<'_>, out: &mut Vec<u8>) -> bool {
        let Some(terminal) = self.native.as_mut().and_then(NativeFrames::terminal) else { return false };
        if !std::mem::replace(&mut self.is_open, true)
            && let Some(native) = &mut self.native
        {
            native.write_opening(&self.facts, &self.id, &mut self.frames, out);
        }
        let object = super::native::answer(&self.facts, &self.id, &terminal.object, closing);
        self.terminate(&terminal.name, out, |_, out| out.extend_from_slice(&object));
        true
    }

    /// Ends the upstream's frames. The translated events go on behind them. Returns the open call or reasoning as far as it
    /// came.
    fn leave_native(&mut self, out: &mut Vec<u8>) -> Option<String> {
        let mut native = self.native.take()?;
        if !self.is_open {
            self.is_open = native.write_opening(&self.facts, &self.id, &mut self.frames, out);
        }
        native.flush(&mut self.frames, out);
        let partial = native.take_partial();
        let (output, ended, open) = native.take_items();
        self.items = Items::continued(output, ended, open);
        partial
    }

    fn write_items(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let Self { items, frames, facts, id, .. } = self;
        items.accept(event, id, &facts.echo, frames, out);
    }
}

impl AnswerEncoder for ResponsesEncoder {
    fn accept(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        // The most frequent events of an answer that has begun.
        if let Event::Text { text, logprobs: None, .. } | Event::Reasoning { text, .. } = event
            && self.is_open
            && !self.is_over
            && self.native.is_none()
            && !text.is_empty()
        {
            return self.write_items(event, out);
        }
        if let Event::Frame { dialect: ClientDialect::Responses, name, data } = event {
            return self.native_frame(name, data, out);
        }
        if self.is_over {
            return;
        }
        if let Some(native) = &mut self.native {
            if let Event::Extra { name: MEMBER, value, .. } = event {
                native.seal(value.get(), &mut self.frames, out);
            }
            return;
        }
        match event {
            Event::Start { model: Some(model), .. } if !model.is_empty() && !self.is_open => {
                self.model = model.as_ref().into();
            }
            Event::Member { name: "service_tier", value } => {
                let tier = View::new(value.get()).string();
                self.service_tier = tier.filter(|tier| tier.len() <= 64).map(|tier| tier.into_owned());
            }
            _ if items::has_content(event) => {
                self.open(out);
                self.write_items(event, out);
            }
            _ => {}
        }
    }

    fn finish(&mut self, finish: Option<Finish>, closing: &Closing<'_>, out: &mut Vec<u8>) {
        if self.is_over || self.finish_native(closing, out) {
            return;
        }
        // The upstream's last frame had no response. A client would run a call that was cut, so it gets none.
        self.leave_native(out);
        self.open(out);
        // Growing in steps would take twice the memory.
        out.reserve_exact(self.items.ending_bytes());
        let ended = self.end_items(finish, out);
        let kind = if ended.incomplete.is_some() { "response.incomplete" } else { "response.completed" };
        self.terminate(kind, out, |answer, out| answer.write_end(ended, closing, out));
    }

    fn fail(&mut self, error: &StreamError<'_>, out: &mut Vec<u8>) {
        if self.is_over {
            return;
        }
        let partial = self.leave_native(out);
        self.open(out);
        let kind = error.cause_kind();
        let code = failed_code(kind, error.cause);
        self.frames.begin("error", out);
        let mut members = ObjectWriter::resume(out);
        members.object("error", |nested| write_error(nested, error.message, kind, code));
        members.string("code", code);
        members.string("message", error.message);
        members.string("param", "");
        end(out);
        self.items.stop();
        if let Some(item) = partial {
            self.items.keep_partial(&item);
        }
        self.terminate("response.failed", out, |answer, out| {
            let (error, gateway) = (Some((code, error.message)), error.gateway);
            Snapshot { error, gateway, ..answer.snapshot("failed") }.write(&answer.facts, out);
        });
    }

    fn keepalive(&mut self, out: &mut Vec<u8>) {
        // The encoder of the stream would give the number of this event to its next one, too.
        if !self.is_open || self.is_over || self.is_stand_in {
            return out.extend_from_slice(KEEPALIVE);
        }
        // Clients with an idle limit count events, not comments.
        self.frames.begin("response.in_progress", out);
        put(out, ",\"response\":");
        let snapshot = Snapshot { output: b"", ..self.snapshot("in_progress") };
        snapshot.write(&self.facts, out);
        end(out);
    }

    fn closer(&self) -> Box<dyn AnswerEncoder> {
        Box::new(Self {
            facts: self.facts.clone(),
            id: Arc::clone(&self.id),
            created: self.created,
            model: Arc::clone(&self.model),
            frames: self.frames,
            is_open: self.is_open,
            is_over: self.is_over,
            items: Items::default(),
            service_tier: None,
            native: None,
            is_stand_in: true,
        })
    }

    fn boxed_clone(&self) -> Box<dyn AnswerEncoder> {
        let mut copy = self.clone();
        // The upstream that continues the stream has other items, so the translated events are written from here on.
        if let Some(mut native) = copy.native.take()
            && copy.is_open
        {
            let (output, ended, open) = native.take_items();
            copy.items = Items::continued(output, ended, open);
        }
        Box::new(copy)
    }

    fn held_bytes(&self) -> usize {
        let native = self.native.as_ref().map_or(0, NativeFrames::held_bytes);
        self.items.held_bytes() + native
    }

    fn ending_bytes(&self) -> usize {
        // An upstream's last object is read, changed and written.
        let native = self.native.as_ref().map_or(0, NativeFrames::held_bytes);
        self.items.ending_bytes().saturating_add(native.saturating_mul(3))
    }
}
