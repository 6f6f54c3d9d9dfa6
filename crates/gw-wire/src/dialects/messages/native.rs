//! Requests and answers of upstreams that speak the Messages API themselves: the client's own body with few splices, and
//! the upstream's own frames and documents.

mod body;
mod calls;
mod document;
pub(in crate::dialects) mod edits;
mod frames;

pub use self::body::{NativeHost, NativeRequest, Signature, request_body};
pub use self::document::write_native;
pub(super) use self::document::{with_first_usage, with_gateway};
pub(super) use self::frames::MessagesFrames;
