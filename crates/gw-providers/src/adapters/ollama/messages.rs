//! The messages of a chat. Calls have ids, and results name them (`ToolCall.ID` and `Message.ToolCallID` in
//! `api/types.go` of ollama/ollama v0.33.0-rc2, August 2026, without a pattern). Older servers know no ids. They match
//! a result with a call by its position and the tool's name, so both are kept.

use std::collections::HashMap;

use gw_wire::conversation::{Content, Conversation, Message, Role, Source, split_thought};
use gw_wire::failure::Failure;
use gw_wire::json::{ObjectWriter, write_object};

use crate::adapters::native::{image_address, unsupported};

/// Writes `messages` as JSON.
pub(super) fn write(conversation: &Conversation<'_>) -> Result<Vec<u8>, Failure> {
    let mut out = vec![b'['];
    for message in in_order(&conversation.messages) {
        let images = images(message)?;
        if out.len() > 1 {
            out.push(b',');
        }
        write_object(&mut out, |entry| {
            entry.string("role", role(message.role));
            entry.string("content", &message.text());
            if !images.is_empty() {
                entry.strings("images", images);
            }
            if message.role == Role::Tool
                && let Some(name) = &message.name
            {
                entry.string("tool_name", name);
            }
            if message.role == Role::Tool && !message.tool_call_id.is_empty() {
                entry.string("tool_call_id", split_thought(&message.tool_call_id).0);
            }
            if message.role == Role::Assistant {
                assistant(entry, message);
            }
        });
    }
    out.push(b']');
    Ok(out)
}

/// The messages, with tool results in the order of their calls.
fn in_order<'m, 'a>(messages: &'m [Message<'a>]) -> Vec<&'m Message<'a>> {
    let mut ordered: Vec<&Message<'a>> = messages.iter().collect();
    // The position of each call in the last assistant message.
    let mut places: HashMap<&str, usize> = HashMap::new();
    for group in ordered.chunk_by_mut(|one, next| one.role == Role::Tool && next.role == Role::Tool) {
        match group {
            [message] if message.role == Role::Assistant => {
                places.clear();
                for (place, call) in message.tool_calls.iter().enumerate() {
                    places.entry(&*call.id).or_insert(place);
                }
            }
            group => group.sort_by_cached_key(|message| {
                places.get(&*message.tool_call_id).copied().unwrap_or(usize::MAX)
            }),
        }
    }
    ordered
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn assistant(entry: &mut ObjectWriter<'_>, message: &Message<'_>) {
    if let Some(thinking) = message.reasoning.as_deref().filter(|thinking| !thinking.is_empty()) {
        entry.string("thinking", thinking);
    }
    if message.tool_calls.is_empty() {
        return;
    }
    entry.array("tool_calls", &message.tool_calls, |out, call| {
        write_object(out, |entry| {
            entry.string("id", split_thought(&call.id).0);
            entry.object("function", |function| {
                function.string("name", &call.name);
                function.raw("arguments", call.arguments_object().as_bytes());
            });
        });
    });
}

/// The images of a message in base64.
fn images<'m>(message: &'m Message<'_>) -> Result<Vec<&'m str>, Failure> {
    const BY_ADDRESS: &str =
        "Invalid 'messages': this provider takes images as data URLs only, not by address.";
    let mut images = Vec::new();
    for part in &message.parts {
        match &part.content {
            Content::Text(_) | Content::Refusal(_) => {}
            Content::Image(Source::Data { base64, .. }) => images.push(&**base64),
            Content::Image(Source::Url(_)) => return Err(image_address(BY_ADDRESS)),
            Content::Image(Source::Id(_)) => return Err(unsupported(BY_ADDRESS)),
            Content::File { .. } => {
                return Err(unsupported("Invalid 'messages': this provider takes no files."));
            }
            Content::Audio { .. } => {
                return Err(unsupported("Invalid 'messages': this provider takes no audio."));
            }
        }
    }
    Ok(images)
}
