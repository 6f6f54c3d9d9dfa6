//! The state that a continuation takes over from a stream that broke off.

use gw_wire::request::ChatRequest;
use gw_wire::stream::Normaliser;

/// The state of the broken stream.
#[derive(Debug)]
pub(crate) struct Continuation {
    /// The source of the continuation's normaliser.
    pub(crate) normaliser: Normaliser,
    /// The client's own request.
    pub(crate) original: Box<ChatRequest>,
}

impl Continuation {
    pub(crate) fn normaliser(&self) -> Normaliser {
        self.normaliser.continuation()
    }
}
