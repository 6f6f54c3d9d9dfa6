//! The conversation as alternating user and assistant turns, with tool results right after their calls, for providers that
//! demand this order.

use std::borrow::Cow;
use std::collections::HashMap;

use super::message::{Message, Part, PastToolCall, Role};

/// One turn: consecutive messages of one side. System messages belong to no turn.
#[derive(Clone, Debug)]
pub enum Turn<'m, 'a> {
    /// Tool results first, in the order of the calls that they answer, then the user's content.
    User(Vec<UserItem<'m, 'a>>),
    /// One or more assistant messages in a row.
    Assistant(Vec<&'m Message<'a>>),
}

/// A piece of a user turn.
#[derive(Clone, Debug)]
pub enum UserItem<'m, 'a> {
    /// The result of a tool call.
    Result {
        /// The id of the call, as the client wrote it.
        id: &'m str,
        /// The name of the called function, empty when unknown.
        name: &'m str,
        /// The message with the result; None when the client left it out.
        message: Option<&'m Message<'a>>,
    },
    /// A part of the user's content, or of a tool result without a matching call.
    Part(Cow<'m, Part<'a>>),
}

/// Groups messages into turns. A call without a result gets an empty result, because providers would refuse the
/// conversation. A result without a call in the previous turn becomes user content, so that it is not lost.
pub(super) fn turns<'m, 'a>(messages: &'m [Message<'a>]) -> Vec<Turn<'m, 'a>> {
    let mut turns: Vec<Turn<'m, 'a>> = Vec::new();
    let mut at = messages.iter().filter(|message| message.role != Role::System).peekable();
    let mut calls: Vec<&'m PastToolCall<'a>> = Vec::new();
    while let Some(first) = at.next() {
        let is_assistant = first.role == Role::Assistant;
        let mut group = vec![first];
        while let Some(next) = at.next_if(|next| (next.role == Role::Assistant) == is_assistant) {
            group.push(next);
        }
        if is_assistant {
            calls = group.iter().flat_map(|message| &message.tool_calls).collect();
            turns.push(Turn::Assistant(group));
        } else {
            turns.push(Turn::User(user(&group, &calls)));
            calls.clear();
        }
    }
    if !calls.is_empty() {
        turns.push(Turn::User(user(&[], &calls)));
    }
    turns
}

fn user<'m, 'a>(group: &[&'m Message<'a>], calls: &[&'m PastToolCall<'a>]) -> Vec<UserItem<'m, 'a>> {
    let mut items = Vec::with_capacity(group.len() + calls.len());
    let mut results = Results::new(if calls.is_empty() { &[] } else { group });
    for call in calls {
        let message = results.take(&call.id).and_then(|position| group.get(position)).copied();
        items.push(UserItem::Result { id: &call.id, name: &call.name, message });
    }
    for (position, message) in group.iter().enumerate() {
        if !results.is_taken(position) {
            items.extend(message.parts.iter().map(|part| UserItem::Part(Cow::Borrowed(part))));
        }
    }
    items
}

/// The results of one turn by the id of the call that they answer. Results with the same id are taken in order, each
/// once.
struct Results<'m> {
    /// The position of the first result of each id that has not been taken.
    first: HashMap<&'m str, usize>,
    /// For each result, the position of the next result with the same id.
    next: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl<'m> Results<'m> {
    fn new(group: &[&'m Message<'_>]) -> Self {
        let mut first = HashMap::with_capacity(group.len());
        let mut next = vec![None; group.len()];
        for ((position, message), next) in group.iter().enumerate().zip(&mut next).rev() {
            if message.role == Role::Tool {
                *next = first.insert(&*message.tool_call_id, position);
            }
        }
        Self { first, next, taken: vec![false; group.len()] }
    }

    fn take(&mut self, id: &str) -> Option<usize> {
        let position = *self.first.get(id)?;
        match self.next.get(position).copied().flatten() {
            Some(next) => *self.first.get_mut(id)? = next,
            None => drop(self.first.remove(id)),
        }
        if let Some(taken) = self.taken.get_mut(position) {
            *taken = true;
        }
        Some(position)
    }

    fn is_taken(&self, position: usize) -> bool {
        self.taken.get(position).copied().unwrap_or(false)
    }
}
