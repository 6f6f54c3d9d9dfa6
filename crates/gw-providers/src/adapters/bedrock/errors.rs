//! Classification of Bedrock's errors. The error's name is in the header `x-amzn-errortype`, in `__type` of the body or
//! in the `:exception-type` of a frame. API Reference, `API_runtime_Converse`, "Errors"; User Guide, "Troubleshooting
//! error codes".

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;
use serde::Deserialize;

use crate::adapters::failure::{self, broken};

/// The largest body that is searched for the error's name.
const MAX_ERROR_BODY_BYTES: usize = 256 << 10;

#[derive(Default, Deserialize)]
#[serde(default)]
struct BedrockErrorBody {
    #[serde(rename = "__type")]
    kind: Option<String>,
    #[serde(alias = "Message")]
    message: Option<String>,
}

/// Classifies a non-2xx response.
pub(super) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let named = headers.get("x-amzn-errortype").and_then(|name| name.to_str().ok());
    let error_body = read(body);
    // The error's name decides over the status: an exhausted quota comes with status 400.
    let status_meant = named.or(error_body.kind.as_deref()).and_then(status_of).unwrap_or(status);
    let failure = failure::classify(status_meant, headers, body);
    refine(failure, error_body.message.as_deref()).with_status(status)
}

/// Classifies an exception or error inside a stream.
pub(super) fn in_stream(name: &str, payload: &[u8]) -> Failure {
    let Some(status_meant) = status_of(name) else {
        return broken("The upstream provider reported an error in its stream.");
    };
    let mut failure =
        refine(failure::classify(status_meant, &HeaderMap::new(), payload), read(payload).message.as_deref());
    let plain = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if failure.detail.is_none() && plain {
        failure.detail = Some(name.to_owned());
    }
    failure
}

fn read(body: &[u8]) -> BedrockErrorBody {
    if body.len() > MAX_ERROR_BODY_BYTES {
        return BedrockErrorBody::default();
    }
    serde_json::from_slice(body).unwrap_or_default()
}

/// Returns the HTTP status that corresponds to an error name. The name may have a namespace before it and a URL after
/// it (`com.amazon.coral.service#UnknownOperationException`, `ValidationException:http://…`).
fn status_of(name: &str) -> Option<u16> {
    let name = name.split(':').next().unwrap_or_default();
    let name = name.rsplit('#').next().unwrap_or_default().trim().to_ascii_lowercase();
    let name = name.strip_suffix("exception").unwrap_or(&name);
    Some(match name {
        "throttling" | "toomanyrequests" | "servicequotaexceeded" | "modelnotready" => 429,
        "validation" => 400,
        "accessdenied"
        | "unrecognizedclient"
        | "invalidclienttokenid"
        | "expiredtoken"
        | "invalidsignature"
        | "signaturedoesnotmatch"
        | "incompletesignature"
        | "missingauthenticationtoken"
        | "notauthorized"
        | "optinrequired" => 403,
        "resourcenotfound" | "unknownoperation" => 404,
        "modeltimeout" => 408,
        "modelerror" | "modelstreamerror" => 424,
        "internalserver" | "internalfailure" | "internalservererror" => 500,
        "serviceunavailable" => 503,
        _ => return None,
    })
}

/// Makes the kind of a ValidationException more precise by its message.
fn refine(failure: Failure, message: Option<&str>) -> Failure {
    if failure.kind != FailureKind::BadRequest {
        return failure;
    }
    let message = message.unwrap_or_default().to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    if says(&["input tokens exceeded", "too many input tokens", "exceeds the maximum number of tokens"]) {
        return Failure { kind: FailureKind::ContextLength, code: None, ..failure };
    }
    // The operator configured an unknown model id, or one that needs an inference profile.
    if says(&["model identifier is invalid", "on-demand throughput isn"]) {
        let mut missing =
            Failure::new(FailureKind::ModelMissing, "The upstream provider does not offer this model.");
        missing.status = failure.status;
        return missing;
    }
    failure
}
