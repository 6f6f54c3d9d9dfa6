//! Providers against real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "the helpers of tests are tests"
)]

mod azure;
mod capabilities;
mod client;
mod dialects;
mod linear;
mod provider;
mod upstream;
