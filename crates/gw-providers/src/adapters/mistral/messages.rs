//! Messages for Mistral's validator: known members only, unique ids of nine letters and digits, and an accepted order of
//! roles.
//!
//! The order is that of `mistral-common` (`_validate_message_order`). The API answers others with
//! `invalid_request_message_order` (code 3230). A system message comes first or after a user's message, and an
//! assistant's message comes between a tool's result and the user. The newest release no longer requires that message,
//! but accepts it.

use std::borrow::Cow;

use gw_wire::conversation::{Content, Conversation, Message, Part, Role, Source, alphanumeric_id};
use gw_wire::failure::Failure;
use gw_wire::json::{ObjectWriter, View, write_object};

use crate::adapters::call_ids::PairedIds;
use crate::adapters::native::unsupported;
use crate::adapters::replay;
use crate::adapters::replay::order::{ReplayedBlock, arrange, has_reasoning};

/// The text of the assistant's message that is inserted between a tool's result and the user.
const INSERTED_ANSWER: &str = "OK.";

/// The messages, and the warnings about changes.
pub(super) struct MistralMessages {
    /// JSON text.
    pub(super) json: Vec<u8>,
    pub(super) warnings: Vec<Cow<'static, str>>,
}

/// A member of an object, unless it is null.
pub(super) fn member<'a>(object: View<'a>, name: &str) -> Option<View<'a>> {
    let [found] = object.pick([name]);
    found
}

/// Writes the messages. `reasons`: the model reasons, so it gets its earlier reasoning.
pub(super) fn prepare(conversation: &Conversation<'_>, reasons: bool) -> Result<MistralMessages, Failure> {
    let messages = &conversation.messages;
    let ids = PairedIds::new(alphanumeric_id);
    let mut out =
        MessageWriter { out: vec![b'['], ids, last: None, has_inserted: false, has_discarded: false };
    let late = messages.windows(2).any(|pair| {
        matches!(pair, [before, system] if system.role == Role::System && matches!(before.role, Role::Assistant | Role::Tool))
    });
    let (first, rest): (Vec<_>, Vec<_>) =
        messages.iter().partition(|message| late && message.role == Role::System);
    // A last message of the assistant must be marked as the beginning of the answer.
    let last = messages.iter().rposition(|message| !says_nothing(message));
    let last = last
        .and_then(|last| messages.get(last))
        .filter(|last| last.role == Role::Assistant && last.tool_calls.is_empty());
    for message in first.into_iter().chain(rest) {
        let is_prefix = last.is_some_and(|last| std::ptr::eq(last, message));
        out.message(message, reasons, is_prefix)?;
    }
    out.out.push(b']');
    let inserted = out.has_inserted.then_some(Cow::Borrowed("message_added:assistant"));
    let discarded = out.has_discarded.then_some(Cow::Borrowed(replay::DROPPED));
    Ok(MistralMessages { json: out.out, warnings: inserted.into_iter().chain(discarded).collect() })
}

/// Whether this is an empty message of the assistant, which Mistral refuses.
fn says_nothing(message: &Message<'_>) -> bool {
    let says = message.parts.iter().any(|part| !is_empty(part));
    message.role == Role::Assistant && !says && message.tool_calls.is_empty()
}

struct MessageWriter<'c> {
    out: Vec<u8>,
    /// The ids of all calls. Mistral refuses two calls of one id ("Duplicate tool call id in assistant message", code 3230).
    ids: PairedIds<'c>,
    last: Option<Role>,
    has_inserted: bool,
    /// Reasoning was left out, because the model does not reason.
    has_discarded: bool,
}

impl<'c> MessageWriter<'c> {
    fn message(&mut self, message: &'c Message<'_>, reasons: bool, prefix: bool) -> Result<(), Failure> {
        let thought = message.reasoning.as_deref().filter(|text| reasons && !text.is_empty());
        let says = message.parts.iter().any(|part| !is_empty(part));
        self.has_discarded |= !reasons && has_reasoning(message);
        if says_nothing(message) {
            return Ok(());
        }
        if message.role == Role::User && self.last == Some(Role::Tool) {
            self.has_inserted = true;
            self.begin(Role::Assistant, |bridge| {
                bridge.string("content", INSERTED_ANSWER);
                Ok(())
            })?;
        }
        let ids = self.ids.of_message(message);
        self.begin(message.role, |written| {
            match message.role {
                Role::System | Role::User => content(written, &message.parts, None)?,
                Role::Tool => {
                    written.string("tool_call_id", &ids.result);
                    if let Some(name) = ids.name {
                        written.string("name", name);
                    }
                    content(written, &message.parts, None)?;
                }
                Role::Assistant => {
                    if let Some(pieces) = arrange(message).filter(|_| reasons) {
                        written.array("content", pieces.iter().filter_map(chunk_of_piece), write_chunk);
                    } else if says || thought.is_some() {
                        content(written, &message.parts, thought)?;
                    }
                    calls(written, message, &ids.calls);
                    if prefix {
                        written.boolean("prefix", true);
                    }
                }
            }
            Ok(())
        })
    }

    fn begin(
        &mut self,
        role: Role,
        write: impl FnOnce(&mut ObjectWriter<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.last.is_some() {
            self.out.push(b',');
        }
        self.last = Some(role);
        let mut written = Ok(());
        write_object(&mut self.out, |message| {
            let role = match role {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
            };
            message.string("role", role);
            written = write(message);
        });
        written
    }
}

fn is_empty(part: &Part<'_>) -> bool {
    matches!(&part.content, Content::Text(text) | Content::Refusal(text) if text.is_empty())
}

fn calls(message: &mut ObjectWriter<'_>, of: &Message<'_>, ids: &[String]) {
    if of.tool_calls.is_empty() {
        return;
    }
    message.array("tool_calls", of.tool_calls.iter().zip(ids), |out, (call, id)| {
        write_object(out, |entry| {
            entry.string("id", id);
            entry.string("type", "function");
            entry.object("function", |function| {
                function.string("name", &call.name);
                let arguments = if call.arguments.is_empty() { "{}" } else { &*call.arguments };
                function.string("arguments", arguments);
            });
        });
    });
}

/// Writes `content`: a string for a single text, otherwise a list of chunks.
fn content(message: &mut ObjectWriter<'_>, parts: &[Part<'_>], thought: Option<&str>) -> Result<(), Failure> {
    if thought.is_none() {
        match parts {
            [] => {
                message.string("content", "");
                return Ok(());
            }
            [Part { content: Content::Text(text) | Content::Refusal(text), .. }] => {
                message.string("content", text);
                return Ok(());
            }
            _ => {}
        }
    }
    let mut fault = None;
    let chunks = thought.map(ContentChunk::Thought).into_iter().chain(parts.iter().map(ContentChunk::Part));
    message.array("content", chunks, |out, chunk| match chunk {
        ContentChunk::Thought(_) | ContentChunk::Text(_) => write_chunk(out, chunk),
        ContentChunk::Part(part) => write_object(out, |entry| {
            if let Err(failure) = chunk_of(entry, &part.content) {
                fault.get_or_insert(failure);
            }
        }),
    });
    fault.map_or(Ok(()), Err)
}

#[derive(Clone, Copy)]
enum ContentChunk<'p, 'a> {
    Thought(&'p str),
    Text(&'p str),
    Part(&'p Part<'a>),
}

/// The chunk of a block. Calls are written elsewhere.
fn chunk_of_piece<'p>(piece: &ReplayedBlock<'p, '_>) -> Option<ContentChunk<'p, 'p>> {
    match piece {
        ReplayedBlock::Text(text) => Some(ContentChunk::Text(text)),
        ReplayedBlock::Thought(text) => Some(ContentChunk::Thought(text)),
        ReplayedBlock::Plan(_)
        | ReplayedBlock::Detail(_)
        | ReplayedBlock::Signature(_)
        | ReplayedBlock::Image(_)
        | ReplayedBlock::Call(_) => None,
    }
}

fn write_chunk(out: &mut Vec<u8>, chunk: ContentChunk<'_, '_>) {
    write_object(out, |entry| match chunk {
        ContentChunk::Thought(text) => {
            entry.string("type", "thinking");
            entry.array("thinking", [text], |out, text| {
                write_object(out, |piece| {
                    piece.string("type", "text");
                    piece.string("text", text);
                });
            });
        }
        ContentChunk::Text(text) => {
            entry.string("type", "text");
            entry.string("text", text);
        }
        ContentChunk::Part(_) => {}
    });
}

fn chunk_of(entry: &mut ObjectWriter<'_>, content: &Content<'_>) -> Result<(), Failure> {
    match content {
        Content::Text(text) | Content::Refusal(text) => {
            entry.string("type", "text");
            entry.string("text", text);
        }
        Content::Image(source) => {
            entry.string("type", "image_url");
            entry.string("image_url", &address(source, "image/png"));
        }
        Content::File { source: Source::Id(id), .. } if id.is_empty() => {
            return Err(unsupported("Invalid 'messages': a file has neither data nor an id."));
        }
        Content::File { source: Source::Id(id), .. } => {
            entry.string("type", "file");
            entry.string("file_id", id);
        }
        Content::File { source, name } => {
            entry.string("type", "document_url");
            entry.string("document_url", &address(source, "application/pdf"));
            if let Some(name) = name {
                entry.string("document_name", name);
            }
        }
        Content::Audio { data, .. } => {
            entry.string("type", "input_audio");
            entry.string("input_audio", data);
        }
    }
    Ok(())
}

/// The address of a source. Data becomes a data URL.
fn address<'s>(source: &'s Source<'_>, otherwise: &str) -> Cow<'s, str> {
    match source {
        Source::Url(url) | Source::Id(url) => Cow::Borrowed(url),
        Source::Data { media_type, base64 } => {
            let media_type = if media_type.is_empty() { otherwise } else { media_type };
            Cow::Owned(format!("data:{media_type};base64,{base64}"))
        }
    }
}
