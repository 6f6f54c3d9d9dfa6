//! A request in the dialect of a candidate's provider.

use gw_providers::adapter::{Encoded, Target};
use gw_wire::dialects::NativeNeed;
use gw_wire::failure::{Failure, FailureKind};

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
        let target = Target { most_tokens, ..candidate.target() };
        let adapter = candidate.provider.adapter();
        match self {
            Self::Chat(request) => {
                let mut encoded = adapter.chat(request, &part.share, &target)?;
                if let Some(client) = request.client.as_ref().filter(|_| !encoded.reading.is_native) {
                    if let NativeNeed::Required(fault) = &client.need {
                        let failure = Failure::new(FailureKind::Unsupported, fault.message.clone());
                        return Err(Failure { code: Some(fault.code.to_owned()), ..failure });
                    }
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
