//! The messages of a chat. Cohere has OpenAI's roles, ids and calls. Cohere calls the text beside tool calls `tool_plan`.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gw_wire::conversation::{Content, Conversation, Message, Part, Role, Source, split_thought};
use gw_wire::failure::Failure;
use gw_wire::json::{ObjectWriter, write_object};

use crate::adapters::call_ids::PairedIds;
use crate::adapters::native::unsupported;
use crate::adapters::replay::order::{self, arrange};
use crate::model_rules::{ModelRules, Thinks};

/// The messages as a JSON array, and the documents that were found in them.
pub(super) struct CohereMessages {
    /// The value of `messages`.
    pub(super) json: Vec<u8>,
    /// Entries of `documents`.
    pub(super) documents: Vec<Vec<u8>>,
}

/// An item of a message's content.
enum ContentItem<'m> {
    Text(&'m str),
    Thought(&'m str),
    Image(Cow<'m, str>),
}

/// Writes all messages. An assistant's message without text and calls is left out, because Cohere refuses it.
pub(super) fn write(conversation: &Conversation<'_>, rules: ModelRules) -> Result<CohereMessages, Failure> {
    let mut written = CohereMessages { json: vec![b'['], documents: Vec::new() };
    // Equal ids would leave open which call a result answers.
    let mut ids = PairedIds::new(own_id);
    for message in &conversation.messages {
        let pieces = pieces(message, &mut written.documents)?;
        if message.role == Role::Assistant && pieces.is_empty() && message.tool_calls.is_empty() {
            continue;
        }
        if written.json.len() > 1 {
            written.json.push(b',');
        }
        let ids = ids.of_message(message);
        let arranged = if message.role == Role::Assistant { arrange(message) } else { None };
        // A message has only one plan.
        let plans = |pieces: &Vec<order::ReplayedBlock<'_, '_>>| {
            pieces.iter().filter(|piece| matches!(piece, order::ReplayedBlock::Plan(_))).count()
        };
        if let Some(arranged) = arranged.filter(|pieces| plans(pieces) <= 1) {
            write_object(&mut written.json, |out| as_it_came(out, message, &arranged, &ids.calls));
            continue;
        }
        write_object(&mut written.json, |out| match message.role {
            Role::System => spoken(out, "system", &pieces),
            Role::User => spoken(out, "user", &pieces),
            Role::Assistant if message.tool_calls.is_empty() => spoken(out, "assistant", &pieces),
            Role::Assistant => calling(out, message, &pieces, rules, &ids.calls),
            Role::Tool => {
                out.string("role", "tool");
                out.string("tool_call_id", &ids.result);
                content(out, &pieces);
            }
        });
    }
    written.json.push(b']');
    Ok(written)
}

/// The id that the model gave to a call.
fn own_id(id: &str) -> Cow<'_, str> {
    Cow::Borrowed(split_thought(id).0)
}

fn spoken(out: &mut ObjectWriter<'_>, role: &str, pieces: &[ContentItem<'_>]) {
    out.string("role", role);
    content(out, pieces);
}

/// Writes `content`. A single text is written as a string, as most clients do.
fn content(out: &mut ObjectWriter<'_>, pieces: &[ContentItem<'_>]) {
    match pieces {
        [] => out.string("content", ""),
        [ContentItem::Text(text)] => out.string("content", text),
        pieces => {
            out.array("content", pieces, |out, piece| write_object(out, |part| write_piece(part, piece)))
        }
    }
}

fn write_piece(part: &mut ObjectWriter<'_>, piece: &ContentItem<'_>) {
    match piece {
        ContentItem::Text(text) => {
            part.string("type", "text");
            part.string("text", text);
        }
        ContentItem::Thought(text) => {
            part.string("type", "thinking");
            part.string("thinking", text);
        }
        ContentItem::Image(url) => {
            part.string("type", "image_url");
            part.object("image_url", |image| image.string("url", url));
        }
    }
}

/// Whether the reasoning of a message goes back: beside calls, to a model that reasons.
pub(super) fn sends_reasoning(message: &Message<'_>, rules: ModelRules) -> bool {
    let thinks = rules.is_declared_to_reason() || !matches!(rules.thinks, Thinks::Never | Thinks::Unknown);
    thinks && !message.tool_calls.is_empty()
}

/// Writes an assistant's message with calls. Its text is the plan.
fn calling(
    out: &mut ObjectWriter<'_>,
    message: &Message<'_>,
    pieces: &[ContentItem<'_>],
    rules: ModelRules,
    ids: &[String],
) {
    out.string("role", "assistant");
    let sends = sends_reasoning(message, rules);
    let thought = message.reasoning.as_deref().filter(|thought| sends && !thought.is_empty());
    if let Some(thought) = thought {
        out.array("content", [thought], |out, thought| {
            write_object(out, |part| {
                part.string("type", "thinking");
                part.string("thinking", thought);
            });
        });
    }
    let items = pieces.iter().filter_map(|piece| match piece {
        ContentItem::Text(text) => Some(*text),
        ContentItem::Thought(_) | ContentItem::Image(_) => None,
    });
    let plan: Vec<&str> = items.collect();
    if !plan.is_empty() {
        out.string("tool_plan", &plan.join("\n"));
    }
    calls(out, message, ids);
}

/// Writes an answer of Cohere's own as Cohere gave it (`content` may hold thoughts:
/// `ThinkingAssistantMessageV2ContentOneItem` of its SDK, read 2026-11-22).
fn as_it_came(
    out: &mut ObjectWriter<'_>,
    message: &Message<'_>,
    arranged: &[order::ReplayedBlock<'_, '_>],
    ids: &[String],
) {
    out.string("role", "assistant");
    let (mut items, mut has_text, mut is_plan_last) = (Vec::with_capacity(arranged.len()), false, false);
    for piece in arranged {
        match *piece {
            order::ReplayedBlock::Plan(plan) => {
                out.string("tool_plan", own(plan, has_text));
                is_plan_last = true;
            }
            order::ReplayedBlock::Text(text) => {
                items.push(ContentItem::Text(own(text, is_plan_last)));
                (has_text, is_plan_last) = (true, false);
            }
            order::ReplayedBlock::Thought(text) => items.push(ContentItem::Thought(text)),
            _ => {}
        }
    }
    if !items.is_empty() {
        out.array("content", items, |out, piece| write_object(out, |part| write_piece(part, &piece)));
    }
    if !message.tool_calls.is_empty() {
        calls(out, message, ids);
    }
}

/// The model's own text. The gateway put a line break between a plan and a text.
fn own(text: &str, has_break: bool) -> &str {
    text.strip_prefix('\n').filter(|_| has_break).unwrap_or(text)
}

fn calls(out: &mut ObjectWriter<'_>, message: &Message<'_>, ids: &[String]) {
    out.array("tool_calls", message.tool_calls.iter().zip(ids), |out, (call, id)| {
        write_object(out, |entry| {
            entry.string("id", id);
            entry.string("type", "function");
            entry.object("function", |function| {
                function.string("name", &call.name);
                let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
                function.string("arguments", arguments);
            });
        });
    });
}

fn pieces<'m>(
    message: &'m Message<'_>,
    documents: &mut Vec<Vec<u8>>,
) -> Result<Vec<ContentItem<'m>>, Failure> {
    let mut pieces = Vec::with_capacity(message.parts.len());
    for Part { content, .. } in &message.parts {
        match content {
            Content::Text(text) | Content::Refusal(text) if text.is_empty() => {}
            Content::Text(text) | Content::Refusal(text) => pieces.push(ContentItem::Text(text)),
            Content::Image(source) => pieces.push(ContentItem::Image(image(source)?)),
            Content::File { source, name } => documents.push(document(source, name.as_deref())?),
            Content::Audio { .. } => {
                return Err(unsupported("Invalid 'messages': this provider takes no audio."));
            }
        }
    }
    Ok(pieces)
}

fn image<'m>(source: &'m Source<'_>) -> Result<Cow<'m, str>, Failure> {
    match source {
        Source::Url(url) => Ok(Cow::Borrowed(url)),
        Source::Data { media_type, base64 } if media_type.starts_with("image/") => {
            Ok(Cow::Owned(format!("data:{media_type};base64,{base64}")))
        }
        Source::Data { .. } | Source::Id(_) => Err(unsupported(
            "Invalid 'messages': an image must be a data URL of an image type, or an address.",
        )),
    }
}

/// Converts a text file into a document. Cohere reads no other files.
fn document(source: &Source<'_>, name: Option<&str>) -> Result<Vec<u8>, Failure> {
    let refused = || unsupported("Invalid 'messages': this provider takes files of text only.");
    let Source::Data { media_type, base64 } = source else { return Err(refused()) };
    if !media_type.starts_with("text/") && media_type != "application/json" {
        return Err(refused());
    }
    let bytes = STANDARD.decode(base64.as_bytes()).map_err(|_| refused())?;
    let text = String::from_utf8(bytes).map_err(|_| refused())?;
    let mut out = Vec::with_capacity(text.len() + 64);
    write_object(&mut out, |document| {
        document.object("data", |data| {
            if let Some(name) = name {
                data.string("title", name);
            }
            data.string("text", &text);
        });
    });
    Ok(out)
}
