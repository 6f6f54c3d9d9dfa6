//! The sources of an answer's text in OpenAI's format: entries of the type `url_citation` in `message.annotations`
//! (openai-python `ChatCompletionMessage.annotations`, November 2026). Every dialect reports its sources in its own
//! format.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::reply::ChatChoice;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The member of a message.
const MEMBER: &str = "annotations";

/// The most sources of one answer, and the most bytes of each of their texts.
pub(super) const MAX_SOURCES: usize = 128;
const MAX_TEXT_BYTES: usize = 1024;

/// A source of a part of the answer.
#[derive(Clone, Debug, Default)]
pub(super) struct CitedSource<'a> {
    /// Empty for a source without an address, such as a document of the request or a numbered reference.
    pub(super) url: Cow<'a, str>,
    pub(super) title: Cow<'a, str>,
    /// The text that was taken from the source.
    pub(super) quoted: Option<Cow<'a, str>>,
    /// The provider's name of the source.
    pub(super) id: Option<Cow<'a, str>>,
}

impl CitedSource<'_> {
    /// All texts of the source.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = [Some(&self.url), Some(&self.title), self.quoted.as_ref(), self.id.as_ref()];
        texts.into_iter().flatten().map(|text| &**text)
    }
}

/// Approximate memory of an entry without its texts.
const ENTRY_BYTES: usize = 512;

/// All sources of an answer.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    entries: Vec<Value>,
    held_bytes: usize,
}

impl Annotations {
    /// Bytes that the entries keep.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Adds the source of a range of characters in the answer's text. An identical entry is not added again.
    pub(super) fn add(&mut self, source: &CitedSource<'_>, start: u64, end: u64) {
        let text_bytes = source.texts().map(|text| truncated(text).len()).sum::<usize>();
        if text_bytes == 0 || self.entries.len() >= MAX_SOURCES {
            return;
        }
        let mut citation = Map::new();
        citation.insert("url".to_owned(), json!(truncated(&source.url)));
        citation.insert("title".to_owned(), json!(truncated(&source.title)));
        citation.insert("start_index".to_owned(), json!(start));
        citation.insert("end_index".to_owned(), json!(end.max(start)));
        for (name, text) in [("content", &source.quoted), ("id", &source.id)] {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                citation.insert(name.to_owned(), json!(truncated(text)));
            }
        }
        let entry = json!({ "type": "url_citation", "url_citation": citation });
        if !self.entries.contains(&entry) {
            self.entries.push(entry);
            self.held_bytes += ENTRY_BYTES + text_bytes;
        }
    }

    /// Adds the entries to a complete answer.
    pub(super) fn add_to(&self, choice: &mut ChatChoice<'_>) {
        choice.extras.extend(self.value().map(|value| (Cow::Borrowed(MEMBER), Cow::Owned(value))));
    }

    /// Reports the entries in one delta, because clients cannot join lists whose entries have no index.
    pub(super) fn report(&mut self, choice: u32, sink: &mut dyn FnMut(Event<'_>)) {
        if let Some(value) = self.value() {
            sink(Event::Extra { choice, name: MEMBER, value: &value });
        }
        *self = Self::default();
    }

    fn value(&self) -> Option<Box<RawValue>> {
        if self.entries.is_empty() { None } else { serde_json::value::to_raw_value(&self.entries).ok() }
    }
}

/// The text, cut at [`MAX_TEXT_BYTES`].
pub(super) fn truncated(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default()
}

/// The number of characters, which is how clients count positions.
pub(super) fn characters(text: &str) -> u64 {
    text.chars().count() as u64
}

/// The most runs of characters of one width. Positions in a text with more runs are not converted.
const MAX_RUNS: usize = 4096;

/// Converts byte positions of a text into character positions without keeping the text, for a dialect that counts
/// bytes.
#[derive(Debug, Default)]
pub(super) struct CharacterCounter {
    /// Each run: its start in bytes, its start in characters, and the width of its characters.
    runs: Vec<(u64, u64, u64)>,
    bytes: u64,
    characters: u64,
    is_too_long: bool,
}

impl CharacterCounter {
    /// Bytes that the runs keep.
    pub(super) fn held_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<(u64, u64, u64)>()
    }

    /// Appends a piece of the text.
    pub(super) fn add(&mut self, text: &str) {
        if text.is_ascii() {
            let length = text.len() as u64;
            if length > 0 {
                self.run(1);
            }
            self.bytes += length;
            self.characters += length;
            return;
        }
        for character in text.chars() {
            let width = character.len_utf8() as u64;
            self.run(width);
            self.bytes += width;
            self.characters += 1;
        }
    }

    fn run(&mut self, width: u64) {
        if self.runs.last().is_none_or(|(.., last)| *last != width) {
            self.is_too_long |= self.runs.len() >= MAX_RUNS;
            if !self.is_too_long {
                self.runs.push((self.bytes, self.characters, width));
            }
        }
    }

    /// The character at a byte; 0 for a text with too many runs.
    pub(super) fn at(&self, byte: u64) -> u64 {
        if self.is_too_long {
            return 0;
        }
        if byte >= self.bytes {
            return self.characters;
        }
        let after = self.runs.partition_point(|(begin, ..)| *begin <= byte);
        let Some((begin, characters, width)) = after.checked_sub(1).and_then(|at| self.runs.get(at)) else {
            return 0;
        };
        characters + (byte - begin) / width
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Annotations, CharacterCounter, CitedSource, MAX_SOURCES};

    proptest! {
        #[test]
        fn byte_offsets_become_character_offsets_for_every_chunking(pieces in prop::collection::vec("[a-c é☀🦀]{0,6}", 0..12)) {
            let mut characters = CharacterCounter::default();
            pieces.iter().for_each(|piece| characters.add(piece));
            let text = pieces.concat();
            for (count, (byte, _)) in text.char_indices().enumerate() {
                prop_assert_eq!(characters.at(byte as u64), count as u64);
            }
            prop_assert_eq!(characters.at(text.len() as u64), text.chars().count() as u64);
        }
    }

    #[test]
    fn sources_are_reported_once_and_bounded() {
        let mut annotations = Annotations::default();
        let source = CitedSource { url: "https://a.example".into(), ..CitedSource::default() };
        for _ in 0..3 {
            annotations.add(&source, 0, 4);
        }
        assert_eq!(
            annotations.value().unwrap().get(),
            r#"[{"type":"url_citation","url_citation":{"end_index":4,"start_index":0,"title":"","url":"https://a.example"}}]"#
        );
        (0..10_000).for_each(|at| annotations.add(&source, at, at));
        assert_eq!(annotations.entries.len(), MAX_SOURCES);
    }
}
