//! The view that an event stream has of a call that requests share.

use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use gw_wire::dialects::AnswerEncoder;

use crate::error::Kind;

/// The answer of a shared call, as one of its readers gets it.
pub(crate) trait FollowedStream: Send {
    /// Whether output is ready.
    fn has_content(&self) -> bool;

    /// The deadline of this request. The call that it follows may run longer.
    fn deadline(&self) -> Instant;

    /// Whether this reader started the call. The leader's call reports the total timeout itself.
    fn is_leader(&self) -> bool;

    /// Ends the stream for a reason other than its client. The client gets `kind`; the ledger and the log get `code`.
    fn cut(&mut self, kind: Kind, code: &'static str);

    /// Takes the encoder that ends the stream with an error. None = the client speaks OpenAI's dialect.
    fn take_encoder(&mut self) -> Option<Box<dyn AnswerEncoder>>;

    /// Writes a sign of life in the client's dialect.
    fn keepalive(&mut self, out: &mut Vec<u8>);

    /// The next output; None = the end.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}
