//! The engine at its own boundary: a scripted upstream in the same process, a paused clock, and every ending of a request.
//!
//! No test waits in real time. The clock jumps to the next timer when nothing else is left to do, so a silence of two minutes
//! is a test of a millisecond.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod harness;

mod cache;
mod endings;
mod routing;
