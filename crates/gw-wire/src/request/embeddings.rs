//! `POST /v1/embeddings`: reads and checks the request.

use std::ops::Range;

use bytes::Bytes;

use super::body::{Body, ParsedBody};
use super::completion::{InputForm, MAX_INPUTS, input_form, token_arrays, tokens};
use super::fields::{Path, array, empty_string, missing, not_one_of, optional, string};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::member_policy::{GuardedMember, survey};
use super::options::Fields;
use super::other_members::other_bytes;
use super::references::References;
use crate::json::{Kind, View};
use crate::operation::PlainOperation;

/// The requested encoding of the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingFormat {
    /// JSON numbers.
    Float,
    /// Base64 of little-endian 32-bit floats.
    Base64,
}

/// The inputs of an embeddings request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Texts, as ranges of the body that hold their JSON string literals (no copy).
    Texts(Vec<Range<usize>>),
    /// Arrays of token ids.
    Tokens(Vec<Vec<u32>>),
}

impl Inputs {
    /// The number of inputs.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Tokens(tokens) => tokens.len(),
        }
    }

    /// Never true for a validated request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A validated embeddings request.
#[derive(Clone, Debug)]
pub struct EmbeddingsRequest {
    /// The received body.
    pub body: Body,
    /// The model name as the client wrote it.
    pub model: String,
    /// 1..=2048 inputs.
    pub inputs: Inputs,
    /// The requested encoding.
    pub encoding: EncodingFormat,
    /// The requested number of dimensions.
    pub dimensions: Option<u32>,
    /// Bytes of all inputs (4 per token id).
    pub prompt_bytes: u64,
    /// Bytes of unknown members, which every upstream call repeats.
    pub other_bytes: u64,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Reads and checks an embeddings request. The first fault is reported, in this order: the body as JSON, `model`, `input`,
/// `encoding_format`, `dimensions`, `user`.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_embeddings(bytes: Bytes, limits: &RequestLimits) -> Result<EmbeddingsRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model()?;
    let (inputs, prompt_bytes) = inputs(fields.get("input"), &members)?;
    let encoding = encoding(fields.get("encoding_format"))?;
    let dimensions = fields.integer("dimensions", &(1..=i64::from(u32::MAX)))?;
    let dimensions = dimensions.and_then(|dimensions| u32::try_from(dimensions).ok());
    fields.kinds(&[("user", Kind::String)])?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, PlainOperation::Embeddings, false, &mut references);
    let input = fields.get("input").map_or(0, |input| input.text().len());
    let other_bytes = other_bytes(&members, &["encoding_format", "input"], input);
    let body = members.into_members().into_body(bytes);
    Ok(EmbeddingsRequest {
        body,
        model,
        inputs,
        encoding,
        dimensions,
        prompt_bytes,
        other_bytes,
        references,
        guarded,
    })
}

fn inputs(value: Option<View<'_>>, body: &ParsedBody<'_>) -> Result<(Inputs, u64), Invalid> {
    let path = Path::Top("input");
    let value = value.ok_or_else(|| missing(&path))?;
    let tokens = match input_form(&path, value)? {
        InputForm::Text => {
            let text = text(&path, value, body)?;
            return Ok((Inputs::Texts(vec![text]), value.string_len() as u64));
        }
        InputForm::Texts => {
            let mut bytes = 0;
            let mut ranges = Vec::new();
            for (at, value) in array(&path, value, MAX_INPUTS, "an array of strings")?.enumerate() {
                ranges.push(text(&path.item(at), value, body)?);
                bytes += value.string_len() as u64;
            }
            return Ok((Inputs::Texts(ranges), bytes));
        }
        InputForm::Tokens => vec![tokens(&path, value)?],
        InputForm::TokenArrays => token_arrays(&path, value)?,
    };
    let count = tokens.iter().map(|input| input.len() as u64).sum::<u64>();
    Ok((Inputs::Tokens(tokens), count.saturating_mul(4)))
}

/// The range of the string's literal in the body.
fn text(path: &Path<'_>, value: View<'_>, body: &ParsedBody<'_>) -> Result<Range<usize>, Invalid> {
    optional(path, Some(value), Kind::String)?;
    if value.text() == "\"\"" {
        return Err(empty_string(path));
    }
    let start = body.offset(value.text());
    Ok(start..start + value.text().len())
}

fn encoding(value: Option<View<'_>>) -> Result<EncodingFormat, Invalid> {
    let path = Path::Top("encoding_format");
    let Some(value) = value else { return Ok(EncodingFormat::Float) };
    match &*string(&path, value)? {
        "float" => Ok(EncodingFormat::Float),
        "base64" => Ok(EncodingFormat::Base64),
        other => Err(not_one_of(&path, &["float", "base64"], other)),
    }
}

/// The size of all members but `input`. Every upstream call for a part of the inputs repeats them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedMembers<'a> {
    /// Bytes of all members but `input`.
    pub bytes: usize,
    /// The name of the largest of them.
    pub largest: &'a str,
}

impl EmbeddingsRequest {
    /// The size of all members but `input`.
    #[must_use]
    pub fn fixed_members(&self) -> FixedMembers<'_> {
        let others = self.body.members.iter().filter(|(name, _)| &**name != "input");
        let others = others.map(|(name, range)| (name.len() + range.len(), &**name));
        let bytes = others.clone().map(|(bytes, _)| bytes).sum();
        FixedMembers { bytes, largest: others.max().map_or("", |(_, name)| name) }
    }
}

#[cfg(test)]
mod tests;
