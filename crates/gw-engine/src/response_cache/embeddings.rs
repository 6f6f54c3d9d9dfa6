//! Embeddings out of the response cache, where the configuration wants it: each input is kept by itself, so that of a batch only
//! those are asked for that are not there.
//!
//! A vector belongs to its model: what is of two models is never put together. Nobody shares a call here: equal requests
//! under way each ask for themselves.

pub(crate) mod answer;
mod kept_reply;
pub(crate) mod memory;
mod partial_fetch;
pub(crate) mod request;
pub(crate) mod serve;
mod vectors;
