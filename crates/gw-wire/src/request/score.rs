//! `POST /v1/score`: the relevance of pairs of texts, in the shapes of vLLM's versions, and the answer.

use std::ops::Range;

use bytes::Bytes;

use super::body::{Body, ParsedBody};
use super::fields::{Path, array, empty_array, invalid_value, missing, string, wrong_type};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::member_policy::{GuardedMember, survey};
use super::options::{Fields, Routing};
use super::references::References;
use super::rerank::{MAX_DOCUMENTS, RankedDocument, RerankReply, UNIT_DOCUMENTS, literal};
use crate::json::{Kind, ObjectWriter, View};
use crate::operation::PlainOperation;
use crate::usage::Usage;

/// The names of both sides in the versions of vLLM. The first names are those that upstreams get.
const SIDES: [(&str, &str); 4] =
    [("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2")];

/// A validated score request.
#[derive(Clone, Debug)]
pub struct ScoreRequest {
    /// The received body.
    pub body: Body,
    /// The model name as the client wrote it.
    pub model: String,
    /// The literals of the first texts in the body: one for all pairs, or one for each.
    first: Vec<Range<usize>>,
    /// The literals of the second texts in the body, one for each pair.
    second: Vec<Range<usize>>,
    /// The client's routing options.
    pub routing: Routing,
    /// Bytes of all texts, as often as they are read.
    pub prompt_bytes: u64,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Reads and checks a score request. The first fault is reported, in the order of this function.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_score(bytes: Bytes, limits: &RequestLimits) -> Result<ScoreRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_first()?;
    let given = |(one, other): &(&str, &str)| fields.get(one).is_some() && fields.get(other).is_some();
    let [usual, ..] = SIDES;
    let some = |(one, other): &(&str, &str)| fields.get(one).is_some() || fields.get(other).is_some();
    let (one, other) = SIDES.into_iter().find(given).or(SIDES.into_iter().find(some)).unwrap_or(usual);
    let (first, first_bytes) = texts(one, fields.get(one), &members)?;
    let (second, second_bytes) = texts(other, fields.get(other), &members)?;
    // Members of another pair are checked, too, so a client that mixes versions learns of its mistake.
    for name in SIDES.into_iter().flat_map(|(one, other)| [one, other]) {
        if name != one && name != other && fields.get(name).is_some() {
            texts(name, fields.get(name), &members)?;
        }
    }
    if first.len() > 1 && first.len() != second.len() {
        let count = second.len();
        let expected = if count == 1 {
            format!("expected 1 text, as many as '{other}' has")
        } else {
            format!("expected 1 or {count} texts, as many as '{other}' has")
        };
        let what = format!("{expected}, but got {}.", first.len());
        return Err(invalid_value(&Path::Top(one), &what));
    }
    if fields.boolean("stream")? {
        let message = "Invalid 'stream': scores cannot be streamed.";
        return Err(Invalid { code: "unsupported_value", message: message.to_owned() });
    }
    fields.kinds(&[("user", Kind::String)])?;
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, PlainOperation::Score, false, &mut references);
    fields.cache()?;
    let times = if first.len() == 1 { second.len() as u64 } else { 1 };
    Ok(ScoreRequest {
        model,
        first,
        second,
        routing,
        prompt_bytes: first_bytes.saturating_mul(times).saturating_add(second_bytes),
        references,
        guarded,
        body: members.without_fallbacks().into_body(bytes),
    })
}

/// The literals of a side's texts, and the bytes of all of them.
fn texts(
    name: &str,
    value: Option<View<'_>>,
    body: &ParsedBody<'_>,
) -> Result<(Vec<Range<usize>>, u64), Invalid> {
    let path = Path::Top(name);
    let value = value.ok_or_else(|| missing(&path))?;
    if value.kind() == Kind::String {
        string(&path, value)?;
        let (range, length) = literal(value, body);
        return Ok((vec![range], length));
    }
    if value.kind() != Kind::Array {
        return Err(wrong_type(&path, "a string or an array of strings", value));
    }
    let (mut literals, mut bytes) = (Vec::new(), 0);
    for (at, text) in array(&path, value, MAX_DOCUMENTS, "an array of strings")?.enumerate() {
        string(&path.item(at), text)?;
        let (range, length) = literal(text, body);
        literals.push(range);
        bytes += length;
    }
    if literals.is_empty() { Err(empty_array(&path)) } else { Ok((literals, bytes)) }
}

impl ScoreRequest {
    /// The number of pairs.
    #[must_use]
    pub fn pair_count(&self) -> usize {
        self.second.len()
    }

    /// The JSON literals of the first texts: one for all pairs, or one for each.
    pub fn first_texts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.first.iter().map(|range| self.body.text(range))
    }

    /// The JSON literals of the second texts.
    pub fn second_texts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.second.iter().map(|range| self.body.text(range))
    }

    /// The search units of the request: one for each 100 pairs begun.
    #[must_use]
    pub fn search_units(&self) -> u64 {
        (self.second.len() as u64).div_ceil(UNIT_DOCUMENTS)
    }

    /// Writes the answer, in the order of the pairs.
    #[must_use]
    pub fn write(&self, reply: &RerankReply, id: &str, usage: &Usage) -> Vec<u8> {
        let mut scores = reply.results().to_vec();
        scores.sort_by_key(|score| score.index);
        let mut out = Vec::with_capacity(64 * scores.len() + 256);
        let mut answer = ObjectWriter::begin(&mut out);
        answer.string("id", id);
        answer.raw("object", "\"list\"");
        answer.string("model", reply.model.as_deref().unwrap_or(&self.model));
        answer.array("data", &scores, |out, RankedDocument { index, score }| {
            let mut entry = ObjectWriter::begin(out);
            entry.integer("index", *index as u64);
            entry.raw("object", "\"score\"");
            entry.number_or_null("score", Some(*score));
            entry.finish();
        });
        answer.object("usage", |counts| {
            counts.integer("prompt_tokens", usage.prompt);
            counts.integer("total_tokens", usage.total());
        });
        answer.finish();
        out
    }
}

#[cfg(test)]
mod tests;
