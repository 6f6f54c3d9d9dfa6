//! The HTTP calls of the Bedrock Runtime API.

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use crate::adapter::HttpCall;

/// The characters that AWS leaves unencoded in a path segment. Model ids and ARNs are encoded completely, `:` and `/`
/// too.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the call of an operation of a model.
pub(super) fn post(model: &str, operation: &str, body: Vec<u8>) -> HttpCall {
    let accept = match operation {
        "converse-stream" | "invoke-with-response-stream" => "application/vnd.amazon.eventstream",
        _ => "application/json",
    };
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    HttpCall { method: Method::POST, path: path(model, operation), headers, body: Bytes::from(body) }
}

/// Returns the path of an operation of a model.
pub(super) fn path(model: &str, operation: &str) -> String {
    let model = utf8_percent_encode(model, SEGMENT);
    format!("/model/{model}/{operation}")
}

/// Serialises a body as JSON.
pub(super) fn to_json(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|fault| {
        Failure::new(FailureKind::BadRequest, "The request cannot be written for this provider.")
            .with_detail(fault)
    })
}
