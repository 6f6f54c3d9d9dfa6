//! The stream of the Messages API: events that are JSON objects with a `type` ("Streaming messages" at
//! platform.claude.com). The `type` decides; the SSE event names only repeat it.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::Finish;
use gw_wire::sse::{EVENT_CAP, SseDecoder, SseEvent, hold};
use serde_json::Value;

use super::blocks::Blocks;
use super::response;
use super::usage::Counts;
use super::wire::{self, Details, FAILED, Text, finish};
use crate::adapter::{StreamDecoder, work_by_lines};
use crate::adapters::failure::{broken, gave_up, invalid, invalid_json, reported};

/// The receiver of decoded events.
pub(super) type Sink<'s> = &'s mut dyn FnMut(Event<'_>);

/// The index of the only choice.
pub(super) const CHOICE: u32 = 0;

/// Decodes one stream.
#[derive(Debug, Default)]
pub(in crate::adapters) struct Stream {
    sse: SseDecoder,
    body: Body,
    state: State,
}

/// The format of the body.
#[derive(Debug, Default)]
enum Body {
    /// Only white space has arrived.
    #[default]
    Unknown,
    Events,
    /// One JSON document, which servers between the gateway and the API may send.
    Document(Vec<u8>),
}

#[derive(Debug, Default)]
struct State {
    blocks: Blocks,
    counts: Counts,
    /// An event or an error has arrived.
    begun: bool,
    /// The finish reason was emitted.
    finished: bool,
    /// The end or an error was emitted; the rest of the stream is ignored.
    over: bool,
}

impl StreamDecoder for Stream {
    fn feed(&mut self, chunk: &[u8], sink: Sink<'_>) {
        if self.state.over {
            return;
        }
        if matches!(self.body, Body::Unknown) {
            self.body = match chunk.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => Body::Unknown,
                Some(b'{' | b'[') => Body::Document(Vec::new()),
                Some(_) => Body::Events,
            };
        }
        let Self { sse, state, body } = self;
        if let Body::Document(document) = body {
            hold(document, chunk, EVENT_CAP);
            if document.len() > EVENT_CAP {
                document.clear();
                state.fail(invalid("a document instead of a stream, larger than 16 MiB"), sink);
            }
            return;
        }
        if let Err(fault) = sse.feed(chunk, &mut |event| state.event(event, false, sink)) {
            state.fail(invalid(fault), sink);
        }
    }

    fn eof(&mut self, sink: Sink<'_>) {
        let Self { sse, state, body } = self;
        match body {
            Body::Document(document) if !state.over => state.document(document, sink),
            Body::Document(_) => {}
            Body::Unknown | Body::Events => sse.eof(&mut |event| state.event(event, true, sink)),
        }
        if !state.begun {
            state.fail(invalid("the body is not an event stream"), sink);
        }
    }

    fn held_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Document(document) => document.capacity(),
            Body::Unknown | Body::Events => self.sse.held_bytes(),
        };
        body.saturating_add(self.state.blocks.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        match &self.body {
            Body::Document(document) => chunk.map_or(document.len(), |_| 0),
            Body::Unknown | Body::Events => work_by_lines(self.sse.pending_bytes(), chunk),
        }
    }
}

impl State {
    fn fail(&mut self, failure: Failure, sink: Sink<'_>) {
        if !std::mem::replace(&mut self.over, true) {
            self.begun = true;
            sink(Event::Error(failure));
        }
    }

    /// Handles one event. `is_last`: the stream ended in this event, which may be cut off.
    fn event(&mut self, event: SseEvent<'_>, last: bool, sink: Sink<'_>) {
        let data = event.data.trim_ascii();
        if self.over || data.is_empty() {
            return;
        }
        self.begun = true;
        match serde_json::from_slice::<wire::Event<'_>>(data) {
            Ok(said) => self.said(said, event.name, data, sink),
            Err(_) if event.name == b"error" => {
                let words = String::from_utf8_lossy(data).into_owned();
                self.fail(reported(&Value::String(words), FailureKind::StreamBroken), sink);
            }
            // The answer was complete before this event.
            Err(_) if last && self.finished => {}
            Err(_) if last => {
                self.fail(broken("The upstream's stream ended in the middle of an event."), sink)
            }
            Err(fault) => self.fail(invalid_json(&fault), sink),
        }
    }

    fn said(&mut self, said: wire::Event<'_>, name: &[u8], data: &[u8], sink: Sink<'_>) {
        let index = said.index.unwrap_or_default();
        match Text::of(&said.kind) {
            "message_start" => self.start(said.message.unwrap_or_default(), sink),
            "content_block_start" => {
                let opened = self.blocks.start(index, said.content_block.unwrap_or_default(), sink);
                opened.unwrap_or_else(|failure| self.fail(failure, sink));
            }
            "content_block_delta" => self.blocks.delta(index, said.delta.unwrap_or_default(), sink),
            "content_block_stop" => self.blocks.stop(index, sink),
            "message_delta" => self.message_delta(said, sink),
            "message_stop" => {
                self.over = true;
                sink(Event::End);
            }
            "ping" => {}
            _ if said.error.is_some() || Text::of(&said.kind) == "error" || name == b"error" => {
                let error = serde_json::from_slice(data).unwrap_or(Value::Null);
                self.fail(reported(&error, FailureKind::StreamBroken), sink);
            }
            // The documentation announces that new event types may be added at any time.
            _ => {}
        }
    }

    fn start(&mut self, message: wire::Message<'_>, sink: Sink<'_>) {
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

    fn message_delta(&mut self, said: wire::Event<'_>, sink: Sink<'_>) {
        if let Some(usage) = said.usage {
            self.counts.take(usage);
        }
        let delta = said.delta.unwrap_or_default();
        let (stop_reason, refusal) = (delta.stop_reason, Details::explanation(delta.stop_details));
        if let Some(reason) = stop_reason.filter(|reason| !reason.0.is_empty())
            && !std::mem::replace(&mut self.finished, true)
        {
            if reason.0 == FAILED {
                return self.fail(gave_up(FAILED), sink);
            }
            self.blocks.close(sink);
            self.blocks.tell_order(sink);
            self.blocks.tell_sources(sink);
            if let Some(text) = refusal {
                sink(Event::Refusal { choice: CHOICE, text });
            }
            let made = if self.blocks.has_calls() { Finish::ToolCalls } else { Finish::Stop };
            sink(Event::Finish { choice: CHOICE, reason: finish(&reason.0).unwrap_or(made) });
        }
        if said.usage.is_some()
            && let Some(usage) = self.counts.usage()
        {
            sink(Event::Usage(usage));
        }
    }

    /// Emits the events of a complete response that arrived instead of a stream.
    fn document(&mut self, document: &[u8], sink: Sink<'_>) {
        let reply = match response::decode(document) {
            Ok(reply) => reply,
            Err(failure) => return self.fail(failure, sink),
        };
        self.begun = true;
        self.over = true;
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

impl Blocks {
    /// Closes the blocks that are still open when the answer ends.
    fn close(&mut self, sink: Sink<'_>) {
        while let Some(index) = self.first_open() {
            self.stop(index, sink);
        }
    }
}

/// Emits a piece of text.
pub(super) fn text(text: Cow<'_, str>, sink: Sink<'_>) {
    if !text.is_empty() {
        sink(Event::Text { choice: CHOICE, text, logprobs: None });
    }
}
