//! The life of a call: who may call, where it goes, what happened, what it cost.
//!
//! Read `pipeline.rs` first: it is the list of steps. `attempts.rs` is the one loop that calls upstreams.

mod account;
mod affinity;
mod ask;
mod attempts;
pub mod auth;
pub mod cached;
pub mod call;
mod capability;
pub mod catalog;
pub mod cpu_pool;
mod cut;
mod embed;
pub mod engine;
pub mod error;
mod event_memory;
mod explain;
mod job;
mod leavers;
mod ledger;
mod live;
pub mod manage;
mod meter;
pub mod metrics;
pub mod payloads;
mod pipeline;
mod plan;
mod quotes;
mod race;
mod refusal;
pub mod request_id;
mod resume;
pub mod settings;
mod share;
mod size;
mod sources;
pub mod spent;
mod steering;
pub mod stream;
mod tally;
mod tenant_policy;
mod upgrade;
mod verdict;
mod whole;
mod worst;

pub use auth::Caller;
pub use call::{CallLog, CallRecord, Context, Reply, ReplyBody};
pub use engine::Engine;
pub use error::{Error, Kind, Result};
pub use gw_limits::{AdmissionPermit, LimitStates, Limiter};
pub use stream::EventStream;
