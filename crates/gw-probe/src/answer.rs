//! The content of an answer, plain or streamed, in one owned form that the checks read.

use std::collections::BTreeMap;
use std::time::Duration;

use gw_providers::adapter::StreamDecoder;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatChoice, ChatReply, Finish};
use gw_wire::usage::Usage;
use http::HeaderMap;

/// A tool call of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallFacts {
    /// The call's id; "" if there is none.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// The arguments as text.
    pub arguments: String,
}

/// One choice of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct ChoiceFacts {
    /// The text.
    pub text: String,
    /// The reasoning.
    pub reasoning: String,
    /// The tool calls in order.
    pub calls: Vec<CallFacts>,
    /// The finish reason.
    pub finish: Option<Finish>,
}

/// A complete answer.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplyFacts {
    /// The choices by index.
    pub choices: BTreeMap<u32, ChoiceFacts>,
    /// The usage, if it was reported.
    pub usage: Option<Usage>,
}

impl ReplyFacts {
    /// The facts of a plain answer.
    pub(super) fn of_reply(reply: &ChatReply<'_>) -> Self {
        let choices = reply.choices.iter().map(|choice| (choice.index, ChoiceFacts::of_choice(choice)));
        Self { choices: choices.collect(), usage: reply.usage }
    }

    /// The first choice.
    pub(super) fn first(&self) -> ChoiceFacts {
        self.choices.values().next().cloned().unwrap_or_default()
    }
}

impl ChoiceFacts {
    fn of_choice(choice: &ChatChoice<'_>) -> Self {
        let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().unwrap_or_default().to_owned();
        let calls = choice.tool_calls.iter().map(|call| CallFacts {
            id: call.id.to_string(),
            name: call.name.to_string(),
            arguments: call.arguments.to_string(),
        });
        Self {
            text: text(&choice.content),
            reasoning: text(&choice.reasoning),
            calls: calls.collect(),
            finish: choice.finish,
        }
    }
}

/// A stream, as it was received and as the adapter reads it.
#[derive(Debug)]
pub(super) struct StreamFacts {
    /// Response headers.
    pub headers: HeaderMap,
    /// The content.
    pub reply: ReplyFacts,
    /// The failure that ended the stream.
    pub failure: Option<Failure>,
    /// All bytes of the body.
    pub raw: Vec<u8>,
    /// The number of pieces in which the network delivered the body.
    pub reads: usize,
    /// The time of each event with content, from the sending of the request.
    pub content_at: Vec<Duration>,
    /// From sending to the last byte.
    pub took: Duration,
    /// The reader closed the connection before the end.
    pub is_cancelled: bool,
    /// The end marker of the dialect arrived.
    pub has_ended: bool,
}

/// Collects the events of a stream.
pub(super) struct EventCollector {
    facts: StreamFacts,
    decoder: Box<dyn StreamDecoder>,
    /// The place of a tool call in its choice, by choice and by the decoder's number.
    calls: BTreeMap<(u32, u32), usize>,
}

impl EventCollector {
    /// No events yet.
    pub(super) fn new(headers: HeaderMap, decoder: Box<dyn StreamDecoder>) -> Self {
        let facts = StreamFacts {
            headers,
            reply: ReplyFacts::default(),
            failure: None,
            raw: Vec::new(),
            reads: 0,
            content_at: Vec::new(),
            took: Duration::ZERO,
            is_cancelled: false,
            has_ended: false,
        };
        Self { facts, decoder, calls: BTreeMap::new() }
    }

    /// Takes the next piece of the body.
    pub(super) fn feed(&mut self, chunk: &[u8], at: Duration) {
        self.facts.reads += 1;
        self.facts.raw.extend_from_slice(chunk);
        let (facts, calls) = (&mut self.facts, &mut self.calls);
        self.decoder.feed(chunk, &mut |event| note(facts, calls, &event, at));
    }

    /// The bytes so far.
    pub(super) fn raw_bytes(&self) -> usize {
        self.facts.raw.len()
    }

    /// Whether the answer has begun and has not ended.
    pub(super) fn has_content(&self) -> bool {
        !self.facts.content_at.is_empty()
    }

    /// The body broke off.
    pub(super) fn broken(&mut self, failure: Failure) {
        self.facts.failure.get_or_insert(failure);
    }

    /// The facts of a stream that the reader leaves.
    pub(super) fn cancelled(mut self, took: Duration) -> StreamFacts {
        self.facts.took = took;
        self.facts.is_cancelled = !self.facts.has_ended;
        self.facts
    }

    /// The facts of a stream that has ended.
    pub(super) fn finish(mut self, took: Duration) -> StreamFacts {
        let (facts, calls) = (&mut self.facts, &mut self.calls);
        self.decoder.eof(&mut |event| note(facts, calls, &event, took));
        self.facts.took = took;
        self.facts
    }
}

fn note(facts: &mut StreamFacts, calls: &mut BTreeMap<(u32, u32), usize>, event: &Event<'_>, at: Duration) {
    if event.answer_bytes() > 0 {
        facts.content_at.push(at);
    }
    let choices = &mut facts.reply.choices;
    match event {
        Event::Text { choice, text, .. } => choices.entry(*choice).or_default().text.push_str(text),
        Event::Reasoning { choice, text } => choices.entry(*choice).or_default().reasoning.push_str(text),
        Event::ToolStart { choice, call, id, name } => {
            let known = &mut choices.entry(*choice).or_default().calls;
            calls.insert((*choice, *call), known.len());
            let (id, name) = (id.to_string(), name.to_string());
            known.push(CallFacts { id, name, arguments: String::new() });
        }
        Event::ToolArgs { choice, call, fragment } => {
            let place = calls.get(&(*choice, *call)).copied();
            let call = place.and_then(|place| choices.entry(*choice).or_default().calls.get_mut(place));
            if let Some(call) = call {
                call.arguments.push_str(fragment);
            }
        }
        Event::Finish { choice, reason } => choices.entry(*choice).or_default().finish = Some(*reason),
        Event::Usage(usage) => facts.reply.usage = Some(*usage),
        Event::Error(failure) => {
            facts.failure.get_or_insert_with(|| failure.clone());
        }
        Event::End => facts.has_ended = true,
        _ => {}
    }
}
