//! Cohere's rerank models of a resource, at Cohere's own path (learn.microsoft.com, "How to use Cohere rerank models in Foundry",
//! November 2026). The member `model` is the deployment.

use gw_wire::failure::Failure;
use gw_wire::json::ObjectWriter;
use gw_wire::request::rerank::{RerankReply, RerankRequest};

use super::addresses::Addresses;
use crate::adapter::{HttpCall, Target};
use crate::adapters::http_call::{JSON, post_json};
use crate::adapters::openai::rerank;
use crate::surfaces::{CallForm, CallForms, Rerank};

/// The path below the address of the resource.
const PATH: &str = "/providers/cohere/v2/rerank";

/// The rerank of a resource.
#[derive(Debug)]
pub(super) struct AzureRerank {
    addresses: Addresses,
    path: String,
}

impl AzureRerank {
    /// The rerank of a resource. None: `base_url` is the address of the v1 API, which leads to no other.
    pub(super) fn new(base_url: &str, addresses: Addresses) -> Option<Self> {
        let base_url = base_url.trim_end_matches('/');
        if base_url.ends_with("/openai/v1") {
            return None;
        }
        let above = if base_url.ends_with("/openai") { "/.." } else { "" };
        Some(Self { addresses, path: format!("{above}{PATH}") })
    }
}

impl CallForms for AzureRerank {}

impl Rerank for AzureRerank {
    fn encode(&self, request: &RerankRequest, _: CallForm, target: &Target<'_>) -> Result<HttpCall, Failure> {
        let mut out = Vec::with_capacity(request.body.bytes().len() + 128);
        let mut body = ObjectWriter::begin(&mut out);
        body.string("model", self.addresses.deployment(target));
        rerank::write_rerank(&mut body, request, "top_n");
        body.finish();
        Ok(post_json(self.path.clone(), out, JSON))
    }

    fn decode(&self, body: &[u8], documents: usize) -> Result<RerankReply, Failure> {
        rerank::decode(body, documents)
    }
}
