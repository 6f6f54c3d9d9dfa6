//! Google's Gemini API as a dialect of clients: `generateContent`, `streamGenerateContent`, `countTokens`, `embedContent` and
//! `batchEmbedContents` of a model, and the list of models.
//!
//! The facts about the wire come from ai.google.dev/api, and from the types of google-genai 3.6.1 (Python) and 2.32.0
//! (Node), all read in November 2026.

mod context;
mod embeddings;
pub mod errors;
mod logprobs;
mod members;
mod method;
pub mod models;
mod parts;
mod request;
mod response;
mod seals;
mod stream;
mod usage;

pub use self::context::GeminiContext;
pub use self::embeddings::{EmbedRequest, embeddings_body, translate_embed};
pub use self::method::{GeminiMethod, ROOTS, model_name};
pub use self::request::{GeminiRequest, count_tokens_body, translate, translate_count};
pub use self::stream::GeminiEncoder;

#[cfg(test)]
mod tests;
