//! The order of the blocks of an earlier answer that a client sends back, in the words of the entry `gateway.order`
//! ([`crate::reply::order`]). A chat message has no place for the order, and some providers refuse another one.

use crate::json::ObjectWriter;
use crate::reply::order::ORDER_TYPE;

/// A block without a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PastBlock {
    /// The next call.
    Call,
    /// The next image.
    Image,
    /// The next entry of `reasoning_details`, which is a block of its own.
    Detail,
    /// The next entry of `reasoning_details`, which signs the block before it.
    Signature,
}

/// The blocks in their order.
#[derive(Debug, Default)]
pub(super) struct PastOrder {
    words: String,
    /// The kinds of the blocks.
    kinds: Vec<u8>,
    /// The bytes of the last text, which goes on.
    open_text: usize,
}

impl PastOrder {
    /// Adds a block.
    pub(super) fn add(&mut self, block: PastBlock) {
        let letter = match block {
            PastBlock::Call => b'c',
            PastBlock::Image => b'i',
            PastBlock::Detail => b'd',
            PastBlock::Signature => b's',
        };
        self.word(letter, None);
    }

    /// Adds a reasoning of this many bytes, and the entry that signs it.
    pub(super) fn thought(&mut self, len: usize, is_signed: bool) {
        if len > 0 {
            self.word(b'r', Some(len));
        }
        match is_signed {
            true if len > 0 => self.add(PastBlock::Signature),
            true => self.add(PastBlock::Detail),
            false => {}
        }
    }

    /// Adds text. It continues a text before it that has not ended.
    pub(super) fn text(&mut self, len: usize) {
        self.open_text += len;
    }

    /// Ends the last text.
    pub(super) fn end_block(&mut self) {
        if let len @ 1.. = std::mem::take(&mut self.open_text) {
            self.word(b't', Some(len));
        }
    }

    fn word(&mut self, letter: u8, len: Option<usize>) {
        self.end_block();
        if !self.words.is_empty() {
            self.words.push(' ');
        }
        self.kinds.push(letter);
        self.words.push(char::from(letter));
        if let Some(len) = len {
            self.words.push_str(&len.to_string());
        }
    }

    /// The words; None for texts, images and calls in this order, which is the order of a chat message.
    pub(super) fn words(&mut self) -> Option<&str> {
        self.end_block();
        let mut left = self.kinds.as_slice();
        for kind in [b't', b'i', b'c'] {
            let count = left.iter().take_while(|found| **found == kind).count();
            left = left.get(count..).unwrap_or_default();
        }
        (!left.is_empty()).then_some(self.words.as_str())
    }
}

/// Writes the entry of `reasoning_details` with an order.
pub(super) fn write_order(words: &str, out: &mut Vec<u8>) {
    let mut entry = ObjectWriter::begin(out);
    entry.string("type", ORDER_TYPE);
    entry.string("order", words);
    entry.finish();
}
