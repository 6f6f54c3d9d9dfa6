//! Streamed answers: chunks, timeouts, cut connections and clients that disconnect or stall.

pub(crate) mod chunks;
mod continuation;
mod disconnects;
mod idle_streams;
mod images;
mod long_endings;
mod network_splits;
mod stalled_readers;
pub(crate) mod timeouts;
