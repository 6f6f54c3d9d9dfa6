//! The test kit: a scripted upstream, a byte-exact HTTP client, and the real gateway as a child process.
//!
//! The test kit does not use the gateway's code, so a test sees only the outside of the program.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate runs only inside tests, where a panic is how a failure is reported"
)]

pub mod certificate;
pub mod client;
mod compress;
pub mod cpu_time;
mod differences;
pub mod faketime;
mod files;
pub mod gateway;
pub mod measured;
pub mod memory_group;
mod ports;
pub mod postgres;
pub mod prometheus;
pub mod proxy;
pub mod redis;
pub mod sources;
pub mod sse;
pub mod upstream;
pub mod wait;
pub mod wire;

pub use client::{Client, Response};
pub use compress::compressed;
pub use differences::Differences;
pub use faketime::Faketime;
pub use files::open_files;
pub use gateway::{Gateway, Launch};
pub use proxy::Proxy;
pub use redis::Redis;
pub use upstream::{Answer, ClosedUpstream, FakeUpstream, PIXEL, Recorded, Signal};
pub use wait::{eventually, within};
