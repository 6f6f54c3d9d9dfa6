//! A request in the dialect of a candidate's provider.

use std::borrow::Cow;

use gw_providers::adapter::{Encoded, Target};
use gw_providers::surfaces::{CallForm, CallForms};
use gw_wire::dialects::{ClientDialect, NativeNeed};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::request::ChatRequest;

use crate::plan::candidate::Candidate;
use crate::plan::tenant_policy::is_forwarded;
use crate::request::ValidatedRequest;
use crate::request::fan_out::SubRequest;

/// The request for a candidate that speaks the client's own dialect, without the parts that must not reach it, and a
/// warning for each. None: the candidate gets the request as it is.
pub(crate) fn admitted(request: &ChatRequest, candidate: &Candidate) -> Option<(ChatRequest, Vec<String>)> {
    let client = request.client.as_ref().filter(|client| candidate.speaks(client.native.dialect))?;
    let provider = &candidate.provider;
    if !is_forwarded(candidate, client) {
        let mut client = client.clone();
        client.native.dialect = ClientDialect::OpenAi;
        return Some((ChatRequest { client: Some(client), ..request.clone() }, Vec::new()));
    }
    let (client, warnings) = client.admitted(provider.allowed(), provider.denied_betas())?;
    Some((ChatRequest { client: Some(Box::new(client)), ..request.clone() }, warnings))
}

impl ValidatedRequest {
    /// Encodes a sub-request in the dialect of the candidate's provider.
    pub(crate) fn encode(
        &self,
        candidate: &Candidate,
        part: &SubRequest,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure> {
        let adapter = candidate.provider.adapter();
        match self {
            Self::Chat(request) => {
                let admitted = admitted(request, candidate);
                let (request, left_out) = match &admitted {
                    Some((admitted, warnings)) => (admitted, warnings.as_slice()),
                    None => (&**request, [].as_slice()),
                };
                let mut encoded = adapter.chat(request, &part.share, target)?;
                if encoded.reading.is_native {
                    encoded.warnings.extend(left_out.iter().cloned().map(Cow::Owned));
                }
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
            Self::Completion(request) => adapter.completion(request, &part.share, target),
            Self::OneShot(request) => {
                let (provider, parts) = (&candidate.provider, 0..request.parts());
                let form = request.forms(provider).map_or_else(CallForm::default, CallForms::form);
                request.encode(provider, parts, form, target).map(Encoded::plain)
            }
        }
    }
}
