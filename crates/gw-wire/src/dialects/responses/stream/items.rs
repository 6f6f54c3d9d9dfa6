//! The items of an answer in their order. One item is open at a time.

mod pending;

use std::collections::HashSet;

use self::pending::{Pending, PendingPiece};
use super::call::{ArgumentScan, CallForm, CallItem, CallStart};
use super::frames::Frames;
use super::image::write_image;
use super::message::MessageItem;
use super::native_message::NativeMessage;
use super::reasoning::ReasoningItem;
use crate::dialects::responses::details;
use crate::dialects::responses::echo::RequestEcho;
use crate::dialects::responses::json_text::{put_one_line, separate};
use crate::dialects::responses::snapshot::ItemPlace;
use crate::event::Event;
use crate::render::made_tool_id;
use crate::stream::MAX_TOOL_CALLS;

/// Whether an event is a part of an item.
pub(super) fn has_content(event: &Event<'_>) -> bool {
    match event {
        Event::Text { choice: 0, text, logprobs } => !text.is_empty() || logprobs.is_some(),
        Event::Reasoning { choice: 0, text } | Event::Refusal { choice: 0, text } => !text.is_empty(),
        Event::ToolStart { choice: 0, .. }
        | Event::CustomStart { choice: 0, .. }
        | Event::ToolArgs { choice: 0, .. }
        | Event::Image { choice: 0, .. } => true,
        Event::Extra { choice: 0, name, .. } => {
            matches!(*name, "reasoning_details" | "annotations" | "images")
        }
        _ => false,
    }
}

/// The items of one answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    /// The ended items as JSON text, separated by commas.
    output: Vec<u8>,
    /// Number of items so far.
    count: u32,
    open: Option<OpenItem>,
    /// Content that follows a call which may still be incomplete.
    pending: Pending,
    /// The decoder's numbers of all calls.
    calls: HashSet<u32>,
    /// Opaque strings of reasoning that came while another item was open, as JSON literals.
    signatures: Vec<Vec<u8>>,
    /// Annotations that came while no message was open.
    annotations: Vec<Vec<u8>>,
    has_refusal: bool,
}

#[derive(Clone, Debug)]
enum OpenItem {
    Message(MessageItem),
    Reasoning(ReasoningItem),
    Call(CallItem),
}

/// The place to write to, and the facts that new items need.
pub(super) struct ItemWriter<'w> {
    response_id: &'w str,
    echo: &'w RequestEcho,
    frames: &'w mut Frames,
    out: &'w mut Vec<u8>,
}

impl Items {
    /// The ended items as JSON text, separated by commas.
    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    /// Whether the model refused in words.
    pub(super) fn has_refusal(&self) -> bool {
        self.has_refusal
    }

    /// The items of another upstream's stream: the ended ones as JSON text, their number, and the open message.
    pub(super) fn continued(output: Vec<u8>, ended: u32, open: Option<NativeMessage>) -> Self {
        let count = ended + u32::from(open.is_some());
        let open = open.map(|message| OpenItem::Message(MessageItem::continued(message)));
        Self { output, count, open, ..Self::default() }
    }

    /// Bytes that are kept until the end.
    pub(super) fn held_bytes(&self) -> usize {
        let open = match &self.open {
            Some(OpenItem::Message(message)) => message.held_bytes(),
            Some(OpenItem::Reasoning(reasoning)) => reasoning.held_bytes(),
            Some(OpenItem::Call(call)) => call.held_bytes(),
            None => 0,
        };
        self.output.capacity() + open + self.waiting_bytes()
    }

    /// Bytes of the content that is not written yet.
    fn waiting_bytes(&self) -> usize {
        let waiting = self.signatures.iter().chain(&self.annotations).map(Vec::capacity).sum::<usize>();
        waiting + self.pending.held_bytes()
    }

    /// The bytes that the end of all items and the final object take while they are written.
    pub(super) fn ending_bytes(&self) -> usize {
        // Four events repeat an open item: the ends of its text, its part and itself, and the final object.
        let open = match &self.open {
            Some(OpenItem::Message(message)) => message.len(),
            _ => self.held_bytes().saturating_sub(self.output.capacity()),
        };
        let waiting = self.waiting_bytes().saturating_mul(5);
        open.saturating_mul(4).saturating_add(waiting).saturating_add(self.output.len())
    }

    /// Writes an event.
    #[inline]
    pub(super) fn accept(
        &mut self,
        event: &Event<'_>,
        response_id: &str,
        echo: &RequestEcho,
        frames: &mut Frames,
        out: &mut Vec<u8>,
    ) {
        // The most frequent events.
        match (event, &mut self.open) {
            (Event::Text { text, logprobs: None, .. }, Some(OpenItem::Message(message)))
                if self.signatures.is_empty() =>
            {
                message.text(text, b"", frames, out);
            }
            (Event::Reasoning { text, .. }, Some(OpenItem::Reasoning(item))) if !item.is_signed() => {
                item.text(text, frames, out);
            }
            _ => self.take(event, &mut ItemWriter { response_id, echo, frames, out }),
        }
    }

    /// Takes the opaque string of a thought, as a JSON literal.
    pub(super) fn sign_with(
        &mut self,
        encrypted: Vec<u8>,
        response_id: &str,
        echo: &RequestEcho,
        frames: &mut Frames,
        out: &mut Vec<u8>,
    ) {
        self.piece(PendingPiece::Signature(encrypted), &mut ItemWriter { response_id, echo, frames, out });
    }

    fn take(&mut self, event: &Event<'_>, to: &mut ItemWriter<'_>) {
        match event {
            Event::Text { text, logprobs, .. } => {
                let wanted = logprobs.filter(|_| to.echo.has_logprobs);
                let tokens = wanted.map_or_else(Vec::new, |value| details::logprobs(value.get()));
                if !text.is_empty() || !tokens.is_empty() {
                    self.piece(PendingPiece::Text { text: text.as_ref().into(), logprobs: tokens }, to);
                }
            }
            Event::Reasoning { text, .. } => self.piece(PendingPiece::Reasoning(text.as_ref().into()), to),
            Event::Refusal { text, .. } => self.piece(PendingPiece::Refusal(text.as_ref().into()), to),
            Event::ToolStart { call, id, name, .. } => self.call(*call, id, name, false, to),
            Event::CustomStart { call, id, name, .. } => self.call(*call, id, name, true, to),
            Event::ToolArgs { call, fragment, .. } => self.arguments(*call, fragment, to),
            Event::Image { image, .. } => {
                let (kind, data) = (image.media_type.as_ref(), image.base64.as_ref());
                self.piece(PendingPiece::Image(kind.into(), data.into()), to);
            }
            Event::Extra { name: "images", value, .. } => {
                for (kind, data) in details::images(value.get()) {
                    self.piece(PendingPiece::Image(kind, data), to);
                }
            }
            Event::Extra { name: "annotations", value, .. } => {
                self.annotations.extend(details::annotations(value.get()));
                if let Some(OpenItem::Message(message)) = &mut self.open {
                    Self::annotate(&mut self.annotations, message, to);
                }
            }
            Event::Extra { name: "reasoning_details", value, .. } => {
                for entry in details::signed(value.get()) {
                    self.piece(PendingPiece::Signature(entry.encrypted), to);
                }
            }
            _ => {}
        }
    }

    /// Writes a piece of content, or lets it wait behind a call that may still be incomplete.
    fn piece(&mut self, piece: PendingPiece, to: &mut ItemWriter<'_>) {
        self.pending.push(piece);
        self.drain(false, to);
    }

    /// Writes the waiting content up to a call that may still be incomplete. With `all`, no call is waited for.
    fn drain(&mut self, all: bool, to: &mut ItemWriter<'_>) {
        while !self.pending.is_empty() {
            if let Some(OpenItem::Call(call)) = &mut self.open
                && !all
                && !call.is_complete()
            {
                return;
            }
            let Some(piece) = self.pending.pop() else { return };
            self.write(piece, to);
        }
    }

    fn write(&mut self, piece: PendingPiece, to: &mut ItemWriter<'_>) {
        match piece {
            PendingPiece::Text { text, logprobs } => {
                self.message(to, |message, to| message.text(&text, &logprobs, to.frames, to.out));
            }
            PendingPiece::Refusal(text) => {
                self.has_refusal = true;
                self.message(to, |message, to| message.refusal(&text, to.frames, to.out));
            }
            PendingPiece::Reasoning(text) => {
                if !matches!(&self.open, Some(OpenItem::Reasoning(item)) if !item.is_signed()) {
                    self.open_reasoning(None, to);
                }
                if let Some(OpenItem::Reasoning(item)) = &mut self.open {
                    item.text(&text, to.frames, to.out);
                }
            }
            PendingPiece::Signature(encrypted) => self.sign(encrypted, to),
            PendingPiece::Call(call) => {
                self.close("completed", to);
                let prefix = if call.form == CallForm::Function { "fc" } else { "ctc" };
                let place = self.place(prefix, to);
                self.open = Some(OpenItem::Call(CallItem::open(place, call, to.frames, to.out)));
            }
            PendingPiece::Image(media_type, base64) => {
                self.close("completed", to);
                let place = self.place("ig", to);
                let item = write_image(&place, &media_type, &base64, to.frames, to.out);
                self.keep(item);
            }
        }
    }

    fn message(
        &mut self,
        to: &mut ItemWriter<'_>,
        write: impl FnOnce(&mut MessageItem, &mut ItemWriter<'_>),
    ) {
        // A signature behind a text keeps its place, so more text is another message.
        if !matches!(&self.open, Some(OpenItem::Message(_))) || !self.signatures.is_empty() {
            self.close("completed", to);
            let place = self.place("msg", to);
            self.open = Some(OpenItem::Message(MessageItem::open(place, to.frames, to.out)));
        }
        if let Some(OpenItem::Message(message)) = &mut self.open {
            write(message, to);
            Self::annotate(&mut self.annotations, message, to);
        }
    }

    fn annotate(waiting: &mut Vec<Vec<u8>>, message: &mut MessageItem, to: &mut ItemWriter<'_>) {
        for annotation in waiting.drain(..) {
            message.annotation(&annotation, to.frames, to.out);
        }
    }

    fn open_reasoning(&mut self, encrypted: Option<Vec<u8>>, to: &mut ItemWriter<'_>) {
        self.close("completed", to);
        let place = self.place("rs", to);
        let is_raw = to.echo.has_raw_reasoning;
        let item = ReasoningItem::open(place, is_raw, encrypted, to.frames, to.out);
        self.open = Some(OpenItem::Reasoning(item));
    }

    /// Takes the opaque string of a thought. One that comes inside another item waits until that item ends.
    fn sign(&mut self, encrypted: Vec<u8>, to: &mut ItemWriter<'_>) {
        match &mut self.open {
            Some(OpenItem::Reasoning(item)) if !item.is_signed() => item.sign(encrypted),
            Some(OpenItem::Message(_) | OpenItem::Call(_)) => self.signatures.push(encrypted),
            Some(OpenItem::Reasoning(_)) | None => self.open_reasoning(Some(encrypted), to),
        }
    }

    fn call(&mut self, number: u32, id: &str, name: &str, is_custom: bool, to: &mut ItemWriter<'_>) {
        if self.calls.len() >= MAX_TOOL_CALLS || !self.calls.insert(number) {
            return;
        }
        let position = self.calls.len() - 1;
        let declared = to.echo.tools.get(name);
        let form = match (is_custom, declared.is_some_and(|tool| tool.is_custom)) {
            (true, _) => CallForm::Custom,
            (false, true) => CallForm::Wrapped,
            (false, false) => CallForm::Function,
        };
        let call_id = if id.is_empty() { made_tool_id(to.response_id, 0, position) } else { id.to_owned() };
        let start = CallStart {
            number,
            form,
            call_id,
            namespace: declared.and_then(|tool| tool.namespace.clone()),
            name: declared.map_or(name, |tool| &tool.name).to_owned(),
            arguments: String::new(),
            scan: ArgumentScan::default(),
        };
        self.piece(PendingPiece::Call(start), to);
    }

    fn arguments(&mut self, number: u32, fragment: &str, to: &mut ItemWriter<'_>) {
        match &mut self.open {
            Some(OpenItem::Call(call)) if call.number() == number => {
                call.arguments(fragment, to.frames, to.out);
                self.drain(false, to);
            }
            _ => self.pending.arguments(number, fragment),
        }
    }

    /// Ends all items. The last one has this status.
    pub(super) fn end(
        &mut self,
        status: &str,
        response_id: &str,
        echo: &RequestEcho,
        frames: &mut Frames,
        out: &mut Vec<u8>,
    ) {
        let to = &mut ItemWriter { response_id, echo, frames, out };
        self.drain(true, to);
        if self.open.is_none() && self.count == 0 {
            self.message(to, |message, to| message.text("", b"", to.frames, to.out));
        }
        self.close(status, to);
    }

    /// Keeps the open item as it is, for a response that failed. Its end is not written: a client would run a call that
    /// was cut.
    pub(super) fn stop(&mut self) {
        let item = match self.open.take() {
            Some(OpenItem::Message(message)) => message.partial(),
            Some(OpenItem::Reasoning(reasoning)) => reasoning.partial(),
            Some(OpenItem::Call(call)) => call.partial(),
            None => return,
        };
        self.keep(item);
    }

    /// Keeps an item of another upstream's stream that has no end, for a response that failed.
    pub(super) fn keep_partial(&mut self, item: &str) {
        let mut line = Vec::with_capacity(item.len());
        put_one_line(&mut line, item);
        self.keep(line);
    }

    /// Ends the open item, and writes the opaque strings that waited for its end.
    fn close(&mut self, status: &str, to: &mut ItemWriter<'_>) {
        self.close_item(status, to);
        for encrypted in std::mem::take(&mut self.signatures) {
            let place = self.place("rs", to);
            let is_raw = to.echo.has_raw_reasoning;
            let item = ReasoningItem::open(place, is_raw, Some(encrypted), to.frames, to.out);
            let item = item.close("completed", to.frames, to.out);
            self.keep(item);
        }
    }

    fn close_item(&mut self, status: &str, to: &mut ItemWriter<'_>) {
        let item = match self.open.take() {
            Some(OpenItem::Message(message)) => message.close(status, to.frames, to.out),
            Some(OpenItem::Reasoning(reasoning)) => reasoning.close(status, to.frames, to.out),
            Some(OpenItem::Call(call)) => call.close(status, to.frames, to.out),
            None => return,
        };
        self.keep(item);
    }

    fn keep(&mut self, item: Vec<u8>) {
        if self.output.is_empty() {
            self.output = item;
            return;
        }
        separate(&mut self.output);
        self.output.extend_from_slice(&item);
    }

    fn place(&mut self, prefix: &str, to: &ItemWriter<'_>) -> ItemPlace {
        let place = ItemPlace::new(prefix, to.response_id, self.count);
        self.count += 1;
        place
    }
}
