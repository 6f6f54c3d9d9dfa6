//! A response of the demo.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::body::DemoBody;

/// A response of the demo.
#[derive(Debug)]
pub struct DemoResponse {
    /// HTTP status.
    pub status: u16,
    /// Response headers.
    pub headers: HeaderMap,
    /// The body, which comes in pieces.
    pub body: DemoBody,
}

impl DemoResponse {
    pub(super) fn json(status: u16, value: &Value) -> Self {
        Self::new(status, "application/json", DemoBody::whole(Bytes::from(value.to_string())))
    }

    pub(super) fn events(body: DemoBody) -> Self {
        Self::new(200, "text/event-stream", body)
    }

    pub(super) fn error(status: u16, class: &str, code: Option<&str>, message: &str) -> Self {
        Self::json(
            status,
            &json!({"error": {"message": message, "type": class, "param": null, "code": code}}),
        )
    }

    pub(super) fn new(status: u16, content_type: &'static str, body: DemoBody) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self { status, headers, body }
    }
}
