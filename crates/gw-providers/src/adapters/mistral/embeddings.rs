//! Embeddings at `/embeddings`: OpenAI's, with another name for `dimensions`.

use std::borrow::Cow;

use gw_wire::json::ObjectWriter;
use gw_wire::request::EmbeddingsRequest;

use crate::adapter::{HttpCall, Target};
use crate::adapters::http_call::post_streamable;

/// Encodes embeddings of these texts.
pub(super) fn encode(texts: &[Cow<'_, str>], request: &EmbeddingsRequest, target: &Target<'_>) -> HttpCall {
    let mut out = Vec::new();
    let mut body = ObjectWriter::begin(&mut out);
    body.string("model", target.upstream_model);
    body.strings("input", texts);
    if let Some(dimensions) = request.dimensions {
        body.integer("output_dimension", u64::from(dimensions));
    }
    body.finish();
    post_streamable("/embeddings", out, false)
}
