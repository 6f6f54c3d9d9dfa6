//! Citations in an answer. API Reference, `API_runtime_CitationsContentBlock`, `Citation`, `CitationsDelta` (November
//! 2026).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::adapters::annotations::{Annotations, CitedSource};
use crate::adapters::text::{Text, filled};

/// `Citation`, or `CitationsDelta`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BedrockCitation<'a> {
    #[serde(borrow)]
    title: Option<Text<'a>>,
    /// A URL, or the provider's name of the source.
    #[serde(borrow)]
    source: Option<Text<'a>>,
    #[serde(borrow)]
    source_content: Option<Vec<CitationSourceContent<'a>>>,
    #[serde(borrow)]
    location: Option<CitationLocation<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CitationSourceContent<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

/// `CitationLocation`. Only the location on the web has a URL.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CitationLocation<'a> {
    #[serde(borrow)]
    web: Option<WebLocation<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WebLocation<'a> {
    #[serde(borrow)]
    url: Option<Text<'a>>,
}

/// Adds the citations of the characters from `start` to `end`. Unreadable citations are skipped: they never fail an
/// answer.
pub(super) fn cite(citations: &RawValue, start: u64, end: u64, annotations: &mut Annotations) {
    let list: Vec<BedrockCitation<'_>> = serde_json::from_str(citations.get()).unwrap_or_default();
    list.into_iter().for_each(|citation| annotations.add(&source(citation), start, end));
}

/// Adds one citation of the characters from `start` to `end`; skips it if it is unreadable.
pub(super) fn cite_one(citation: &RawValue, start: u64, end: u64, annotations: &mut Annotations) {
    if let Ok(citation) = serde_json::from_str(citation.get()) {
        annotations.add(&source(citation), start, end);
    }
}

fn source(citation: BedrockCitation<'_>) -> CitedSource<'_> {
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
