//! The two services that serve the `generateContent` API, where they differ.

/// Which of Google's two services a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::adapters) enum Flavour {
    /// generativelanguage.googleapis.com. It has a Files API and pairs calls with responses by id.
    AiStudio,
    /// aiplatform.googleapis.com. It refuses ids of calls and responses.
    Vertex,
}
