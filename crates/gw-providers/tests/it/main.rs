//! Providers against real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "the helpers of tests are tests"
)]

mod azure;
mod capabilities;
mod catalogue_rules;
mod client;
mod deep_and_wide;
mod depth;
mod dialects;
mod kept_answers;
mod linear;
mod model_tables;
mod provider;
mod stream_bounds;
mod upstream;
