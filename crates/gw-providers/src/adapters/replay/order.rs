//! The order of an answer's blocks: thoughts, texts, pictures and calls, as a last entry of `reasoning_details`. A message of OpenAI's
//! holds one text, one thought and a list of calls; the entry says how they were divided and what stood where. Only an answer
//! that cannot be told from its message has one.
//!
//! The entry holds lengths in bytes and nothing of what was said: `t5 d t3 c` is a text of five bytes, a signed thought, a text
//! of three and a call. A message that does not fit its lengths was changed by its client, and is said in the usual order.

use gw_wire::conversation::{Called, Content, Message, Part, Source};
use gw_wire::json::View;
use serde_json::json;
use serde_json::value::RawValue;

/// The entry's type.
const TYPE: &str = "gateway.order";

/// So many blocks are told apart.
const MAX_BLOCKS: usize = 4096;

/// One block of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::adapters) enum Block {
    /// Bytes of the text.
    Text(usize),
    /// Bytes of the reasoning.
    Thought(usize),
    /// Bytes of the text that came as a plan (Cohere). It begins a new line where text came before it.
    Plan(usize),
    /// The next entry of `reasoning_details`, a block of its own.
    Detail,
    /// The next entry of `reasoning_details`, which signs the block before.
    Signature,
    /// The next picture.
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

/// The blocks of an answer, while it is read.
#[derive(Debug, Default)]
pub(in crate::adapters) struct Order {
    blocks: Vec<Block>,
    /// What comes next is a block of its own.
    is_closed: bool,
    /// There were too many.
    is_lost: bool,
}

impl Order {
    /// A block, or the next piece of the one before.
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

    /// Bytes that are kept.
    pub(in crate::adapters) fn held_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    /// The block before is complete.
    pub(in crate::adapters) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether the blocks are so many of each kind, in this order. The usual order of a dialect needs no entry.
    fn is_usual(&self, usual: &[(char, usize)]) -> bool {
        let mut left = self.blocks.as_slice();
        for (letter, most) in usual {
            let count = left.iter().take(*most).take_while(|block| block.letter() == *letter).count();
            left = left.get(count..).unwrap_or_default();
        }
        left.is_empty()
    }

    /// The value of `reasoning_details` that tells the order; None when it is one of the `usual` ones. Each of those is a list of
    /// kinds with the most of each. `index` is higher than that of every other entry.
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

/// The entries with those of another list behind them.
pub(in crate::adapters) fn joined(
    entries: Option<Box<RawValue>>,
    order: Option<Box<RawValue>>,
) -> Option<Box<RawValue>> {
    let (Some(entries), Some(order)) = (&entries, &order) else { return entries.or(order) };
    let open = entries.get().trim_end().strip_suffix(']')?;
    RawValue::from_string(format!("{open},{}", order.get().strip_prefix('[')?)).ok()
}

/// Whether an entry of `reasoning_details` tells the order.
pub(super) fn is_order(entry: View<'_>) -> bool {
    let [kind] = entry.pick(["type"]);
    kind.and_then(View::string).is_some_and(|kind| kind == TYPE)
}

/// Takes the blocks of an order out of the room for all orders; false when there is not enough.
pub(super) fn takes(entry: View<'_>, room: &mut usize) -> bool {
    let [words] = entry.pick(["order"]);
    let blocks = words.and_then(View::string).map_or(0, |words| words.split(' ').count());
    let left = room.checked_sub(blocks);
    *room = left.unwrap_or(*room);
    left.is_some()
}

/// A block of a message that a client sent back, at its place.
#[derive(Clone, Copy, Debug)]
pub(in crate::adapters) enum ReplayedBlock<'m, 'a> {
    /// What was said.
    Text(&'m str),
    /// What was thought, without a signature.
    Thought(&'m str),
    /// What was planned.
    Plan(&'m str),
    /// An entry of `reasoning_details`.
    Detail(View<'a>),
    /// An entry that signs the piece before.
    Signature(View<'a>),
    /// A picture.
    Image(&'m Source<'a>),
    /// A call.
    Call(&'m Called<'a>),
}

/// The blocks of an assistant's message in the order in which the model gave them; None when nobody knows, or when the
/// message is not the one that the model gave.
pub(in crate::adapters) fn arrange<'m, 'a>(message: &'m Message<'a>) -> Option<Vec<ReplayedBlock<'m, 'a>>> {
    let told = message.reasoning_details.iter().rev().find(|entry| is_order(**entry))?;
    let [words] = told.pick(["order"]);
    let words = words?.string()?;
    let mut text = match message.parts.as_slice() {
        [] => "",
        [Part { content: Content::Text(text), .. }] => &**text,
        _ => return None,
    };
    let mut thought = message.reasoning.as_deref().unwrap_or_default();
    let mut details = message.reasoning_details.iter().filter(|entry| !is_order(**entry));
    let (mut calls, mut images) = (message.tool_calls.iter(), message.images.iter());
    let mut pieces = Vec::new();
    let mut thinks = false;
    for word in words.split(' ').take(MAX_BLOCKS) {
        pieces.push(match Block::read(word)? {
            Block::Text(len) => ReplayedBlock::Text(cut(&mut text, len)?),
            Block::Thought(len) => ReplayedBlock::Thought(cut(&mut thought, len)?),
            Block::Plan(len) => ReplayedBlock::Plan(cut(&mut text, len)?),
            Block::Detail => ReplayedBlock::Detail(*details.next()?),
            Block::Signature => ReplayedBlock::Signature(*details.next()?),
            Block::Image => ReplayedBlock::Image(images.next()?),
            Block::Call => ReplayedBlock::Call(calls.next()?),
        });
        thinks |= matches!(pieces.last(), Some(ReplayedBlock::Thought(_)));
    }
    let is_all =
        text.is_empty() && calls.next().is_none() && images.next().is_none() && details.next().is_none();
    (is_all && (!thinks || thought.is_empty())).then_some(pieces)
}

/// The first bytes of a text, which loses them.
fn cut<'t>(text: &mut &'t str, len: usize) -> Option<&'t str> {
    let (first, rest) = text.split_at_checked(len)?;
    *text = rest;
    Some(first)
}
