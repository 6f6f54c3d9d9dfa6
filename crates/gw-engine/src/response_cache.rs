//! Answers out of the response cache, and upstream calls that identical requests share (single-flight).
//!
//! The first request that finds no answer leads: its call runs in a task of its own (`leader.rs`) as long as any request waits for the
//! answer. All other identical requests follow it, and are accounted as hits.

mod answer_content;
pub(crate) mod cache_request;
pub(crate) mod caching;
pub(crate) mod embeddings;
pub(crate) mod follower_stream;
mod hit;
pub(crate) mod known_questions;
mod leader;
mod question;
mod rendered;
mod reply_context;
mod semantic;
mod semantic_lookup;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod shared_answer;
mod stream_reader;

pub use self::caching::ResponseCache;
pub use self::settings::{CachingSettings, SemanticSettings, semantic_problems};
