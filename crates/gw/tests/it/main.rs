//! The gateway seen from outside: the real program, real sockets, and only the upstream is made up.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod admin;
mod alerts;
mod api;
mod cache;
mod console;
mod faults;
mod harness;
mod identity;
mod ledger;
mod limits;
mod providers;
mod routing;
mod security;
mod streaming;
mod surfaces;
mod telemetry;
