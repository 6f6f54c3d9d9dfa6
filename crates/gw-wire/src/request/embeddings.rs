//! `POST /v1/embeddings`: the request read and checked.

use std::ops::Range;

use bytes::Bytes;

use super::body::Members;
use super::completion::{Form, MAX_INPUTS, form, token_arrays, tokens};
use super::fields::{Path, array, empty_string, missing, not_one_of, optional, string};
use super::member_policy::{Endpoint, survey};
use super::options::Fields;
use super::{Body, EmbeddingsRequest, EncodingFormat, Inputs, Invalid, References, RequestLimits};
use crate::json::{Kind, View};

/// Reads and checks an embeddings request. The first fault is reported: the body as JSON, `model`, `input`,
/// `encoding_format`, `dimensions`, `user`.
///
/// # Errors
/// The fault, with its code of CONTRACT 1.3.
pub fn parse_embeddings(bytes: Bytes, limits: &RequestLimits) -> Result<EmbeddingsRequest, Invalid> {
    let members = Members::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model()?;
    let (inputs, prompt_bytes) = inputs(fields.get("input"), &members)?;
    let encoding = encoding(fields.get("encoding_format"))?;
    let dimensions = fields.integer("dimensions", &(1..=i64::from(u32::MAX)))?;
    let dimensions = dimensions.and_then(|dimensions| u32::try_from(dimensions).ok());
    fields.kinds(&[("user", Kind::String)])?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, Endpoint::Embeddings, false, &mut references);
    let (members, index) = members.into_parts();
    let body = Body { bytes, members, index };
    Ok(EmbeddingsRequest { body, model, inputs, encoding, dimensions, prompt_bytes, references, guarded })
}

fn inputs(value: Option<View<'_>>, body: &Members<'_>) -> Result<(Inputs, u64), Invalid> {
    let path = Path::Top("input");
    let value = value.ok_or_else(|| missing(&path))?;
    let tokens = match form(&path, value)? {
        Form::Text => {
            let text = text(&path, value, body)?;
            return Ok((Inputs::Texts(vec![text]), value.string_len() as u64));
        }
        Form::Texts => {
            let mut bytes = 0;
            let mut ranges = Vec::new();
            for (at, value) in array(&path, value, MAX_INPUTS, "an array of strings")?.enumerate() {
                ranges.push(text(&path.item(at), value, body)?);
                bytes += value.string_len() as u64;
            }
            return Ok((Inputs::Texts(ranges), bytes));
        }
        Form::Tokens => vec![tokens(&path, value)?],
        Form::TokenArrays => token_arrays(&path, value)?,
    };
    let count = tokens.iter().map(|input| input.len() as u64).sum::<u64>();
    Ok((Inputs::Tokens(tokens), count.saturating_mul(4)))
}

/// Where the string's literal stands in the body.
fn text(path: &Path<'_>, value: View<'_>, body: &Members<'_>) -> Result<Range<usize>, Invalid> {
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

/// What every call repeats that brings a part of the inputs to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated<'a> {
    /// Bytes of all members but `input`.
    pub bytes: usize,
    /// The name of the largest of them.
    pub largest: &'a str,
}

impl EmbeddingsRequest {
    /// The members of the body but `input`.
    #[must_use]
    pub fn repeated(&self) -> Repeated<'_> {
        let others = self.body.members.iter().filter(|(name, _)| &**name != "input");
        let others = others.map(|(name, range)| (name.len() + range.len(), &**name));
        let bytes = others.clone().map(|(bytes, _)| bytes).sum();
        Repeated { bytes, largest: others.max().map_or("", |(_, name)| name) }
    }
}

#[cfg(test)]
mod tests;
