//! Embeddings on Vertex AI: `predict` for text models, `embedContent` for newer Gemini models.
//!
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api>, and
//! `EmbedContentRequest` in the API reference. `gemini-embedding-001` takes one text per call, and so does
//! `embedContent`.

use std::borrow::Cow;

use gw_wire::embeddings::read_parsed_vector;
use gw_wire::failure::Failure;
use gw_wire::reply::EmbeddingsReply;
use gw_wire::usage::{MAX_BELIEVABLE, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::adapters::failure::{body_text, invalid, invalid_json};
use crate::adapters::gemini::embeddings::{self, EmbeddingContent, check_lengths, to_json};
use crate::adapters::native::unsupported;

/// Texts are not truncated: clients of OpenAI's API expect an error for a text that is too long.
const TRUNCATE: bool = false;

#[derive(Serialize)]
struct PredictRequest<'a> {
    instances: Vec<PredictInstance<'a>>,
    parameters: PredictParameters,
}

#[derive(Serialize)]
struct PredictInstance<'a> {
    content: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PredictParameters {
    auto_truncate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimensionality: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EmbedContentRequest<'a> {
    content: EmbeddingContent<'a>,
    auto_truncate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimensionality: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Predictions<'a> {
    #[serde(borrow)]
    predictions: Option<Vec<Prediction<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Prediction<'a> {
    #[serde(borrow)]
    embeddings: Option<VertexEmbedding<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VertexEmbedding<'a> {
    #[serde(borrow)]
    values: Option<&'a RawValue>,
    statistics: Option<EmbeddingStatistics>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EmbeddingStatistics {
    /// A whole number, possibly written as `4.0`.
    token_count: Option<f64>,
}

/// Returns the name of the method and its body.
pub(super) fn encode(
    texts: &[Cow<'_, str>],
    upstream_model: &str,
    output_dimensionality: Option<u32>,
) -> Result<(&'static str, Vec<u8>), Failure> {
    let name = upstream_model.rsplit('/').next().unwrap_or(upstream_model);
    if name.starts_with("gemini-") && name != "gemini-embedding-001" {
        let [text] = texts else {
            let message = "Invalid 'input': this model takes one text per call (set embedding_batch = 1).";
            return Err(unsupported(message));
        };
        let body = EmbedContentRequest {
            content: EmbeddingContent::of(text),
            auto_truncate: TRUNCATE,
            output_dimensionality,
        };
        return Ok(("embedContent", to_json(&body)?));
    }
    let instances = texts.iter().map(|text| PredictInstance { content: text }).collect();
    let parameters = PredictParameters { auto_truncate: TRUNCATE, output_dimensionality };
    Ok(("predict", to_json(&PredictRequest { instances, parameters })?))
}

/// Reads the response of either method.
pub(super) fn decode(body: &[u8]) -> Result<EmbeddingsReply<'_>, Failure> {
    let text = body_text(body)?;
    let answer: Predictions<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    let Some(predictions) = answer.predictions else { return embeddings::decode(body) };
    let mut vectors = Vec::with_capacity(predictions.len());
    let mut tokens = Some(0.0);
    for prediction in predictions {
        let embedding = prediction.embeddings.unwrap_or_default();
        let values = embedding.values.ok_or_else(|| invalid("a prediction has no values"))?;
        vectors.push(read_parsed_vector(values).map_err(invalid)?);
        let counted = embedding.statistics.and_then(|statistics| statistics.token_count);
        tokens = tokens.zip(counted).map(|(sum, more): (f64, f64)| sum + more);
    }
    check_lengths(vectors, tokens.map(usage))
}

/// The usage of `tokens` prompt tokens. An unbelievable count is clamped and marked as an estimate.
fn usage(tokens: f64) -> Usage {
    let believed = tokens.clamp(0.0, MAX_BELIEVABLE as f64);
    let prompt = believed as u64;
    Usage { prompt, estimated: believed.to_bits() != tokens.to_bits(), ..Usage::default() }
}
