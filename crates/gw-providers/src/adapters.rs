//! The dialects of the providers, one file each behind [`crate::adapter::Adapter`], and the code that several of them
//! share.

mod annotations;
pub mod anthropic;
pub(crate) mod azure;
pub mod bedrock;
mod bounded;
mod breakpoints;
mod call_ids;
pub(crate) mod cohere;
mod counting;
mod counts;
mod definitions;
mod failure;
mod function_tool;
pub(crate) mod gemini;
mod http_call;
mod media_types;
pub(crate) mod mistral;
mod model_list;
mod native;
mod ndjson;
mod oauth;
pub(crate) mod ollama;
pub mod openai;
mod redact;
mod replay;
mod retry_after;
mod shaping;
mod sse_adapter;
mod template;
mod text;
mod tool_names;
#[cfg(test)]
mod trial;
mod unique_names;
mod vectors;
pub(crate) mod vertex;
mod warnings;
mod written;
