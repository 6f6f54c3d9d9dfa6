//! Anthropic's Messages API as a dialect of clients: `POST /v1/messages`, `POST /v1/messages/count_tokens` and the
//! Anthropic form of `GET /v1/models`.
//!
//! The facts about the wire come from the types of anthropic-sdk-python and the API's documentation at
//! platform.claude.com, both read in November 2026.

pub(super) mod blocks;
pub mod breakpoints;
mod context;
pub mod errors;
pub(super) mod extras;
mod faults;
mod form;
mod frame;
pub mod models;
pub mod native;
pub mod overflow;
pub(super) mod request;
pub(super) mod response;
mod stops;
mod stream;
mod usage;

pub use self::context::{AnswerIds, MessagesContext, ThinkingDisplay};
pub use self::request::{MessagesRequest, count_tokens_body, translate, translate_count};
pub use self::stream::MessagesEncoder;

#[cfg(test)]
mod tests;
