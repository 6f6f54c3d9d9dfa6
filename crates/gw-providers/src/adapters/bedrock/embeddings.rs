//! Embeddings through InvokeModel, whose body differs for each model vendor. User Guide, "Amazon Titan Embeddings
//! Text", "Cohere Embed v3" and "Cohere Embed v4".

use std::borrow::Cow;

use gw_wire::embeddings::read_parsed_vector;
use gw_wire::failure::Failure;
use gw_wire::reply::{EmbeddingsReply, Vector};
use gw_wire::request::EmbeddingsRequest;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::call::{post, to_json};
use super::usage;
use crate::adapter::{HttpCall, Target};
use crate::adapters::failure::{invalid, invalid_json};
use crate::adapters::native::unsupported;

/// The most texts of one call.
const MAX_TITAN_TEXTS: usize = 1;
const MAX_COHERE_TEXTS: usize = 96;

/// The `input_type` for Cohere's models when the client gives none: documents that are searched later.
const DEFAULT_INPUT_TYPE: &str = "search_document";

/// Encodes the call.
pub(super) fn encode(
    texts: &[Cow<'_, str>],
    request: &EmbeddingsRequest,
    target: &Target<'_>,
) -> Result<HttpCall, Failure> {
    let is = |part: &str| target.upstream_model.contains(part) || target.id.contains(part);
    let body = if is("titan-embed") {
        titan(texts, request.dimensions, is("titan-embed-text-v2"))?
    } else if is("cohere.embed") || is("/embed-") {
        let input_type = request.body.view("input_type").and_then(|kind| kind.string());
        cohere(texts, input_type.as_deref(), request.dimensions, is("embed-v4"))?
    } else {
        return Err(unsupported(
            "Invalid 'model': of this provider's models, only those of Titan and Cohere make embeddings.",
        ));
    };
    Ok(post(target.upstream_model, "invoke", body))
}

/// The request body of Titan models.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TitanEmbedRequest<'t> {
    input_text: &'t str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

/// The request body of Cohere models.
#[derive(Serialize)]
struct CohereEmbedRequest<'t> {
    texts: &'t [Cow<'t, str>],
    input_type: &'t str,
    embedding_types: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<u32>,
}

fn titan(texts: &[Cow<'_, str>], dimensions: Option<u32>, is_second: bool) -> Result<Vec<u8>, Failure> {
    let [input_text] = texts else { return Err(too_many(MAX_TITAN_TEXTS)) };
    if dimensions.is_some() && !is_second {
        return Err(no_dimensions());
    }
    to_json(&TitanEmbedRequest { input_text, dimensions })
}

fn cohere(
    texts: &[Cow<'_, str>],
    input_type: Option<&str>,
    output_dimension: Option<u32>,
    is_fourth: bool,
) -> Result<Vec<u8>, Failure> {
    if texts.len() > MAX_COHERE_TEXTS {
        return Err(too_many(MAX_COHERE_TEXTS));
    }
    if output_dimension.is_some() && !is_fourth {
        return Err(no_dimensions());
    }
    let input_type = input_type.unwrap_or(DEFAULT_INPUT_TYPE);
    to_json(&CohereEmbedRequest { texts, input_type, embedding_types: ["float"], output_dimension })
}

fn too_many(most: usize) -> Failure {
    unsupported(format!(
        "Invalid 'input': this model takes {most} per call. Set 'embedding_batch' of its provider to {most}."
    ))
}

fn no_dimensions() -> Failure {
    unsupported("Invalid 'dimensions': this model's vectors have a fixed length.")
}

/// The response. Titan's has `embedding`; Cohere's has `embeddings`, a list or lists by type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockEmbeddings<'a> {
    #[serde(borrow)]
    embedding: Option<&'a RawValue>,
    #[serde(borrow)]
    input_text_token_count: Option<&'a RawValue>,
    #[serde(borrow)]
    embeddings: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BedrockVectorsByType<'a> {
    #[serde(borrow)]
    float: Option<Vec<&'a RawValue>>,
}

fn list(raw: &RawValue) -> Result<Vec<&RawValue>, Failure> {
    let text = raw.get();
    let list = if text.starts_with('[') {
        serde_json::from_str(text)
    } else {
        serde_json::from_str::<BedrockVectorsByType<'_>>(text).map(|types| types.float.unwrap_or_default())
    };
    list.map_err(|fault| invalid_json(&fault))
}

/// Decodes the response and checks that it holds `expected` vectors of equal length.
pub(super) fn decode(body: &[u8], expected: usize) -> Result<EmbeddingsReply<'_>, Failure> {
    let answer: BedrockEmbeddings<'_> = serde_json::from_slice(body).map_err(|fault| invalid_json(&fault))?;
    let raws = match (answer.embedding, answer.embeddings) {
        (Some(vector), _) => vec![vector],
        (None, Some(vectors)) => list(vectors)?,
        (None, None) => return Err(invalid("the body has no embeddings")),
    };
    if raws.len() != expected {
        return Err(invalid(format_args!("{} vectors for {expected} inputs", raws.len())));
    }
    let vectors: Result<Vec<Vector<'_>>, _> = raws.into_iter().map(read_parsed_vector).collect();
    let vectors = vectors.map_err(invalid)?;
    let mut lengths = vectors.iter().map(Vector::dimensions);
    let first = lengths.next();
    if lengths.any(|length| Some(length) != first) {
        return Err(invalid("vectors of different lengths"));
    }
    let usage = answer.input_text_token_count.and_then(usage::prompt);
    Ok(EmbeddingsReply { model: None, vectors, usage })
}
