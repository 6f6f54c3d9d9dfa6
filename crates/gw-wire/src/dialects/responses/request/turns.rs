//! Writes the messages of the chat request. Consecutive items of the assistant make one message, and the outputs of its
//! calls follow at once, because chat upstreams insist on it.

use std::collections::{HashMap, VecDeque};

use super::content::{ChatPart, MessageContent, write_parts};
use super::item::PastItemCall;
use super::reasoning::PastReasoning;
use crate::dialects::past_order::{PastBlock, PastOrder, write_order};
use crate::dialects::responses::json_text::separate;
use crate::json::{ObjectWriter, write_str};

/// The assistant's message that is collected.
#[derive(Debug, Default)]
struct AssistantDraft<'a> {
    content: MessageContent<'a>,
    /// The text of the reasoning.
    reasoning: String,
    /// The entries of `reasoning_details`, separated by commas.
    details: Vec<u8>,
    detail_count: u64,
    /// Generated images as data URLs.
    images: Vec<String>,
    /// The id of each call, and the call as JSON text.
    calls: Vec<(String, Vec<u8>)>,
    /// The order of the items.
    order: PastOrder,
}

impl AssistantDraft<'_> {
    /// Whether there is nothing to say besides reasoning. No upstream takes a message of reasoning alone.
    fn is_empty(&self) -> bool {
        self.content.parts.is_empty()
            && self.content.refusal.is_none()
            && self.images.is_empty()
            && self.calls.is_empty()
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        let mut message = ObjectWriter::begin(out);
        message.string("role", "assistant");
        match self.content.parts.as_slice() {
            [] => message.raw("content", "null"),
            [part] => write_parts(std::slice::from_ref(part), message.member("content")),
            // A chat's answer has one text.
            parts => {
                let texts = parts.iter().filter_map(|part| match part {
                    ChatPart::Text(text) => Some(&**text),
                    ChatPart::Media(_) => None,
                });
                message.string("content", &texts.collect::<String>());
            }
        }
        message.optional_string("refusal", self.content.refusal.as_deref());
        if !self.reasoning.is_empty() {
            message.string("reasoning_content", &self.reasoning);
        }
        if let Some(order) = self.order.words() {
            separate(&mut self.details);
            write_order(order, &mut self.details);
        }
        if !self.details.is_empty() {
            let out = message.member("reasoning_details");
            out.push(b'[');
            out.extend_from_slice(&self.details);
            out.push(b']');
        }
        if !self.images.is_empty() {
            message.array("images", &self.images, |out, url| {
                let mut image = ObjectWriter::begin(out);
                image.string("type", "image_url");
                image.object("image_url", |inner| inner.string("url", url));
                image.finish();
            });
        }
        if !self.calls.is_empty() {
            message.array("tool_calls", &self.calls, |out, (_, call)| out.extend_from_slice(call));
        }
        message.finish();
    }
}

/// Writes messages.
pub(super) struct TurnWriter<'w, 'a> {
    out: &'w mut Vec<u8>,
    is_empty: bool,
    draft: AssistantDraft<'a>,
    /// The outputs that are not written yet, by the id of their call.
    outputs: HashMap<String, VecDeque<MessageContent<'a>>>,
}

impl<'w, 'a> TurnWriter<'w, 'a> {
    /// Begins the array of messages.
    pub(super) fn new(out: &'w mut Vec<u8>, outputs: HashMap<String, VecDeque<MessageContent<'a>>>) -> Self {
        out.push(b'[');
        Self { out, is_empty: true, draft: AssistantDraft::default(), outputs }
    }

    /// A message of any role.
    pub(super) fn message(&mut self, role: &str, mut content: MessageContent<'a>) {
        if role == "assistant" {
            return self.assistant(content);
        }
        self.flush(true);
        let media = if role == "user" { Vec::new() } else { content.take_media() };
        if let Some(refusal) = content.refusal.take() {
            content.parts.push(ChatPart::Text(refusal.into()));
        }
        // A chat's instructions are text. Media among them become a user's message.
        if media.is_empty() || !content.parts.is_empty() {
            self.plain(role, &content.parts);
        }
        if !media.is_empty() {
            self.plain("user", &media);
        }
    }

    fn assistant(&mut self, mut content: MessageContent<'a>) {
        // A chat's assistant sends no media as parts.
        content.take_media();
        for part in &content.parts {
            if let ChatPart::Text(text) = part {
                self.draft.order.text(text.len());
                self.draft.order.end_block();
            }
        }
        self.draft.content.parts.extend(content.parts);
        if let Some(refusal) = content.refusal {
            self.draft.content.refusal.get_or_insert_default().push_str(&refusal);
        }
    }

    /// A tool call of the assistant.
    pub(super) fn call(&mut self, call: &PastItemCall<'_>) {
        let mut out = Vec::with_capacity(call.arguments.len() + 128);
        let mut object = ObjectWriter::begin(&mut out);
        object.string("id", &call.id);
        object.string("type", "function");
        object.object("function", |inner| {
            inner.string("name", &call.name);
            if call.is_custom {
                // The history has the form in which the tool is offered.
                let mut arguments = b"{\"input\":".to_vec();
                write_str(&mut arguments, &call.arguments);
                arguments.push(b'}');
                inner.string("arguments", &String::from_utf8_lossy(&arguments));
            } else {
                inner.string("arguments", &call.arguments);
            }
        });
        object.finish();
        self.draft.order.add(PastBlock::Call);
        self.draft.calls.push((call.id.to_string(), out));
    }

    /// Reasoning of the assistant.
    pub(super) fn reasoning(&mut self, reasoning: &PastReasoning<'_>) {
        let text = reasoning.text();
        self.draft.order.thought(text.len(), reasoning.is_signed());
        self.draft.reasoning.push_str(&text);
        reasoning.write_details(&mut self.draft.detail_count, &mut self.draft.details);
    }

    /// An image that the assistant made.
    pub(super) fn image(&mut self, url: &str) {
        self.draft.order.add(PastBlock::Image);
        self.draft.images.push(url.to_owned());
    }

    /// The place of a tool's output: the assistant's message before it is complete.
    pub(super) fn end_turn(&mut self) {
        if !self.draft.calls.is_empty() {
            self.flush(false);
        }
    }

    /// Ends the array.
    pub(super) fn finish(mut self) {
        self.flush(false);
        if self.is_empty {
            // A chat needs a message. Only a request that no chat can serve comes without one.
            self.plain("user", &[]);
        }
        self.out.push(b']');
    }

    /// Writes the assistant's message and the outputs of its calls. A call without an output gets an empty one, if the
    /// conversation goes on or another call of the message has an output.
    fn flush(&mut self, goes_on: bool) {
        if self.draft.is_empty() {
            self.draft = AssistantDraft::default();
            return;
        }
        let mut draft = std::mem::take(&mut self.draft);
        self.separate();
        draft.write(self.out);
        let found: Vec<_> = draft
            .calls
            .iter()
            .map(|(id, _)| self.outputs.get_mut(id).and_then(VecDeque::pop_front))
            .collect();
        let all = goes_on || found.iter().any(Option::is_some);
        let mut media = Vec::new();
        for ((id, _), output) in draft.calls.iter().zip(found) {
            let Some(mut content) = output.or_else(|| all.then(MessageContent::default)) else { continue };
            media.extend(content.take_media());
            self.separate();
            let mut message = ObjectWriter::begin(self.out);
            message.string("role", "tool");
            message.string("tool_call_id", id);
            write_parts(&content.parts, message.member("content"));
            message.finish();
        }
        // A tool's message is text. Its media follow in a user's message.
        if !media.is_empty() {
            self.plain("user", &media);
        }
    }

    fn plain(&mut self, role: &str, parts: &[ChatPart<'_>]) {
        self.separate();
        let mut message = ObjectWriter::begin(self.out);
        message.string("role", role);
        write_parts(parts, message.member("content"));
        message.finish();
    }

    fn separate(&mut self) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
    }
}
