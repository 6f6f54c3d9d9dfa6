//! Citations of an answer that a search found: `groundingMetadata`
//! (<https://ai.google.dev/api/generate-content#GroundingMetadata>, November 2026).
//!
//! Segments count bytes of the text. A stream sends the metadata in one of its last events or in pieces, and the index
//! of a source counts the sources of all events.

use gw_wire::event::Event;
use gw_wire::hosted_tools::HostedCalls;
use gw_wire::usage::small;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::candidate::Text;
use crate::adapters::annotations::{Annotations, CharacterCounter, CitedSource, MAX_SOURCES, truncated};

/// `GroundingMetadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroundingMetadata<'a> {
    #[serde(borrow)]
    grounding_chunks: Option<Vec<GroundingChunk<'a>>>,
    #[serde(borrow)]
    grounding_supports: Option<Vec<GroundingSupport<'a>>>,
    #[serde(borrow)]
    web_search_queries: Option<Vec<&'a RawValue>>,
}

/// `GroundingChunk`: a source from the web, a document store or a map.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroundingChunk<'a> {
    #[serde(borrow)]
    web: Option<GroundingSource<'a>>,
    #[serde(borrow)]
    retrieved_context: Option<GroundingSource<'a>>,
    #[serde(borrow)]
    maps: Option<GroundingSource<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroundingSource<'a> {
    #[serde(borrow)]
    uri: Option<Text<'a>>,
    #[serde(borrow)]
    title: Option<Text<'a>>,
}

/// `GroundingSupport`: the sources of a segment of the text.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroundingSupport<'a> {
    #[serde(borrow)]
    segment: Option<GroundingSegment<'a>>,
    grounding_chunk_indices: Option<Vec<usize>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroundingSegment<'a> {
    start_index: Option<u64>,
    end_index: Option<u64>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

/// The citations of one choice.
#[derive(Debug, Default)]
pub(super) struct GroundingCitations {
    text: CharacterCounter,
    /// URLs and titles.
    chunks: Vec<(String, String)>,
    /// The cited segments, in bytes: start, end and index in `chunks`.
    supports: Vec<(u64, u64, usize)>,
    /// Bytes of the URLs and titles.
    chunk_bytes: usize,
    /// The queries of the web searches.
    queries: u32,
}

impl GroundingCitations {
    /// Returns the bytes that are held.
    pub(super) fn held_bytes(&self) -> usize {
        let supports = self.supports.capacity() * size_of::<(u64, u64, usize)>();
        self.text.held_bytes() + self.chunk_bytes + supports
    }

    /// The searches of the choice: Google bills each query, or each answer with one, by the model.
    pub(super) fn searches(&self) -> HostedCalls {
        let search_answers = u32::from(self.queries > 0);
        HostedCalls { web_search: self.queries, search_answers, ..HostedCalls::default() }
    }

    /// Appends text of the answer.
    pub(super) fn add_text(&mut self, text: &str) {
        self.text.add(text);
    }

    /// Adds the metadata of an event. Unreadable metadata is skipped: it never fails an answer.
    pub(super) fn add(&mut self, grounding: &RawValue) {
        let grounding: GroundingMetadata<'_> = serde_json::from_str(grounding.get()).unwrap_or_default();
        let queries = grounding.web_search_queries.unwrap_or_default();
        // An empty query is not billed ("Grounding with Google Search", ai.google.dev/gemini-api/docs/google-search).
        let queries = queries.iter().filter(|query| query.get().len() > 2).count();
        self.queries = self.queries.max(small(queries as u64));
        for chunk in grounding.grounding_chunks.unwrap_or_default() {
            if self.chunks.len() >= MAX_SOURCES {
                break;
            }
            let source = chunk.web.or(chunk.retrieved_context).or(chunk.maps).unwrap_or_default();
            let to_short_owned =
                |text: Option<Text<'_>>| text.map(|text| truncated(&text.0).to_owned()).unwrap_or_default();
            let (address, title) = (to_short_owned(source.uri), to_short_owned(source.title));
            self.chunk_bytes += address.len() + title.len() + 2 * size_of::<String>();
            self.chunks.push((address, title));
        }
        for support in grounding.grounding_supports.unwrap_or_default() {
            let GroundingSegment { start_index, end_index, text } = support.segment.unwrap_or_default();
            let start = start_index.unwrap_or(0);
            let end =
                end_index.unwrap_or_else(|| start.saturating_add(text.map_or(0, |text| text.0.len() as u64)));
            let indices = support.grounding_chunk_indices.unwrap_or_default();
            let room = MAX_SOURCES.saturating_sub(self.supports.len());
            self.supports.extend(indices.into_iter().take(room).map(|chunk| (start, end, chunk)));
        }
    }

    /// Returns every source, at the segments that use it. Sources without a segment are at the start of the text.
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

    /// Emits the citations.
    pub(super) fn emit(&self, choice: u32, sink: &mut dyn FnMut(Event<'_>)) {
        self.annotations().report(choice, sink);
    }
}

fn source<'a>(url: &'a str, title: &'a str) -> CitedSource<'a> {
    CitedSource { url: url.into(), title: title.into(), ..CitedSource::default() }
}
