//! The operations on models, one row each: where they are called, and their names in the ledger, reports, metrics, spans
//! and keys of the response cache.

mod checked_members;

use self::checked_members::{
    CHECKED_BY_COMPLETIONS, CHECKED_BY_EMBEDDINGS, CHECKED_BY_IMAGES, CHECKED_BY_MODERATION,
    CHECKED_BY_REALTIME, CHECKED_BY_RERANK, CHECKED_BY_SCORE, CHECKED_BY_SPEECH, CHECKED_BY_TRANSCRIPTIONS,
};

/// An operation on a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An operation of OpenAI's older APIs.
    Plain(PlainOperation),
    /// Anthropic's Messages API.
    Messages,
    /// OpenAI's Responses API.
    Responses,
    /// A request on a pass-through route, which goes upstream as the client wrote it.
    Passthrough,
    /// Google's Gemini API.
    Gemini,
}

/// An operation whose body needs no translation: a provider with OpenAI's dialect gets it with small edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainOperation {
    /// A chat completion. Other APIs are translated into it.
    Chat,
    /// A text completion.
    Completion,
    /// Embeddings.
    Embeddings,
    /// A ranking of documents by a query.
    Rerank,
    /// The relevance of pairs of texts.
    Score,
    /// The judgement of texts and images by categories, such as violence.
    Moderation,
    /// The generation of images.
    Images,
    /// The speech of a text.
    Speech,
    /// The text of a recording.
    Transcription,
    /// The text of a recording, in English.
    Translation,
    /// A session of speech and text over a WebSocket.
    Realtime,
}

/// The facts about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationRow {
    /// The path of its URL.
    pub path: &'static str,
    /// Other paths that lead to it.
    pub aliases: &'static [&'static str],
    /// The name in the ledger, in metrics and as `gateway.operation`.
    pub name: &'static str,
    /// The name in reports and in their filters.
    pub surface: &'static str,
    /// `gen_ai.operation.name` of OpenTelemetry's conventions.
    pub semantic_name: &'static str,
    /// The name in the key of a cached answer. Another name makes every kept answer unknown.
    pub cache_name: &'static str,
    /// The beginning of an answer's id.
    pub id_prefix: &'static str,
    /// The rest of the id has hyphens.
    pub has_hyphens_in_id: bool,
    /// A request has one of these members, and a request of another operation has none of them.
    pub prompt_members: &'static [&'static str],
    /// The members with the client's text, which a stored message of an upstream must not quote.
    pub text_members: &'static [&'static str],
    /// The members that its parser checks as a whole, sorted. An operation without the list checks every member that it knows.
    pub checked_members: Option<&'static [&'static str]>,
    /// The models that serve it, if they are not those that write a text.
    pub category: Option<ModelCategory>,
    /// The model writes a text, whose length is not known before. Otherwise the tokens of the prompt are all that it
    /// costs, and the answer has no `gateway` object.
    pub writes_text: bool,
}

/// A category of models that do not write a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCategory {
    /// The name in the catalogue.
    pub name: &'static str,
    /// The name of such a model in a message.
    pub noun: &'static str,
}

const CHAT: OperationRow = OperationRow {
    path: "/v1/chat/completions",
    aliases: &[],
    name: "chat",
    surface: "chat",
    semantic_name: "chat",
    cache_name: "chat",
    id_prefix: "chatcmpl-",
    has_hyphens_in_id: true,
    prompt_members: &["messages"],
    text_members: &["messages", "prompt", "input", "suffix"],
    checked_members: None,
    category: None,
    writes_text: true,
};

const SPEECH: OperationRow = OperationRow {
    path: "/v1/audio/speech",
    name: "speech",
    surface: "speech",
    semantic_name: "speech",
    cache_name: "speech",
    id_prefix: "speech-",
    prompt_members: &["input"],
    text_members: &["input", "instructions"],
    checked_members: Some(&CHECKED_BY_SPEECH),
    category: Some(ModelCategory { name: "speech", noun: "a speech model" }),
    writes_text: false,
    ..CHAT
};

const TRANSCRIPTION: OperationRow = OperationRow {
    path: "/v1/audio/transcriptions",
    name: "transcription",
    surface: "transcriptions",
    semantic_name: "transcription",
    cache_name: "transcription",
    id_prefix: "trans-",
    prompt_members: &[],
    text_members: &["prompt"],
    checked_members: Some(&CHECKED_BY_TRANSCRIPTIONS),
    category: Some(ModelCategory { name: "transcription", noun: "a transcription model" }),
    writes_text: false,
    ..CHAT
};

const TRANSLATION: OperationRow = OperationRow {
    path: "/v1/audio/translations",
    name: "translation",
    surface: "translations",
    semantic_name: "translation",
    cache_name: "translation",
    ..TRANSCRIPTION
};

const REALTIME: OperationRow = OperationRow {
    path: "/v1/realtime",
    name: "realtime",
    surface: "realtime",
    semantic_name: "realtime",
    cache_name: "realtime",
    id_prefix: "rt_",
    prompt_members: &[],
    text_members: &[],
    checked_members: Some(&CHECKED_BY_REALTIME),
    category: Some(ModelCategory { name: "realtime", noun: "a realtime model" }),
    writes_text: false,
    ..CHAT
};

const RERANK: OperationRow = OperationRow {
    path: "/v1/rerank",
    aliases: &["/rerank", "/v2/rerank"],
    name: "rerank",
    surface: "rerank",
    semantic_name: "rerank",
    cache_name: "rerank",
    id_prefix: "rerank-",
    prompt_members: &["query"],
    text_members: &["query", "documents"],
    checked_members: Some(&CHECKED_BY_RERANK),
    category: Some(ModelCategory { name: "rerank", noun: "a rerank model" }),
    writes_text: false,
    ..CHAT
};

impl PlainOperation {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Chat,
        Self::Completion,
        Self::Embeddings,
        Self::Rerank,
        Self::Score,
        Self::Moderation,
        Self::Images,
        Self::Speech,
        Self::Transcription,
        Self::Translation,
        Self::Realtime,
    ];

    /// The facts about the operation.
    #[must_use]
    pub const fn row(self) -> &'static OperationRow {
        match self {
            Self::Chat => &CHAT,
            Self::Completion => &OperationRow {
                path: "/v1/completions",
                name: "completion",
                surface: "completions",
                semantic_name: "text_completion",
                cache_name: "completion",
                id_prefix: "cmpl-",
                prompt_members: &["prompt"],
                checked_members: Some(&CHECKED_BY_COMPLETIONS),
                ..CHAT
            },
            Self::Embeddings => &OperationRow {
                path: "/v1/embeddings",
                name: "embeddings",
                surface: "embeddings",
                semantic_name: "embeddings",
                cache_name: "embedding",
                id_prefix: "cmpl-",
                prompt_members: &["input"],
                checked_members: Some(&CHECKED_BY_EMBEDDINGS),
                category: Some(ModelCategory { name: "embedding", noun: "an embedding model" }),
                writes_text: false,
                ..CHAT
            },
            Self::Rerank => &RERANK,
            Self::Score => &OperationRow {
                path: "/v1/score",
                aliases: &["/score"],
                name: "score",
                surface: "score",
                semantic_name: "score",
                cache_name: "score",
                id_prefix: "score-",
                prompt_members: &["text_1", "queries", "data_1"],
                text_members: &["text_1", "text_2", "queries", "documents", "items", "data_1", "data_2"],
                checked_members: Some(&CHECKED_BY_SCORE),
                ..RERANK
            },
            Self::Moderation => &OperationRow {
                path: "/v1/moderations",
                name: "moderation",
                surface: "moderations",
                semantic_name: "moderation",
                cache_name: "moderation",
                id_prefix: "modr-",
                prompt_members: &["input"],
                checked_members: Some(&CHECKED_BY_MODERATION),
                category: Some(ModelCategory { name: "moderation", noun: "a moderation model" }),
                writes_text: false,
                ..CHAT
            },
            Self::Images => &OperationRow {
                path: "/v1/images/generations",
                name: "image_generation",
                surface: "images",
                semantic_name: "image_generation",
                cache_name: "image_generation",
                id_prefix: "img-",
                prompt_members: &["prompt"],
                text_members: &["prompt"],
                checked_members: Some(&CHECKED_BY_IMAGES),
                category: Some(ModelCategory { name: "image", noun: "an image model" }),
                writes_text: false,
                ..CHAT
            },
            Self::Speech => &SPEECH,
            Self::Transcription => &TRANSCRIPTION,
            Self::Translation => &TRANSLATION,
            Self::Realtime => &REALTIME,
        }
    }
}

impl Operation {
    /// All operations, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::Plain(PlainOperation::Chat),
        Self::Responses,
        Self::Messages,
        Self::Gemini,
        Self::Plain(PlainOperation::Completion),
        Self::Plain(PlainOperation::Embeddings),
        Self::Plain(PlainOperation::Rerank),
        Self::Plain(PlainOperation::Score),
        Self::Plain(PlainOperation::Moderation),
        Self::Plain(PlainOperation::Images),
        Self::Plain(PlainOperation::Speech),
        Self::Plain(PlainOperation::Transcription),
        Self::Plain(PlainOperation::Translation),
        Self::Plain(PlainOperation::Realtime),
        Self::Passthrough,
    ];

    /// The facts about the operation.
    #[must_use]
    pub const fn row(self) -> &'static OperationRow {
        match self {
            Self::Plain(plain) => plain.row(),
            Self::Messages => &OperationRow {
                path: "/v1/messages",
                name: "messages",
                surface: "messages",
                id_prefix: "msg_",
                has_hyphens_in_id: false,
                ..CHAT
            },
            Self::Responses => &OperationRow {
                path: "/v1/responses",
                name: "responses",
                surface: "responses",
                id_prefix: "resp_",
                has_hyphens_in_id: false,
                prompt_members: &["input"],
                ..CHAT
            },
            // The configuration has its URLs.
            Self::Passthrough => &OperationRow {
                path: "",
                name: "passthrough",
                surface: "passthrough",
                semantic_name: "passthrough",
                id_prefix: "",
                prompt_members: &[],
                ..CHAT
            },
            Self::Gemini => &OperationRow {
                path: "/v1beta/models/{id}:generateContent",
                name: "gemini",
                surface: "gemini",
                semantic_name: "generate_content",
                id_prefix: "gen_",
                has_hyphens_in_id: false,
                prompt_members: &["contents"],
                text_members: &["contents", "systemInstruction", "system_instruction", "content", "requests"],
                ..CHAT
            },
        }
    }

    /// The operation with this name in the ledger.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.row().name == name)
    }
}

impl From<PlainOperation> for Operation {
    fn from(plain: PlainOperation) -> Self {
        Self::Plain(plain)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_operation_has_a_row_with_names_of_its_own() {
        let columns: [fn(&OperationRow) -> &'static str; 3] =
            [|row| row.path, |row| row.name, |row| row.surface];
        for column in columns {
            let values: HashSet<_> = Operation::ALL.map(|operation| column(operation.row())).into();
            assert_eq!(values.len(), Operation::ALL.len());
        }
        for plain in PlainOperation::ALL {
            let row = plain.row();
            assert_eq!(Operation::named(row.name), Some(Operation::Plain(plain)));
            assert!(row.checked_members.is_none_or(|members| members.is_sorted()), "{}", row.name);
        }
    }
}
