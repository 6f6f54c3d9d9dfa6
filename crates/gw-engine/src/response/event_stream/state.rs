//! The states of a streamed answer's body.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use futures_util::Stream;
use http_body::Frame;

use crate::call::Call;
use crate::error::Error;
use crate::request::context::CallLog;
use crate::response::followed_stream::FollowedStream;
use crate::upstream::outcome::Answer;
use crate::upstream::resume::PendingContinuation;
use crate::upstream::stream::UpstreamStream;

/// The result of polling a body.
pub(crate) type Polled = Poll<Option<Result<Frame<Bytes>, Infallible>>>;

/// Searches for a first token. Returns the call with the result.
pub(crate) type PendingFirstToken =
    Pin<Box<dyn Future<Output = (Box<Call>, Result<(usize, Answer), Error>)> + Send>>;

pub(crate) enum StreamState {
    /// The head is sent, and no candidate has answered yet.
    Waiting(PendingFirstToken, Arc<CallLog>),
    /// Content arrives.
    Streaming(Box<Call>, Box<UpstreamStream>),
    /// The CPU pool reads a piece that takes long.
    Digesting(PendingDigest, Arc<CallLog>),
    /// The stream broke off, and a candidate is searched that continues it.
    Continuing(PendingContinuation, Arc<CallLog>, BreakOff),
    /// The stream follows a call of another request.
    Follower(Box<dyn FollowedStream>),
    /// All bytes are known.
    Ready(Bytes),
    /// The stream follows the events of a response that is made in the background.
    Background(BackgroundEvents),
    /// The stream has ended.
    Over,
}

/// How a stream broke off.
#[derive(Debug)]
pub(crate) struct BreakOff {
    /// The error that the stream ends with if no candidate continues it.
    pub(crate) error: Error,
    /// The attempts that were made before a candidate was searched.
    pub(crate) attempts: u32,
}

/// The events of a background response as they come.
pub(crate) type BackgroundEvents = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Reads a piece on the CPU pool. Returns the call and the stream.
pub(crate) type PendingDigest = Pin<Box<dyn Future<Output = (Box<Call>, Box<UpstreamStream>)> + Send>>;

/// The deadline of an open stream.
pub(crate) fn deadline_of(call: &Call, stream: &UpstreamStream) -> Instant {
    call.context.client.accepted + stream.candidate.clocks().total
}
