//! Embeddings: docs.cohere.com/reference/embed.

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::{Kind, ObjectWriter, View};
use gw_wire::reply::EmbeddingsReply;
use gw_wire::request::EmbeddingsRequest;
use gw_wire::usage::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::CohereTokens;
use crate::adapter::{HttpCall, Target};
use crate::adapters::counts::count;
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::adapters::http_call::post_streamable;
use crate::adapters::openai::lenient::lenient_members;
use crate::adapters::vectors;

/// The default `input_type`, which models from v3 on require.
const INPUT_TYPE: &str = r#""search_document""#;
/// The default `truncate`: a text that is too long is an error. Otherwise its end would be lost silently.
const TRUNCATE: &str = r#""NONE""#;

/// Encodes embeddings of these texts. The client's own `input_type` and `truncate` are kept.
pub(super) fn encode(texts: &[Cow<'_, str>], request: &EmbeddingsRequest, target: &Target<'_>) -> HttpCall {
    let own = |name: &str| request.body.get(name).filter(|text| View::new(text).kind() == Kind::String);
    let mut out = Vec::new();
    let mut body = ObjectWriter::begin(&mut out);
    body.string("model", target.upstream_model);
    body.raw("input_type", own("input_type").unwrap_or(INPUT_TYPE));
    body.strings("texts", texts);
    body.raw("embedding_types", r#"["float"]"#);
    if let Some(dimensions) = request.dimensions {
        body.integer("output_dimension", u64::from(dimensions));
    }
    body.raw("truncate", own("truncate").unwrap_or(TRUNCATE));
    body.finish();
    post_streamable("/v2/embed", out, false)
}

lenient_members! {
    /// The complete answer.
    CohereEmbeddings<'de> {
        embeddings: VectorsByType<'de> = "embeddings",
        meta: EmbeddingsMeta<'de> = "meta",
        message: &'de RawValue = "message",
    }
}

lenient_members! {
    /// Vectors by the type of their numbers.
    VectorsByType<'de> {
        float: Vec<&'de RawValue> = "float",
    }
}

lenient_members! {
    /// The usage.
    EmbeddingsMeta<'de> {
        tokens: CohereTokens<'de> = "tokens",
        billed_units: CohereTokens<'de> = "billed_units",
    }
}

/// Reads exactly `expected` vectors of one length.
pub(super) fn decode(body: &[u8], expected: usize) -> Result<EmbeddingsReply<'_>, Failure> {
    let text = body_text(body)?;
    let answer: CohereEmbeddings<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    let Some(found) = answer.embeddings.and_then(|by_type| by_type.float) else {
        if answer.message.is_some() {
            let error = serde_json::from_str(text).unwrap_or(Value::Null);
            return Err(reported(&error, FailureKind::Server));
        }
        return Err(invalid("the body has no vectors of floats"));
    };
    let vectors = vectors::read(&found, expected)?;
    let usage = answer.meta.as_ref().and_then(usage);
    Ok(EmbeddingsReply { model: None, vectors, usage })
}

/// The usage of embeddings. Cohere adds nothing to the prompt here, so the billed units equal the tokens.
fn usage(meta: &EmbeddingsMeta<'_>) -> Option<Usage> {
    let input_tokens =
        [&meta.tokens, &meta.billed_units].into_iter().flatten().find_map(|tokens| tokens.input_tokens);
    let mut estimated = false;
    let prompt = count(input_tokens, &mut estimated)?;
    Some(Usage { prompt, estimated, ..Usage::default() })
}
