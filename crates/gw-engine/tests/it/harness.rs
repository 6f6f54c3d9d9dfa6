//! The parts of a test: a scripted upstream, the engine around it, and a client.

pub(crate) mod client;
pub(crate) mod script;
pub(crate) mod upstream;
pub(crate) mod world;

pub(crate) use client::{Client, Ended, Leaving};
pub(crate) use script::{Head, Piece, Script, Step, answer, chat_stream, document, refused, wait};
pub(crate) use world::{Setup, World};

/// Runs a test on one thread with a paused clock.
pub(crate) fn paused<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(test)
}
