//! The OpenAI-compatible interface: requests, answers, errors and HTTP itself.

mod answer_endings;
mod chat;
mod choice_counts;
mod client_mistakes;
mod completions;
mod custom_tools;
mod embeddings;
mod errors;
mod generated_images;
mod google_media;
mod http;
mod http_edges;
pub(crate) mod http_versions;
mod image_forms;
mod images;
mod model_lists;
mod models;
mod moderations;
mod passthrough;
pub(crate) mod replay;
mod request_limits;
mod request_validation;
mod rerank;
mod rerank_vendors;
mod sealed_reasoning;
mod speech;
mod transcriptions;
