//! What Bedrock's errors mean: named in `x-amzn-errortype`, in the `__type` of the body or in the `:exception-type` of a
//! frame, with a `message`. API Reference, `API_runtime_Converse`, "Errors"; User Guide, "Troubleshooting error codes".

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderMap;
use serde::Deserialize;

use crate::adapters::failure::{self, broken};

/// No body that is longer names its type.
const LARGEST_BODY: usize = 256 << 10;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    #[serde(rename = "__type")]
    kind: Option<String>,
    #[serde(alias = "Message")]
    message: Option<String>,
}

/// A non-2xx answer.
pub(super) fn classify(status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let named = headers.get("x-amzn-errortype").and_then(|name| name.to_str().ok());
    let said = read(body);
    // The status of the error's name is what is meant: an exhausted quota comes with a 400.
    let meant = named.or(said.kind.as_deref()).and_then(meaning).unwrap_or(status);
    let failure = failure::classify(meant, headers, body);
    refine(failure, said.message.as_deref()).with_status(status)
}

/// An exception or error inside a stream.
pub(super) fn in_stream(name: &str, payload: &[u8]) -> Failure {
    let Some(meant) = meaning(name) else {
        return broken("The upstream provider reported an error in its stream.");
    };
    let mut failure =
        refine(failure::classify(meant, &HeaderMap::new(), payload), read(payload).message.as_deref());
    let plain = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if failure.detail.is_none() && plain {
        failure.detail = Some(name.to_owned());
    }
    failure
}

fn read(body: &[u8]) -> Body {
    if body.len() > LARGEST_BODY {
        return Body::default();
    }
    serde_json::from_slice(body).unwrap_or_default()
}

/// The status that says the same as the name. The name may have a namespace before and an address behind it
/// (`com.amazon.coral.service#UnknownOperationException`, `ValidationException:http://…`).
fn meaning(name: &str) -> Option<u16> {
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

/// What the words of a ValidationException tell more precisely.
fn refine(failure: Failure, message: Option<&str>) -> Failure {
    if failure.kind != FailureKind::BadRequest {
        return failure;
    }
    let message = message.unwrap_or_default().to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    if says(&["input tokens exceeded", "too many input tokens", "exceeds the maximum number of tokens"]) {
        return Failure { kind: FailureKind::ContextLength, code: None, ..failure };
    }
    // The operator wrote a model id that is none, or that wants an inference profile.
    if says(&["model identifier is invalid", "on-demand throughput isn"]) {
        let mut missing =
            Failure::new(FailureKind::ModelMissing, "The upstream provider does not offer this model.");
        missing.status = failure.status;
        return missing;
    }
    failure
}
