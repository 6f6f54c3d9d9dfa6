//! Tests of the real program as operators see it: management, console, identity, ledger, limits, alerts and telemetry.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod admin;
mod alerts;
mod console;
#[expect(dead_code, unused_imports, reason = "the other tests of the real program need more of it")]
#[path = "../harness/harness.rs"]
mod harness;
mod identity;
mod ledger;
mod limits;
mod telemetry;
