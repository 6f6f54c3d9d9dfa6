//! The open content blocks of a stream.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::json::View;
use gw_wire::usage::text_bytes;
use serde_json::value::RawValue;

use super::details::{self, Thought, ThoughtKind};
use super::stream::{CHOICE, emit_text};
use super::wire::{AnthropicBlock, AnthropicDelta, Text, source, sources};
use crate::adapters::annotations::{Annotations, CitedSource, MAX_SOURCES, characters, truncated};
use crate::adapters::failure::invalid;
use crate::adapters::replay::order::{self, Order};
use crate::adapters::sse_adapter::EventSink;
use crate::adapters::written::{WrittenPart, report, texts_in};

/// The most bytes of arguments from a block's start event that are held until the block ends.
const MAX_HELD_ARGUMENT_BYTES: usize = 64 << 10;

/// The most blocks that may be open at once. The API opens one after the other.
const MAX_OPEN_BLOCKS: usize = 64;

/// The most bytes of thinking that are held until their signature arrives. Longer thoughts are streamed, but the client
/// cannot send them back.
const MAX_HELD_THOUGHT_BYTES: usize = 4 << 20;

/// The open blocks, by their index in the stream.
#[derive(Debug, Default)]
pub(super) struct OpenBlocks {
    open: Vec<(u32, AnthropicOpenBlock)>,
    /// The count of calls so far, which is the handle of the next one.
    calls: u32,
    /// The hosted tools that run: calls without a result so far.
    running: u32,
    /// A hosted tool was called.
    has_hosted: bool,
    /// The bytes of thoughts that are held.
    held_thought_bytes: usize,
    /// The characters of the text so far.
    characters: u64,
    annotations: Annotations,
    order: Order,
    /// One more than the highest index so far.
    next: u32,
}

#[derive(Debug)]
enum AnthropicOpenBlock {
    /// Thinking, held for its signature. The text is None once it is too long.
    Thought { text: Option<String>, signature: String },
    /// A tool call: whether argument fragments arrived, and the arguments of its start event.
    Call { handle: u32, has_fragments: bool, input: Option<String> },
    /// Text: the character that it begins at, and its citations.
    Text { start: u64, cited: Vec<CitedSource<'static>>, cited_bytes: usize },
    /// A block without an event of its own, and what the model wrote into it.
    Other(WrittenPart),
}

impl AnthropicOpenBlock {
    /// Returns the held bytes, except the text of a thought.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Thought { signature, .. } => signature.capacity(),
            Self::Call { input, .. } => input.as_ref().map_or(0, String::capacity),
            Self::Text { cited_bytes, .. } => *cited_bytes,
            Self::Other(_) => 0,
        }
    }
}

impl OpenBlocks {
    /// Returns the bytes that are held.
    pub(super) fn held_bytes(&self) -> usize {
        let open: usize =
            self.open.iter().map(|(_, open)| size_of::<AnthropicOpenBlock>() + open.held_bytes()).sum();
        self.held_thought_bytes.saturating_add(open) + self.annotations.held_bytes() + self.order.held_bytes()
    }

    /// Whether a tool was called.
    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Whether the model works out of sight: it thinks, or a hosted tool runs.
    pub(super) fn is_working(&self) -> bool {
        let is_thought =
            |(_, open): &(u32, AnthropicOpenBlock)| matches!(open, AnthropicOpenBlock::Thought { .. });
        self.running > 0 || self.open.iter().any(is_thought)
    }

    /// Returns the index of an open block.
    pub(super) fn first_open(&self) -> Option<u32> {
        self.open.first().map(|(index, _)| *index)
    }

    /// Handles `content_block_start`.
    pub(super) fn start(
        &mut self,
        index: u32,
        block: AnthropicBlock<'_>,
        sink: EventSink<'_>,
    ) -> Result<(), Failure> {
        self.stop(index, sink);
        self.order.close();
        self.next = self.next.max(index.saturating_add(1));
        if self.open.len() >= MAX_OPEN_BLOCKS {
            return Err(invalid("too many content blocks are open at once"));
        }
        match Text::of(&block.kind) {
            "server_tool_use" | "mcp_tool_use" => {
                self.running = self.running.saturating_add(1);
                self.has_hosted = true;
            }
            kind if kind.ends_with("_tool_result") => self.running = self.running.saturating_sub(1),
            _ => {}
        }
        let opened = match Text::of(&block.kind) {
            "tool_use" | "server_tool_use" => self.call(block, sink),
            "thinking" => {
                self.open.push((
                    index,
                    AnthropicOpenBlock::Thought { text: Some(String::new()), signature: String::new() },
                ));
                self.add_thinking(index, block.thinking.unwrap_or_default().0, sink);
                self.add_signature(index, Text::of(&block.signature));
                return Ok(());
            }
            "redacted_thinking" => {
                let data = block.data.unwrap_or_default().0;
                if !data.is_empty() {
                    self.order.add(order::Block::Detail);
                    emit_thought(&Thought { index, kind: ThoughtKind::Redacted { data } }, sink);
                }
                AnthropicOpenBlock::Other(WrittenPart::default())
            }
            "text" => {
                let start = self.characters;
                self.add_text(block.text.unwrap_or_default().0, sink);
                let cited: Vec<_> =
                    sources(block.citations).into_iter().take(MAX_SOURCES).map(to_static).collect();
                let cited_bytes = cited.iter().map(bytes_of).sum();
                AnthropicOpenBlock::Text { start, cited, cited_bytes }
            }
            "web_search_tool_result" => {
                for source in sources(block.content) {
                    self.annotations.add(&source, self.characters, self.characters);
                }
                self.other(&block, sink)
            }
            _ => self.other(&block, sink),
        };
        self.open.push((index, opened));
        Ok(())
    }

    /// Begins a block without an event of its own.
    ///
    /// The result of a hosted tool is part of the prompt that the model reads next, which the usage counts with each call of a
    /// tool. A result without a call is text like any other.
    fn other(&self, block: &AnthropicBlock<'_>, sink: EventSink<'_>) -> AnthropicOpenBlock {
        let mut part = WrittenPart::default();
        let is_result = Text::of(&block.kind).ends_with("tool_result");
        if !(is_result && self.has_hosted) {
            let input =
                block.input.map(RawValue::get).filter(|input| !matches!(*input, "{}" | "\"\"" | "null"));
            let content = block.content.map_or(0, |content| texts_in(View::new(content.get())));
            // Pieces may repeat the input, and never the name.
            report(text_bytes(Text::of(&block.name)), sink);
            let text = text_bytes(Text::of(&block.text)) + text_bytes(input.unwrap_or_default());
            part.whole(text + content, sink);
        }
        AnthropicOpenBlock::Other(part)
    }

    fn call(&mut self, block: AnthropicBlock<'_>, sink: EventSink<'_>) -> AnthropicOpenBlock {
        let handle = self.calls;
        self.calls = self.calls.saturating_add(1);
        self.order.add(order::Block::Call);
        let (id, name) = (block.id.unwrap_or_default().0, block.name.unwrap_or_default().0);
        sink(Event::ToolStart { choice: CHOICE, call: handle, id, name });
        // The API sends `{}` here and the arguments in fragments. Other servers send the arguments here, which count if
        // no fragment follows.
        let input = block.input.map(|input| input.get()).filter(|input| !matches!(*input, "{}" | "\"\""));
        if let Some(input) = input.filter(|input| input.len() > MAX_HELD_ARGUMENT_BYTES) {
            // Large arguments are passed on at once instead of held.
            sink(Event::ToolArgs { choice: CHOICE, call: handle, fragment: Cow::Borrowed(input) });
            return AnthropicOpenBlock::Call { handle, has_fragments: true, input: None };
        }
        AnthropicOpenBlock::Call { handle, has_fragments: false, input: input.map(str::to_owned) }
    }

    /// Handles `content_block_delta`.
    pub(super) fn delta(&mut self, index: u32, delta: AnthropicDelta<'_>, sink: EventSink<'_>) {
        match Text::of(&delta.kind) {
            "text_delta" => self.add_text(delta.text.unwrap_or_default().0, sink),
            "citations_delta" => {
                if let (Some(source), Some(AnthropicOpenBlock::Text { cited, cited_bytes, .. })) =
                    (source(delta.citation), self.find(index))
                    && cited.len() < MAX_SOURCES
                {
                    let source = to_static(source);
                    *cited_bytes += bytes_of(&source);
                    cited.push(source);
                }
            }
            "thinking_delta" => self.add_thinking(index, delta.thinking.unwrap_or_default().0, sink),
            "signature_delta" => self.add_signature(index, Text::of(&delta.signature)),
            "input_json_delta" => {
                let fragment = delta.partial_json.unwrap_or_default().0;
                match self.find(index) {
                    Some(AnthropicOpenBlock::Call { handle, has_fragments, .. }) if !fragment.is_empty() => {
                        *has_fragments = true;
                        sink(Event::ToolArgs { choice: CHOICE, call: *handle, fragment });
                    }
                    Some(AnthropicOpenBlock::Other(part)) => part.piece(text_bytes(&fragment), sink),
                    _ => {}
                }
            }
            // `compaction_delta`, and kinds that the API adds later.
            _ => {
                let content = delta.content.map_or(0, |content| texts_in(View::new(content.get())));
                if let Some(AnthropicOpenBlock::Other(part)) = self.find(index) {
                    part.piece(content, sink);
                }
            }
        }
    }

    /// Handles a piece of text.
    pub(super) fn add_text(&mut self, piece: Cow<'_, str>, sink: EventSink<'_>) {
        if !piece.is_empty() {
            self.characters += characters(&piece);
            self.order.add(order::Block::Text(piece.len()));
            emit_text(piece, sink);
        }
    }

    /// Emits all citations of the text, before the answer ends.
    pub(super) fn emit_citations(&mut self, sink: EventSink<'_>) {
        self.annotations.report(CHOICE, sink);
    }

    fn add_thinking(&mut self, index: u32, piece: Cow<'_, str>, sink: EventSink<'_>) {
        if piece.is_empty() {
            // The thought is not shown, or only begins.
            return sink(Event::Reasoning { choice: CHOICE, text: piece });
        }
        let has_room = self.held_thought_bytes.saturating_add(piece.len()) <= MAX_HELD_THOUGHT_BYTES;
        let mut held_thought_bytes = self.held_thought_bytes;
        if let Some(AnthropicOpenBlock::Thought { text, .. }) = self.find(index) {
            match text {
                Some(text) if has_room => {
                    text.push_str(&piece);
                    held_thought_bytes += piece.len();
                }
                _ => held_thought_bytes -= text.take().map_or(0, |text| text.len()),
            }
        }
        self.held_thought_bytes = held_thought_bytes;
        sink(Event::Reasoning { choice: CHOICE, text: piece });
    }

    fn add_signature(&mut self, index: u32, piece: &str) {
        if let Some(AnthropicOpenBlock::Thought { text, signature }) = self.find(index) {
            signature.push_str(piece);
            if signature.len() > MAX_HELD_THOUGHT_BYTES {
                // An incomplete signature is useless.
                signature.clear();
                let dropped = text.take().map_or(0, |text| text.len());
                self.held_thought_bytes -= dropped;
            }
        }
    }

    /// Handles `content_block_stop`.
    pub(super) fn stop(&mut self, index: u32, sink: EventSink<'_>) {
        let Some(at) = self.open.iter().position(|(known, _)| *known == index) else { return };
        match self.open.remove(at).1 {
            AnthropicOpenBlock::Thought { text, signature } => {
                self.held_thought_bytes -= text.as_ref().map_or(0, String::len);
                if let Some(text) = text.filter(|_| !signature.is_empty()) {
                    self.order.add(order::Block::Detail);
                    let kind =
                        ThoughtKind::Signed { text: Cow::Owned(text), signature: Cow::Owned(signature) };
                    emit_thought(&Thought { index, kind }, sink);
                }
            }
            AnthropicOpenBlock::Call { handle, has_fragments: false, input } => {
                let fragment = input.map_or(Cow::Borrowed("{}"), Cow::Owned);
                sink(Event::ToolArgs { choice: CHOICE, call: handle, fragment });
            }
            AnthropicOpenBlock::Text { start, cited, .. } => {
                cited.iter().for_each(|source| self.annotations.add(source, start, self.characters));
            }
            AnthropicOpenBlock::Call { .. } | AnthropicOpenBlock::Other(_) => {}
        }
    }

    /// Emits the order of the answer's blocks if it is not the usual one.
    pub(super) fn emit_order(&self, sink: EventSink<'_>) {
        if let Some(value) = self.order.entry(&[details::USUAL_ORDER], self.next as usize) {
            sink(Event::Extra { choice: CHOICE, name: details::MEMBER, value: &value });
        }
    }

    fn find(&mut self, index: u32) -> Option<&mut AnthropicOpenBlock> {
        self.open.iter_mut().find(|(known, _)| *known == index).map(|(_, open)| open)
    }
}

/// Copies a citation, to hold it until its text is complete.
fn to_static(source: CitedSource<'_>) -> CitedSource<'static> {
    let to_static = |text: Cow<'_, str>| Cow::Owned(truncated(&text).to_owned());
    CitedSource {
        url: to_static(source.url),
        title: to_static(source.title),
        quoted: source.quoted.map(to_static),
        id: source.id.map(to_static),
    }
}

/// Returns the bytes that a held citation takes.
fn bytes_of(source: &CitedSource<'_>) -> usize {
    size_of::<CitedSource<'_>>() + source.texts().map(str::len).sum::<usize>()
}

/// Emits a complete thought.
fn emit_thought(thought: &Thought<'_>, sink: EventSink<'_>) {
    if let Some(value) = details::to_member(std::slice::from_ref(thought)) {
        sink(Event::Extra { choice: CHOICE, name: details::MEMBER, value: &value });
    }
}
