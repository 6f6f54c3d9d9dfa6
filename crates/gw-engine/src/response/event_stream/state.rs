//! The states of a streamed answer's body.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use http_body::Frame;

use crate::call::Call;
use crate::error::Error;
use crate::request::context::CallLog;
use crate::response_cache::follower_stream::FollowerStream;
use crate::upstream::outcome::Answer;
use crate::upstream::resume::PendingContinuation;
use crate::upstream::stream::UpstreamStream;

/// What a body's poll gives.
pub(crate) type Polled = Poll<Option<Result<Frame<Bytes>, Infallible>>>;

/// Looks for a first token; gives the call back with what it found.
pub(crate) type PendingFirstToken =
    Pin<Box<dyn Future<Output = (Box<Call>, Result<(usize, Answer), Error>)> + Send>>;

pub(crate) enum State {
    /// The head is out, no candidate has answered yet.
    Waiting(PendingFirstToken, Arc<CallLog>),
    /// Content flows.
    Streaming(Box<Call>, Box<UpstreamStream>),
    /// Content flows, and a piece of it takes long to read.
    Digesting(PendingDigest, Arc<CallLog>),
    /// It broke off with this, and somebody is looked for who goes on.
    Continuing(PendingContinuation, Arc<CallLog>, Error),
    /// Follows a call that is shared.
    Follower(Box<FollowerStream>),
    /// All there will be.
    Ready(Bytes),
    /// Nothing more will come.
    Over,
}

/// Reads the piece; gives call and stream back.
pub(crate) type PendingDigest = Pin<Box<dyn Future<Output = (Box<Call>, Box<UpstreamStream>)> + Send>>;

/// When the time of a stream stream is used up.
pub(crate) fn deadline_of(call: &Call, stream: &UpstreamStream) -> Instant {
    call.context.client.accepted + stream.candidate.clocks().total
}
