//! The stream of the Messages API: events that are JSON objects with a `type` ("Streaming messages" at
//! platform.claude.com). The `type` decides; the SSE event names only repeat it.

use std::borrow::Cow;
use std::ops::Range;

use gw_wire::dialects::ClientDialect;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::reply::Finish;
use gw_wire::utf8;
use serde_json::Value;

use super::open_blocks::OpenBlocks;
use super::response;
use super::usage::AnthropicUsage;
use super::wire::{self, FAILED, StopDetails, Text, finish_reason};
use crate::adapters::failure::{broken, gave_up, invalid, invalid_json, reported};
use crate::adapters::sse_adapter::{
    EventSink, Framing, SseAdapter, StreamProgress, StreamState, UpstreamEvent,
};
use crate::adapters::template::{Template, place_of};

/// The index of the only choice.
pub(super) const CHOICE: u32 = 0;

/// The event of a piece of a block.
const TEXT_EVENT: &str = "content_block_delta";

/// Decodes one stream.
pub(in crate::adapters) type AnthropicStream = SseAdapter<AnthropicStreamState>;

#[derive(Debug, Default)]
pub(in crate::adapters) struct AnthropicStreamState {
    progress: StreamProgress,
    blocks: OpenBlocks,
    counts: AnthropicUsage,
    /// The bytes around the text of a delta.
    template: Template,
    /// The finish reason was emitted.
    is_finished: bool,
    /// The client gets the events as they are.
    is_native: bool,
}

impl AnthropicStreamState {
    /// The state for a client that gets the events as they are.
    pub(in crate::adapters) fn native() -> Self {
        Self { is_native: true, ..Self::default() }
    }
}

impl StreamState for AnthropicStreamState {
    /// Servers between the gateway and the API may send one JSON document.
    fn framing(first: u8) -> Framing {
        if matches!(first, b'{' | b'[') { Framing::Document } else { Framing::Events }
    }

    fn progress(&mut self) -> &mut StreamProgress {
        &mut self.progress
    }

    fn event(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>) {
        let UpstreamEvent { name, data, is_last, .. } = event;
        if let Some((_, text)) = self.template.read(data) {
            self.hand_on(TEXT_EVENT, data, sink);
            return self.blocks.add_text(Cow::Borrowed(text), sink);
        }
        match serde_json::from_slice::<wire::AnthropicEvent<'_>>(data) {
            Ok(message_event) => {
                self.hand_on(Text::of(&message_event.kind), data, sink);
                let text = text_place(&message_event, data);
                self.handle(message_event, name, data, sink);
                if let Some(text) = text {
                    self.template.learn(data, CHOICE, text);
                }
            }
            Err(_) if name == b"error" => {
                let message = String::from_utf8_lossy(data).into_owned();
                self.fail(reported(&Value::String(message), self.progress.error_kind()), sink);
            }
            // The answer was complete before this event.
            Err(_) if is_last && self.is_finished => {}
            Err(_) if is_last => {
                self.fail(broken("The upstream's stream ended in the middle of an event."), sink)
            }
            Err(fault) => self.fail(invalid_json(&fault), sink),
        }
    }

    /// Emits the events of a complete response that arrived instead of a stream.
    fn document(&mut self, document: &[u8], sink: EventSink<'_>) {
        let reply = match response::decode(document) {
            Ok(reply) => reply,
            Err(failure) => return self.fail(failure, sink),
        };
        if reply.is_blank() {
            return self.fail(invalid("the document has no content and no end"), sink);
        }
        self.progress.has_begun = true;
        sink(Event::Start { model: reply.model, fingerprint: None });
        for choice in reply.choices {
            let reason = choice.finish.unwrap_or(Finish::Stop);
            if let Some(text) = choice.reasoning {
                sink(Event::Reasoning { choice: CHOICE, text });
            }
            for (name, value) in &choice.extras {
                sink(Event::Extra { choice: CHOICE, name, value });
            }
            if let Some(text) = choice.content {
                sink(Event::Text { choice: CHOICE, text, logprobs: None });
            }
            if let Some(text) = choice.refusal {
                sink(Event::Refusal { choice: CHOICE, text });
            }
            for (call, tool) in (0_u32..).zip(choice.tool_calls) {
                sink(Event::ToolStart { choice: CHOICE, call, id: tool.id, name: tool.name });
                sink(Event::ToolArgs { choice: CHOICE, call, fragment: tool.arguments });
            }
            sink(Event::Finish { choice: CHOICE, reason });
        }
        if let Some(usage) = reply.usage {
            sink(Event::Usage(usage));
        }
        self.progress.end(sink);
    }

    fn held_bytes(&self) -> usize {
        self.blocks.held_bytes()
    }
}

impl AnthropicStreamState {
    fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        self.progress.fail(failure, sink);
    }

    /// Hands an event on to a client of the same dialect. The type is the event's name.
    fn hand_on(&self, name: &str, data: &[u8], sink: EventSink<'_>) {
        if self.is_native
            && let Ok(data) = utf8::text(data)
        {
            let dialect = ClientDialect::Messages;
            sink(Event::Frame { dialect, name, data });
        }
    }

    fn handle(
        &mut self,
        message_event: wire::AnthropicEvent<'_>,
        name: &[u8],
        data: &[u8],
        sink: EventSink<'_>,
    ) {
        let index = message_event.index.unwrap_or_default();
        match Text::of(&message_event.kind) {
            "message_start" => self.start(message_event.message.unwrap_or_default(), sink),
            "content_block_start" => {
                self.note_hosted(message_event.content_block.as_ref(), sink);
                let opened = self.blocks.start(index, message_event.content_block.unwrap_or_default(), sink);
                opened.unwrap_or_else(|failure| self.fail(failure, sink));
            }
            TEXT_EVENT => self.blocks.delta(index, message_event.delta.unwrap_or_default(), sink),
            "content_block_stop" => self.blocks.stop(index, sink),
            "message_delta" => self.message_delta(message_event, sink),
            "message_stop" => self.progress.end(sink),
            "ping" if self.blocks.is_working() => {
                sink(Event::Reasoning { choice: CHOICE, text: Cow::Borrowed("") });
            }
            "ping" => {}
            _ if message_event.error.is_some()
                || Text::of(&message_event.kind) == "error"
                || name == b"error" =>
            {
                let error = serde_json::from_slice(data).unwrap_or(Value::Null);
                self.fail(reported(&error, self.progress.error_kind()), sink);
            }
            // The documentation announces that new event types may be added at any time.
            _ => {}
        }
    }

    /// Counts a call of a tool that the provider runs, which is charged even if the stream breaks before the API tells its
    /// count.
    fn note_hosted(&mut self, block: Option<&wire::AnthropicBlock<'_>>, sink: EventSink<'_>) {
        let is_hosted = |kind: &str| matches!(kind, "server_tool_use" | "mcp_tool_use");
        let Some(block) = block.filter(|block| is_hosted(Text::of(&block.kind))) else { return };
        self.counts.begin_hosted(Text::of(&block.name));
        if let Some(usage) = self.counts.so_far() {
            sink(Event::Usage(usage));
        }
    }

    fn start(&mut self, message: wire::AnthropicMessage<'_>, sink: EventSink<'_>) {
        if let Some(model) = message.model.map(|model| model.0).filter(|model| !model.is_empty()) {
            sink(Event::Start { model: Some(model), fingerprint: None });
        }
        if let Some(usage) = message.usage {
            self.counts.take(usage);
            // If the stream breaks, the prompt's tokens are known and only the answer's have to be estimated.
            if let Some(usage) = self.counts.so_far() {
                sink(Event::Usage(usage));
            }
        }
    }

    fn message_delta(&mut self, message_event: wire::AnthropicEvent<'_>, sink: EventSink<'_>) {
        if let Some(usage) = message_event.usage {
            self.counts.take_last(usage);
        }
        let delta = message_event.delta.unwrap_or_default();
        let (stop_reason, refusal) = (delta.stop_reason, StopDetails::explanation(delta.stop_details));
        if let Some(reason) = stop_reason.filter(|reason| !reason.0.is_empty())
            && !std::mem::replace(&mut self.is_finished, true)
        {
            if reason.0 == FAILED {
                self.counts.usage().into_iter().for_each(|used| sink(Event::Usage(used)));
                return self.fail(gave_up(FAILED), sink);
            }
            self.blocks.close(sink);
            self.blocks.emit_order(sink);
            self.blocks.emit_citations(sink);
            if let Some(text) = refusal {
                sink(Event::Refusal { choice: CHOICE, text });
            }
            if let Some((name, value)) = wire::ending_sequence(&reason.0, delta.stop_sequence) {
                sink(Event::Member { name, value });
            }
            let made = if self.blocks.has_calls() { Finish::ToolCalls } else { Finish::Stop };
            sink(Event::Finish { choice: CHOICE, reason: finish_reason(&reason.0).unwrap_or(made) });
        }
        if message_event.usage.is_some()
            && let Some(usage) = self.counts.usage()
        {
            sink(Event::Usage(usage));
        }
    }
}

/// The place of the text in an event that has nothing else. None = it has something else, or the text has escapes.
fn text_place(event: &wire::AnthropicEvent<'_>, data: &[u8]) -> Option<Range<usize>> {
    let delta = event.delta.as_ref().filter(|delta| Text::of(&delta.kind) == "text_delta")?;
    match delta.text.as_ref()?.0 {
        Cow::Borrowed(text) if !text.is_empty() && Text::of(&event.kind) == TEXT_EVENT => {
            Some(place_of(data, text))
        }
        _ => None,
    }
}

impl OpenBlocks {
    /// Closes the blocks that are still open when the answer ends.
    fn close(&mut self, sink: EventSink<'_>) {
        while let Some(index) = self.first_open() {
            self.stop(index, sink);
        }
    }
}

/// Emits a piece of text.
pub(super) fn emit_text(text: Cow<'_, str>, sink: EventSink<'_>) {
    if !text.is_empty() {
        sink(Event::Text { choice: CHOICE, text, logprobs: None });
    }
}
