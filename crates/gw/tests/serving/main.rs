//! Tests of the real program as clients see it: every surface and dialect, streams, routes and the cache.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod api;
mod cache;
#[expect(dead_code, reason = "the other tests of the real program need more of it")]
#[path = "../harness/harness.rs"]
mod harness;
mod providers;
mod routing;
mod streaming;
mod surfaces;
