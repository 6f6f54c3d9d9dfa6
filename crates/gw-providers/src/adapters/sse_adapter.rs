//! The frame that the stream decoders of several dialects share: it finds out how the body is framed, cuts it into events,
//! and stops after the end or an error. The state of a dialect reads the events.

use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::sse::{MAX_EVENT_BYTES, SseDecoder, hold};

use super::failure::invalid;
use super::ndjson::LineDecoder;
use crate::adapter::{StreamDecoder, work_by_lines};

/// Receives the events of a decoder.
pub(super) type EventSink<'s> = &'s mut dyn FnMut(Event<'_>);

/// How a body is divided into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON document per line.
    Lines,
    /// One JSON document: the upstream ignored `stream`.
    Document,
}

/// One event of an upstream's stream. Its data is never blank.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpstreamEvent<'a> {
    /// The `event` field of a server-sent event, empty when there is none.
    pub(super) name: &'a [u8],
    /// The data without blanks around it.
    pub(super) data: &'a [u8],
    /// No event came before it.
    pub(super) is_first: bool,
    /// The body ended inside this event, so its data may be incomplete.
    pub(super) is_last: bool,
}

/// How far a stream has come.
#[derive(Debug, Default)]
pub(super) struct StreamProgress {
    /// At least one event came.
    pub(super) has_begun: bool,
    /// The event that is read is the first one.
    is_first: bool,
    /// The model gave up its answer. The usage may follow, so the stream goes on to its end.
    given_up: Option<Box<Failure>>,
    /// The end or an error was reported. The rest of the body is ignored.
    pub(super) is_over: bool,
}

impl StreamProgress {
    /// Reports a failure, which ends the stream. A stream that is over stays as it is.
    pub(super) fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.has_begun = true;
            sink(Event::Error(failure));
        }
    }

    /// Notes that an event came. Returns whether it is the first one.
    pub(super) fn begin(&mut self) -> bool {
        self.is_first = !std::mem::replace(&mut self.has_begun, true);
        self.is_first
    }

    /// The kind of an error in the current event that names none. A provider that begins with an error has refused the request.
    pub(super) fn error_kind(&self) -> FailureKind {
        if self.is_first { FailureKind::Server } else { FailureKind::StreamBroken }
    }

    /// Notes that the model gave up its answer. The failure is reported with the end of the stream.
    pub(super) fn give_up(&mut self, failure: Failure) {
        self.given_up.get_or_insert_with(|| Box::new(failure));
    }

    /// Whether the model gave up its answer.
    pub(super) fn has_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// Reports that the model gave up, if it did. Called when nothing more is expected.
    pub(super) fn report_given_up(&mut self, sink: EventSink<'_>) {
        if let Some(failure) = self.given_up.take() {
            self.fail(*failure, sink);
        }
    }

    /// Reports the end. A stream that is over stays as it is.
    pub(super) fn end(&mut self, sink: EventSink<'_>) {
        self.report_given_up(sink);
        if !std::mem::replace(&mut self.is_over, true) {
            sink(Event::End);
        }
    }
}

/// Reads the events of one dialect's streams.
pub(super) trait StreamState: Default + Send {
    /// The detail of the failure when a body ends without any event.
    const EMPTY_BODY: &'static str = "the body is not an event stream";

    /// The framing of a body whose first byte that is not blank is `first`.
    fn framing(first: u8) -> Framing;

    /// How far the stream has come.
    fn progress(&mut self) -> &mut StreamProgress;

    /// Reads one event. Not called when the stream is over.
    fn event(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>);

    /// Reads a body that is one document, and sets the progress when it is an answer.
    fn document(&mut self, _: &[u8], _: EventSink<'_>) {}

    /// Reads the event that the state has kept, because no other one follows. Not called when the stream is over.
    fn finish(&mut self, _: EventSink<'_>) {}

    /// Bytes that the state keeps.
    fn held_bytes(&self) -> usize;
}

/// The decoder of one stream.
#[derive(Debug, Default)]
pub(super) struct SseAdapter<S> {
    events: SseDecoder,
    body: StreamBody,
    state: S,
}

#[derive(Debug, Default)]
enum StreamBody {
    /// Only blanks so far.
    #[default]
    Unknown,
    Events,
    Lines(LineDecoder),
    Document(Vec<u8>),
}

impl<S: StreamState> SseAdapter<S> {
    /// A decoder that begins with this state.
    pub(super) fn new(state: S) -> Self {
        Self { state, ..Self::default() }
    }
}

/// Passes one event on, unless it is blank or the stream is over.
fn pass_on<S: StreamState>(state: &mut S, name: &[u8], data: &[u8], is_last: bool, sink: EventSink<'_>) {
    let data = data.trim_ascii();
    let progress = state.progress();
    if progress.is_over || data.is_empty() {
        return;
    }
    let is_first = progress.begin();
    state.event(UpstreamEvent { name, data, is_first, is_last }, sink);
}

impl<S: StreamState> StreamDecoder for SseAdapter<S> {
    fn feed(&mut self, chunk: &[u8], sink: EventSink<'_>) {
        let Self { events, body, state } = self;
        if state.progress().is_over {
            return;
        }
        if matches!(body, StreamBody::Unknown)
            && let Some(first) = chunk.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            *body = match S::framing(*first) {
                Framing::Events => StreamBody::Events,
                Framing::Lines => StreamBody::Lines(LineDecoder::default()),
                Framing::Document => StreamBody::Document(Vec::new()),
            };
            if !matches!(body, StreamBody::Events) {
                // It holds at most the blanks before the body.
                *events = SseDecoder::default();
            }
        }
        let failure = match body {
            StreamBody::Unknown | StreamBody::Events => {
                let fed =
                    events.feed(chunk, &mut |event| pass_on(state, event.name, event.data, false, sink));
                fed.err().map(invalid)
            }
            StreamBody::Lines(lines) => {
                let fed = lines.feed(chunk, &mut |line| pass_on(state, b"", line, false, sink));
                fed.err().map(invalid)
            }
            StreamBody::Document(document) => {
                hold(document, chunk, MAX_EVENT_BYTES);
                (document.len() > MAX_EVENT_BYTES).then(|| {
                    *document = Vec::new();
                    invalid("the body is a document larger than 16 MiB instead of a stream")
                })
            }
        };
        if let Some(failure) = failure {
            state.progress().fail(failure, sink);
        }
    }

    fn eof(&mut self, sink: EventSink<'_>) {
        let Self { events, body, state } = self;
        match body {
            StreamBody::Unknown | StreamBody::Events => {
                events.eof(&mut |event| pass_on(state, event.name, event.data, true, sink));
            }
            StreamBody::Lines(lines) => lines.eof(&mut |line| pass_on(state, b"", line, true, sink)),
            StreamBody::Document(document) if !state.progress().is_over => state.document(document, sink),
            StreamBody::Document(_) => {}
        }
        if !state.progress().is_over {
            state.finish(sink);
        }
        if !state.progress().has_begun {
            state.progress().fail(invalid(S::EMPTY_BODY), sink);
        }
        state.progress().report_given_up(sink);
    }

    fn held_bytes(&self) -> usize {
        let body = match &self.body {
            StreamBody::Unknown | StreamBody::Events => self.events.held_bytes(),
            StreamBody::Lines(lines) => lines.held_bytes(),
            StreamBody::Document(document) => document.capacity(),
        };
        body.saturating_add(self.state.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        match &self.body {
            StreamBody::Unknown | StreamBody::Events => work_by_lines(self.events.pending_bytes(), chunk),
            StreamBody::Lines(lines) => work_by_lines(lines.pending_bytes(), chunk),
            StreamBody::Document(document) => chunk.map_or(document.len(), |_| 0),
        }
    }
}
