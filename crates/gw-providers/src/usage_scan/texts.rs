//! Counts the texts of an answer that passes by in documents. The events of OpenAI's Responses API tell a text in pieces, as a
//! part, in its item and in the answer; each text counts once.

use gw_wire::event::AUDIO_CHARS_PER_TEXT_BYTE;

/// The meaning of a document for the texts in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TextEvent {
    /// Its texts are new.
    #[default]
    New,
    /// It has a piece of audio.
    Audio,
    /// It repeats the pieces of a part or of an item.
    Part,
    /// It repeats an item, which is complete.
    Item,
    /// It repeats the answer.
    Answer,
}

impl TextEvent {
    /// The meaning of the document's `type`, which is a JSON value.
    fn named(kind: &[u8]) -> Self {
        let has = |wanted: &[u8]| memchr::memmem::find(kind, wanted).is_some();
        if !kind.starts_with(b"\"response.") && !kind.starts_with(b"\"transcript.") {
            return Self::New;
        }
        match kind {
            _ if has(b"audio.delta") => Self::Audio,
            _ if kind.ends_with(b".delta\"") => Self::New,
            _ if kind.ends_with(b"output_item.done\"") => Self::Item,
            _ if kind.ends_with(b".done\"") || kind.ends_with(b".added\"") => Self::Part,
            _ => Self::Answer,
        }
    }
}

/// The texts of an answer so far, in bytes.
#[derive(Debug, Default)]
pub(super) struct AnswerTexts {
    counted: u64,
    /// The bytes since the last complete item. The end of an item repeats them.
    of_item: u64,
    /// The texts of the document that is being read.
    unread: u64,
    event: TextEvent,
}

impl AnswerTexts {
    /// Adds bytes of a text in the document that is being read.
    pub(super) fn add(&mut self, bytes: usize) {
        self.unread = self.unread.saturating_add(bytes as u64);
    }

    /// Takes the `type` of the document that is being read.
    pub(super) fn set_type(&mut self, kind: &[u8]) {
        self.event = TextEvent::named(kind);
    }

    /// All bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.counted.saturating_add(self.new_bytes())
    }

    /// The bytes of the document that no earlier one had.
    fn new_bytes(&self) -> u64 {
        match self.event {
            TextEvent::New => self.unread,
            TextEvent::Audio => self.unread.div_ceil(AUDIO_CHARS_PER_TEXT_BYTE),
            TextEvent::Part | TextEvent::Item => self.unread.saturating_sub(self.of_item),
            TextEvent::Answer => self.unread.saturating_sub(self.counted),
        }
    }

    /// Ends the document.
    pub(super) fn end_document(&mut self) {
        let new = self.new_bytes();
        self.counted = self.counted.saturating_add(new);
        self.of_item = if self.event == TextEvent::Item { 0 } else { self.of_item.saturating_add(new) };
        (self.unread, self.event) = (0, TextEvent::New);
    }
}

#[cfg(test)]
mod tests {
    use super::AnswerTexts;

    fn counted(documents: &[(&str, usize)]) -> u64 {
        let mut texts = AnswerTexts::default();
        for (kind, bytes) in documents {
            texts.add(*bytes);
            texts.set_type(format!("\"{kind}\"").as_bytes());
            texts.end_document();
        }
        texts.bytes()
    }

    #[test]
    fn a_text_in_pieces_in_its_part_its_item_and_the_answer_counts_once() {
        let part = ("response.output_text.done", 10);
        let item = ("response.output_item.done", 10);
        let piece = ("response.output_text.delta", 5);
        for documents in [
            &[piece, piece, part, item][..],
            &[part, item],
            &[piece, item],
            &[item],
            &[piece, piece, ("response.output_item.added", 0), ("response.completed", 10)],
        ] {
            assert_eq!(counted(documents), 10, "{documents:?}");
        }
        assert_eq!(counted(&[piece, piece, item, piece, item, item]), 30);
        assert_eq!(counted(&[("response.audio.delta", 700), ("chat", 3), ("chat", 3)]), 8);
        assert_eq!(counted(&[("transcript.text.delta", 4), ("transcript.text.done", 4)]), 4);
    }
}
