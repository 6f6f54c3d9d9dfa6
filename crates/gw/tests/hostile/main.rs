//! Tests of the real program under attacks, and with broken upstreams, failing stores, lost replicas and a scarce machine.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod faults;
#[expect(dead_code, reason = "the other tests of the real program need more of it")]
#[path = "../harness/harness.rs"]
mod harness;
mod security;
