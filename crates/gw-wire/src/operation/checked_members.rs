//! The members of a body that the parser of each operation checks as a whole, sorted.

/// The members that a text completion checks.
pub(super) const CHECKED_BY_COMPLETIONS: [&str; 21] = [
    "best_of",
    "cache",
    "echo",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "model",
    "n",
    "presence_penalty",
    "prompt",
    "response_format",
    "routing",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "suffix",
    "temperature",
    "top_p",
    "user",
];

/// The members that embeddings check. `cache` and `routing` are never forwarded.
pub(super) const CHECKED_BY_EMBEDDINGS: [&str; 7] =
    ["cache", "dimensions", "encoding_format", "input", "model", "routing", "user"];

/// The members that a rerank checks. No other member is forwarded.
pub(super) const CHECKED_BY_RERANK: [&str; 12] = [
    "cache",
    "documents",
    "max_tokens_per_doc",
    "model",
    "query",
    "return_documents",
    "routing",
    "stream",
    "top_k",
    "top_n",
    "truncation",
    "user",
];

/// The members that a score checks. No other member is forwarded.
pub(super) const CHECKED_BY_SCORE: [&str; 12] = [
    "cache",
    "data_1",
    "data_2",
    "documents",
    "items",
    "model",
    "queries",
    "routing",
    "stream",
    "text_1",
    "text_2",
    "user",
];

/// The members that a moderation checks. No other member is forwarded.
pub(super) const CHECKED_BY_MODERATION: [&str; 6] = ["cache", "input", "model", "routing", "stream", "user"];

/// The members that a request for images checks. No other member is forwarded.
pub(super) const CHECKED_BY_IMAGES: [&str; 17] = [
    "background",
    "cache",
    "input_fidelity",
    "model",
    "moderation",
    "n",
    "output_compression",
    "output_format",
    "partial_images",
    "prompt",
    "quality",
    "response_format",
    "routing",
    "size",
    "stream",
    "style",
    "user",
];

/// The members that a request for speech checks. No other member is forwarded.
pub(super) const CHECKED_BY_SPEECH: [&str; 11] = [
    "cache",
    "input",
    "instructions",
    "model",
    "response_format",
    "routing",
    "speed",
    "stream",
    "stream_format",
    "user",
    "voice",
];

/// The fields that a transcription checks.
pub(super) const CHECKED_BY_TRANSCRIPTIONS: [&str; 14] = [
    "cache",
    "chunking_strategy",
    "include",
    "known_speaker_names",
    "known_speaker_references",
    "language",
    "model",
    "prompt",
    "response_format",
    "routing",
    "stream",
    "temperature",
    "timestamp_granularities",
    "user",
];

/// The members that the handshake of a realtime session checks. They come from its URL and its headers.
pub(super) const CHECKED_BY_REALTIME: [&str; 4] = ["is_beta", "model", "routing", "user"];
