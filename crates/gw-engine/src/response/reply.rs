//! A successful answer as the edge gets it: headers and a body.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use crate::response::event_stream::EventStream;
use crate::response::hand_over::RecordHandOver;

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
    /// The first word of an answer that is made in the background.
    Background(Box<BackgroundReply>),
}

/// The first word of an answer that is made in the background.
#[derive(Debug)]
pub struct BackgroundReply {
    /// The queued object, or the events from the first one on.
    pub body: ReplyBody,
    /// The call waits for the record of its request.
    pub hand_over: RecordHandOver,
}
