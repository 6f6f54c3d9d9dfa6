//! The chunks of texts, which are nearly all chunks of a stream.

use serde_json::value::RawValue;

use super::{Normaliser, Shape};
use crate::json::{write_escaped, write_str};
use crate::render::{put, put_int, raw};

/// The bytes around a text of the first choice, made with its first text.
#[derive(Clone, Debug, Default)]
pub(super) struct TextFrame {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Normaliser {
    /// Writes the chunk of a text.
    pub(super) fn text(&mut self, choice: u32, text: &str, logprobs: Option<&RawValue>, out: &mut Vec<u8>) {
        if choice > 0 || logprobs.is_some() {
            self.before_text(choice, out);
            write_str(out, text);
            return self.after_text(logprobs, out);
        }
        if self.text_frame.before.is_empty() {
            let TextFrame { mut before, mut after } = TextFrame::default();
            self.before_text(choice, &mut before);
            before.push(b'"');
            after.push(b'"');
            self.after_text(None, &mut after);
            self.text_frame = TextFrame { before, after };
        }
        let TextFrame { before, after } = &self.text_frame;
        out.reserve(before.len() + text.len() + after.len());
        out.extend_from_slice(before);
        write_escaped(out, text);
        out.extend_from_slice(after);
    }

    fn before_text(&self, choice: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        put_int(out, u64::from(choice));
        let is_chat = self.opening.shape == Shape::Chat;
        put(out, if is_chat { ",\"delta\":{\"content\":" } else { ",\"text\":" });
    }

    fn after_text(&self, logprobs: Option<&RawValue>, out: &mut Vec<u8>) {
        let is_chat = self.opening.shape == Shape::Chat;
        if is_chat {
            out.push(b'}');
        }
        match logprobs {
            Some(value) => {
                put(out, ",\"logprobs\":");
                raw(out, value);
            }
            None if is_chat => {}
            None => put(out, ",\"logprobs\":null"),
        }
        put(out, ",\"finish_reason\":null");
        out.extend_from_slice(self.tail);
    }
}
