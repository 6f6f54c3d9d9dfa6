//! Sources of an answer that a search found: `groundingMetadata`
//! (<https://ai.google.dev/api/generate-content#GroundingMetadata>, November 2026).
//!
//! A segment is counted in bytes of the text. A stream tells the metadata in one of its last events, or piece by piece: an
//! index of a source counts those of all events.

use gw_wire::event::Event;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::Text;
use crate::adapters::annotations::{Annotations, CharacterCounter, CitedSource, MAX_SOURCES, truncated};

/// `GroundingMetadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Grounding<'a> {
    #[serde(borrow)]
    grounding_chunks: Option<Vec<Chunk<'a>>>,
    #[serde(borrow)]
    grounding_supports: Option<Vec<Support<'a>>>,
}

/// A source: of the web, of a store or of a map.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    web: Option<Place<'a>>,
    #[serde(borrow)]
    retrieved_context: Option<Place<'a>>,
    #[serde(borrow)]
    maps: Option<Place<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Place<'a> {
    #[serde(borrow)]
    uri: Option<Text<'a>>,
    #[serde(borrow)]
    title: Option<Text<'a>>,
}

/// Which sources a segment of the text has.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Support<'a> {
    #[serde(borrow)]
    segment: Option<Segment<'a>>,
    grounding_chunk_indices: Option<Vec<usize>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Segment<'a> {
    start_index: Option<u64>,
    end_index: Option<u64>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

/// The sources of a choice.
#[derive(Debug, Default)]
pub(super) struct Sources {
    text: CharacterCounter,
    /// Addresses and titles.
    chunks: Vec<(String, String)>,
    /// The sources that stand at a segment, in bytes: the begin, the end, the place in `chunks`.
    supports: Vec<(u64, u64, usize)>,
    /// Bytes of the addresses and titles.
    chunk_bytes: usize,
}

impl Sources {
    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        let supports = self.supports.capacity() * size_of::<(u64, u64, usize)>();
        self.text.held_bytes() + self.chunk_bytes + supports
    }

    /// The text goes on with this.
    pub(super) fn say(&mut self, text: &str) {
        self.text.add(text);
    }

    /// Adds what an event tells. What cannot be read never makes an answer fail.
    pub(super) fn add(&mut self, grounding: &RawValue) {
        let grounding: Grounding<'_> = serde_json::from_str(grounding.get()).unwrap_or_default();
        for chunk in grounding.grounding_chunks.unwrap_or_default() {
            if self.chunks.len() >= MAX_SOURCES {
                break;
            }
            let place = chunk.web.or(chunk.retrieved_context).or(chunk.maps).unwrap_or_default();
            let own =
                |text: Option<Text<'_>>| text.map(|text| truncated(&text.0).to_owned()).unwrap_or_default();
            let (address, title) = (own(place.uri), own(place.title));
            self.chunk_bytes += address.len() + title.len() + 2 * size_of::<String>();
            self.chunks.push((address, title));
        }
        for support in grounding.grounding_supports.unwrap_or_default() {
            let Segment { start_index, end_index, text } = support.segment.unwrap_or_default();
            let start = start_index.unwrap_or(0);
            let end =
                end_index.unwrap_or_else(|| start.saturating_add(text.map_or(0, |text| text.0.len() as u64)));
            let indices = support.grounding_chunk_indices.unwrap_or_default();
            let room = MAX_SOURCES.saturating_sub(self.supports.len());
            self.supports.extend(indices.into_iter().take(room).map(|chunk| (start, end, chunk)));
        }
    }

    /// All of them: each where the text uses it, and those that no segment names at the begin.
    pub(super) fn annotations(&self) -> Annotations {
        let mut annotations = Annotations::default();
        let mut is_used = vec![false; self.chunks.len()];
        for (start, end, chunk) in &self.supports {
            let Some((url, title)) = self.chunks.get(*chunk) else { continue };
            if let Some(is_used) = is_used.get_mut(*chunk) {
                *is_used = true;
            }
            annotations.add(&source(url, title), self.text.at(*start), self.text.at(*end));
        }
        for ((url, title), _) in self.chunks.iter().zip(is_used).filter(|(_, is_used)| !is_used) {
            annotations.add(&source(url, title), 0, 0);
        }
        annotations
    }

    /// As a delta.
    pub(super) fn tell(&self, choice: u32, sink: &mut dyn FnMut(Event<'_>)) {
        self.annotations().report(choice, sink);
    }
}

fn source<'a>(url: &'a str, title: &'a str) -> CitedSource<'a> {
    CitedSource { url: url.into(), title: title.into(), ..CitedSource::default() }
}
