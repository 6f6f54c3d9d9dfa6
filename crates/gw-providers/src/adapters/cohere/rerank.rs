//! Rerank: docs.cohere.com/reference/rerank.

use gw_wire::failure::Failure;
use gw_wire::json::ObjectWriter;
use gw_wire::request::rerank::{RerankReply, RerankRequest};

use crate::adapter::{HttpCall, Target};
use crate::adapters::http_call::{JSON, post_json};
use crate::adapters::openai::rerank;
use crate::surfaces::{CallForm, CallForms, Rerank};

/// Cohere's rerank.
#[derive(Debug)]
pub(super) struct CohereRerank;

impl CallForms for CohereRerank {}

impl Rerank for CohereRerank {
    fn encode(&self, request: &RerankRequest, _: CallForm, target: &Target<'_>) -> Result<HttpCall, Failure> {
        let mut out = Vec::with_capacity(request.body.bytes().len() + 128);
        let mut body = ObjectWriter::begin(&mut out);
        body.string("model", target.upstream_model);
        rerank::write_rerank(&mut body, request, "top_n");
        body.finish();
        Ok(post_json("/v2/rerank", out, JSON))
    }

    fn decode(&self, body: &[u8], documents: usize) -> Result<RerankReply, Failure> {
        rerank::decode(body, documents)
    }
}
