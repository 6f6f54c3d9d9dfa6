//! The stream: one document per line, each with a piece of the message. Calls come in one piece. The last line has
//! `done`.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::stream::MAX_TOOL_CALLS;

use super::response::{UsedIds, tool_call};
use super::wire::{OllamaCall, OllamaLine};
use super::{errors, logprobs};
use crate::adapters::failure::{broken, invalid, invalid_json};
use crate::adapters::openai::lenient::LenientText;
use crate::adapters::sse_adapter::{
    EventSink, Framing, SseAdapter, StreamProgress, StreamState, UpstreamEvent,
};

/// Decodes one stream of `/api/chat` or `/api/generate`.
pub(super) type OllamaStream = SseAdapter<OllamaStreamState>;

#[derive(Debug, Default)]
pub(super) struct OllamaStreamState {
    progress: StreamProgress,
    is_model_known: bool,
    /// The number of calls, which is the handle of the next call.
    calls: usize,
    ids: UsedIds,
}

impl StreamState for OllamaStreamState {
    const EMPTY_BODY: &'static str = "the body is not a stream of JSON lines";

    fn framing(_: u8) -> Framing {
        Framing::Lines
    }

    fn progress(&mut self) -> &mut StreamProgress {
        &mut self.progress
    }

    fn event(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>) {
        let Ok(text) = std::str::from_utf8(event.data) else {
            return self.fail(invalid("a line of the stream is not UTF-8"), sink);
        };
        let failure = match serde_json::from_str::<OllamaLine<'_>>(text) {
            Ok(line) if line.error.is_some() => errors::reported(text, self.progress.error_kind()),
            Ok(line) => return self.read(line, sink),
            Err(_) if event.is_last && !event.is_first => {
                broken("The upstream's stream ended in the middle of a line.")
            }
            Err(fault) => {
                let mut failure = invalid_json(&fault);
                "The upstream provider sent a line that is not JSON of the expected kind."
                    .clone_into(&mut failure.message);
                failure
            }
        };
        self.fail(failure, sink);
    }

    fn held_bytes(&self) -> usize {
        self.ids.held_bytes()
    }
}

impl OllamaStreamState {
    fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        self.progress.fail(failure, sink);
    }

    fn read(&mut self, mut line: OllamaLine<'_>, sink: EventSink<'_>) {
        if !self.is_model_known
            && let Some(model) = text(line.model.take())
        {
            self.is_model_known = true;
            sink(Event::Start { model: Some(model), fingerprint: None });
        }
        let message = line.message.take().unwrap_or_default();
        if let Some(text) = text(message.thinking.or(line.thinking.take())) {
            sink(Event::Reasoning { choice: 0, text });
        }
        let probabilities = line.logprobs.and_then(logprobs::convert);
        if let Some(text) = text(message.content.or(line.response.take())) {
            sink(Event::Text { choice: 0, text, logprobs: probabilities.as_deref() });
        }
        for call in message.tool_calls.unwrap_or_default() {
            self.call(call, sink);
        }
        if self.progress.is_over || !line.is_done() {
            return;
        }
        if let Some(usage) = line.usage() {
            sink(Event::Usage(usage));
        }
        match line.finish(self.calls > 0) {
            Ok(reason) => {
                sink(Event::Finish { choice: 0, reason });
                self.progress.end(sink);
            }
            Err(failure) => self.fail(failure, sink),
        }
    }

    fn call(&mut self, call: OllamaCall<'_>, sink: EventSink<'_>) {
        if self.calls >= MAX_TOOL_CALLS {
            return self.fail(invalid("too many tool calls"), sink);
        }
        let Some(call) = tool_call(call, &mut self.ids) else { return };
        let handle = u32::try_from(self.calls).unwrap_or(u32::MAX);
        self.calls += 1;
        sink(Event::ToolStart { choice: 0, call: handle, id: call.id, name: call.name });
        sink(Event::ToolArgs { choice: 0, call: handle, fragment: call.arguments });
    }
}

/// A text that is present and not empty.
fn text<'a>(text: Option<LenientText<'a>>) -> Option<Cow<'a, str>> {
    text.map(|text| text.0).filter(|text| !text.is_empty())
}
