//! The dialects of the providers, one file each behind [`crate::adapter::Adapter`], and what several of them share.

pub(crate) mod azure;
pub mod bedrock;
pub mod anthropic;
mod failure;
pub(crate) mod gemini;
pub(crate) mod mistral;
mod native;
pub mod openai;
mod redact;
mod retry_after;
mod shaping;
pub(crate) mod vertex;
