//! The order of an answer's blocks (reasoning, texts, images and calls), in a last entry of `reasoning_details`. A
//! message of OpenAI's holds one text, one reasoning text and a list of calls. The entry tells how they were divided
//! and in which order they came. An answer gets the entry only if its message does not show the order.
//!
//! The entry holds lengths in bytes and no text: `t5 d t3 c` is a text of five bytes, a signed thought, a text of three
//! bytes and a call. If a message does not match the lengths, its client has changed it, and it is sent in the usual
//! order.

use gw_wire::conversation::{Content, Message, Part, PastToolCall, Source};
use gw_wire::json::View;
pub(super) use gw_wire::reply::order::is_order;
use serde_json::json;
use serde_json::value::RawValue;

/// The type of the entry.
const TYPE: &str = gw_wire::reply::order::ORDER_TYPE;

/// The place of an entry that was sealed reasoning without a signature. The message has its text.
pub(super) const PLAIN_PLACE: &str = "true";

/// The place of an entry that was left out, with the text that it signed.
pub(super) const DROPPED_PLACE: &str = "null";

/// The most blocks of one answer.
const MAX_BLOCKS: usize = 4096;

/// One block of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::adapters) enum Block {
    /// A text of this many bytes.
    Text(usize),
    /// Reasoning of this many bytes.
    Thought(usize),
    /// Text of this many bytes that came as a plan (Cohere). A line break between it and a text belongs to the later one.
    Plan(usize),
    /// The next entry of `reasoning_details`, as a block of its own.
    Detail,
    /// The next entry of `reasoning_details`, which signs the previous block.
    Signature,
    /// The next image.
    Image,
    /// The next call.
    Call,
}

impl Block {
    fn letter(self) -> char {
        match self {
            Self::Text(_) => 't',
            Self::Thought(_) => 'r',
            Self::Plan(_) => 'p',
            Self::Detail => 'd',
            Self::Signature => 's',
            Self::Image => 'i',
            Self::Call => 'c',
        }
    }

    fn grow(&mut self, more: Self) -> bool {
        match (self, more) {
            (Self::Text(len), Self::Text(more))
            | (Self::Thought(len), Self::Thought(more))
            | (Self::Plan(len), Self::Plan(more)) => {
                *len = len.saturating_add(more);
                true
            }
            _ => false,
        }
    }

    fn read(word: &str) -> Option<Self> {
        let len = || word.get(1..)?.parse().ok();
        Some(match word {
            "d" => Self::Detail,
            "s" => Self::Signature,
            "i" => Self::Image,
            "c" => Self::Call,
            _ if word.starts_with('t') => Self::Text(len()?),
            _ if word.starts_with('r') => Self::Thought(len()?),
            _ if word.starts_with('p') => Self::Plan(len()?),
            _ => return None,
        })
    }
}

/// The blocks of an answer while it is read.
#[derive(Debug, Default)]
pub(in crate::adapters) struct Order {
    blocks: Vec<Block>,
    /// The last block is complete.
    is_closed: bool,
    /// There were too many blocks.
    is_lost: bool,
}

impl Order {
    /// Adds a block, or a piece of the last one.
    pub(in crate::adapters) fn add(&mut self, block: Block) {
        let is_open = !std::mem::replace(&mut self.is_closed, false);
        if is_open && self.blocks.last_mut().is_some_and(|last| last.grow(block)) {
            return;
        }
        self.is_lost |= self.blocks.len() >= MAX_BLOCKS;
        if !self.is_lost {
            self.blocks.push(block);
        }
    }

    /// Bytes that the list keeps.
    pub(in crate::adapters) fn held_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    /// Ends the last block.
    pub(in crate::adapters) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether the blocks match a usual order of the dialect, which needs no entry. `usual` is a list of kinds with the
    /// most blocks of each.
    fn is_usual(&self, usual: &[(char, usize)]) -> bool {
        let mut left = self.blocks.as_slice();
        for (letter, most) in usual {
            let count = left.iter().take(*most).take_while(|block| block.letter() == *letter).count();
            left = left.get(count..).unwrap_or_default();
        }
        left.is_empty()
    }

    /// The value of `reasoning_details` with the order; None for one of the `usual` orders, each a list of kinds with
    /// the most blocks of each. `index` must be higher than the index of every other entry.
    pub(in crate::adapters) fn entry(
        &self,
        usual: &[&[(char, usize)]],
        index: usize,
    ) -> Option<Box<RawValue>> {
        if self.is_lost || usual.iter().any(|usual| self.is_usual(usual)) {
            return None;
        }
        let mut words = String::with_capacity(self.blocks.len() * 4);
        for block in &self.blocks {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push(block.letter());
            if let Block::Text(len) | Block::Thought(len) | Block::Plan(len) = block {
                words.push_str(&len.to_string());
            }
        }
        serde_json::value::to_raw_value(&json!([{"type": TYPE, "order": words, "index": index}])).ok()
    }
}

/// Joins the entries with the order behind them.
pub(in crate::adapters) fn joined(
    entries: Option<Box<RawValue>>,
    order: Option<Box<RawValue>>,
) -> Option<Box<RawValue>> {
    let (Some(entries), Some(order)) = (&entries, &order) else { return entries.or(order) };
    let open = entries.get().trim_end().strip_suffix(']')?;
    RawValue::from_string(format!("{open},{}", order.get().strip_prefix('[')?)).ok()
}

/// Subtracts the blocks of an order from `room`, the blocks that the request may still have. Returns false when there
/// are too many.
pub(super) fn takes(entry: View<'_>, room: &mut usize) -> bool {
    let [words] = entry.pick(["order"]);
    let blocks = words.and_then(View::string).map_or(0, |words| words.split(' ').count());
    let left = room.checked_sub(blocks);
    *room = left.unwrap_or(*room);
    left.is_some()
}

/// A block of a message that a client sent back.
#[derive(Clone, Copy, Debug)]
pub(in crate::adapters) enum ReplayedBlock<'m, 'a> {
    /// A text.
    Text(&'m str),
    /// Reasoning without a signature.
    Thought(&'m str),
    /// A plan.
    Plan(&'m str),
    /// An entry of `reasoning_details`.
    Detail(View<'a>),
    /// An entry that signs the previous block.
    Signature(View<'a>),
    /// An image.
    Image(&'m Source<'a>),
    /// A call.
    Call(&'m PastToolCall<'a>),
}

/// The blocks of an assistant's message in the model's order; None when the order is unknown or the message was
/// changed.
pub(in crate::adapters) fn arrange<'m, 'a>(message: &'m Message<'a>) -> Option<Vec<ReplayedBlock<'m, 'a>>> {
    let order_entry = message.reasoning_details.iter().rev().find(|entry| is_order(**entry))?;
    let [words] = order_entry.pick(["order"]);
    let words = words?.string()?;
    let mut text = match message.parts.as_slice() {
        [] => "",
        [Part { content: Content::Text(text), .. }] => &**text,
        _ => return None,
    };
    let mut thought = message.reasoning.as_deref().unwrap_or_default();
    // Reasoning that was left out with its entries has no text any longer. The other blocks keep their order.
    let is_without_thoughts = message.reasoning.is_none()
        && message.reasoning_details.iter().any(|entry| entry.text() == DROPPED_PLACE);
    let mut details = message.reasoning_details.iter().filter(|entry| !is_order(**entry)).peekable();
    let (mut calls, mut images) = (message.tool_calls.iter(), message.images.iter());
    let mut pieces = Vec::new();
    let (mut thinks, mut has_plain) = (false, false);
    let mut words = words.split(' ').take(MAX_BLOCKS).peekable();
    while let Some(word) = words.next() {
        let block = Block::read(word)?;
        if matches!(block, Block::Thought(_)) {
            let is_signed = words.peek() == Some(&"s");
            let is_left_out = details.peek().is_some_and(|entry| entry.text() == DROPPED_PLACE);
            if is_without_thoughts || (is_signed && is_left_out) {
                continue;
            }
        }
        pieces.push(match block {
            Block::Text(len) => ReplayedBlock::Text(cut(&mut text, len)?),
            Block::Thought(len) => ReplayedBlock::Thought(cut(&mut thought, len)?),
            Block::Plan(len) => ReplayedBlock::Plan(cut(&mut text, len)?),
            Block::Detail | Block::Signature => {
                let entry = *details.next()?;
                match entry.text() {
                    PLAIN_PLACE => has_plain = true,
                    DROPPED_PLACE => {}
                    _ if block == Block::Detail => pieces.push(ReplayedBlock::Detail(entry)),
                    _ => pieces.push(ReplayedBlock::Signature(entry)),
                }
                continue;
            }
            Block::Image => ReplayedBlock::Image(images.next()?),
            Block::Call => ReplayedBlock::Call(calls.next()?),
        });
        thinks |= matches!(block, Block::Thought(_));
    }
    // Reasoning whose text the client left out has no length.
    if has_plain && !thinks {
        return None;
    }
    let is_all =
        text.is_empty() && calls.next().is_none() && images.next().is_none() && details.next().is_none();
    (is_all && (!thinks || thought.is_empty())).then_some(pieces)
}

/// Whether a message has reasoning, as text or as entries.
pub(in crate::adapters) fn has_reasoning(message: &Message<'_>) -> bool {
    let is_entry =
        |entry: &View<'_>| !is_order(*entry) && ![PLAIN_PLACE, DROPPED_PLACE].contains(&entry.text());
    message.reasoning.as_deref().is_some_and(|text| !text.is_empty())
        || message.reasoning_details.iter().any(is_entry)
}

/// Takes the first `len` bytes off a text.
fn cut<'t>(text: &mut &'t str, len: usize) -> Option<&'t str> {
    let (first, rest) = text.split_at_checked(len)?;
    *text = rest;
    Some(first)
}
