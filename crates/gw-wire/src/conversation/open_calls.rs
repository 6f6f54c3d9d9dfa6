//! Results for calls that the client left without one, for providers that take messages in the client's order and demand a result
//! behind each call.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use super::message::{Content, Message, Part, Role};

/// The text for a result that the client left out.
pub const MISSING_RESULT: &str = "(no result)";

/// Puts the result of each call right behind the message of the call, and makes one up where there is none. Messages that are in order
/// stay as they are.
pub(super) fn answer(messages: &mut Vec<Message<'_>>) {
    if is_answered(messages) {
        return;
    }
    let mut rest = std::mem::take(messages).into_iter().peekable();
    while let Some(first) = rest.next() {
        if first.tool_calls.is_empty() {
            messages.push(first);
            continue;
        }
        let mut calling = vec![first];
        while let Some(next) = rest.next_if(|next| next.role == Role::Assistant) {
            calling.push(next);
        }
        let mut others = Vec::new();
        while let Some(next) = rest.next_if(|next| next.role != Role::Assistant) {
            others.push(Some(next));
        }
        answer_turn(calling, others, messages);
    }
}

/// Whether the messages right behind each message with calls have a result for each of them.
fn is_answered(messages: &[Message<'_>]) -> bool {
    messages.iter().enumerate().filter(|(_, message)| !message.tool_calls.is_empty()).all(|(at, message)| {
        let mut results: HashMap<&str, usize> = HashMap::new();
        let behind = messages.iter().skip(at + 1).take_while(|next| next.role == Role::Tool);
        behind.for_each(|result| *results.entry(&result.tool_call_id).or_default() += 1);
        message.tool_calls.iter().all(|call| {
            let left = results.get_mut(&*call.id).filter(|left| **left > 0);
            left.is_some_and(|left| {
                *left -= 1;
                true
            })
        })
    })
}

/// Writes one or more messages of the assistant with their results, and the other messages up to its next one.
fn answer_turn<'a>(
    calling: Vec<Message<'a>>,
    mut others: Vec<Option<Message<'a>>>,
    out: &mut Vec<Message<'a>>,
) {
    let mut results: HashMap<Cow<'a, str>, VecDeque<usize>> = HashMap::new();
    for (at, result) in others.iter().enumerate() {
        if let Some(result) = result.as_ref().filter(|message| message.role == Role::Tool) {
            results.entry(result.tool_call_id.clone()).or_default().push_back(at);
        }
    }
    for message in calling {
        let calls: Vec<_> =
            message.tool_calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
        out.push(message);
        for (id, name) in calls {
            let at = results.get_mut(&id).and_then(VecDeque::pop_front);
            let own = at.and_then(|at| others.get_mut(at)).and_then(Option::take);
            out.push(own.unwrap_or_else(|| missing(id, name)));
        }
    }
    out.extend(others.into_iter().flatten());
}

fn missing<'a>(tool_call_id: Cow<'a, str>, name: Cow<'a, str>) -> Message<'a> {
    let text = Content::Text(Cow::Borrowed(MISSING_RESULT));
    Message {
        role: Role::Tool,
        parts: vec![Part { content: text, cache_control: None }],
        tool_calls: Vec::new(),
        tool_call_id,
        name: Some(name),
        reasoning: None,
        images: Vec::new(),
        reasoning_details: Vec::new(),
    }
}
