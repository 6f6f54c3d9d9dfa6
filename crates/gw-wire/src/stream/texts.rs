//! The chunks of texts, which are nearly all chunks of a stream.

use serde_json::value::RawValue;

use crate::json::{write_escaped, write_raw, write_str};

/// The parts that all chunks of a stream have.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkParts<'a> {
    /// The beginning, up to the number of the choice.
    pub(super) head: &'a [u8],
    /// The end, after the reason of the finish.
    pub(super) tail: &'a [u8],
    /// `chat.completion.chunk`, not `text_completion`.
    pub(super) is_chat: bool,
}

/// The bytes around a text of the first choice, made with its first text.
#[derive(Clone, Debug, Default)]
pub(super) struct TextFrame {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl TextFrame {
    /// Writes the chunk of a text.
    pub(super) fn write(
        &mut self,
        parts: ChunkParts<'_>,
        choice: u32,
        (text, logprobs): (&str, Option<&RawValue>),
        out: &mut Vec<u8>,
    ) {
        if choice > 0 || logprobs.is_some() {
            parts.before_text(choice, out);
            write_str(out, text);
            return parts.after_text(logprobs, out);
        }
        if self.before.is_empty() {
            parts.before_text(choice, &mut self.before);
            self.before.push(b'"');
            self.after.push(b'"');
            parts.after_text(None, &mut self.after);
        }
        out.reserve(self.before.len() + text.len() + self.after.len());
        out.extend_from_slice(&self.before);
        write_escaped(out, text);
        out.extend_from_slice(&self.after);
    }
}

impl ChunkParts<'_> {
    fn before_text(self, choice: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head);
        out.extend_from_slice(itoa::Buffer::new().format(choice).as_bytes());
        out.extend_from_slice(if self.is_chat { b",\"delta\":{\"content\":" } else { b",\"text\":" });
    }

    fn after_text(self, logprobs: Option<&RawValue>, out: &mut Vec<u8>) {
        if self.is_chat {
            out.push(b'}');
        }
        match logprobs {
            Some(value) => {
                out.extend_from_slice(b",\"logprobs\":");
                write_raw(out, value);
            }
            None if self.is_chat => {}
            None => out.extend_from_slice(b",\"logprobs\":null"),
        }
        out.extend_from_slice(b",\"finish_reason\":null");
        out.extend_from_slice(self.tail);
    }
}
