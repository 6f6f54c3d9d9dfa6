//! The conversation as providers with strict rules want it: user and assistant in turn, results right behind their calls.

use std::borrow::Cow;
use std::collections::HashSet;

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
    let mut used = HashSet::new();
    let answer = |id: &str, used: &HashSet<usize>| {
        group.iter().enumerate().find(|(position, message)| {
            message.role == Role::Tool && message.tool_call_id == id && !used.contains(position)
        })
    };
    for call in calls {
        let found = answer(&call.id, &used);
        if let Some((position, _)) = found {
            used.insert(position);
        }
        let message = found.map(|(_, message)| *message);
        items.push(UserItem::Result { id: &call.id, name: &call.name, message });
    }
    for (position, message) in group.iter().enumerate() {
        if !used.contains(&position) {
            items.extend(message.parts.iter().map(|part| UserItem::Part(Cow::Borrowed(part))));
        }
    }
    items
}
