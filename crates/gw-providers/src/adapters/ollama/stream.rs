//! The stream: one document per line, each with a piece of the message; calls come whole; the last has `done`.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::stream::MOST_TOOL_CALLS;

use super::reply::{UsedIds, tool_call};
use super::shape::{OllamaCall, OllamaLine};
use super::{errors, logprobs};
use crate::adapter::{StreamDecoder, work_by_lines};
use crate::adapters::failure::{broken, invalid, invalid_json};
use crate::adapters::ndjson::LineDecoder;
use crate::adapters::openai::lenient::LenientText;

type Sink<'s> = &'s mut dyn FnMut(Event<'_>);

/// Decodes one stream of `/api/chat` or `/api/generate`.
#[derive(Debug, Default)]
pub(super) struct OllamaStream {
    lines: LineDecoder,
    state: OllamaStreamState,
}

#[derive(Debug, Default)]
struct OllamaStreamState {
    model_known: bool,
    /// Calls so far: the next one's handle.
    calls: usize,
    ids: UsedIds,
    /// Something that means something came.
    begun: bool,
    /// The end or an error was given; what follows is not looked at.
    over: bool,
}

impl StreamDecoder for OllamaStream {
    fn feed(&mut self, chunk: &[u8], sink: Sink<'_>) {
        let Self { lines, state } = self;
        if state.over {
            return;
        }
        if let Err(fault) = lines.feed(chunk, &mut |line| state.line(line, false, sink)) {
            state.fail(invalid(fault), sink);
        }
    }

    fn eof(&mut self, sink: Sink<'_>) {
        let Self { lines, state } = self;
        lines.eof(&mut |line| state.line(line, true, sink));
        if !state.begun {
            state.fail(invalid("the body is not a stream of JSON lines"), sink);
        }
    }

    fn held_bytes(&self) -> usize {
        self.lines.held_bytes().saturating_add(self.state.ids.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        work_by_lines(self.lines.pending_bytes(), chunk)
    }
}

impl OllamaStreamState {
    fn fail(&mut self, failure: Failure, sink: Sink<'_>) {
        if !std::mem::replace(&mut self.over, true) {
            self.begun = true;
            sink(Event::Error(failure));
        }
    }

    /// `last`: the stream ended in this line, which may be cut off.
    fn line(&mut self, line: &[u8], last: bool, sink: Sink<'_>) {
        if self.over {
            return;
        }
        let was_begun = std::mem::replace(&mut self.begun, true);
        let Ok(text) = std::str::from_utf8(line) else {
            return self.fail(invalid("a line of the stream is not UTF-8"), sink);
        };
        match serde_json::from_str::<OllamaLine<'_>>(text) {
            Ok(line) if line.error.is_some() => {
                self.fail(errors::reported(text, FailureKind::StreamBroken), sink);
            }
            Ok(line) => self.read(line, sink),
            Err(_) if last && was_begun => {
                self.fail(broken("The upstream's stream ended in the middle of a line."), sink);
            }
            Err(fault) => {
                let mut failure = invalid_json(&fault);
                "The upstream provider sent a line that is not JSON of the expected kind."
                    .clone_into(&mut failure.message);
                self.fail(failure, sink);
            }
        }
    }

    fn read(&mut self, mut line: OllamaLine<'_>, sink: Sink<'_>) {
        if !self.model_known
            && let Some(model) = text(line.model.take())
        {
            self.model_known = true;
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
        if self.over || !line.is_done() {
            return;
        }
        if let Some(usage) = line.usage() {
            sink(Event::Usage(usage));
        }
        match line.finish(self.calls > 0) {
            Ok(reason) => {
                self.over = true;
                sink(Event::Finish { choice: 0, reason });
                sink(Event::End);
            }
            Err(failure) => self.fail(failure, sink),
        }
    }

    fn call(&mut self, call: OllamaCall<'_>, sink: Sink<'_>) {
        if self.calls >= MOST_TOOL_CALLS {
            return self.fail(invalid("too many tool calls"), sink);
        }
        let Some(call) = tool_call(call, &mut self.ids) else { return };
        let handle = u32::try_from(self.calls).unwrap_or(u32::MAX);
        self.calls += 1;
        sink(Event::ToolStart { choice: 0, call: handle, id: call.id, name: call.name });
        sink(Event::ToolArgs { choice: 0, call: handle, fragment: call.arguments });
    }
}

/// A text that is not empty.
fn text<'a>(text: Option<LenientText<'a>>) -> Option<Cow<'a, str>> {
    text.map(|text| text.0).filter(|text| !text.is_empty())
}
