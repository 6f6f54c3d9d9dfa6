//! The content blocks of a stream that are under way.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::failure::Failure;

use super::details::{self, Kind, Thought};
use super::stream::{CHOICE, Sink, text};
use super::wire::{Block, Delta, Text, source, sources};
use crate::adapters::annotations::{Annotations, CitedSource, MAX_SOURCES, characters, truncated};
use crate::adapters::failure::invalid;
use crate::adapters::replay::order::{self, Order};

/// Bytes of arguments that came with a call's begin and wait for its end.
const MOST_INPUT: usize = 64 << 10;

/// So many blocks may be open at once; the API opens one after the other.
const MOST_OPEN: usize = 64;

/// Bytes of thoughts that are kept until their signature comes. Longer ones are shown, but cannot be given back.
const MOST_THOUGHT: usize = 4 << 20;

/// The open blocks, by the position the API gives them.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    open: Vec<(u32, Open)>,
    /// Calls that were begun: the handle of the next one.
    calls: u32,
    /// Bytes of thoughts that are held.
    held: usize,
    /// Characters of the text so far.
    characters: u64,
    annotations: Annotations,
    order: Order,
    /// Higher than the position of every block so far.
    next: u32,
}

#[derive(Debug)]
enum Open {
    /// A thought, kept for its signature; None when it grew too long.
    Thought { text: Option<String>, signature: String },
    /// A call: whether fragments came, and what its start said.
    Call { handle: u32, fragments: bool, input: Option<String> },
    /// Text: the character that it begins with, and its sources.
    Text { start: u64, cited: Vec<CitedSource<'static>>, cited_bytes: usize },
    /// What we do not know.
    Other,
}

impl Open {
    /// Bytes that are kept besides the text of a thought.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Thought { signature, .. } => signature.capacity(),
            Self::Call { input, .. } => input.as_ref().map_or(0, String::capacity),
            Self::Text { cited_bytes, .. } => *cited_bytes,
            Self::Other => 0,
        }
    }
}

impl Blocks {
    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        let open: usize = self.open.iter().map(|(_, open)| size_of::<Open>() + open.held_bytes()).sum();
        self.held.saturating_add(open) + self.annotations.held_bytes() + self.order.held_bytes()
    }

    /// Whether a call was begun.
    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// The position of a block that is open.
    pub(super) fn first_open(&self) -> Option<u32> {
        self.open.first().map(|(index, _)| *index)
    }

    /// `content_block_start`.
    pub(super) fn start(&mut self, index: u32, block: Block<'_>, sink: Sink<'_>) -> Result<(), Failure> {
        self.stop(index, sink);
        self.order.close();
        self.next = self.next.max(index.saturating_add(1));
        if self.open.len() >= MOST_OPEN {
            return Err(invalid("too many content blocks are open at once"));
        }
        let opened = match Text::of(&block.kind) {
            "tool_use" | "server_tool_use" => self.call(block, sink),
            "thinking" => {
                self.open
                    .push((index, Open::Thought { text: Some(String::new()), signature: String::new() }));
                self.think(index, block.thinking.unwrap_or_default().0, sink);
                self.sign(index, Text::of(&block.signature));
                return Ok(());
            }
            "redacted_thinking" => {
                let data = block.data.unwrap_or_default().0;
                if !data.is_empty() {
                    self.order.add(order::Block::Detail);
                    extra(&Thought { index, kind: Kind::Redacted { data } }, sink);
                }
                Open::Other
            }
            "text" => {
                let start = self.characters;
                self.say(block.text.unwrap_or_default().0, sink);
                let cited: Vec<_> = sources(block.citations).into_iter().take(MAX_SOURCES).map(own).collect();
                let cited_bytes = cited.iter().map(bytes_of).sum();
                Open::Text { start, cited, cited_bytes }
            }
            "web_search_tool_result" => {
                for source in sources(block.content) {
                    self.annotations.add(&source, self.characters, self.characters);
                }
                Open::Other
            }
            _ => Open::Other,
        };
        self.open.push((index, opened));
        Ok(())
    }

    fn call(&mut self, block: Block<'_>, sink: Sink<'_>) -> Open {
        let handle = self.calls;
        self.calls = self.calls.saturating_add(1);
        self.order.add(order::Block::Call);
        let (id, name) = (block.id.unwrap_or_default().0, block.name.unwrap_or_default().0);
        sink(Event::ToolStart { choice: CHOICE, call: handle, id, name });
        // The API says `{}` here and gives the arguments in fragments. What others say counts if no fragment comes.
        let input = block.input.map(|input| input.get()).filter(|input| !matches!(*input, "{}" | "\"\""));
        if let Some(input) = input.filter(|input| input.len() > MOST_INPUT) {
            // Not held until the block ends.
            sink(Event::ToolArgs { choice: CHOICE, call: handle, fragment: Cow::Borrowed(input) });
            return Open::Call { handle, fragments: true, input: None };
        }
        Open::Call { handle, fragments: false, input: input.map(str::to_owned) }
    }

    /// `content_block_delta`.
    pub(super) fn delta(&mut self, index: u32, delta: Delta<'_>, sink: Sink<'_>) {
        match Text::of(&delta.kind) {
            "text_delta" => self.say(delta.text.unwrap_or_default().0, sink),
            "citations_delta" => {
                if let (Some(source), Some(Open::Text { cited, cited_bytes, .. })) =
                    (source(delta.citation), self.find(index))
                    && cited.len() < MAX_SOURCES
                {
                    let source = own(source);
                    *cited_bytes += bytes_of(&source);
                    cited.push(source);
                }
            }
            "thinking_delta" => self.think(index, delta.thinking.unwrap_or_default().0, sink),
            "signature_delta" => self.sign(index, Text::of(&delta.signature)),
            "input_json_delta" => {
                let fragment = delta.partial_json.unwrap_or_default().0;
                if let Some(Open::Call { handle, fragments, .. }) = self.find(index)
                    && !fragment.is_empty()
                {
                    *fragments = true;
                    sink(Event::ToolArgs { choice: CHOICE, call: *handle, fragment });
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, words: Cow<'_, str>, sink: Sink<'_>) {
        if !words.is_empty() {
            self.characters += characters(&words);
            self.order.add(order::Block::Text(words.len()));
            text(words, sink);
        }
    }

    /// Tells the sources of the text: all of them, before the answer ends.
    pub(super) fn tell_sources(&mut self, sink: Sink<'_>) {
        self.annotations.report(CHOICE, sink);
    }

    fn think(&mut self, index: u32, piece: Cow<'_, str>, sink: Sink<'_>) {
        if piece.is_empty() {
            return;
        }
        let room = self.held.saturating_add(piece.len()) <= MOST_THOUGHT;
        let mut held = self.held;
        if let Some(Open::Thought { text, .. }) = self.find(index) {
            match text {
                Some(text) if room => {
                    text.push_str(&piece);
                    held += piece.len();
                }
                _ => held -= text.take().map_or(0, |text| text.len()),
            }
        }
        self.held = held;
        sink(Event::Reasoning { choice: CHOICE, text: piece });
    }

    fn sign(&mut self, index: u32, piece: &str) {
        if let Some(Open::Thought { text, signature }) = self.find(index) {
            signature.push_str(piece);
            if signature.len() > MOST_THOUGHT {
                // What is not whole is worth nothing.
                signature.clear();
                let dropped = text.take().map_or(0, |text| text.len());
                self.held -= dropped;
            }
        }
    }

    /// `content_block_stop`.
    pub(super) fn stop(&mut self, index: u32, sink: Sink<'_>) {
        let Some(at) = self.open.iter().position(|(known, _)| *known == index) else { return };
        match self.open.remove(at).1 {
            Open::Thought { text, signature } => {
                self.held -= text.as_ref().map_or(0, String::len);
                if let Some(text) = text.filter(|_| !signature.is_empty()) {
                    self.order.add(order::Block::Detail);
                    let kind = Kind::Signed { text: Cow::Owned(text), signature: Cow::Owned(signature) };
                    extra(&Thought { index, kind }, sink);
                }
            }
            Open::Call { handle, fragments: false, input } => {
                let fragment = input.map_or(Cow::Borrowed("{}"), Cow::Owned);
                sink(Event::ToolArgs { choice: CHOICE, call: handle, fragment });
            }
            Open::Text { start, cited, .. } => {
                cited.iter().for_each(|source| self.annotations.add(source, start, self.characters));
            }
            Open::Call { .. } | Open::Other => {}
        }
    }

    /// The answer is complete: the order of its blocks, where it is not the usual one.
    pub(super) fn tell_order(&self, sink: Sink<'_>) {
        if let Some(value) = self.order.entry(&[details::USUAL], self.next as usize) {
            sink(Event::Extra { choice: CHOICE, name: details::MEMBER, value: &value });
        }
    }

    fn find(&mut self, index: u32) -> Option<&mut Open> {
        self.open.iter_mut().find(|(known, _)| *known == index).map(|(_, open)| open)
    }
}

/// To be kept until the text that it belongs to is complete.
fn own(source: CitedSource<'_>) -> CitedSource<'static> {
    let own = |text: Cow<'_, str>| Cow::Owned(truncated(&text).to_owned());
    CitedSource {
        url: own(source.url),
        title: own(source.title),
        quoted: source.quoted.map(own),
        id: source.id.map(own),
    }
}

/// What a source costs that is kept.
fn bytes_of(source: &CitedSource<'_>) -> usize {
    size_of::<CitedSource<'_>>() + source.texts().map(str::len).sum::<usize>()
}

/// A thought that is complete.
fn extra(thought: &Thought<'_>, sink: Sink<'_>) {
    if let Some(value) = details::member(std::slice::from_ref(thought)) {
        sink(Event::Extra { choice: CHOICE, name: details::MEMBER, value: &value });
    }
}
