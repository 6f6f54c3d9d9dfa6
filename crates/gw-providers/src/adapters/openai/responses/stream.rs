//! The stream of the Responses API. Each event goes to the client as it is, and its content is reported beside it for
//! accounting, for the cache and for clients of another dialect that share the answer.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use gw_wire::dialects::ClientDialect;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::View;
use gw_wire::utf8;
use serde::Deserialize;
use serde_json::Value;

use super::item::{HostedTally, OutputItem, text};
use super::written::WrittenItems;
use super::{CHOICE, NOT_FINAL, ResponseObject, details_value, sealed_items, with_hosted};
use crate::adapters::failure::{cut_event, invalid, invalid_event, reported};
use crate::adapters::replay::DETAILS;
use crate::adapters::sse_adapter::{
    EventSink, Framing, SseAdapter, StreamProgress, StreamState, UpstreamEvent,
};
use crate::seal::ReplayTarget;

/// Output items of a stream whose calls are remembered. OpenAI's models make far fewer calls.
const MAX_CALLS: usize = 4096;

/// Decodes one stream.
pub(in crate::adapters::openai) type ResponsesStream = SseAdapter<ResponsesStreamState>;

#[derive(Debug, Default)]
pub(in crate::adapters::openai) struct ResponsesStreamState {
    progress: StreamProgress,
    is_model_known: bool,
    /// The output indexes of calls that began.
    calls: HashSet<u32>,
    /// The output indexes of calls whose arguments came in pieces.
    with_arguments: HashSet<u32>,
    /// The calls of hosted tools so far.
    hosted: HostedTally,
    /// The text of items that no other event counts.
    written: WrittenItems,
    /// Seals encrypted reasoning.
    replay: Option<Arc<ReplayTarget>>,
}

impl ResponsesStreamState {
    /// A state that seals encrypted reasoning for this target.
    pub(super) fn sealing(replay: Option<Arc<ReplayTarget>>) -> Self {
        Self { replay, ..Self::default() }
    }
}

#[derive(Debug, Default, Deserialize)]
struct ResponseEvent<'a> {
    #[serde(borrow, default, rename = "type", deserialize_with = "text")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    response: Option<ResponseObject<'a>>,
    #[serde(borrow, default)]
    item: Option<OutputItem<'a>>,
    #[serde(default)]
    output_index: Option<u32>,
    #[serde(borrow, default, deserialize_with = "text")]
    delta: Cow<'a, str>,
}

impl StreamState for ResponsesStreamState {
    fn framing(first: u8) -> Framing {
        if first == b'{' { Framing::Document } else { Framing::Events }
    }

    fn progress(&mut self) -> &mut StreamProgress {
        &mut self.progress
    }

    fn event(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>) {
        let UpstreamEvent { name, data, is_last, .. } = event;
        if data == b"[DONE]" {
            return self.fail(invalid("the stream ended without a final event"), sink);
        }
        let Ok(text) = utf8::text(data) else {
            return self.fail(invalid("an event of the stream is not UTF-8"), sink);
        };
        let read = match serde_json::from_str::<ResponseEvent<'_>>(text) {
            Ok(read) => read,
            Err(_) if is_last => return self.fail(cut_event(), sink),
            Err(fault) => return self.fail(invalid_event(&fault), sink),
        };
        if read.kind == "error" || name == b"error" {
            let error = serde_json::from_str(text).unwrap_or(Value::Null);
            return self.fail(reported(&error, self.progress.error_kind()), sink);
        }
        let name = read.kind.clone();
        if name == "response.completed"
            && let Some(response) = read.response.as_ref().filter(|response| response.is_unfinished())
        {
            response.used_with_hosted().into_iter().for_each(|used| sink(Event::Usage(used)));
            return self.fail(invalid(NOT_FINAL), sink);
        }
        if name != "response.failed" {
            let has_seal = text.contains("\"encrypted_content\"");
            let sealed = self.replay.as_ref().filter(|_| has_seal).map(|target| sealed_items(text, target));
            let data = sealed.as_deref().unwrap_or(text);
            sink(Event::Frame { dialect: ClientDialect::Responses, name: &name, data });
        }
        self.read(read, text, sink);
    }

    /// An error, which the upstream calls a stream.
    fn document(&mut self, document: &[u8], sink: EventSink<'_>) {
        let Ok(body) = serde_json::from_slice::<Value>(document) else { return };
        if body.get("error").is_some_and(|error| !error.is_null()) {
            self.fail(reported(&body, FailureKind::Server), sink);
        }
    }

    fn held_bytes(&self) -> usize {
        (self.calls.capacity() + self.with_arguments.capacity()) * 3 * size_of::<u32>()
            + self.hosted.held_bytes()
            + self.written.held_bytes()
    }
}

/// Reports that the model works out of sight.
fn working(sink: EventSink<'_>) {
    sink(Event::Reasoning { choice: CHOICE, text: Cow::Borrowed("") });
}

impl ResponsesStreamState {
    fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        self.progress.fail(failure, sink);
    }

    /// `data` is the event's JSON.
    fn read(&mut self, event: ResponseEvent<'_>, data: &str, sink: EventSink<'_>) {
        let index = event.output_index.unwrap_or_default();
        let delta = event.delta;
        match &*event.kind {
            "response.output_text.delta" => {
                self.written.show(index);
                sink(Event::Text { choice: CHOICE, text: delta, logprobs: None });
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.written.show(index);
                sink(Event::Reasoning { choice: CHOICE, text: delta });
            }
            "response.refusal.delta" => {
                self.written.show(index);
                sink(Event::Refusal { choice: CHOICE, text: delta });
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta"
                if self.calls.contains(&index) =>
            {
                self.with_arguments.insert(index);
                sink(Event::ToolArgs { choice: CHOICE, call: index, fragment: delta });
            }
            "response.output_item.added" => {
                let item = event.item.unwrap_or_default();
                if !item.is_shown_in_pieces() {
                    self.count_item(index, data, sink);
                }
                self.added(index, item, sink);
            }
            "response.output_item.done" => {
                let item = event.item.unwrap_or_default();
                if !item.is_call() {
                    self.count_item(index, data, sink);
                }
                self.done(index, item, sink);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                if event.response.as_ref().is_some_and(|response| response.used().is_none()) {
                    self.count_output(data, sink);
                }
                self.end(&event.response.unwrap_or_default(), &event.kind, sink);
            }
            kind if kind.ends_with(".delta") => {
                self.written.piece(kind, event.output_index, &delta, sink);
                if delta.is_empty() {
                    working(sink);
                }
            }
            kind if kind.ends_with(".done") && !self.calls.contains(&index) => {
                self.written.part_done(event.output_index, data, sink);
                if kind.contains("_call") {
                    working(sink);
                }
            }
            // States of a hosted tool.
            kind if kind.contains("_call.") || kind.contains("_call_") => working(sink),
            _ => self.start(event.response, sink),
        }
    }

    /// Counts the text of an event's item.
    fn count_item(&mut self, index: u32, data: &str, sink: EventSink<'_>) {
        if let [Some(item)] = View::new(data).pick(["item"]) {
            self.written.item(index, item, sink);
        }
    }

    /// Counts what came only with the end of a response without usage.
    fn count_output(&mut self, data: &str, sink: EventSink<'_>) {
        let [response] = View::new(data).pick(["response"]);
        let [output] = response.map_or([None], |response| response.pick(["output"]));
        let items = output.into_iter().flat_map(View::elements);
        for (index, item) in (0_u32..).zip(items).take(MAX_CALLS) {
            if !self.calls.contains(&index) {
                self.written.item(index, item, sink);
            }
        }
    }

    fn start(&mut self, response: Option<ResponseObject<'_>>, sink: EventSink<'_>) {
        let model = response.map(|response| response.model).filter(|model| !model.is_empty());
        if let Some(model) = model.filter(|_| !std::mem::replace(&mut self.is_model_known, true)) {
            sink(Event::Start { model: Some(model), fingerprint: None });
        }
    }

    fn added(&mut self, index: u32, item: OutputItem<'_>, sink: EventSink<'_>) {
        if !item.is_call() {
            return working(sink);
        }
        if !self.calls.insert(index) {
            return;
        }
        if self.calls.len() > MAX_CALLS {
            return self.fail(invalid("too many tool calls"), sink);
        }
        let (name, is_custom, id) = (item.tool_name(), item.is_custom_call(), item.call_id);
        sink(match is_custom {
            true => Event::CustomStart { choice: CHOICE, call: index, id, name },
            false => Event::ToolStart { choice: CHOICE, call: index, id, name },
        });
    }

    /// Reports the parts of an item that came only with its end.
    fn done(&mut self, index: u32, item: OutputItem<'_>, sink: EventSink<'_>) {
        if let Some(entry) = item.encrypted_entry()
            && let Some(value) = details_value(&[entry])
        {
            sink(Event::Extra { choice: CHOICE, name: DETAILS, value: &value });
        }
        if self.hosted.take(&item) {
            // If the stream breaks, these calls are still charged.
            self.hosted.estimate().into_iter().for_each(|used| sink(Event::Usage(used)));
        }
        if !item.is_call() {
            return;
        }
        let whole: Cow<'_, str> =
            if item.is_custom_call() { item.input.clone() } else { item.arguments.clone() };
        self.added(index, item, sink);
        if !whole.is_empty() && self.with_arguments.insert(index) {
            sink(Event::ToolArgs { choice: CHOICE, call: index, fragment: whole });
        }
    }

    fn end(&mut self, response: &ResponseObject<'_>, kind: &str, sink: EventSink<'_>) {
        if self.hosted.estimate().is_none() {
            // Some servers send items only with the end.
            response.output.iter().flatten().for_each(|item| _ = self.hosted.take(item));
        }
        if let Some(usage) = with_hosted(response.used(), &self.hosted) {
            sink(Event::Usage(usage));
        }
        if kind == "response.failed" || response.status == "failed" {
            let failure = response.failure();
            return self
                .fail(failure.unwrap_or_else(|| reported(&Value::Null, FailureKind::StreamBroken)), sink);
        }
        sink(Event::Finish { choice: CHOICE, reason: response.finish(!self.calls.is_empty()) });
        self.progress.end(sink);
    }
}
