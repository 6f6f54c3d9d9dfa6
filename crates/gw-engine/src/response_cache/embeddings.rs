//! Embeddings and the response cache. Each input is kept by itself, so only the missing inputs of a request are asked
//! for.
//!
//! Vectors of two models are never put into one answer. Identical requests do not share a call here.

pub(crate) mod answer;
mod kept_reply;
mod partial_fetch;
pub(crate) mod request;
pub(crate) mod serve;
mod vectors;
