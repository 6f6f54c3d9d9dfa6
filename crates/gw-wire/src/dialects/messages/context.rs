//! The parts of a request that its answer needs.

use std::fmt;
use std::sync::Arc;

use crate::json::View;

/// Whether the client gets thinking blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingDisplay {
    /// With their text.
    #[default]
    Shown,
    /// Without their text, but with their signatures (`display: "omitted"`).
    Omitted,
    /// The client turned thinking off.
    Hidden,
}

/// The parts of a Messages request that its answer needs.
#[derive(Clone, Debug, Default)]
pub struct MessagesContext {
    /// The answer leaves out `gateway` and `cost_usd` (`x-gateway-plain: true`).
    pub plain: bool,
    /// Whether the client gets thinking blocks.
    pub thinking: ThinkingDisplay,
    /// The stop sequences that the chat request does not hold. The answer is cut where one of them begins.
    pub extra_stops: Arc<[String]>,
    /// The stop sequences that the chat request holds. The upstream may report which of them ended the answer.
    pub sent_stops: Arc<[String]>,
    /// `max_tokens` is 0: the request only fills a provider's prompt cache. Elsewhere the answer is an empty message
    /// without an upstream call.
    pub warms_cache: bool,
    /// `metadata.user_id` as the client wrote it.
    pub user_id: Option<String>,
    /// Receives the id of the answer, if an upstream that speaks the Messages API made it.
    pub answer_ids: AnswerIds,
}

type IdListener = dyn Fn(&str) + Send + Sync;

/// A listener for the ids of answers.
#[derive(Clone, Default)]
pub struct AnswerIds(Option<Arc<IdListener>>);

impl AnswerIds {
    /// Calls `listener` with each id.
    #[must_use]
    pub fn new(listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Tells the id of a message.
    pub(super) fn tell(&self, message: View<'_>) {
        let Some(listener) = &self.0 else { return };
        let [id] = message.pick(["id"]);
        if let Some(id) = id.and_then(View::string) {
            listener(&id);
        }
    }
}

impl fmt::Debug for AnswerIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerIds").field(&self.0.is_some()).finish()
    }
}

impl MessagesContext {
    /// Leaves out the gateway's own members of the answer.
    #[must_use]
    pub fn with_plain(self, plain: bool) -> Self {
        Self { plain, ..self }
    }
}
