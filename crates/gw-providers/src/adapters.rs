//! The dialects of the providers, one file each behind [`crate::adapter::Adapter`], and what several of them share.

mod annotations;
pub mod anthropic;
pub(crate) mod azure;
pub mod bedrock;
mod bounded;
pub(crate) mod cohere;
mod counts;
mod definitions;
mod failure;
pub(crate) mod gemini;
pub(crate) mod mistral;
mod model_list;
mod native;
mod ndjson;
pub(crate) mod ollama;
pub mod openai;
mod redact;
mod replay;
mod retry_after;
mod shaping;
mod text;
mod tool_names;
#[cfg(test)]
mod trial;
mod unique_names;
mod vectors;
pub(crate) mod vertex;
mod write;
