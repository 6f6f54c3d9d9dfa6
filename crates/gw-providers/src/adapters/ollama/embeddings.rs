//! Embeddings: docs.ollama.com/api/embed.

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::ObjectWriter;
use gw_wire::reply::EmbeddingsReply;
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;
use serde_json::value::RawValue;

use super::{errors, post};
use crate::adapter::{HttpCall, Target};
use crate::adapters::counts::count;
use crate::adapters::failure::{body_text, invalid, invalid_json};
use crate::adapters::openai::lenient::{LenientText, lenient_members};
use crate::adapters::vectors;

/// Encodes embeddings of these texts. A text that is longer than the context is an error. Otherwise its end would be
/// lost silently.
pub(super) fn encode(
    texts: &[Cow<'_, str>],
    request: &EmbeddingsRequest,
    target: &Target<'_>,
    num_ctx: Option<u64>,
) -> HttpCall {
    let mut out = Vec::new();
    let mut body = ObjectWriter::begin(&mut out);
    body.string("model", target.upstream_model);
    body.strings("input", texts);
    body.boolean("truncate", false);
    if let Some(dimensions) = request.dimensions {
        body.integer("dimensions", u64::from(dimensions));
    }
    if let Some(num_ctx) = num_ctx {
        body.object("options", |options| options.integer("num_ctx", num_ctx));
    }
    body.finish();
    post("/api/embed", out, false)
}

lenient_members! {
    /// `EmbedResponse`.
    OllamaEmbeddings<'de> {
        model: LenientText<'de> = "model",
        embeddings: Vec<&'de RawValue> = "embeddings",
        prompt_eval_count: &'de RawValue = "prompt_eval_count",
        error: &'de RawValue = "error",
    }
}

/// Reads exactly `expected` vectors of one length.
pub(super) fn decode(body: &[u8], expected: usize) -> Result<EmbeddingsReply<'_>, Failure> {
    let text = body_text(body)?;
    let answer: OllamaEmbeddings<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    if answer.error.is_some() {
        return Err(errors::reported(text, FailureKind::Server));
    }
    let found = answer.embeddings.ok_or_else(|| invalid("the body has no embeddings"))?;
    let vectors = vectors::read(&found, expected)?;
    let mut estimated = false;
    let prompt = count(answer.prompt_eval_count, &mut estimated);
    let usage = prompt.map(|prompt| Usage { prompt, estimated, ..Usage::default() });
    let model = answer.model.map(|model| model.0).filter(|model| !model.is_empty());
    Ok(EmbeddingsReply { model, vectors, usage })
}
