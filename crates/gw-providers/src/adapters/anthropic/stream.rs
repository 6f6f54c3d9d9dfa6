//! The stream of the Messages API: events that are JSON objects with a `type` ("Streaming messages" at
//! platform.claude.com). The `type` decides; the SSE event names only repeat it.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::Finish;
use gw_wire::sse::{MAX_EVENT_BYTES, SseDecoder, SseEvent, hold};
use serde_json::Value;

use super::open_blocks::OpenBlocks;
use super::response;
use super::usage::AnthropicUsage;
use super::wire::{self, FAILED, StopDetails, Text, finish_reason};
use crate::adapter::{StreamDecoder, work_by_lines};
use crate::adapters::failure::{broken, gave_up, invalid, invalid_json, reported};

/// The receiver of decoded events.
pub(super) type AnthropicSink<'s> = &'s mut dyn FnMut(Event<'_>);

/// The index of the only choice.
pub(super) const CHOICE: u32 = 0;

/// Decodes one stream.
#[derive(Debug, Default)]
pub(in crate::adapters) struct AnthropicStream {
    sse: SseDecoder,
    body: AnthropicStreamBody,
    state: AnthropicStreamState,
}

/// The format of the body.
#[derive(Debug, Default)]
enum AnthropicStreamBody {
    /// Only white space has arrived.
    #[default]
    Unknown,
    Events,
    /// One JSON document, which servers between the gateway and the API may send.
    Document(Vec<u8>),
}

#[derive(Debug, Default)]
struct AnthropicStreamState {
    blocks: OpenBlocks,
    counts: AnthropicUsage,
    /// An event or an error has arrived.
    has_begun: bool,
    /// The finish reason was emitted.
    is_finished: bool,
    /// The end or an error was emitted; the rest of the stream is ignored.
    is_over: bool,
}

impl StreamDecoder for AnthropicStream {
    fn feed(&mut self, chunk: &[u8], sink: AnthropicSink<'_>) {
        if self.state.is_over {
            return;
        }
        if matches!(self.body, AnthropicStreamBody::Unknown) {
            self.body = match chunk.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => AnthropicStreamBody::Unknown,
                Some(b'{' | b'[') => AnthropicStreamBody::Document(Vec::new()),
                Some(_) => AnthropicStreamBody::Events,
            };
        }
        let Self { sse, state, body } = self;
        if let AnthropicStreamBody::Document(document) = body {
            hold(document, chunk, MAX_EVENT_BYTES);
            if document.len() > MAX_EVENT_BYTES {
                document.clear();
                state.fail(invalid("the body is a document larger than 16 MiB instead of a stream"), sink);
            }
            return;
        }
        if let Err(fault) = sse.feed(chunk, &mut |event| state.event(event, false, sink)) {
            state.fail(invalid(fault), sink);
        }
    }

    fn eof(&mut self, sink: AnthropicSink<'_>) {
        let Self { sse, state, body } = self;
        match body {
            AnthropicStreamBody::Document(document) if !state.is_over => state.document(document, sink),
            AnthropicStreamBody::Document(_) => {}
            AnthropicStreamBody::Unknown | AnthropicStreamBody::Events => {
                sse.eof(&mut |event| state.event(event, true, sink))
            }
        }
        if !state.has_begun {
            state.fail(invalid("the body is not an event stream"), sink);
        }
    }

    fn held_bytes(&self) -> usize {
        let body = match &self.body {
            AnthropicStreamBody::Document(document) => document.capacity(),
            AnthropicStreamBody::Unknown | AnthropicStreamBody::Events => self.sse.held_bytes(),
        };
        body.saturating_add(self.state.blocks.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        match &self.body {
            AnthropicStreamBody::Document(document) => chunk.map_or(document.len(), |_| 0),
            AnthropicStreamBody::Unknown | AnthropicStreamBody::Events => {
                work_by_lines(self.sse.pending_bytes(), chunk)
            }
        }
    }
}

impl AnthropicStreamState {
    fn fail(&mut self, failure: Failure, sink: AnthropicSink<'_>) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.has_begun = true;
            sink(Event::Error(failure));
        }
    }

    /// Handles one event. `is_last`: the stream ended in this event, which may be cut off.
    fn event(&mut self, event: SseEvent<'_>, is_last: bool, sink: AnthropicSink<'_>) {
        let data = event.data.trim_ascii();
        if self.is_over || data.is_empty() {
            return;
        }
        self.has_begun = true;
        match serde_json::from_slice::<wire::AnthropicEvent<'_>>(data) {
            Ok(message_event) => self.handle(message_event, event.name, data, sink),
            Err(_) if event.name == b"error" => {
                let message = String::from_utf8_lossy(data).into_owned();
                self.fail(reported(&Value::String(message), FailureKind::StreamBroken), sink);
            }
            // The answer was complete before this event.
            Err(_) if is_last && self.is_finished => {}
            Err(_) if is_last => {
                self.fail(broken("The upstream's stream ended in the middle of an event."), sink)
            }
            Err(fault) => self.fail(invalid_json(&fault), sink),
        }
    }

    fn handle(
        &mut self,
        message_event: wire::AnthropicEvent<'_>,
        name: &[u8],
        data: &[u8],
        sink: AnthropicSink<'_>,
    ) {
        let index = message_event.index.unwrap_or_default();
        match Text::of(&message_event.kind) {
            "message_start" => self.start(message_event.message.unwrap_or_default(), sink),
            "content_block_start" => {
                let opened = self.blocks.start(index, message_event.content_block.unwrap_or_default(), sink);
                opened.unwrap_or_else(|failure| self.fail(failure, sink));
            }
            "content_block_delta" => self.blocks.delta(index, message_event.delta.unwrap_or_default(), sink),
            "content_block_stop" => self.blocks.stop(index, sink),
            "message_delta" => self.message_delta(message_event, sink),
            "message_stop" => {
                self.is_over = true;
                sink(Event::End);
            }
            "ping" => {}
            _ if message_event.error.is_some()
                || Text::of(&message_event.kind) == "error"
                || name == b"error" =>
            {
                let error = serde_json::from_slice(data).unwrap_or(Value::Null);
                self.fail(reported(&error, FailureKind::StreamBroken), sink);
            }
            // The documentation announces that new event types may be added at any time.
            _ => {}
        }
    }

    fn start(&mut self, message: wire::AnthropicMessage<'_>, sink: AnthropicSink<'_>) {
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

    fn message_delta(&mut self, message_event: wire::AnthropicEvent<'_>, sink: AnthropicSink<'_>) {
        if let Some(usage) = message_event.usage {
            self.counts.take(usage);
        }
        let delta = message_event.delta.unwrap_or_default();
        let (stop_reason, refusal) = (delta.stop_reason, StopDetails::explanation(delta.stop_details));
        if let Some(reason) = stop_reason.filter(|reason| !reason.0.is_empty())
            && !std::mem::replace(&mut self.is_finished, true)
        {
            if reason.0 == FAILED {
                return self.fail(gave_up(FAILED), sink);
            }
            self.blocks.close(sink);
            self.blocks.emit_order(sink);
            self.blocks.emit_citations(sink);
            if let Some(text) = refusal {
                sink(Event::Refusal { choice: CHOICE, text });
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

    /// Emits the events of a complete response that arrived instead of a stream.
    fn document(&mut self, document: &[u8], sink: AnthropicSink<'_>) {
        let reply = match response::decode(document) {
            Ok(reply) => reply,
            Err(failure) => return self.fail(failure, sink),
        };
        self.has_begun = true;
        self.is_over = true;
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
        sink(Event::End);
    }
}

impl OpenBlocks {
    /// Closes the blocks that are still open when the answer ends.
    fn close(&mut self, sink: AnthropicSink<'_>) {
        while let Some(index) = self.first_open() {
            self.stop(index, sink);
        }
    }
}

/// Emits a piece of text.
pub(super) fn emit_text(text: Cow<'_, str>, sink: AnthropicSink<'_>) {
    if !text.is_empty() {
        sink(Event::Text { choice: CHOICE, text, logprobs: None });
    }
}
