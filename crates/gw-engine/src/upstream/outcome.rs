//! What upstream attempts bring.

use gw_routing::health::Probe;
use gw_routing::measured::InFlight;

use crate::call::progress::Warnings;
use crate::call::upstream_call::Attempt;
use crate::plan::candidate::Candidate;
use crate::upstream::stream::UpstreamStream;
use crate::upstream::{embeddings, unary};

/// What a successful attempt gave.
pub(crate) enum Answer {
    /// The client's body.
    Full(Vec<u8>),
    /// A stream whose first content has come.
    Stream(Box<UpstreamStream>),
    /// Embeddings that are put together with vectors of the response cache.
    Embeddings(Box<embeddings::EmbeddingsOutput>),
}

/// What an attempt brought, before it is written for the client.
pub(crate) enum AttemptOutput {
    Stream(Box<UpstreamStream>),
    Whole(Vec<unary::UnaryResponse>, Warnings),
    Vectors(Vec<embeddings::Batch>),
}

/// An attempt that brought something: whose, and since when.
pub(crate) struct ServedAttempt {
    pub(crate) index: usize,
    pub(crate) candidate: Candidate,
    pub(crate) attempt: Attempt,
    pub(crate) got: AttemptOutput,
    /// Counts it as in flight.
    pub(crate) in_flight: InFlight,
    /// It is the one request that finds out whether a broken target is well again.
    pub(crate) probe: Option<Probe>,
}
