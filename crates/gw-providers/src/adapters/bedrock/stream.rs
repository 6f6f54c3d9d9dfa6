//! The stream of ConverseStream: `messageStart`; for each content block its start (tools and images only), deltas and
//! stop; `messageStop`; and `metadata` with the usage. API Reference, `ConverseStreamOutput`.

mod events;

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_smithy_types::event_stream::Message;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::reply::Finish;
use gw_wire::stream::MAX_TOOL_CALLS;
use gw_wire::usage::text_bytes;
use memchr::memmem;
use serde::Deserialize;

use self::events::{
    BlockDelta, BlockStart, ContentBlockDelta, ContentBlockStart, ContentBlockStop, MessageStop, Metadata,
    ReasoningDelta, ToolStart,
};
use super::frames::FrameBuffer;
use super::response::{STOP_SEQUENCE, finish_reason, is_server_tool};
use super::{citations, errors, images, reasoning, usage};
use crate::adapter::StreamDecoder;
use crate::adapters::annotations::{Annotations, characters};
use crate::adapters::failure::{broken, invalid, invalid_json};
use crate::adapters::native::stop_member;
use crate::adapters::replay::DETAILS;
use crate::adapters::replay::order::{self, Order};
use crate::adapters::sse_adapter::EventSink;
use crate::adapters::text::{Text, filled};
use crate::adapters::written::report;

/// The most bytes of reasoning that are held until their signatures arrive, over all blocks. A longer block is streamed
/// but not sent back.
const MAX_HELD_REASONING_BYTES: usize = 4 << 20;

/// Decodes one stream.
#[derive(Debug, Default)]
pub(super) struct BedrockStream {
    frames: FrameBuffer,
    state: BedrockStreamState,
}

impl BedrockStream {
    /// A decoder for the answer to a request with this only stop sequence.
    pub(super) fn new(only_stop: Option<String>) -> Self {
        let state = BedrockStreamState { only_stop, ..BedrockStreamState::default() };
        Self { state, ..Self::default() }
    }
}

#[derive(Debug, Default)]
struct BedrockStreamState {
    /// The only stop sequence of the request.
    only_stop: Option<String>,
    is_started: bool,
    /// Open tool calls, reasoning and images, by content block index and, for equal indices, by the order in which they
    /// began.
    open: BTreeMap<(u32, usize), BedrockOpenBlock>,
    /// The count of blocks that have begun.
    begun_blocks: usize,
    calls: u32,
    details: usize,
    /// The characters of the text so far, the block of its last piece, and the character at which that block begins.
    characters: u64,
    text_block: Option<u32>,
    text_from: u64,
    annotations: Annotations,
    /// The bytes held for incomplete images.
    image_bytes: usize,
    /// The bytes of reasoning that waits for its signature.
    reasoning_bytes: usize,
    order: Order,
    /// The block of the last delta.
    last: Option<u32>,
    is_finished: bool,
    /// The model gave up its answer. The usage follows.
    given_up: Option<Box<Failure>>,
    /// The end or an error was emitted; the rest of the stream is ignored.
    is_over: bool,
}

#[derive(Debug)]
enum BedrockOpenBlock {
    Call {
        handle: u32,
        has_arguments: bool,
    },
    /// A tool that the provider itself calls.
    Foreign,
    Reasoning(reasoning::ReasoningBlock<'static>),
    Image(images::PartialImage),
}

impl StreamDecoder for BedrockStream {
    fn feed(&mut self, chunk: &[u8], sink: EventSink<'_>) {
        let Self { frames, state } = self;
        if state.is_over {
            return;
        }
        frames.push(chunk);
        while !state.is_over {
            match frames.next() {
                Ok(Some(message)) => state.message(&message, sink),
                Ok(None) => return,
                Err(fault) => {
                    state.fail(invalid(fault), sink);
                }
            }
        }
    }

    fn eof(&mut self, sink: EventSink<'_>) {
        if let Some(failure) = self.state.given_up.take() {
            return self.state.fail(*failure, sink);
        }
        // After the finish reason only the usage can be missing, and the caller estimates it.
        if self.state.is_finished {
            return;
        }
        let message = if self.frames.is_empty() {
            "The upstream's stream ended without saying why."
        } else {
            "The upstream's stream ended in the middle of an event."
        };
        self.state.fail(broken(message), sink);
    }

    fn held_bytes(&self) -> usize {
        self.frames.held_bytes().saturating_add(self.state.held_bytes())
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        let Some(chunk) = chunk else { return 0 };
        let bytes = self.frames.work_bytes(chunk);
        // An image is written when its block ends; until then its pieces are only collected.
        let ends = self.state.image_bytes > 0 && bytes > 0 && ends_a_block(self.frames.pending(), chunk);
        if ends { bytes.saturating_add(self.state.image_bytes) } else { bytes }
    }
}

/// Whether the bytes may hold the name of an event that ends a block or the message. The name may lie across the border
/// of the two slices.
fn ends_a_block(pending: &[u8], chunk: &[u8]) -> bool {
    // The common ending of `contentBlockStop` and `messageStop`.
    let mark = b"Stop";
    let (before, after) = (mark.len() - 1, chunk.len().min(mark.len() - 1));
    let last = pending.get(pending.len().saturating_sub(before)..).unwrap_or_default();
    let border = [last, chunk.get(..after).unwrap_or_default()].concat();
    [pending, chunk, &border].into_iter().any(|bytes| memmem::find(bytes, mark).is_some())
}

/// Returns a string header of the frame.
pub(super) fn header<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    let found = message.headers().iter().find(|header| header.name().as_str() == name)?;
    found.value().as_string().ok().map(|value| value.as_str())
}

fn read<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(payload).map_err(|fault| invalid_json(&fault))
}

impl BedrockStreamState {
    fn held_bytes(&self) -> usize {
        let open = self.open.len() * size_of::<((u32, usize), BedrockOpenBlock)>();
        let other = self.annotations.held_bytes() + self.order.held_bytes();
        self.image_bytes.saturating_add(self.reasoning_bytes).saturating_add(open + other)
    }

    fn fail(&mut self, failure: Failure, sink: EventSink<'_>) {
        if !std::mem::replace(&mut self.is_over, true) {
            sink(Event::Error(failure));
        }
    }

    fn message(&mut self, message: &Message, sink: EventSink<'_>) {
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

    fn event(&mut self, name: &str, payload: &[u8], sink: EventSink<'_>) -> Result<(), Failure> {
        match name {
            "contentBlockDelta" => {
                let event: ContentBlockDelta<'_> = read(payload)?;
                match event.delta {
                    Some(delta) => self.delta(event.content_block_index, delta, sink),
                    None => Ok(()),
                }
            }
            "messageStart" => {
                if !std::mem::replace(&mut self.is_started, true) {
                    sink(Event::Start { model: None, fingerprint: None });
                }
                Ok(())
            }
            "contentBlockStart" => {
                let event: ContentBlockStart<'_> = read(payload)?;
                let index = event.content_block_index;
                match event.start {
                    Some(BlockStart { tool_use: Some(call), .. }) => self.call(index, call, sink),
                    Some(BlockStart { image: Some(image), .. }) => {
                        self.image(index, image.format()).map(drop)
                    }
                    _ => Ok(()),
                }
            }
            "contentBlockStop" => {
                let event: ContentBlockStop = read(payload)?;
                self.close(event.content_block_index, sink);
                Ok(())
            }
            "messageStop" => {
                let event: MessageStop<'_> = read(payload)?;
                self.given_up =
                    self.finish(event.stop_reason, sink).err().map(Box::new).or(self.given_up.take());
                Ok(())
            }
            "metadata" => {
                let event: Metadata<'_> = read(payload)?;
                if let Some(usage) = event.usage.and_then(usage::read) {
                    sink(Event::Usage(usage));
                }
                if let Some(failure) = self.given_up.take() {
                    return Err(*failure);
                }
                if self.is_finished {
                    self.is_over = true;
                    sink(Event::End);
                }
                Ok(())
            }
            // `initial-response`, and events that later versions of the API add.
            _ => Ok(()),
        }
    }

    fn call(&mut self, index: u32, call: ToolStart<'_>, sink: EventSink<'_>) -> Result<(), Failure> {
        if self.calls as usize >= MAX_TOOL_CALLS || self.open.len() >= MAX_TOOL_CALLS {
            return Err(invalid("the stream has too many tool calls"));
        }
        if is_server_tool(call.kind.as_ref()) {
            report(text_bytes(Text::of(&call.name)), sink);
            self.begin(index, BedrockOpenBlock::Foreign);
            return Ok(());
        }
        let handle = self.calls;
        self.calls += 1;
        self.order.add(order::Block::Call);
        self.begin(index, BedrockOpenBlock::Call { handle, has_arguments: false });
        sink(Event::ToolStart {
            choice: 0,
            call: handle,
            id: call.tool_use_id.unwrap_or_default().0,
            name: call.name.unwrap_or_default().0,
        });
        Ok(())
    }

    fn delta(&mut self, index: u32, delta: BlockDelta<'_>, sink: EventSink<'_>) -> Result<(), Failure> {
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
            // A citation follows the text that it belongs to.
            let from = if self.text_block == Some(index) { self.text_from } else { self.characters };
            citations::cite_one(citation, from, self.characters, &mut self.annotations);
        }
        if let Some(fragment) = delta.tool_use.and_then(|call| filled(call.input)) {
            match self.find(index) {
                Some(BedrockOpenBlock::Call { handle, has_arguments }) => {
                    *has_arguments = true;
                    sink(Event::ToolArgs { choice: 0, call: *handle, fragment });
                }
                Some(BedrockOpenBlock::Foreign) => report(text_bytes(&fragment), sink),
                Some(BedrockOpenBlock::Reasoning(_) | BedrockOpenBlock::Image(_)) | None => {
                    return Err(invalid("the stream has arguments of a tool call that has not begun"));
                }
            }
        }
        if let Some(bytes) = delta.image.and_then(images::BedrockImage::bytes) {
            let image = self.image(index, None)?;
            let before = image.held_bytes();
            image.push(&bytes)?;
            let after = image.held_bytes();
            self.image_bytes = self.image_bytes.saturating_sub(before).saturating_add(after);
        }
        match delta.reasoning_content {
            Some(thought) => self.thought(index, thought, sink),
            None => Ok(()),
        }
    }

    fn thought(
        &mut self,
        index: u32,
        thought: ReasoningDelta<'_>,
        sink: EventSink<'_>,
    ) -> Result<(), Failure> {
        if self.find(index).is_none() {
            if self.open.len() >= MAX_TOOL_CALLS {
                return Err(invalid("the stream has too many open blocks of reasoning"));
            }
            self.begin(index, BedrockOpenBlock::Reasoning(reasoning::ReasoningBlock::default()));
        }
        let text = filled(thought.text);
        let mut held = self.reasoning_bytes;
        if let Some(BedrockOpenBlock::Reasoning(block)) = self.find(index) {
            let signature = filled(thought.signature).unwrap_or_default();
            let redacted = filled(thought.redacted_content).unwrap_or_default();
            let piece = text.as_deref().unwrap_or_default();
            let before = block.held_bytes();
            if held + piece.len() + signature.len() + redacted.len() > MAX_HELD_REASONING_BYTES {
                *block = reasoning::ReasoningBlock { is_cut: true, ..reasoning::ReasoningBlock::default() };
            }
            if !block.is_cut {
                block.text.to_mut().push_str(piece);
                block.signature.to_mut().push_str(&signature);
                block.redacted.to_mut().push_str(&redacted);
            }
            held = held.saturating_sub(before).saturating_add(block.held_bytes());
        }
        self.reasoning_bytes = held;
        if let Some(text) = text {
            sink(Event::Reasoning { choice: 0, text });
        }
        Ok(())
    }

    /// Returns the image of this block. An image may begin with its first bytes, without a start event.
    fn image(&mut self, index: u32, format: Option<&str>) -> Result<&mut images::PartialImage, Failure> {
        if !matches!(self.find(index), Some(BedrockOpenBlock::Image(_))) {
            if self.open.len() >= MAX_TOOL_CALLS {
                return Err(invalid("the stream has too many open images"));
            }
            self.begin(index, BedrockOpenBlock::Image(images::PartialImage::new(format)));
        }
        match self.find(index) {
            Some(BedrockOpenBlock::Image(image)) => Ok(image),
            _ => Err(invalid("the stream has a piece of an image that has not begun")),
        }
    }

    fn begin(&mut self, index: u32, open: BedrockOpenBlock) {
        self.open.insert((index, self.begun_blocks), open);
        self.begun_blocks += 1;
    }

    fn find(&mut self, index: u32) -> Option<&mut BedrockOpenBlock> {
        self.open.range_mut((index, 0)..=(index, usize::MAX)).next_back().map(|(_, open)| open)
    }

    fn close(&mut self, index: u32, sink: EventSink<'_>) {
        let last = self.open.range((index, 0)..=(index, usize::MAX)).next_back().map(|(place, _)| *place);
        if let Some(open) = last.and_then(|place| self.open.remove(&place)) {
            self.emit_end(open, sink);
        }
    }

    /// Ends a block: a call without arguments gets empty ones, and signed reasoning is emitted as a whole.
    fn emit_end(&mut self, open: BedrockOpenBlock, sink: EventSink<'_>) {
        match open {
            BedrockOpenBlock::Call { handle, has_arguments: false } => {
                sink(Event::ToolArgs { choice: 0, call: handle, fragment: Cow::Borrowed("{}") });
            }
            BedrockOpenBlock::Call { .. } | BedrockOpenBlock::Foreign => {}
            BedrockOpenBlock::Image(image) => {
                self.image_bytes = self.image_bytes.saturating_sub(image.held_bytes());
                if let Some(image) = image.finish() {
                    self.order.add(order::Block::Image);
                    sink(Event::Image { choice: 0, image });
                }
            }
            BedrockOpenBlock::Reasoning(block) => {
                self.reasoning_bytes = self.reasoning_bytes.saturating_sub(block.held_bytes());
                let Some(detail) = block.detail(self.details) else { return };
                self.details += 1;
                self.order.add(order::Block::Detail);
                if let Some(value) = reasoning::details(&[detail]) {
                    sink(Event::Extra { choice: 0, name: DETAILS, value: &value });
                }
            }
        }
    }

    fn finish(&mut self, reason: Option<Text<'_>>, sink: EventSink<'_>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_finished, true) {
            return Ok(());
        }
        for (_, open) in std::mem::take(&mut self.open) {
            self.emit_end(open, sink);
        }
        if let Some(value) = self.order.entry(&[reasoning::USUAL_ORDER], self.details) {
            sink(Event::Extra { choice: 0, name: DETAILS, value: &value });
        }
        self.annotations.report(0, sink);
        let ending = self.only_stop.as_deref().filter(|_| Text::of(&reason) == STOP_SEQUENCE);
        if let Some((name, value)) = stop_member(ending) {
            sink(Event::Member { name: &name, value: &value });
        }
        let has_calls = self.calls > 0;
        let otherwise = if has_calls { Finish::ToolCalls } else { Finish::Stop };
        let reason =
            reason.map_or(Ok(None), |reason| finish_reason(&reason.0, has_calls))?.unwrap_or(otherwise);
        sink(Event::Finish { choice: 0, reason });
        Ok(())
    }
}
