//! The stream of ConverseStream: `messageStart`, then for each content block its start (tools only), deltas and stop,
//! `messageStop`, and `metadata` with the usage. API Reference, `ConverseStreamOutput`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_smithy_types::event_stream::Message;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::reply::Finish;
use gw_wire::stream::MOST_TOOL_CALLS;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::frames::Frames;
use super::reply::{finish, is_server_tool};
use super::{citations, errors, images, reasoning, usage};
use crate::adapter::StreamDecoder;
use crate::adapters::annotations::{Annotations, characters};
use crate::adapters::failure::{broken, invalid, invalid_json};
use crate::adapters::replay::DETAILS;
use crate::adapters::replay::order::{self, Order};
use crate::adapters::text::{Text, filled};

type Sink<'s> = &'s mut dyn FnMut(Event<'_>);

/// Bytes of reasoning that are kept until their signatures come, in all blocks. A block beyond is shown, but not sent back.
const MOST_REASONING: usize = 4 << 20;

/// Decodes one stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    frames: Frames,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    started: bool,
    /// Tools and reasoning that are going on, by the index of their block; of one index in the order they began.
    open: BTreeMap<(u32, usize), Open>,
    /// Blocks that began.
    opened: usize,
    calls: u32,
    details: usize,
    /// Characters of the text so far, the block that the last of it belongs to, and where that begins.
    characters: u64,
    text_block: Option<u32>,
    text_from: u64,
    annotations: Annotations,
    /// Bytes of pictures that are not complete.
    image_bytes: usize,
    /// Bytes of reasoning that waits for its signature.
    reasoning_bytes: usize,
    order: Order,
    /// The block that said something last.
    last: Option<u32>,
    finished: bool,
    /// The end or an error was given; what follows is not looked at.
    over: bool,
}

#[derive(Debug)]
enum Open {
    Call {
        handle: u32,
        has_arguments: bool,
    },
    /// A tool of the provider's own.
    Foreign,
    Reasoning(reasoning::Block<'static>),
    Image(images::Coming),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart<'a> {
    #[serde(default)]
    content_block_index: u32,
    #[serde(borrow)]
    start: Option<Start<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow)]
    tool_use: Option<ToolStart<'a>>,
    #[serde(borrow)]
    image: Option<images::Block<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolStart<'a> {
    #[serde(borrow)]
    tool_use_id: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta<'a> {
    #[serde(default)]
    content_block_index: u32,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    tool_use: Option<ToolDelta<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<ReasoningDelta<'a>>,
    #[serde(borrow)]
    image: Option<images::Block<'a>>,
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolDelta<'a> {
    #[serde(borrow)]
    input: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningDelta<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    signature: Option<Text<'a>>,
    #[serde(borrow)]
    redacted_content: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStop {
    #[serde(default)]
    content_block_index: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop<'a> {
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

impl StreamDecoder for Stream {
    fn feed(&mut self, chunk: &[u8], sink: Sink<'_>) {
        let Self { frames, state } = self;
        if state.over {
            return;
        }
        frames.push(chunk);
        while !state.over {
            match frames.next() {
                Ok(Some(message)) => state.message(&message, sink),
                Ok(None) => return,
                Err(fault) => {
                    state.fail(invalid(fault), sink);
                }
            }
        }
    }

    fn eof(&mut self, sink: Sink<'_>) {
        // After the finish only the usage can be missing; it is estimated then.
        if self.state.finished {
            return;
        }
        let words = if self.frames.is_empty() {
            "The upstream's stream ended without saying why."
        } else {
            "The upstream's stream ended in the middle of an event."
        };
        self.state.fail(broken(words), sink);
    }

    fn held_bytes(&self) -> usize {
        self.frames.held_bytes().saturating_add(self.state.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        let Some(chunk) = chunk else { return 0 };
        let bytes = self.frames.work_bytes(chunk);
        // A picture is written when its block ends. Its pieces are only put together.
        let ends = self.state.image_bytes > 0 && bytes > 0 && ends_a_block(self.frames.pending(), chunk);
        if ends { bytes.saturating_add(self.state.image_bytes) } else { bytes }
    }
}

/// Whether these bytes of frames, in two pieces, may name an event that ends a block or the message.
fn ends_a_block(pending: &[u8], chunk: &[u8]) -> bool {
    // `contentBlockStop` and `messageStop`.
    let mark = b"Stop";
    let (before, after) = (mark.len() - 1, chunk.len().min(mark.len() - 1));
    let last = pending.get(pending.len().saturating_sub(before)..).unwrap_or_default();
    let border = [last, chunk.get(..after).unwrap_or_default()].concat();
    [pending, chunk, &border].into_iter().any(|bytes| memmem::find(bytes, mark).is_some())
}

/// A header of the frame that is a string.
fn header<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    let found = message.headers().iter().find(|header| header.name().as_str() == name)?;
    found.value().as_string().ok().map(|value| value.as_str())
}

fn read<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(payload).map_err(|fault| invalid_json(&fault))
}

impl State {
    fn held_bytes(&self) -> usize {
        let open = self.open.len() * size_of::<((u32, usize), Open)>();
        let told = self.annotations.held_bytes() + self.order.held_bytes();
        self.image_bytes.saturating_add(self.reasoning_bytes).saturating_add(open + told)
    }

    fn fail(&mut self, failure: Failure, sink: Sink<'_>) {
        if !std::mem::replace(&mut self.over, true) {
            sink(Event::Error(failure));
        }
    }

    fn message(&mut self, message: &Message, sink: Sink<'_>) {
        let payload: &[u8] = message.payload();
        match header(message, ":message-type") {
            Some("exception") => {
                let name = header(message, ":exception-type").unwrap_or_default();
                self.fail(errors::in_stream(name, payload), sink);
            }
            Some("error") => {
                let name = header(message, ":error-code").unwrap_or_default();
                self.fail(errors::in_stream(name, payload), sink);
            }
            _ => {
                let name = header(message, ":event-type").unwrap_or_default();
                if let Err(failure) = self.event(name, payload, sink) {
                    self.fail(failure, sink);
                }
            }
        }
    }

    fn event(&mut self, name: &str, payload: &[u8], sink: Sink<'_>) -> Result<(), Failure> {
        match name {
            "contentBlockDelta" => {
                let event: BlockDelta<'_> = read(payload)?;
                match event.delta {
                    Some(delta) => self.delta(event.content_block_index, delta, sink),
                    None => Ok(()),
                }
            }
            "messageStart" => {
                if !std::mem::replace(&mut self.started, true) {
                    sink(Event::Start { model: None, fingerprint: None });
                }
                Ok(())
            }
            "contentBlockStart" => {
                let event: BlockStart<'_> = read(payload)?;
                let index = event.content_block_index;
                match event.start {
                    Some(Start { tool_use: Some(call), .. }) => self.call(index, call, sink),
                    Some(Start { image: Some(image), .. }) => self.image(index, image.format()).map(drop),
                    _ => Ok(()),
                }
            }
            "contentBlockStop" => {
                let event: BlockStop = read(payload)?;
                self.close(event.content_block_index, sink);
                Ok(())
            }
            "messageStop" => {
                let event: MessageStop<'_> = read(payload)?;
                self.finish(event.stop_reason, sink)
            }
            "metadata" => {
                let event: Metadata<'_> = read(payload)?;
                if let Some(usage) = event.usage.and_then(usage::read) {
                    sink(Event::Usage(usage));
                }
                if self.finished {
                    self.over = true;
                    sink(Event::End);
                }
                Ok(())
            }
            // What is added to the API later, and `initial-response`.
            _ => Ok(()),
        }
    }

    fn call(&mut self, index: u32, call: ToolStart<'_>, sink: Sink<'_>) -> Result<(), Failure> {
        if self.calls as usize >= MOST_TOOL_CALLS || self.open.len() >= MOST_TOOL_CALLS {
            return Err(invalid("too many tool calls"));
        }
        if is_server_tool(call.kind.as_ref()) {
            self.begin(index, Open::Foreign);
            return Ok(());
        }
        let handle = self.calls;
        self.calls += 1;
        self.order.add(order::Block::Call);
        self.begin(index, Open::Call { handle, has_arguments: false });
        sink(Event::ToolStart {
            choice: 0,
            call: handle,
            id: call.tool_use_id.unwrap_or_default().0,
            name: call.name.unwrap_or_default().0,
        });
        Ok(())
    }

    fn delta(&mut self, index: u32, delta: Delta<'_>, sink: Sink<'_>) -> Result<(), Failure> {
        if self.last.replace(index) != Some(index) {
            self.order.close();
        }
        if let Some(text) = filled(delta.text) {
            if self.text_block != Some(index) {
                (self.text_block, self.text_from) = (Some(index), self.characters);
            }
            self.characters += characters(&text);
            self.order.add(order::Block::Text(text.len()));
            sink(Event::Text { choice: 0, text, logprobs: None });
        }
        if let Some(citation) = delta.citation {
            // It comes behind the text that it is about.
            let from = if self.text_block == Some(index) { self.text_from } else { self.characters };
            citations::cite_one(citation, from, self.characters, &mut self.annotations);
        }
        if let Some(fragment) = delta.tool_use.and_then(|call| filled(call.input)) {
            match self.find(index) {
                Some(Open::Call { handle, has_arguments }) => {
                    *has_arguments = true;
                    sink(Event::ToolArgs { choice: 0, call: *handle, fragment });
                }
                Some(Open::Foreign) => {}
                Some(Open::Reasoning(_) | Open::Image(_)) | None => {
                    return Err(invalid("arguments of a tool call that has not begun"));
                }
            }
        }
        if let Some(bytes) = delta.image.and_then(images::Block::bytes) {
            let image = self.image(index, None)?;
            let before = image.held();
            image.push(&bytes)?;
            let after = image.held();
            self.image_bytes = self.image_bytes.saturating_sub(before).saturating_add(after);
        }
        match delta.reasoning_content {
            Some(thought) => self.thought(index, thought, sink),
            None => Ok(()),
        }
    }

    fn thought(&mut self, index: u32, thought: ReasoningDelta<'_>, sink: Sink<'_>) -> Result<(), Failure> {
        if self.find(index).is_none() {
            if self.open.len() >= MOST_TOOL_CALLS {
                return Err(invalid("too many blocks of reasoning at once"));
            }
            self.begin(index, Open::Reasoning(reasoning::Block::default()));
        }
        let text = filled(thought.text);
        let mut kept = self.reasoning_bytes;
        if let Some(Open::Reasoning(block)) = self.find(index) {
            let signature = filled(thought.signature).unwrap_or_default();
            let redacted = filled(thought.redacted_content).unwrap_or_default();
            let words = text.as_deref().unwrap_or_default();
            let before = block.held();
            if kept + words.len() + signature.len() + redacted.len() > MOST_REASONING {
                *block = reasoning::Block { is_cut: true, ..reasoning::Block::default() };
            }
            if !block.is_cut {
                block.text.to_mut().push_str(words);
                block.signature.to_mut().push_str(&signature);
                block.redacted.to_mut().push_str(&redacted);
            }
            kept = kept.saturating_sub(before).saturating_add(block.held());
        }
        self.reasoning_bytes = kept;
        if let Some(text) = text {
            sink(Event::Reasoning { choice: 0, text });
        }
        Ok(())
    }

    /// The picture that comes at this index, which may begin with its first bytes.
    fn image(&mut self, index: u32, format: Option<&str>) -> Result<&mut images::Coming, Failure> {
        if !matches!(self.find(index), Some(Open::Image(_))) {
            if self.open.len() >= MOST_TOOL_CALLS {
                return Err(invalid("too many images at once"));
            }
            self.begin(index, Open::Image(images::Coming::new(format)));
        }
        match self.find(index) {
            Some(Open::Image(image)) => Ok(image),
            _ => Err(invalid("an image that has not begun")),
        }
    }

    fn begin(&mut self, index: u32, open: Open) {
        self.open.insert((index, self.opened), open);
        self.opened += 1;
    }

    fn find(&mut self, index: u32) -> Option<&mut Open> {
        self.open.range_mut((index, 0)..=(index, usize::MAX)).next_back().map(|(_, open)| open)
    }

    fn close(&mut self, index: u32, sink: Sink<'_>) {
        let last = self.open.range((index, 0)..=(index, usize::MAX)).next_back().map(|(place, _)| *place);
        if let Some(open) = last.and_then(|place| self.open.remove(&place)) {
            self.closed(open, sink);
        }
    }

    /// A block is over: a call without arguments has empty ones, signed reasoning is given whole.
    fn closed(&mut self, open: Open, sink: Sink<'_>) {
        match open {
            Open::Call { handle, has_arguments: false } => {
                sink(Event::ToolArgs { choice: 0, call: handle, fragment: Cow::Borrowed("{}") });
            }
            Open::Call { .. } | Open::Foreign => {}
            Open::Image(image) => {
                self.image_bytes = self.image_bytes.saturating_sub(image.held());
                if let Some(image) = image.whole() {
                    self.order.add(order::Block::Image);
                    sink(Event::Image { choice: 0, image });
                }
            }
            Open::Reasoning(block) => {
                self.reasoning_bytes = self.reasoning_bytes.saturating_sub(block.held());
                let Some(detail) = block.detail(self.details) else { return };
                self.details += 1;
                self.order.add(order::Block::Detail);
                if let Some(value) = reasoning::details(&[detail]) {
                    sink(Event::Extra { choice: 0, name: DETAILS, value: &value });
                }
            }
        }
    }

    fn finish(&mut self, reason: Option<Text<'_>>, sink: Sink<'_>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        for (_, open) in std::mem::take(&mut self.open) {
            self.closed(open, sink);
        }
        if let Some(value) = self.order.entry(&[reasoning::USUAL], self.details) {
            sink(Event::Extra { choice: 0, name: DETAILS, value: &value });
        }
        self.annotations.report(0, sink);
        let has_calls = self.calls > 0;
        let otherwise = if has_calls { Finish::ToolCalls } else { Finish::Stop };
        let reason = reason.map_or(Ok(None), |reason| finish(&reason.0, has_calls))?.unwrap_or(otherwise);
        sink(Event::Finish { choice: 0, reason });
        Ok(())
    }
}
