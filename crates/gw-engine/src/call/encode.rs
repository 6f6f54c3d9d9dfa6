//! A request in the dialect of a candidate's provider.

use gw_providers::adapter::{Encoded, Target};
use gw_wire::failure::Failure;

use crate::plan::candidate::Candidate;
use crate::request::ValidatedRequest;
use crate::request::fan_out::SubRequest;

impl ValidatedRequest {
    /// Encodes a sub-request in the dialect of the candidate's provider.
    pub(crate) fn encode(
        &self,
        candidate: &Candidate,
        part: &SubRequest,
        most_tokens: Option<u64>,
    ) -> Result<Encoded, Failure> {
        let target = Target { most_tokens, ..target(candidate) };
        let adapter = candidate.provider.adapter();
        match self {
            Self::Chat(request) => {
                let mut encoded = adapter.chat(request, &part.share, &target)?;
                if let Some(client) = request.client.as_ref().filter(|_| !encoded.reading.is_native) {
                    encoded.warnings.extend(client.warnings.iter().cloned());
                    // These dialects give reasoning back only together with an opaque string.
                    encoded.reading.seals_plain = true;
                }
                Ok(encoded)
            }
            Self::Completion(request) => adapter.completion(request, &part.share, &target),
            Self::Embeddings(request) => {
                adapter.embeddings(request, 0..request.inputs.len(), &target).map(Encoded::plain)
            }
        }
    }
}

/// The candidate as its adapter needs it. A fallback is clamped to its model's limits, because the client did not
/// choose that model.
pub(crate) fn target(candidate: &Candidate) -> Target<'_> {
    let model = &candidate.model;
    Target {
        upstream_model: &model.upstream_model,
        id: &model.id,
        most_tokens: None,
        clamp_max_tokens: candidate.is_fallback.then_some(model.max_output_tokens).flatten(),
        max_output_tokens: model.max_output_tokens,
        context_length: model.context_length,
        rules: model.rules,
        issuer: Some(candidate.provider.issuer()),
    }
}
