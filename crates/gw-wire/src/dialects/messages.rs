//! Anthropic's Messages API as a client's dialect.

pub mod models;
