//! A stored response, and the facts about it.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;

use crate::clock::unix_seconds;
use crate::error::{Error, Kind};

/// A stored response. Debug output omits the texts, which must not reach a log.
#[derive(Clone, Default)]
pub struct StoredResponse {
    /// The response object, as the client got it.
    pub document: Bytes,
    /// The items of the request's `input`, each with an id, as one JSON list.
    pub input: Bytes,
    /// The items of the conversation before the request, as one JSON list. It is empty where `turn.parent` leads to them.
    pub history: Bytes,
    /// The place of the response in its conversation.
    pub turn: TurnFacts,
    /// Unix seconds.
    pub expires_at: u64,
    /// The response is made in the background, as its process reported until this moment (unix seconds). None = it has
    /// ended.
    pub running_until: Option<u64>,
    /// The permit for the memory of this copy. It is released when the copy is dropped.
    pub(super) held: Option<Arc<dyn Any + Send + Sync>>,
}

/// The text of a stored object.
pub(crate) fn text_of(document: &[u8]) -> &str {
    std::str::from_utf8(document).unwrap_or("null")
}

/// The error of a response that is not there.
pub(crate) fn missing(id: &str) -> Error {
    let id: String = id.chars().take(64).collect();
    Error::new(Kind::NotFound, format!("Response with id '{id}' not found."))
}

/// The reason for which a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseWrite {
    /// The response begins to run in the background. It is inserted.
    Begin,
    /// The response has ended in the background. It replaces the running response. If that response has already ended, nothing changes.
    Finish,
    /// The response has its answer. It is inserted, or replaces the one of its id.
    Save,
}

/// The place of a response in its conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnFacts {
    /// The response that it continues.
    pub parent: Option<String>,
    /// The events were sent with numbers that the document does not hold.
    pub is_streamed: bool,
    /// The size of the conversation up to its end.
    pub size: ConversationSize,
    /// Whether the response has not ended.
    pub is_running: bool,
}

/// The size of a conversation, as it counts towards the limits of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversationSize {
    /// The bytes of all items.
    pub bytes: u64,
    /// The number of items.
    pub items: u64,
    /// The JSON values in all items.
    pub values: u64,
    /// The number of responses.
    pub turns: u64,
}

impl ConversationSize {
    /// Both sizes together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            items: self.items.saturating_add(other.items),
            values: self.values.saturating_add(other.values),
            turns: self.turns.saturating_add(other.turns),
        }
    }
}

/// The facts about a stored response that are known before it is opened.
#[derive(Clone, Debug, Default)]
pub struct ResponseFacts {
    /// `resp_…`.
    pub id: String,
    /// Another number for each content.
    pub version: i64,
    /// The bytes of its own turn.
    pub bytes: u64,
    /// The size of the conversation up to its end.
    pub size: ConversationSize,
    /// Unix seconds.
    pub expires_at: u64,
    /// As in [`StoredResponse`].
    pub running_until: Option<u64>,
    /// Whether the response has not ended.
    pub is_running: bool,
}

impl ResponseFacts {
    /// Whether the process that makes the response reports nothing any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.running_until.is_some_and(|until| until <= unix_seconds())
    }

    /// The size of its own turn, whose number of items is not known.
    pub(super) fn own_size(&self) -> ConversationSize {
        ConversationSize { bytes: self.bytes, items: 0, values: 0, turns: 1 }
    }
}

impl std::fmt::Debug for StoredResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredResponse").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl StoredResponse {
    /// A response with its document, its input and its history.
    #[must_use]
    pub fn new([document, input, history]: [Bytes; 3], turn: TurnFacts, expires_at: u64) -> Self {
        Self { document, input, history, turn, expires_at, ..Self::default() }
    }

    /// The response with another object.
    #[must_use]
    pub fn with_document(&self, document: Bytes) -> Self {
        Self { document, ..self.clone() }
    }

    /// The bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.document.len() + self.input.len() + self.history.len()
    }

    /// The response object as text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.document).unwrap_or("null")
    }
}

/// The end of an attempt to store a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The response is stored.
    Stored,
    /// The response that it continues is gone, so nothing is stored.
    ParentGone,
    /// The response does not run any more, so nothing is stored.
    Ended,
    /// There is no room for it, so nothing is stored.
    TooLarge,
    /// The running responses of its key hold their share of the memory, so nothing is stored.
    OverShare,
}

/// The name of a key's response in the tables of this process. A key's id has no line break, so no other key reaches the
/// entry, whatever id it asks for.
pub(crate) fn entry_name(owner: &str, id: &str) -> String {
    format!("{owner}\n{id}")
}

/// The response of an item whose id the gateway made: `msg_{response}_{place}`.
pub(super) fn response_of(item: &str) -> Option<String> {
    let mut parts = item.split('_').skip(1);
    let (unique, place) = (parts.next()?, parts.next()?);
    let is_ours = unique.len() == 32 && unique.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_ours && place.bytes().all(|byte| byte.is_ascii_digit())).then(|| format!("resp_{unique}"))
}
