//! Rerank through InvokeModel, with the body of Cohere's API: Bedrock's User Guide, "Cohere Rerank" and "Amazon Rerank" (November
//! 2026). A search unit is one query with at most 100 documents.

use gw_wire::failure::Failure;
use gw_wire::json::ObjectWriter;
use gw_wire::request::rerank::{RerankReply, RerankRequest};

use super::call::post;
use crate::adapter::{HttpCall, Target};
use crate::adapters::native::unsupported;
use crate::adapters::openai::rerank;
use crate::surfaces::{CallForm, CallForms, Rerank};

/// The version of Cohere's API that the models of Bedrock speak.
const API_VERSION: u64 = 2;

/// The rerank of Bedrock.
#[derive(Debug)]
pub(super) struct BedrockRerank;

impl CallForms for BedrockRerank {}

impl Rerank for BedrockRerank {
    fn encode(&self, request: &RerankRequest, _: CallForm, target: &Target<'_>) -> Result<HttpCall, Failure> {
        let is_amazon = target.upstream_model.contains("amazon.");
        if is_amazon && request.max_tokens_per_doc.is_some() {
            return Err(unsupported("Invalid 'max_tokens_per_doc': Amazon's rerank models do not take it."));
        }
        let mut out = Vec::with_capacity(request.body.bytes().len() + 128);
        let mut body = ObjectWriter::begin(&mut out);
        rerank::write_rerank(&mut body, request, "top_n");
        body.integer("api_version", API_VERSION);
        body.finish();
        Ok(post(target.upstream_model, "invoke", out))
    }

    fn decode(&self, body: &[u8], documents: usize) -> Result<RerankReply, Failure> {
        rerank::decode(body, documents)
    }
}
