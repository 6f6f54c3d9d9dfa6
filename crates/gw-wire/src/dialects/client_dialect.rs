//! The names of the APIs that clients speak.

/// The API that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientDialect {
    /// OpenAI's chat completions, completions and embeddings.
    OpenAi,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Messages,
    /// Google's Gemini API.
    Gemini,
}
