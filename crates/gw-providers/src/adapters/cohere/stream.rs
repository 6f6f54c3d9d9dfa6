//! The stream: `message-start`, pieces of content, of the plan and of calls, `message-end`
//! (docs.cohere.com/docs/streaming, `/docs/tool-use-streaming`). `index` names the content item or the call of an
//! event. There is only one choice.
//!
//! Cohere sends server-sent events to clients that accept them, which the gateway does. Other clients get one JSON
//! document per line. Both are read, so a proxy may drop the `accept` header.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::stream::MAX_TOOL_CALLS;
use serde_json::Value;
use serde_json::value::RawValue;

use super::response::{USUAL, characters, record};
use super::wire::{self, CohereCall, CohereDelta, OneOrMany};
use super::{finish, logprobs, usage};
use crate::adapters::annotations::Annotations;
use crate::adapters::failure::{cut_event, invalid, invalid_event, reported};
use crate::adapters::native::stop_member;
use crate::adapters::replay::DETAILS;
use crate::adapters::replay::order::{Block, Order};
use crate::adapters::sse_adapter::{
    EventSink, Framing, SseAdapter, StreamProgress, StreamState, UpstreamEvent,
};

/// A decoder for the answer to a request with this only stop sequence.
pub(super) fn decoder(only_stop: Option<String>) -> SseAdapter<CohereStreamState> {
    SseAdapter::new(CohereStreamState { only_stop, ..CohereStreamState::default() })
}

#[derive(Debug, Default)]
pub(super) struct CohereStreamState {
    /// The only stop sequence of the request.
    only_stop: Option<String>,
    progress: StreamProgress,
    /// The calls so far. The number of a call is its handle.
    calls: u32,
    /// The last call with each of Cohere's indexes.
    by_index: HashMap<u32, u32>,
    /// The model wrote text.
    has_text: bool,
    /// The plan is the last that it wrote, so text begins a new line.
    is_plan_last: bool,
    /// The characters in front of the first text.
    shift: u64,
    annotations: Annotations,
    order: Order,
}

impl StreamState for CohereStreamState {
    fn framing(first: u8) -> Framing {
        if first == b'{' { Framing::Lines } else { Framing::Events }
    }

    fn progress(&mut self) -> &mut StreamProgress {
        &mut self.progress
    }

    fn event(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>) {
        let UpstreamEvent { name, data, is_last, .. } = event;
        // Cohere does not send this mark, but servers with its dialect do.
        if data == b"[DONE]" {
            return self.progress.end(sink);
        }
        let Ok(text) = std::str::from_utf8(data) else {
            return self.fail(invalid("an event of the stream is not UTF-8"), sink);
        };
        let failure = match serde_json::from_str::<wire::CohereEvent<'_>>(text) {
            Ok(event) if name == b"error" || is_error(&event) => {
                let error = serde_json::from_str(text).unwrap_or(Value::Null);
                reported(&error, self.progress.error_kind())
            }
            Ok(event) => return self.read(event, sink),
            Err(_) if name == b"error" => {
                reported(&Value::String(text.to_owned()), self.progress.error_kind())
            }
            Err(_) if is_last => cut_event(),
            Err(fault) => invalid_event(&fault),
        };
        self.fail(failure, sink);
    }

    fn held_bytes(&self) -> usize {
        let calls = self.by_index.capacity() * size_of::<(u32, u32)>();
        calls + self.annotations.held_bytes() + self.order.held_bytes()
    }
}

impl CohereStreamState {
    fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        self.progress.fail(failure, sink);
    }

    fn read(&mut self, event: wire::CohereEvent<'_>, sink: EventSink<'_>) {
        let kind = event.kind.map(|kind| kind.0).unwrap_or_default();
        let delta = event.delta.unwrap_or_default();
        match &*kind {
            "content-delta" | "content-start" | "tool-plan-delta" | "message-start" => {
                if &*kind == "content-start" {
                    self.order.close();
                }
                self.say(delta, event.logprobs, sink);
            }
            "tool-call-delta" | "tool-call-start" => {
                let index = event.index.and_then(|index| index.0);
                let begins = &*kind == "tool-call-start";
                let calls = delta.message.and_then(|message| message.tool_calls);
                if let Some(calls) = calls {
                    self.calls(calls, index, begins, sink);
                }
            }
            "citation-start" => {
                if let Some(citations) = delta.message.and_then(|message| message.citations) {
                    wire::add_citations(citations, self.shift, &mut self.annotations);
                }
            }
            "message-end" => self.end(&delta, sink),
            // `content-end`, `tool-call-end`, `citation-end`, `debug`, and future events.
            _ => {}
        }
    }

    /// Reports text and reasoning. The plan is text, and a line break divides it from other text.
    fn say(&mut self, delta: CohereDelta<'_>, probabilities: Option<&RawValue>, sink: EventSink<'_>) {
        let Some(message) = delta.message else { return };
        if let Some(text) = message.tool_plan.map(|plan| plan.0).filter(|text| !text.is_empty()) {
            let is_first = !std::mem::replace(&mut self.is_plan_last, true);
            if is_first && self.has_text {
                self.order.add(Block::Plan("\n".len()));
                sink(Event::Text { choice: 0, text: Cow::Borrowed("\n"), logprobs: None });
            }
            if !self.has_text {
                self.shift = self.shift.saturating_add(characters(&text));
            }
            self.order.add(Block::Plan(text.len()));
            sink(Event::Text { choice: 0, text, logprobs: None });
        }
        let logprobs = probabilities.and_then(logprobs::convert);
        let Some(pieces) = message.content else { return };
        pieces.each(|piece| {
            record(&mut self.order, piece.thinking.as_ref().map(|text| &*text.0), Block::Thought);
            if let Some(text) = piece.thinking.map(|thinking| thinking.0).filter(|text| !text.is_empty()) {
                sink(Event::Reasoning { choice: 0, text });
            }
            let text = piece.text.map(|text| text.0);
            if text.as_deref().is_some_and(|text| !text.is_empty()) {
                if std::mem::replace(&mut self.is_plan_last, false) {
                    self.shift = self.shift.saturating_add(u64::from(!self.has_text));
                    self.order.add(Block::Text("\n".len()));
                    sink(Event::Text { choice: 0, text: Cow::Borrowed("\n"), logprobs: None });
                }
                self.has_text = true;
            }
            record(&mut self.order, text.as_deref(), Block::Text);
            if let Some(text) = text.filter(|text| !text.is_empty() || logprobs.is_some()) {
                sink(Event::Text { choice: 0, text, logprobs: logprobs.as_deref() });
            }
        });
    }

    fn calls(
        &mut self,
        calls: OneOrMany<CohereCall<'_>>,
        index: Option<u32>,
        begins: bool,
        sink: EventSink<'_>,
    ) {
        calls.each(|call| {
            let function = call.function.unwrap_or_default();
            if begins {
                let handle = self.calls;
                self.calls += 1;
                self.order.add(Block::Call);
                self.by_index.extend(index.map(|index| (index, handle)));
                if self.calls as usize > MAX_TOOL_CALLS {
                    return self.fail(invalid("too many tool calls"), sink);
                }
                let id = call.id.unwrap_or_default().0;
                let name = function.name.unwrap_or_default().0;
                sink(Event::ToolStart { choice: 0, call: handle, id, name });
            }
            let Some(fragment) = function.arguments.map(|text| text.0).filter(|text| !text.is_empty()) else {
                return;
            };
            // Without a known index the arguments belong to the last call.
            let known = index.and_then(|index| self.by_index.get(&index).copied());
            match known.or_else(|| self.calls.checked_sub(1)) {
                Some(handle) => {
                    sink(Event::ToolArgs { choice: 0, call: handle, fragment });
                }
                None => self.fail(invalid("arguments of an unknown tool call"), sink),
            }
        });
    }

    fn end(&mut self, delta: &CohereDelta<'_>, sink: EventSink<'_>) {
        if let Some(used) = delta.usage.as_ref().and_then(usage::read) {
            sink(Event::Usage(used));
        }
        let reason = delta.finish_reason.as_ref().map_or("", |reason| &reason.0);
        let is_at_stop = reason == finish::STOP_SEQUENCE;
        let has_calls = self.calls > 0;
        // A message with an error has failed, with any finish reason.
        let reason = if delta.error.is_some() && reason != "TIMEOUT" { "ERROR" } else { reason };
        match finish::read(reason, has_calls, delta.error, FailureKind::StreamBroken) {
            Ok(reason) => {
                if let Some(value) = self.order.entry(USUAL, 0) {
                    sink(Event::Extra { choice: 0, name: DETAILS, value: &value });
                }
                self.annotations.report(0, sink);
                let ending = self.only_stop.as_deref().filter(|_| is_at_stop);
                if let Some((name, value)) = stop_member(ending) {
                    sink(Event::Member { name: &name, value: &value });
                }
                sink(Event::Finish { choice: 0, reason });
                self.progress.end(sink);
            }
            Err(failure) => self.fail(failure, sink),
        }
    }
}

/// Whether an event is an error.
fn is_error(event: &wire::CohereEvent<'_>) -> bool {
    let kind = event.kind.as_ref().map_or("", |kind| &kind.0);
    (kind.is_empty() || kind == "error" || kind == "stream-error")
        && (event.message.is_some() || event.error.is_some())
}
