//! Embeddings on AI Studio: `batchEmbedContents`, <https://ai.google.dev/api/embeddings>.

use std::borrow::Cow;

use gw_wire::embeddings::read_parsed_vector;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::{EmbeddingsReply, Vector};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::errors;
use super::usage::UsageMetadata;
use crate::adapters::failure::{body_text, invalid, invalid_json};

#[derive(Serialize)]
struct BatchEmbedRequest<'a> {
    requests: Vec<EmbedRequest<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EmbedRequest<'a> {
    model: &'a str,
    content: EmbeddingContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimensionality: Option<u32>,
}

/// `Content` with one text.
#[derive(Serialize)]
pub(in crate::adapters) struct EmbeddingContent<'a> {
    parts: [EmbeddingPart<'a>; 1],
}

#[derive(Serialize)]
struct EmbeddingPart<'a> {
    text: &'a str,
}

impl<'a> EmbeddingContent<'a> {
    pub(in crate::adapters) fn of(text: &'a str) -> Self {
        Self { parts: [EmbeddingPart { text }] }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiEmbeddings<'a> {
    #[serde(borrow)]
    embeddings: Option<Vec<GeminiEmbedding<'a>>>,
    /// The member of `embedContent`, which takes one text.
    #[serde(borrow)]
    embedding: Option<GeminiEmbedding<'a>>,
    #[serde(borrow)]
    usage_metadata: Option<UsageMetadata<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GeminiEmbedding<'a> {
    #[serde(borrow)]
    values: Option<&'a RawValue>,
}

/// Returns the body that embeds these texts. `resource` is `models/…`.
pub(super) fn encode(
    texts: &[Cow<'_, str>],
    resource: &str,
    dimensions: Option<u32>,
) -> Result<Vec<u8>, Failure> {
    let requests = texts.iter().map(|text| EmbedRequest {
        model: resource,
        content: EmbeddingContent::of(text),
        output_dimensionality: dimensions,
    });
    to_json(&BatchEmbedRequest { requests: requests.collect() })
}

/// Serialises a body as JSON.
pub(in crate::adapters) fn to_json(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|fault| {
        Failure::new(FailureKind::BadRequest, "The request cannot be written for this provider.")
            .with_detail(fault)
    })
}

/// Decodes the vectors, in the order of the texts.
pub(in crate::adapters) fn decode(body: &[u8]) -> Result<EmbeddingsReply<'_>, Failure> {
    let text = body_text(body)?;
    let answer: GeminiEmbeddings<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    if answer.error.is_some() {
        let error = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
        return Err(errors::reported(&error, FailureKind::Server));
    }
    let one = answer.embedding.into_iter();
    let vectors = answer.embeddings.unwrap_or_default().into_iter().chain(one).map(|entry| {
        let values = entry.values.ok_or_else(|| invalid("an embedding has no values"))?;
        read_parsed_vector(values).map_err(invalid)
    });
    let vectors: Vec<Vector<'_>> = vectors.collect::<Result<_, _>>()?;
    check_lengths(vectors, answer.usage_metadata.and_then(|counts| counts.usage()))
}

/// Checks that all vectors have one length.
pub(in crate::adapters) fn check_lengths(
    vectors: Vec<Vector<'_>>,
    usage: Option<gw_wire::usage::Usage>,
) -> Result<EmbeddingsReply<'_>, Failure> {
    let mut lengths = vectors.iter().map(Vector::dimensions);
    let first = lengths.next();
    if lengths.any(|length| Some(length) != first) {
        return Err(invalid("vectors of different lengths"));
    }
    Ok(EmbeddingsReply { model: None, vectors, usage })
}
