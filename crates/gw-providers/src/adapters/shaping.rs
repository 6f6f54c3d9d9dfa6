//! Converts answers back when the request was rewritten: structured output through a tool, JSON that was asked for in
//! the prompt, renamed and custom tools, legacy functions, `echo`.

mod custom;

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gw_wire::event::Event;
use gw_wire::reply::{ChatChoice, ChatReply, Finish};
use gw_wire::usage::text_bytes;

use super::bounded::Bounded;
use super::replay::{SealingStream, seal_reply};
use crate::adapter::{Reading, StreamDecoder};
use crate::adapters::sse_adapter::EventSink;
use crate::adapters::written::report;

/// Converts a complete answer.
pub(super) fn reply(reply: &mut ChatReply<'_>, reading: &Reading) {
    if *reading == Reading::default() {
        return;
    }
    if let Some(target) = &reading.replay {
        seal_reply(reply, target, reading.seals_plain);
    }
    for choice in &mut reply.choices {
        if let Some(tool) = &reading.json_tool {
            json_tool(choice, tool);
        }
        for call in &mut choice.tool_calls {
            if let Some(own) = own_name(reading, &call.name) {
                call.name = Cow::Owned(own.to_owned());
            }
            if reading.custom_tools.iter().any(|name| *name == *call.name) {
                call.custom = true;
                call.arguments = Cow::Owned(custom::input(&call.arguments));
            }
        }
        if reading.fenced
            && let Some(content) = &mut choice.content
        {
            *content = Cow::Owned(without_fence(content));
        }
        if reading.function_call && !choice.tool_calls.is_empty() {
            let call = choice.tool_calls.swap_remove(0);
            choice.tool_calls.clear();
            choice.function_call = Some((call.name, or_empty_object(call.arguments)));
            choice.finish = Some(Finish::FunctionCall);
        }
        if let Some(echo) = &reading.echo {
            let content = choice.content.take().unwrap_or_default();
            choice.content = Some(Cow::Owned(format!("{echo}{content}")));
        }
    }
}

/// The client's name of a tool that was renamed.
fn own_name<'r>(reading: &'r Reading, sent: &str) -> Option<&'r str> {
    reading.tool_names.iter().find(|(name, _)| name == sent).map(|(_, own)| own.as_str())
}

fn json_tool(choice: &mut ChatChoice<'_>, tool: &str) {
    let Some(at) = choice.tool_calls.iter().position(|call| call.name == tool) else { return };
    let call = choice.tool_calls.remove(at);
    // Some providers cannot forbid several calls. The first one is the answer.
    choice.tool_calls.retain(|call| call.name != tool);
    // Text beside the call is not JSON and would make the answer invalid.
    choice.content = Some(or_empty_object(call.arguments));
    if choice.tool_calls.is_empty() && choice.finish == Some(Finish::ToolCalls) {
        choice.finish = Some(Finish::Stop);
    }
}

fn or_empty_object(arguments: Cow<'_, str>) -> Cow<'_, str> {
    if arguments.is_empty() { Cow::Borrowed("{}") } else { arguments }
}

/// The text without the code fence around it, equal to the result of a stream.
fn without_fence(text: &str) -> String {
    let mut fence = Fence::default();
    let mut out = fence.push(text);
    out.push_str(&fence.end());
    out
}

/// The most text that is held until it is known whether the structured-output tool is called.
const MAX_ASIDE_BYTES: usize = 1 << 20;

/// Converts a stream.
pub(super) fn stream(inner: Box<dyn StreamDecoder>, reading: &Reading) -> Box<dyn StreamDecoder> {
    if *reading == Reading::default() {
        return Box::new(Bounded::new(inner));
    }
    let inner = match &reading.replay {
        Some(target) => Box::new(SealingStream::new(inner, Arc::clone(target), reading.seals_plain, true)),
        None => inner,
    };
    let shape = ShapingState { reading: reading.clone(), ..ShapingState::default() };
    Box::new(Bounded::new(ShapedStream { inner, shape }))
}

struct ShapedStream {
    inner: Box<dyn StreamDecoder>,
    shape: ShapingState,
}

impl StreamDecoder for ShapedStream {
    fn feed(&mut self, chunk: &[u8], sink: EventSink<'_>) {
        let Self { inner, shape } = self;
        inner.feed(chunk, &mut |event| shape.event(event, sink));
    }

    fn eof(&mut self, sink: EventSink<'_>) {
        let Self { inner, shape } = self;
        inner.eof(&mut |event| shape.event(event, sink));
    }

    fn held_bytes(&self) -> usize {
        self.inner.held_bytes().saturating_add(self.shape.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        self.inner.work_bytes(chunk)
    }
}

/// The state of a stream, by choice or by call. The lists are as short as the answer has choices and calls.
#[derive(Default)]
struct ShapingState {
    reading: Reading,
    /// Calls of the structured-output tool, each with whether it is the first of its choice, which is the answer.
    json_calls: HashMap<(u32, u32), bool>,
    /// Choices with a call that the client sees.
    called: HashSet<u32>,
    /// Choices whose answer is a call of the structured-output tool.
    json_choices: HashSet<u32>,
    fences: Vec<(u32, Fence)>,
    /// Text of each choice before the structured-output tool is called. If the call comes, the text is not part of the
    /// answer. None when the text was too long to wait.
    asides: Vec<(u32, Option<String>)>,
    echoed: Vec<u32>,
    /// The tool call that becomes the function call of a choice. Other calls are left out.
    functions: HashMap<u32, u32>,
    /// Calls of custom tools.
    inputs: HashMap<(u32, u32), custom::CustomInput>,
    /// Bytes of their arguments that are held.
    input_bytes: usize,
}

/// Approximate memory of one entry of the sets and maps.
const ENTRY_BYTES: usize = 64;

impl ShapingState {
    fn held_bytes(&self) -> usize {
        let words = self.asides.iter().map(|(_, words)| words.as_ref().map_or(0, String::capacity));
        let fences = self.fences.iter().map(|(_, fence)| fence.held.capacity());
        let calls = self.inputs.len() + self.json_calls.len() + self.functions.len();
        let choices = self.called.len() + self.json_choices.len() + self.echoed.len();
        let lists = calls + choices + self.asides.len() + self.fences.len();
        let texts = words.chain(fences).fold(self.input_bytes, usize::saturating_add);
        texts.saturating_add(lists * ENTRY_BYTES)
    }

    fn event(&mut self, event: Event<'_>, sink: EventSink<'_>) {
        match event {
            Event::ToolStart { choice, call, name, id } => {
                if self.reading.json_tool.as_deref() == Some(&*name) {
                    self.asides.retain(|(known, _)| *known != choice);
                    self.json_calls.insert((choice, call), self.json_choices.insert(choice));
                } else {
                    self.called.insert(choice);
                    self.tool_start(choice, call, id, name, sink);
                }
            }
            Event::ToolArgs { choice, call, fragment } => {
                if let Some(is_answer) = self.json_calls.get(&(choice, call)).copied() {
                    match is_answer {
                        true => self.text(choice, fragment, sink),
                        false => report(text_bytes(&fragment), sink),
                    }
                } else if let Some(input) = self.inputs.get_mut(&(choice, call)) {
                    let before = input.held_bytes();
                    let fragment: Cow<'_, str> = Cow::Owned(input.push(&fragment));
                    self.input_bytes = self.input_bytes.saturating_sub(before) + input.held_bytes();
                    if !fragment.is_empty() {
                        sink(Event::ToolArgs { choice, call, fragment });
                    }
                } else if !self.reading.function_call {
                    sink(Event::ToolArgs { choice, call, fragment });
                } else if self.functions.get(&choice) == Some(&call) {
                    sink(Event::FunctionCall { choice, name: None, arguments: Some(fragment) });
                }
            }
            // Text may belong to an answer that the structured-output tool replaces.
            Event::Text { choice, text, .. } if self.reading.json_tool.is_some() => {
                self.hold_aside(choice, &text, sink);
            }
            Event::Text { choice, text, logprobs: None } => self.text(choice, text, sink),
            Event::Finish { choice, reason } => {
                self.flush(choice, sink);
                sink(Event::Finish { choice, reason: self.finish(choice, reason) });
            }
            other => sink(other),
        }
    }

    fn tool_start(
        &mut self,
        choice: u32,
        call: u32,
        id: Cow<'_, str>,
        name: Cow<'_, str>,
        sink: EventSink<'_>,
    ) {
        let name = own_name(&self.reading, &name).map_or(name, |own| Cow::Owned(own.to_owned()));
        if self.reading.custom_tools.iter().any(|custom| *custom == *name) {
            self.inputs.insert((choice, call), custom::CustomInput::default());
            sink(Event::CustomStart { choice, call, id, name });
        } else if !self.reading.function_call {
            sink(Event::ToolStart { choice, call, id, name });
        } else if let Entry::Vacant(first) = self.functions.entry(choice) {
            first.insert(call);
            sink(Event::FunctionCall { choice, name: Some(name), arguments: None });
        }
    }

    fn finish(&self, choice: u32, reason: Finish) -> Finish {
        let called = self.called.contains(&choice);
        match reason {
            Finish::ToolCalls if called && self.reading.function_call => Finish::FunctionCall,
            Finish::ToolCalls if !called && self.reading.json_tool.is_some() => Finish::Stop,
            other => other,
        }
    }

    fn text(&mut self, choice: u32, text: Cow<'_, str>, sink: EventSink<'_>) {
        if let Some(echo) = &self.reading.echo
            && !self.echoed.contains(&choice)
        {
            self.echoed.push(choice);
            sink(Event::Text { choice, text: Cow::Borrowed(echo), logprobs: None });
        }
        if !self.reading.fenced {
            if !text.is_empty() {
                sink(Event::Text { choice, text, logprobs: None });
            }
            return;
        }
        let fence = self.fence(choice);
        if fence.state == FenceState::Closed {
            return report(text_bytes(&text), sink);
        }
        let out = fence.push(&text);
        if !out.is_empty() {
            sink(Event::Text { choice, text: Cow::Owned(out), logprobs: None });
        }
    }

    fn fence(&mut self, choice: u32) -> &mut Fence {
        let at = self.fences.iter().position(|(known, _)| *known == choice).unwrap_or_else(|| {
            self.fences.push((choice, Fence::default()));
            self.fences.len() - 1
        });
        // The position was just found or pushed.
        #[expect(clippy::indexing_slicing, reason = "see above")]
        &mut self.fences[at].1
    }

    /// Holds text until it is known whether the structured-output tool gives the answer. A very long text is the
    /// answer.
    fn hold_aside(&mut self, choice: u32, text: &str, sink: EventSink<'_>) {
        if self.json_choices.contains(&choice) {
            return;
        }
        if !self.asides.iter().any(|(known, _)| *known == choice) {
            self.asides.push((choice, Some(String::new())));
        }
        let Some((_, held)) = self.asides.iter_mut().find(|(known, _)| *known == choice) else { return };
        match held {
            Some(words) if words.len() + text.len() <= MAX_ASIDE_BYTES => words.push_str(text),
            _ => {
                let words = held.take().unwrap_or_default() + text;
                self.text(choice, Cow::Owned(words), sink);
            }
        }
    }

    /// Ends a choice: the held text is passed on without its fence. An empty answer still gets its echo.
    fn flush(&mut self, choice: u32, sink: EventSink<'_>) {
        for ((_, call), input) in self.inputs.iter_mut().filter(|((of, _), _)| *of == choice) {
            self.input_bytes = self.input_bytes.saturating_sub(input.held_bytes());
            let rest = std::mem::take(input).end();
            if !rest.is_empty() {
                sink(Event::ToolArgs { choice, call: *call, fragment: Cow::Owned(rest) });
            }
        }
        if let Some(at) = self.asides.iter().position(|(known, _)| *known == choice) {
            let (_, words) = self.asides.swap_remove(at);
            self.text(choice, Cow::Owned(words.unwrap_or_default()), sink);
        } else if self.reading.echo.is_some() && !self.echoed.contains(&choice) {
            self.text(choice, Cow::Borrowed(""), sink);
        }
        if !self.reading.fenced {
            return;
        }
        let rest = std::mem::take(self.fence(choice)).end();
        if !rest.is_empty() {
            sink(Event::Text { choice, text: Cow::Owned(rest), logprobs: None });
        }
    }
}

/// Removes the code fence from a text that comes in pieces, and everything behind the closing fence. It holds back the
/// beginning until it is known whether that is a fence, and the end, which could be the closing fence.
#[derive(Default)]
struct Fence {
    state: FenceState,
    held: String,
    /// The fence has more than blanks inside.
    has_content: bool,
}

#[derive(Default, PartialEq, Eq)]
enum FenceState {
    #[default]
    Begin,
    Inside,
    Closed,
    None,
}

/// The beginning of a text.
enum Opening {
    /// It is too short to tell.
    Unknown,
    /// It is no fence.
    Absent,
    /// It is a fence, and the content begins at this byte.
    Before(usize),
}

/// A longer first line is not a fence.
const MAX_FENCE_LINE_BYTES: usize = 32;

/// The most blanks around a fence that are held back. Further blanks belong to the answer.
const MAX_BLANK_BYTES: usize = 1024;

impl Fence {
    fn push(&mut self, text: &str) -> String {
        match self.state {
            FenceState::None => return text.to_owned(),
            FenceState::Closed => return String::new(),
            FenceState::Begin | FenceState::Inside => self.held.push_str(text),
        }
        if self.state == FenceState::Begin {
            match opening(&self.held) {
                Opening::Unknown => return String::new(),
                Opening::Absent => {
                    self.state = FenceState::None;
                    return std::mem::take(&mut self.held);
                }
                Opening::Before(content) => {
                    self.state = FenceState::Inside;
                    self.held.drain(..content);
                }
            }
        }
        if let Some(at) = self.closing() {
            self.state = FenceState::Closed;
            let mut content = std::mem::take(&mut self.held);
            content.truncate(at);
            content.truncate(content.trim_end().len());
            return content;
        }
        // Blanks and ticks at the end may belong to the closing fence and are kept.
        let kept = self.held.trim_end().trim_end_matches('`').trim_end().len();
        self.has_content |= kept > 0;
        // The kept end is bounded, because every piece searches it again.
        let bound = self.held.floor_char_boundary(self.held.len().saturating_sub(MAX_BLANK_BYTES));
        let kept = kept.max(bound);
        let tail = self.held.split_off(kept);
        std::mem::replace(&mut self.held, tail)
    }

    /// The place of the closing fence: ticks at the beginning or at the end of a line. Strings of JSON have no line
    /// breaks, so ticks inside of them do not count.
    fn closing(&self) -> Option<usize> {
        const BLANKS: [char; 3] = [' ', '\t', '\r'];
        let first = self.held.len() - self.held.trim_start().len();
        let mut from = 0;
        loop {
            let at = from + self.held.get(from..)?.find("```")?;
            let (before, behind) = self.held.split_at_checked(at)?;
            let rest = behind.trim_start_matches('`');
            let begins_line = before.trim_end_matches(BLANKS).ends_with('\n');
            let ends_line = rest.trim_start_matches(BLANKS).starts_with('\n');
            if (self.has_content || at > first) && (begins_line || ends_line) {
                return Some(at);
            }
            from = self.held.len() - rest.len();
        }
    }

    fn end(self) -> String {
        match self.state {
            FenceState::Inside => self.held.trim().trim_matches('`').trim().to_owned(),
            FenceState::Begin | FenceState::Closed | FenceState::None => self.held,
        }
    }
}

/// Reads the beginning of a text: ticks and a word, which end their line or stand in front of a JSON value.
fn opening(text: &str) -> Opening {
    let begin = text.trim_start();
    let blanks = text.len() - begin.len();
    let has_ticks = begin.starts_with("```");
    if blanks >= MAX_BLANK_BYTES || !has_ticks && !"```".starts_with(begin) {
        return Opening::Absent;
    }
    let line = begin.trim_start_matches('`');
    let ticks = begin.len() - line.len();
    let end = line.find(['\n', '{', '[']);
    match end.and_then(|end| line.split_at_checked(end)) {
        Some((word, rest)) if ticks + word.len() < MAX_FENCE_LINE_BYTES => {
            let ends_line = rest.starts_with('\n');
            let is_word = word.trim().bytes().all(|byte| byte.is_ascii_alphanumeric());
            if word.contains('`') || !ends_line && !is_word {
                return Opening::Absent;
            }
            Opening::Before(blanks + ticks + word.len() + usize::from(ends_line))
        }
        None if begin.len() < MAX_FENCE_LINE_BYTES => Opening::Unknown,
        _ => Opening::Absent,
    }
}

#[cfg(test)]
mod tests;
