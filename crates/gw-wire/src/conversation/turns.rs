//! The conversation as providers with strict rules want it: user and assistant in turn, results right behind their calls.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Called, Message, Part, Role};

/// One turn. Messages of one side in a row are one turn; system messages are in none.
#[derive(Clone, Debug)]
pub enum Turn<'m, 'a> {
    /// Results of tools first, in the order of the calls they answer, then what the user said.
    User(Vec<UserItem<'m, 'a>>),
    /// One or more assistant messages in a row.
    Assistant(Vec<&'m Message<'a>>),
}

/// A piece of a user turn.
#[derive(Clone, Debug)]
pub enum UserItem<'m, 'a> {
    /// What a tool gave.
    Result {
        /// The id of the call that it answers, as the client wrote it.
        id: &'m str,
        /// The called function's name, "" when nobody knows it.
        name: &'m str,
        /// The result. None: the client left it out, and an answer is owed to every call.
        message: Option<&'m Message<'a>>,
    },
    /// A piece of what the user said, or the words of a tool that nobody had called.
    Part(Cow<'m, Part<'a>>),
}

/// Groups the messages. A call without a result gets an empty one, because providers refuse the whole conversation
/// otherwise; a result that answers no call of the turn before becomes the user's words, so that it is not lost.
pub(super) fn turns<'m, 'a>(messages: &'m [Message<'a>]) -> Vec<Turn<'m, 'a>> {
    let mut turns: Vec<Turn<'m, 'a>> = Vec::new();
    let mut at = messages.iter().filter(|message| message.role != Role::System).peekable();
    let mut calls: Vec<&'m Called<'a>> = Vec::new();
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

fn user<'m, 'a>(group: &[&'m Message<'a>], calls: &[&'m Called<'a>]) -> Vec<UserItem<'m, 'a>> {
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

/// The results of one turn by the id of the call that they answer. Of several results of one id each is taken once, in
/// order.
struct Results<'m> {
    /// The first result of an id that was not taken.
    first: HashMap<&'m str, usize>,
    /// By a result's position: the next result of the same id.
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
