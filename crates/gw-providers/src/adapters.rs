//! The dialects of the providers, one file each behind [`crate::adapter::Adapter`], and what several of them share.

pub mod anthropic;
mod failure;
mod native;
pub mod openai;
mod redact;
mod retry_after;
mod shaping;
