//! The HTTP calls of the Bedrock Runtime API.

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::percent;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde::Serialize;

use crate::adapter::HttpCall;

/// Returns the call of an operation of a model.
pub(super) fn post(model: &str, operation: &str, body: Vec<u8>) -> HttpCall {
    let accept = match operation {
        "converse-stream" | "invoke-with-response-stream" => "application/vnd.amazon.eventstream",
        _ => "application/json",
    };
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    HttpCall {
        method: Method::POST,
        path: path(model, operation),
        headers,
        body: Bytes::from(body),
        upload: None,
    }
}

/// Returns the path of an operation of a model.
pub(super) fn path(model: &str, operation: &str) -> String {
    // AWS signs the encoded path. Model ids and ARNs are encoded completely, `:` and `/` too.
    let model = percent::encode(model);
    format!("/model/{model}/{operation}")
}

/// Serialises a body as JSON.
pub(super) fn to_json(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|fault| {
        Failure::new(FailureKind::BadRequest, "The request cannot be written for this provider.")
            .with_detail(fault)
    })
}
