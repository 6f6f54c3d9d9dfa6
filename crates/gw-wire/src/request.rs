//! A client's generation request: read once, validated once, and kept as the received bytes with the facts found in them.
//!
//! The `parse_*` functions are the only constructors of the request types, so a value of such a type is always valid.

mod body;
pub mod chat;
pub mod completion;
mod continued;
pub mod embeddings;
pub mod encode;
pub mod fields;
mod folding;
pub mod form;
pub mod images;
mod invalid;
pub mod limits;
mod measure;
pub mod member_policy;
mod messages;
pub mod moderation;
pub mod native_policy;
mod needs;
mod options;
mod other_members;
mod realtime;
pub mod references;
pub mod rerank;
mod schemas;
pub mod score;
mod seed;
pub mod speech;
mod tools;
pub mod transcription;

pub use self::continued::CONTINUE_PROMPT;
pub use body::{Body, known_names as known_parameters, parse_members};
pub use chat::{ChatRequest, parse_chat};
pub use completion::{CompletionRequest, Prompt, parse_completion};
pub use embeddings::{EmbeddingsRequest, EncodingFormat, Inputs, parse_embeddings};
pub use images::{ImagesRequest, parse_images};
pub use invalid::Invalid;
pub use limits::RequestLimits;
pub use measure::{Detail, ForwardedPrompt, Medium, PromptExtras, image_size};
pub use member_policy::{AllowedMembers, GuardedMember, PRESET, Rule};
pub use moderation::{ModerationRequest, parse_moderation};
pub use needs::Needs;
pub use options::{CACHE_MODES, CacheOptions, Fallback, Routing};
pub use realtime::{RealtimeRequest, parse_realtime};
pub use references::References;
pub use rerank::{RerankRequest, parse_rerank};
pub use score::{ScoreRequest, parse_score};
pub use seed::seed_of_call;
pub use speech::{SpeechRequest, parse_speech};
pub use transcription::{TranscriptionRequest, parse_transcription};
