//! Model names as segments of a path, the URLs of AI Studio, and the calls of both services.

use std::fmt;

use gw_wire::percent;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};

use crate::adapter::HttpCall;

/// Percent-encodes each segment of a path; the slashes between segments stay.
pub(in crate::adapters) fn encoded_path(path: &str) -> String {
    percent::encode_except(path, b"/@")
}

/// Returns a POST request with a JSON body.
pub(in crate::adapters) fn post(path: String, body: impl Into<bytes::Bytes>) -> HttpCall {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    HttpCall { method: Method::POST, path, headers, body: body.into(), upload: None }
}

/// Returns the method of a model that a chat calls.
pub(in crate::adapters) fn method(is_stream: bool) -> &'static str {
    if is_stream { "streamGenerateContent?alt=sse" } else { "generateContent" }
}

/// The URLs of a service.
pub(in crate::adapters) trait ModelPaths: Send + Sync + fmt::Debug {
    /// The path of a model's method.
    fn method_path(&self, upstream_model: &str, method: &str) -> String;
}

/// The URLs of AI Studio.
#[derive(Debug)]
pub(super) struct AiStudio;

impl ModelPaths for AiStudio {
    fn method_path(&self, upstream_model: &str, method: &str) -> String {
        format!("/v1beta/{}:{method}", encoded_path(&resource(upstream_model)))
    }
}

/// Returns the resource name: `models/…`, or the name itself if it already is a resource name (`tunedModels/…`).
pub(super) fn resource(upstream_model: &str) -> String {
    if upstream_model.starts_with("models/") || upstream_model.starts_with("tunedModels/") {
        return upstream_model.to_owned();
    }
    format!("models/{upstream_model}")
}

#[cfg(test)]
mod tests {
    use super::encoded_path;

    #[test]
    fn a_model_name_cannot_change_the_path() {
        assert_eq!(encoded_path("a b?c#d%e:f/é@1"), "a%20b%3Fc%23d%25e%3Af/%C3%A9@1");
    }
}
