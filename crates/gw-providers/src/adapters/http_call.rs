//! The requests that several dialects make alike: a JSON body that is posted, a document that is fetched.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};

use crate::adapter::HttpCall;

/// The media type of a JSON document.
pub(super) const JSON: &str = "application/json";

/// The media type of an event stream.
const EVENT_STREAM: &str = "text/event-stream";

/// A `POST` of a JSON body. `accept` is the media type of the response.
pub(super) fn post_json(path: impl Into<String>, body: impl Into<Bytes>, accept: &'static str) -> HttpCall {
    // With room for the headers of the provider and its client.
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    HttpCall { method: Method::POST, path: path.into(), headers, body: body.into(), upload: None }
}

/// A `POST` of a JSON body. The response is an event stream if `is_stream`, and else a JSON document.
pub(super) fn post_streamable(path: impl Into<String>, body: impl Into<Bytes>, is_stream: bool) -> HttpCall {
    post_json(path, body, if is_stream { EVENT_STREAM } else { JSON })
}

/// A `GET` of a JSON document.
pub(super) fn get_json(path: impl Into<String>) -> HttpCall {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(ACCEPT, HeaderValue::from_static(JSON));
    HttpCall { method: Method::GET, path: path.into(), headers, body: Bytes::new(), upload: None }
}
