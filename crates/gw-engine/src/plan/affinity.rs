//! Which conversation a request belongs to, so that its next turn can go where its prompt is cached.

use std::hash::{DefaultHasher, Hash, Hasher};

use gw_wire::json::View;

use crate::auth::Caller;
use crate::request::ValidatedRequest;

/// A conversation, and whether this request goes on with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation {
    /// A digest of who asks, for which model, and how it begins: everything up to the first word of the user. It only
    /// guides routing, so that two conversations that begin alike may share it.
    pub(crate) id: u64,
    /// Somebody has answered already. A first request has nothing in any cache, however often it is sent.
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
