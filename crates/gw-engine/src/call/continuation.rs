//! What the continuation of a broken stream must know of that stream.

use gw_wire::request::ChatRequest;
use gw_wire::stream::Normaliser;

/// What a continuation must know of the stream that it goes on with.
#[derive(Debug)]
pub(crate) struct Continuation {
    /// Makes the normaliser of the next stream.
    pub(crate) normaliser: Normaliser,
    /// What the client asked.
    pub(crate) original: Box<ChatRequest>,
}

impl Continuation {
    pub(crate) fn normaliser(&self) -> Normaliser {
        self.normaliser.resumed()
    }
}
