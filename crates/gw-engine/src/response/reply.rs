//! A successful answer as the edge gets it: headers and a body.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use crate::response::event_stream::EventStream;

/// A successful answer.
#[derive(Debug)]
pub struct Reply {
    /// Extra response headers (`x-gateway-model`, …).
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: ReplyBody,
}

/// The body of a successful answer.
#[derive(Debug)]
pub enum ReplyBody {
    /// A JSON document.
    Full(Bytes),
    /// A stream of server-sent events.
    Stream(Box<EventStream>),
}
