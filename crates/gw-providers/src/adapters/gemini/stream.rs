//! The stream of `streamGenerateContent`. Each event is a `GenerateContentResponse`; there is no end marker.
//!
//! <https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent>. A finish reason may come in every
//! event, or in a later event than the call that it belongs to. Only the last one counts, so the decoder emits it when
//! the body ends.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::hosted_tools::HostedCalls;
use gw_wire::reply::Finish;
use gw_wire::sse::SseDecoder;
use gw_wire::usage::Usage;
use gw_wire::utf8;
use memchr::memchr;
use serde_json::Value;

use super::candidate::{
    Candidate, CandidatePart, GeminiResponse, call_id, finish_reason, make_call_id, no_candidate,
};
use super::contents::USUAL_ORDER;
use super::grounding::GroundingCitations;
use super::object_splitter::ObjectSplitter;
use super::response::{Signature, SignedPart, with_searches};
use super::{errors, logprobs, response};
use crate::adapter::{StreamDecoder, work_by_lines};
use crate::adapters::failure::{broken, invalid, invalid_json};
use crate::adapters::replay::order::{Block, Order};
use crate::adapters::sse_adapter::EventSink;
use crate::adapters::written::report;

/// The most choices of a stream, more than any request can ask for.
const MAX_CHOICES: u32 = 128;

/// Decodes one stream.
#[derive(Debug, Default)]
pub(in crate::adapters) struct GeminiStream {
    body: GeminiStreamBody,
    state: GeminiStreamState,
}

/// The format of the body.
#[derive(Debug)]
enum GeminiStreamBody {
    /// Only white space has arrived. It belongs to the first line of an event stream, so the decoder of events has read it.
    Unknown(SseDecoder),
    Events(SseDecoder),
    /// An array of objects, or a single object.
    Objects(ObjectSplitter),
}

impl Default for GeminiStreamBody {
    fn default() -> Self {
        Self::Unknown(SseDecoder::default())
    }
}

#[derive(Debug, Default)]
struct GeminiStreamState {
    choices: Vec<StreamChoice>,
    /// The response's id.
    response: String,
    /// The last reported usage, and the searches that were reported with it.
    used: Option<Usage>,
    searches: HostedCalls,
    is_model_known: bool,
    is_blocked: bool,
    /// An event or an error has arrived.
    has_begun: bool,
    /// The end or an error was emitted; the rest of the stream is ignored.
    is_over: bool,
}

/// The state of one choice.
#[derive(Debug, Default)]
struct StreamChoice {
    index: u32,
    calls: u32,
    signatures: u32,
    images: usize,
    sources: GroundingCitations,
    order: Order,
    /// The last finish reason.
    reason: Option<String>,
}

impl StreamDecoder for GeminiStream {
    fn feed(&mut self, chunk: &[u8], sink: EventSink<'_>) {
        let Self { body, state } = self;
        if state.is_over {
            return;
        }
        if let GeminiStreamBody::Unknown(sse) = body
            && let Some(first) = chunk.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            *body = match first {
                b'{' | b'[' => GeminiStreamBody::Objects(ObjectSplitter::default()),
                _ => GeminiStreamBody::Events(std::mem::take(sse)),
            };
        }
        let is_too_large = match body {
            GeminiStreamBody::Unknown(sse) | GeminiStreamBody::Events(sse) => {
                sse.feed(chunk, &mut |event| state.event(event.data, false, sink)).is_err()
            }
            GeminiStreamBody::Objects(splitter) => {
                splitter.feed(chunk, &mut |object| state.event(object, false, sink)).is_err()
            }
        };
        if is_too_large {
            state.fail(invalid("an event of the stream is larger than 16 MiB"), sink);
        }
    }

    fn eof(&mut self, sink: EventSink<'_>) {
        let Self { body, state } = self;
        match body {
            GeminiStreamBody::Unknown(_) => {}
            GeminiStreamBody::Events(sse) => sse.eof(&mut |event| state.event(event.data, true, sink)),
            GeminiStreamBody::Objects(splitter) if splitter.is_inside() => state.fail_cut_off(sink),
            GeminiStreamBody::Objects(_) => {}
        }
        if !state.has_begun {
            state.fail(invalid("the body is not an event stream"), sink);
        }
        state.finish(sink);
    }

    fn held_bytes(&self) -> usize {
        let body = match &self.body {
            GeminiStreamBody::Unknown(sse) | GeminiStreamBody::Events(sse) => sse.held_bytes(),
            GeminiStreamBody::Objects(splitter) => splitter.held_bytes(),
        };
        body.saturating_add(self.state.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        match (&self.body, chunk) {
            (GeminiStreamBody::Events(sse), _) => work_by_lines(sse.pending_bytes(), chunk),
            // An array's objects may all be on one line.
            (GeminiStreamBody::Objects(splitter), Some(chunk)) if memchr(b'}', chunk).is_some() => {
                splitter.pending_bytes().saturating_add(chunk.len())
            }
            (GeminiStreamBody::Unknown(_), Some(chunk)) => chunk.len(),
            (GeminiStreamBody::Objects(_) | GeminiStreamBody::Unknown(_), _) => 0,
        }
    }
}

impl GeminiStreamState {
    fn held_bytes(&self) -> usize {
        let choices = self.choices.iter().map(StreamChoice::held_bytes);
        self.response.capacity().saturating_add(choices.sum())
    }

    fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.has_begun = true;
            sink(Event::Error(failure));
        }
    }

    fn fail_cut_off(&mut self, sink: EventSink<'_>) {
        self.fail(broken("The upstream's stream ended in the middle of an event."), sink);
    }

    /// Handles one event. `is_last`: the stream ended in this event, which may be cut off.
    fn event(&mut self, data: &[u8], is_last: bool, sink: EventSink<'_>) {
        let data = data.trim_ascii();
        if self.is_over || data.is_empty() || data == b"[DONE]" {
            return;
        }
        // A provider that begins with an error has refused the request.
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let error_kind = if is_first { FailureKind::Server } else { FailureKind::StreamBroken };
        let Ok(text) = utf8::text(data) else {
            return match is_last {
                true => self.fail_cut_off(sink),
                false => self.fail(invalid("an event of the stream is not UTF-8"), sink),
            };
        };
        match serde_json::from_str::<GeminiResponse<'_>>(text) {
            Ok(answer) if answer.error.is_none() => self.response(answer, sink),
            Ok(_) => {
                let error = serde_json::from_str(text).unwrap_or(Value::Null);
                self.fail(errors::reported(&error, error_kind), sink);
            }
            Err(fault) => self.unreadable_event(text, is_last, &fault, error_kind, sink),
        }
    }

    /// Handles an event that is an array with an error in it, or no response at all.
    #[cold]
    fn unreadable_event(
        &mut self,
        text: &str,
        is_last: bool,
        fault: &serde_json::Error,
        error_kind: FailureKind,
        sink: EventSink<'_>,
    ) {
        let value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        match errors::in_list(&value) {
            Some(error) => self.fail(errors::reported(error, error_kind), sink),
            None if is_last && fault.is_eof() => self.fail_cut_off(sink),
            None => self.fail(invalid_json(fault), sink),
        }
    }

    fn response(&mut self, mut answer: GeminiResponse<'_>, sink: EventSink<'_>) {
        self.is_blocked |= answer.is_blocked();
        if let Some(response) = answer.response_id.take().filter(|_| self.response.is_empty()) {
            self.response = response.0.into_owned();
        }
        if let Some(model) = answer.model_version.filter(|model| !self.is_model_known && !model.0.is_empty())
        {
            self.is_model_known = true;
            sink(Event::Start { model: Some(model.0), fingerprint: None });
        }
        for (position, candidate) in answer.candidates.unwrap_or_default().into_iter().enumerate() {
            let index = candidate.index.unwrap_or_else(|| u32::try_from(position).unwrap_or(u32::MAX));
            if index >= MAX_CHOICES {
                return self.fail(invalid("a choice's index is out of range"), sink);
            }
            let at = self.choices.iter().position(|choice| choice.index == index).unwrap_or_else(|| {
                self.choices.push(StreamChoice { index, ..StreamChoice::default() });
                self.choices.len() - 1
            });
            if let Some(choice) = self.choices.get_mut(at) {
                choice.candidate(candidate, &self.response, sink);
            }
        }
        self.report(answer.usage_metadata.and_then(|counts| counts.usage()), sink);
    }

    /// Reports the usage of an event, or the last one again if searches have joined it.
    fn report(&mut self, used: Option<Usage>, sink: EventSink<'_>) {
        let none = HostedCalls::default();
        let searches = self.choices.iter().fold(none, |sum, choice| sum.plus(&choice.sources.searches()));
        if used.is_none() && searches == self.searches {
            return;
        }
        self.searches = searches;
        self.used = used.or(self.used);
        with_searches(self.used, searches).into_iter().for_each(|used| sink(Event::Usage(used)));
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        if self.is_over {
            return;
        }
        if self.choices.is_empty() && !self.is_blocked {
            return self.fail(no_candidate(), sink);
        }
        self.is_over = true;
        if self.choices.is_empty() {
            sink(Event::Finish { choice: 0, reason: Finish::ContentFilter });
            // No further choice follows, even if the client asked for more.
            sink(Event::End);
            return;
        }
        self.choices.sort_by_key(|choice| choice.index);
        for choice in &self.choices {
            if let Some(value) = choice.order.entry(&[USUAL_ORDER], choice.signatures as usize) {
                sink(Event::Extra { choice: choice.index, name: response::DETAILS, value: &value });
            }
            choice.sources.emit(choice.index, sink);
            if let Some(reason) = &choice.reason {
                match finish_reason(reason, choice.calls > 0) {
                    Ok(reason) => sink(Event::Finish { choice: choice.index, reason }),
                    Err(failure) => return sink(Event::Error(failure)),
                }
            } else if self.is_blocked {
                sink(Event::Finish { choice: choice.index, reason: Finish::ContentFilter });
            }
        }
    }
}

impl StreamChoice {
    fn held_bytes(&self) -> usize {
        let reason = self.reason.as_ref().map_or(0, String::capacity);
        size_of::<Self>() + reason + self.sources.held_bytes() + self.order.held_bytes()
    }

    fn candidate(&mut self, candidate: Candidate<'_>, response: &str, sink: EventSink<'_>) {
        let mut logprobs = candidate.logprobs_result.as_ref().and_then(logprobs::openai);
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            // The log probabilities belong to the event's text, so they go with its first piece.
            let is_text = part.function_call.is_none() && part.thought != Some(true) && part.text.is_some();
            let own = if is_text { logprobs.take() } else { None };
            self.part(part, own.as_deref(), response, sink);
        }
        if let Some(grounding) = candidate.grounding_metadata {
            self.sources.add(grounding);
        }
        if let Some(logprobs) = logprobs {
            sink(Event::Text { choice: self.index, text: Cow::Borrowed(""), logprobs: Some(&logprobs) });
        }
        if let Some(reason) = candidate.finish_reason {
            match &mut self.reason {
                Some(known) if *known == reason.0 => {}
                known => *known = Some(reason.0.into_owned()),
            }
        }
    }

    fn part(
        &mut self,
        mut part: CandidatePart<'_>,
        logprobs: Option<&serde_json::value::RawValue>,
        response: &str,
        sink: EventSink<'_>,
    ) {
        let choice = self.index;
        report(part.hosted_bytes(), sink);
        if let Some(mut call) = part.function_call {
            let handle = self.calls;
            let id = call_id(&mut call, part.thought_signature, || make_call_id(response, choice, handle));
            let arguments = call.arguments();
            // A call without a name is ignored.
            let Some(name) = call.name.map(|name| name.0).filter(|name| !name.is_empty()) else { return };
            self.calls = self.calls.saturating_add(1);
            self.order.add(Block::Call);
            sink(Event::ToolStart { choice, call: handle, id, name });
            if !arguments.is_empty() {
                sink(Event::ToolArgs { choice, call: handle, fragment: arguments });
            }
            return;
        }
        let image = part.take_image();
        let text = part.text.map(|text| text.0).unwrap_or_default();
        let is_thought = part.thought == Some(true);
        let signature = part.thought_signature.filter(|signature| !signature.0.is_empty());
        if signature.is_some() {
            // A signed text is a part of its own.
            self.order.close();
        }
        response::record(&mut self.order, is_thought, text.len(), image.is_some(), signature.is_some());
        let signed =
            if image.is_some() { SignedPart::Image(self.images) } else { SignedPart::Text(text.len()) };
        if is_thought {
            if !text.is_empty() {
                sink(Event::Reasoning { choice, text });
            }
        } else if !text.is_empty() || logprobs.is_some() {
            self.sources.add_text(&text);
            sink(Event::Text { choice, text, logprobs });
        }
        if let Some(image) = image {
            self.images = self.images.saturating_add(1);
            sink(Event::Image { choice, image });
        }
        if let Some(signature) = Signature::of(signature, signed)
            && let Some(details) = response::details(&[signature], self.signatures)
        {
            self.signatures = self.signatures.saturating_add(1);
            sink(Event::Extra { choice, name: response::DETAILS, value: &details });
        }
    }
}
