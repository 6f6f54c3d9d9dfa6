//! The answer of a shared call, as the response cache keeps it or reads it.

use bytes::Bytes;
use gw_wire::kept_answer::KeptChat;

/// The answer of a shared call beside the document that its own client gets.
#[derive(Debug)]
pub(crate) enum SharedDocument {
    /// The answer in the gateway's own format, for a client that speaks another dialect.
    Unread(Bytes),
    /// The answer as it is kept.
    Kept(KeptChat),
    /// The upstream's own answer has parts that the gateway's own format does not have, so that no other request can get it.
    Partial,
}
