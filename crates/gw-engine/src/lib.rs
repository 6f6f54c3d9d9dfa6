//! The life of a call: who may call, where it goes, what happened, what it cost.
//!
//! Read `pipeline.rs` first: it is the list of steps. `attempts.rs` is the one loop that calls upstreams.

mod account;
mod ask;
mod attempts;
pub mod auth;
pub mod call;
pub mod catalog;
mod embed;
pub mod engine;
pub mod error;
mod leavers;
mod ledger;
mod live;
pub mod manage;
pub mod metrics;
pub mod payloads;
mod pipeline;
mod plan;
mod refusal;
pub mod settings;
mod share;
mod sources;
pub mod spent;
pub mod stream;
mod verdict;
mod whole;
mod worst;

pub use auth::Caller;
pub use call::{CallLog, CallRecord, Context, Reply, ReplyBody};
pub use engine::Engine;
pub use error::{Error, Kind, Result};
pub use gw_limits::{Entered, Limiter};
pub use stream::EventStream;
