//! The wire formats: pure types and pure conversions between the shapes that clients and providers use.
//!
//! There is no IO, no clock and no runtime here.

pub mod address_range;
pub mod attribution;
pub mod calendar;
pub mod charges;
pub mod conversation;
pub mod dialects;
pub mod embeddings;
pub mod error_body;
pub mod event;
pub mod failure;
pub mod fetched_images;
pub mod gateway;
pub mod hex;
pub mod hosted_tools;
pub mod json;
pub mod kept_answer;
pub mod money;
pub mod names;
pub mod nearest;
pub mod operation;
pub mod percent;
pub mod prompt_cache;
pub mod reach;
pub mod realtime;
pub mod render;
pub mod reply;
pub mod request;
pub mod request_id;
pub mod sse;
pub mod strategy;
pub mod stream;
pub mod trace_context;
pub mod usage;
pub mod utf8;
pub mod wav;
pub mod webm;
pub mod websocket_frames;
