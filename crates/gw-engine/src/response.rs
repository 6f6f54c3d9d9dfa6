//! The answer on its way to the client.

pub(crate) mod disconnect;
pub mod event_stream;
pub(crate) mod followed_stream;
pub mod hand_over;
pub mod headers;
pub mod reply;
