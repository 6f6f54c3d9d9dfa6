//! The results of upstream attempts.

use bytes::Bytes;
use gw_providers::client::UpstreamSocket;
use gw_routing::health::Probe;
use gw_routing::metrics::InFlight;

use crate::call::progress::Warnings;
use crate::call::upstream_call::Attempt;
use crate::plan::candidate::Candidate;
use crate::upstream::stream::UpstreamStream;
use crate::upstream::{embeddings, one_shot, unary};

/// The answer of a successful attempt.
pub(crate) enum Answer {
    /// The client's body.
    Full(Bytes),
    /// A stream whose first content has come.
    Stream(Box<UpstreamStream>),
    /// Embeddings that are merged with vectors of the response cache.
    Vectors(Box<embeddings::EmbeddingsOutput>),
    /// The socket of a realtime session.
    Socket(Box<UpstreamSocket>),
}

/// The output of an attempt before it is written for the client.
pub(crate) enum AttemptOutput {
    Stream(Box<UpstreamStream>),
    Unary(Vec<unary::UnaryResponse>, Warnings),
    OneShot(Vec<one_shot::Batch>),
    Socket(Box<UpstreamSocket>),
}

/// A successful attempt.
pub(crate) struct ServedAttempt {
    pub(crate) index: usize,
    pub(crate) candidate: Candidate,
    pub(crate) attempt: Attempt,
    pub(crate) output: AttemptOutput,
    /// Counts the attempt as in flight.
    pub(crate) in_flight: InFlight,
    /// Set if this request probes whether a failing target has recovered.
    pub(crate) probe: Option<Probe>,
}
