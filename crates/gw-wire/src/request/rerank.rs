//! `POST /v1/rerank`: the request of Cohere, Jina and Voyage, and the answer. The documents of the answer are those of the
//! request, so no upstream is asked to send them back.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;

use super::body::{Body, ParsedBody};
use super::fields::{Path, array, empty_array, missing, object, optional, required_name, string, wrong_type};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::member_policy::{GuardedMember, survey};
use super::options::{Fields, Routing};
use super::references::References;
use crate::json::{Kind, ObjectWriter, View};
use crate::operation::PlainOperation;
use crate::usage::{Unit, Usage};

/// The most documents of a request.
pub const MAX_DOCUMENTS: usize = 10_000;
/// The documents of one search unit.
pub const UNIT_DOCUMENTS: u64 = 100;

/// A validated rerank request.
#[derive(Clone, Debug)]
pub struct RerankRequest {
    /// The received body.
    pub body: Body,
    /// The model name as the client wrote it.
    pub model: String,
    /// The literal of the query in the body.
    query: Range<usize>,
    /// The literals of 1..=10,000 documents in the body.
    documents: Vec<Range<usize>>,
    /// The most results that the client wants; None: all.
    pub top_n: Option<usize>,
    /// Whether the results have the texts of their documents.
    pub return_documents: bool,
    /// The tokens of a document that the model reads at most.
    pub max_tokens_per_doc: Option<u64>,
    /// The client's routing options.
    pub routing: Routing,
    /// Bytes of the query and of all documents.
    pub prompt_bytes: u64,
    /// Bytes of the query.
    pub query_bytes: u64,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Reads and checks a rerank request. The first fault is reported, in the order of this function.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_rerank(bytes: Bytes, limits: &RequestLimits) -> Result<RerankRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_first()?;
    let query = fields.get("query");
    required_name(&Path::Top("query"), query)?;
    let (query, query_bytes) = query.map_or((0..0, 0), |query| literal(query, &members));
    let (documents, document_bytes) = documents(fields.get("documents"), &members)?;
    let top_n = top(&fields, "top_n")?;
    let top_k = top(&fields, "top_k")?;
    let return_documents = fields.boolean("return_documents")?;
    let max_tokens_per_doc = fields.integer("max_tokens_per_doc", &(1..=i64::from(u32::MAX)))?;
    if fields.boolean("stream")? {
        let message = "Invalid 'stream': a rerank answer cannot be streamed.";
        return Err(Invalid { code: "unsupported_value", message: message.to_owned() });
    }
    fields.kinds(&[("user", Kind::String)])?;
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, PlainOperation::Rerank, false, &mut references);
    fields.cache()?;
    Ok(RerankRequest {
        model,
        query,
        documents,
        top_n: top_n.or(top_k),
        return_documents,
        max_tokens_per_doc: max_tokens_per_doc.and_then(|tokens| u64::try_from(tokens).ok()),
        routing,
        prompt_bytes: query_bytes.saturating_add(document_bytes),
        query_bytes,
        references,
        guarded,
        body: members.without_fallbacks().into_body(bytes),
    })
}

/// The bound on the results with this name.
fn top(fields: &Fields<'_, '_>, name: &str) -> Result<Option<usize>, Invalid> {
    let most = fields.integer(name, &(1..=i64::from(u32::MAX)))?;
    Ok(most.and_then(|most| usize::try_from(most).ok()))
}

/// The literals of the documents, and the bytes of their texts.
fn documents(value: Option<View<'_>>, body: &ParsedBody<'_>) -> Result<(Vec<Range<usize>>, u64), Invalid> {
    let path = Path::Top("documents");
    let value = value.ok_or_else(|| missing(&path))?;
    let (mut literals, mut bytes) = (Vec::new(), 0);
    for (at, document) in array(&path, value, MAX_DOCUMENTS, "an array of documents")?.enumerate() {
        let path = path.item(at);
        let text = match document.kind() {
            Kind::String => document,
            Kind::Object => {
                let [text] = object(&path, document, ["text"])?;
                let path = path.member("text");
                let text = text.ok_or_else(|| missing(&path))?;
                optional(&path, Some(text), Kind::String)?;
                text
            }
            Kind::Null | Kind::Boolean | Kind::Integer | Kind::Decimal | Kind::Array => {
                return Err(wrong_type(&path, "a string or an object with a text", document));
            }
        };
        string(&path, text)?;
        let (range, length) = literal(text, body);
        literals.push(range);
        bytes += length;
    }
    if literals.is_empty() { Err(empty_array(&path)) } else { Ok((literals, bytes)) }
}

/// The range of a string's literal in the body, and the bytes of its text.
pub(super) fn literal(value: View<'_>, body: &ParsedBody<'_>) -> (Range<usize>, u64) {
    let start = body.offset(value.text());
    (start..start + value.text().len(), value.string_len() as u64)
}

impl RerankRequest {
    /// The JSON literal of the query.
    #[must_use]
    pub fn query(&self) -> &str {
        self.body.text(&self.query)
    }

    /// The number of documents.
    #[must_use]
    pub fn document_count(&self) -> usize {
        self.documents.len()
    }

    /// The JSON literals of the documents.
    pub fn documents(&self) -> impl Iterator<Item = &str> {
        self.documents.iter().map(|range| self.body.text(range))
    }

    /// The search units of the request: one for each 100 documents begun.
    #[must_use]
    pub fn search_units(&self) -> u64 {
        (self.documents.len() as u64).div_ceil(UNIT_DOCUMENTS)
    }

    /// Writes the answer.
    #[must_use]
    pub fn write(&self, reply: &RerankReply, id: &str, usage: &Usage) -> Vec<u8> {
        let most = self.top_n.unwrap_or(usize::MAX).min(reply.results.len());
        let results = reply.results.get(..most).unwrap_or_default();
        let of_one = if self.return_documents { self.prompt_bytes } else { 0 };
        let mut out = Vec::with_capacity(usize::try_from(of_one).unwrap_or(0) + 128 * results.len() + 256);
        let mut answer = ObjectWriter::begin(&mut out);
        answer.string("id", id);
        answer.raw("object", "\"list\"");
        answer.string("model", reply.model.as_deref().unwrap_or(&self.model));
        // Cohere and Jina call the list `results`, and Voyage calls it `data`.
        for name in ["results", "data"] {
            answer.array(name, results, |out, ranked| self.write_result(out, ranked));
        }
        answer.object("meta", |meta| {
            meta.object("billed_units", |units| {
                units.integer("search_units", usage.units.of(Unit::Search).floor())
            });
            meta.object("tokens", |tokens| tokens.integer("input_tokens", usage.prompt));
        });
        answer.object("usage", |counts| {
            counts.integer("prompt_tokens", usage.prompt);
            counts.integer("total_tokens", usage.total());
        });
        answer.finish();
        out
    }

    fn write_result(&self, out: &mut Vec<u8>, ranked: &RankedDocument) {
        let mut result = ObjectWriter::begin(out);
        result.integer("index", ranked.index as u64);
        result.number_or_null("relevance_score", Some(ranked.score));
        if let Some(range) = self.documents.get(ranked.index).filter(|_| self.return_documents) {
            result.object("document", |document| document.raw("text", self.body.text(range)));
        }
        result.finish();
    }
}

/// A document with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedDocument {
    /// Its place in the request.
    pub index: usize,
    /// The relevance, a finite number.
    pub score: f64,
}

/// A complete rerank answer of an upstream.
#[derive(Clone, Debug, Default)]
pub struct RerankReply {
    /// The model name the upstream reports.
    pub model: Option<String>,
    /// The checked documents, the most relevant first.
    results: Vec<RankedDocument>,
    /// Usage, if reported.
    pub usage: Option<Usage>,
}

/// Why the list of an upstream is no ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankingError {
    /// No document of the request.
    #[error("the index of a result is out of range")]
    Range,
    /// Two results for one document.
    #[error("two results have the same index")]
    Twice,
    /// A score that cannot be compared.
    #[error("a score is not finite")]
    NotFinite,
}

impl RerankReply {
    /// A reply with these results for so many documents.
    ///
    /// # Errors
    /// The results are no ranking of documents of the request.
    pub fn of(mut results: Vec<RankedDocument>, documents: usize) -> Result<Self, RankingError> {
        let mut seen = vec![false; documents];
        for RankedDocument { index, score } in &results {
            let place = seen.get_mut(*index).ok_or(RankingError::Range)?;
            if std::mem::replace(place, true) {
                return Err(RankingError::Twice);
            }
            if !score.is_finite() {
                return Err(RankingError::NotFinite);
            }
        }
        // Equal scores keep the upstream's order.
        results.sort_by(|one, other| other.score.partial_cmp(&one.score).unwrap_or(Ordering::Equal));
        Ok(Self { results, ..Self::default() })
    }

    /// The documents, the most relevant first.
    #[must_use]
    pub fn results(&self) -> &[RankedDocument] {
        &self.results
    }
}

#[cfg(test)]
mod tests;
