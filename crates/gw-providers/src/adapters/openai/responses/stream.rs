//! The stream of the Responses API. Each event goes to the client as it is, and its content is reported beside it for
//! accounting, for the cache and for clients of another dialect that share the answer.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use gw_wire::dialects::ClientDialect;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::utf8;
use serde::Deserialize;
use serde_json::Value;

use super::item::{HostedTally, OutputItem, text};
use super::{CHOICE, ResponseObject, details_value, sealed_items, with_hosted};
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
    fn framing(_: u8) -> Framing {
        Framing::Events
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
            return self.fail(reported(&error, FailureKind::StreamBroken), sink);
        }
        let name = read.kind.clone();
        if name != "response.failed" {
            let has_seal = text.contains("\"encrypted_content\"");
            let sealed = self.replay.as_ref().filter(|_| has_seal).map(|target| sealed_items(text, target));
            let data = sealed.as_deref().unwrap_or(text);
            sink(Event::Frame { dialect: ClientDialect::Responses, name: &name, data });
        }
        self.read(read, sink);
    }

    fn held_bytes(&self) -> usize {
        (self.calls.capacity() + self.with_arguments.capacity()) * 3 * size_of::<u32>()
            + self.hosted.held_bytes()
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

    fn read(&mut self, event: ResponseEvent<'_>, sink: EventSink<'_>) {
        let index = event.output_index.unwrap_or_default();
        let delta = event.delta;
        match &*event.kind {
            "response.output_text.delta" => {
                sink(Event::Text { choice: CHOICE, text: delta, logprobs: None });
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                sink(Event::Reasoning { choice: CHOICE, text: delta });
            }
            "response.refusal.delta" => sink(Event::Refusal { choice: CHOICE, text: delta }),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                if self.calls.contains(&index) {
                    self.with_arguments.insert(index);
                    sink(Event::ToolArgs { choice: CHOICE, call: index, fragment: delta });
                }
            }
            "response.output_item.added" => self.added(index, event.item.unwrap_or_default(), sink),
            "response.output_item.done" => self.done(index, event.item.unwrap_or_default(), sink),
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end(&event.response.unwrap_or_default(), &event.kind, sink);
            }
            // States of a hosted tool.
            kind if kind.contains("_call.") || kind.contains("_call_") => working(sink),
            _ => self.start(event.response, sink),
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
            response.output.iter().for_each(|item| _ = self.hosted.take(item));
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
