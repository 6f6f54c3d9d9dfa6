//! The parts of a test: a scripted upstream, the engine around it, and a client.

pub mod client;
pub mod script;
pub mod upstream;
pub mod world;

pub use client::{Client, Ended, Leaving};
pub use script::{Head, Piece, Script, Step, answer, chat_stream, document, refused, wait};
pub use world::{Setup, World};

/// Runs a test on one thread with a paused clock.
pub fn paused<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(test)
}
