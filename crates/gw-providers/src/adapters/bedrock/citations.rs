//! Where a text comes from. API Reference, `API_runtime_CitationsContentBlock`, `Citation`, `CitationsDelta` (November 2026).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::adapters::annotations::{Annotations, CitedSource};
use crate::adapters::text::{Text, filled};

/// `Citation`, or the delta of one.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Citation<'a> {
    #[serde(borrow)]
    title: Option<Text<'a>>,
    /// An address, or the provider's name of the source.
    #[serde(borrow)]
    source: Option<Text<'a>>,
    #[serde(borrow)]
    source_content: Option<Vec<Quoted<'a>>>,
    #[serde(borrow)]
    location: Option<Location<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Quoted<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

/// Of the kinds of places only one of the web has an address.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Location<'a> {
    #[serde(borrow)]
    web: Option<Web<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Web<'a> {
    #[serde(borrow)]
    url: Option<Text<'a>>,
}

/// Adds the sources of the characters from `start` to `end`. What cannot be read never makes an answer fail.
pub(super) fn cite(citations: &RawValue, start: u64, end: u64, annotations: &mut Annotations) {
    let list: Vec<Citation<'_>> = serde_json::from_str(citations.get()).unwrap_or_default();
    list.into_iter().for_each(|citation| annotations.add(&source(citation), start, end));
}

/// The same for one.
pub(super) fn cite_one(citation: &RawValue, start: u64, end: u64, annotations: &mut Annotations) {
    if let Ok(citation) = serde_json::from_str(citation.get()) {
        annotations.add(&source(citation), start, end);
    }
}

fn source(citation: Citation<'_>) -> CitedSource<'_> {
    let web = citation.location.and_then(|location| filled(location.web?.url));
    let (address, id) = match filled(citation.source) {
        Some(source) if source.starts_with("https://") || source.starts_with("http://") => {
            (Some(source), None)
        }
        id => (None, id),
    };
    let quoted =
        citation.source_content.unwrap_or_default().into_iter().find_map(|quoted| filled(quoted.text));
    CitedSource {
        url: web.or(address).unwrap_or(Cow::Borrowed("")),
        title: filled(citation.title).unwrap_or(Cow::Borrowed("")),
        quoted,
        id,
    }
}
