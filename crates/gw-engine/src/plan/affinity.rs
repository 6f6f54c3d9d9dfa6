//! Recognises conversations, so that the next turn can go to the provider that has the prompt in its cache.

use std::hash::{DefaultHasher, Hash, Hasher};

use gw_wire::json::View;

use crate::auth::Caller;
use crate::request::ValidatedRequest;

/// A conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation {
    /// A digest of the key, the model and the messages up to the first one of the user. It only guides routing, so two
    /// conversations that begin alike may share it.
    pub(crate) id: u64,
    /// An assistant message exists. The first request of a conversation finds nothing in a prompt cache.
    pub(crate) goes_on: bool,
}

/// The conversation of a chat request; None for other requests.
pub(crate) fn conversation(caller: &Caller, request: &ValidatedRequest) -> Option<Conversation> {
    let ValidatedRequest::Chat(request) = request else { return None };
    let mut hasher = DefaultHasher::new();
    caller.key_id().hash(&mut hasher);
    request.model.hash(&mut hasher);
    let mut messages = request.body.view("messages")?.elements();
    loop {
        let message = messages.next()?;
        message.text().hash(&mut hasher);
        if is_of(message, "user") {
            break;
        }
    }
    Some(Conversation { id: hasher.finish(), goes_on: messages.any(|message| is_of(message, "assistant")) })
}

fn is_of(message: View<'_>, role: &str) -> bool {
    let is_role = |name: View<'_>| name.string().is_some_and(|name| name == "role");
    let mut members = message.members();
    let said = members.find(|(name, _)| is_role(*name)).and_then(|(_, value)| value.string());
    said.is_some_and(|said| said == role)
}
