//! The life of a call: who may call, where it goes, what happened, what it cost.
//!
//! Read `pipeline.rs` first: it is the list of steps. The folders are floors, and each uses only the floors before it:
//! `request`, `plan`, `call`, `upstream`, `response`, `response_cache`.

pub mod auth;
pub mod call;
pub mod catalog;
mod clock;
mod compaction;
mod count_tokens;
pub mod cpu_pool;
mod document_memory;
mod dry_run;
pub mod engine;
pub mod error;
mod event_memory;
mod execute;
pub mod explain;
mod gemini;
mod image_fetches;
pub mod ledger_spending;
mod limit_error;
pub mod limit_use;
mod messages;
pub mod metrics;
mod names_map;
pub mod occurrences;
pub mod passthrough;
pub mod passthrough_routes;
pub mod payloads;
mod pipeline;
mod plan;
pub mod presets;
mod prompt_caches;
mod proportional;
mod read_memory;
pub mod realtime;
pub mod request;
pub mod request_id;
pub mod response;
pub mod response_cache;
mod response_reading;
mod responses;
mod retry_policy;
pub mod rules;
pub mod semantic_names;
mod services;
mod session_guard;
pub mod settings;
pub mod shared_pool;
mod shutdown;
pub mod spool;
pub mod stored_responses;
mod upstream;

pub use auth::Caller;
pub use engine::Engine;
pub use error::{Error, Kind, Result};
pub use gw_limits::{AdmissionPermit, LimitStates, Limiter};
pub use gw_store::keys::LastKey;
pub use request::context::{
    CallLog, CallRecord, ClientSurface, DryRun, GeminiUrl, RequestContext, RequestMarks,
};
pub use response::event_stream::EventStream;
pub use response::hand_over::AnswerRecord;
pub use response::reply::{Reply, ReplyBody};
pub use response_reading::StoredObject;
