//! The turns of a conversation as Converse wants them: beginning with the user, strictly alternating, never blank. API
//! Reference, `Message`, `ContentBlock`.

use std::borrow::Cow;

use gw_wire::conversation::{
    Called, Content, Message as Said, Part, Source, Turn, UserItem, converse_id, word_id,
};
use gw_wire::failure::Failure;
use gw_wire::json::View;
use serde_json::value::RawValue;

use super::blocks::{
    Block, CachePoint, Document, Json, Media, Message, Role, Source as Bytes, ToolResult, ToolUse,
};
use super::reasoning;
use super::tools::written;
use crate::adapters::anthropic::messages::GO_ON;
use crate::adapters::native::unsupported;
use crate::adapters::replay::order::{ReplayedBlock, arrange};
use crate::adapters::unique_names::UniqueNames;
use crate::model_rules::ModelRules;

/// Stands where something must be said and nothing was: blank text is refused.
const NOTHING_SAID: &str = ".";
/// Stands for an empty result of a tool.
const NO_OUTPUT: &str = "(no output)";
/// Stands for a result that the client left out.
const NO_RESULT: &str = "(no result)";

/// The longest name of a document.
const LONGEST_NAME: usize = 200;

/// All turns, and whether one had to be added because a conversation begins with the user, or must end with the user
/// (`closed`). What cannot be said is a 400.
pub(super) fn messages<'t>(
    turns: &'t [Turn<'_, '_>],
    rules: ModelRules,
    closed: bool,
) -> Result<(Vec<Message<'t>>, bool), Failure> {
    let mut is_added = false;
    let mut writer = Writer { rules, names: UniqueNames::default() };
    let mut messages: Vec<Message<'t>> = Vec::with_capacity(turns.len() + 1);
    for turn in turns {
        let (role, content) = match turn {
            Turn::User(items) => (Role::User, writer.user(items)?),
            Turn::Assistant(said) => (Role::Assistant, writer.assistant(said)?),
        };
        if content.is_empty() {
            continue;
        }
        // A blank turn between two others was left out: what stood around it is one turn now.
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            Some(_) => messages.push(Message { role, content }),
            None => {
                if role == Role::Assistant {
                    messages.push(said_by_user(NOTHING_SAID));
                    is_added = true;
                }
                messages.push(Message { role, content });
            }
        }
    }
    if messages.is_empty() {
        messages.push(said_by_user(NOTHING_SAID));
        is_added = true;
    }
    if let Some(Message { role: Role::Assistant, content }) = messages.last_mut()
        && let Some(Block::Text(text)) = content.last_mut()
    {
        // An answer that is to be continued may not end in blanks.
        *text = Cow::Owned(text.trim_end().to_owned());
    }
    if closed && messages.last().is_some_and(|last| last.role == Role::Assistant) {
        messages.push(said_by_user(GO_ON));
        is_added = true;
    }
    Ok((messages, is_added))
}

fn said_by_user(text: &'static str) -> Message<'static> {
    Message { role: Role::User, content: vec![Block::Text(Cow::Borrowed(text))] }
}

/// A wish for this answer only: it stands last, so that nothing before it changes from one request to the next.
pub(super) fn ask<'t>(messages: &mut [Message<'t>], request: Option<&'t str>) {
    let last = messages.last_mut().filter(|last| last.role == Role::User);
    if let (Some(last), Some(text)) = (last, request) {
        last.content.push(Block::Text(Cow::Borrowed(text)));
    }
}

/// The system prompt.
pub(super) fn system<'t>(
    texts: impl Iterator<Item = (&'t str, Option<View<'t>>)>,
    rules: ModelRules,
) -> Vec<Block<'t>> {
    let mut system = Vec::new();
    for (text, marker) in texts.filter(|(text, _)| !text.trim().is_empty()) {
        system.push(Block::Text(Cow::Borrowed(text)));
        system.extend(
            marker.filter(|_| rules.caches()).map(|marker| Block::CachePoint(cache_point(marker, rules))),
        );
    }
    system
}

/// Of Anthropic's marker (`{"type":"ephemeral","ttl":"1h"}`).
pub(super) fn cache_point(marker: View<'_>, rules: ModelRules) -> CachePoint {
    let hour = member(marker, "ttl").and_then(View::string).is_some_and(|ttl| ttl == "1h");
    CachePoint::new(hour && rules.cache_hour)
}

/// A member of an object.
pub(super) fn member<'a>(object: View<'a>, name: &str) -> Option<View<'a>> {
    let found = object.members().find(|(known, _)| known.string().is_some_and(|known| known == name));
    found.map(|(_, value)| value)
}

struct Writer {
    rules: ModelRules,
    /// Names of documents: two of one name are refused.
    names: UniqueNames,
}

impl Writer {
    fn user<'t>(&mut self, items: &'t [UserItem<'_, '_>]) -> Result<Vec<Block<'t>>, Failure> {
        let mut content = Vec::with_capacity(items.len());
        for item in items {
            match item {
                UserItem::Result { id, message, .. } => self.result(id, *message, &mut content),
                UserItem::Part(part) => self.part(part, &mut content)?,
            }
        }
        // A document goes with words.
        let has = |wanted: fn(&Block<'_>) -> bool| content.iter().any(wanted);
        if has(|block| matches!(block, Block::Document(_))) && !has(|block| matches!(block, Block::Text(_))) {
            content.push(Block::Text(Cow::Borrowed(NOTHING_SAID)));
        }
        Ok(content)
    }

    fn assistant<'t>(&mut self, said: &'t [&Said<'_>]) -> Result<Vec<Block<'t>>, Failure> {
        let mut content = Vec::new();
        if let [message] = said
            && let Some(pieces) = arrange(message)
        {
            self.arranged(message, pieces, &mut content);
            return Ok(content);
        }
        for message in said {
            if self.rules.signs {
                content.extend(reasoning::history(&message.reasoning_details).map(Block::ReasoningContent));
            }
            for part in &message.parts {
                self.part(part, &mut content)?;
            }
            content.extend(message.tool_calls.iter().map(|call| Block::ToolUse(tool_use(call, self.rules))));
        }
        // Reasoning alone is no turn.
        let only_reasoning = content.iter().all(|block| matches!(block, Block::ReasoningContent(_)));
        Ok(if only_reasoning { Vec::new() } else { content })
    }

    /// A message as it came. Blank text is refused, and reasoning that nothing follows is no turn.
    fn arranged<'t>(
        &self,
        message: &Said<'_>,
        pieces: Vec<ReplayedBlock<'t, 't>>,
        content: &mut Vec<Block<'t>>,
    ) {
        let marker = message.parts.iter().find_map(|part| part.cache_control);
        let last = pieces.iter().rposition(|piece| matches!(piece, ReplayedBlock::Text(_)));
        for (at, piece) in pieces.into_iter().enumerate() {
            match piece {
                ReplayedBlock::Text(text) if !text.trim().is_empty() => {
                    content.push(Block::Text(Cow::Borrowed(text)));
                    self.mark(marker.filter(|_| last == Some(at)), content);
                }
                ReplayedBlock::Detail(entry) if self.rules.signs => {
                    content.extend(reasoning::signed(entry).map(Block::ReasoningContent));
                }
                ReplayedBlock::Call(call) => content.push(Block::ToolUse(tool_use(call, self.rules))),
                _ => {}
            }
        }
        while matches!(content.last(), Some(Block::ReasoningContent(_))) {
            content.pop();
        }
    }

    fn result<'t>(&self, id: &'t str, message: Option<&'t Said<'_>>, content: &mut Vec<Block<'t>>) {
        let mut result = Vec::new();
        let mut marker = None;
        for part in message.iter().flat_map(|message| &message.parts) {
            marker = marker.or(part.cache_control);
            if let Content::Text(text) = &part.content
                && !text.trim().is_empty()
            {
                result.push(Block::Text(Cow::Borrowed(text)));
            }
        }
        if result.is_empty() {
            let words = if message.is_some() { NO_OUTPUT } else { NO_RESULT };
            result.push(Block::Text(Cow::Borrowed(words)));
        }
        // Only Claude and Nova know a status.
        let failed = message.is_none() && self.rules.result_status;
        content.push(Block::ToolResult(ToolResult {
            tool_use_id: call_id(id, self.rules),
            content: result,
            status: failed.then_some("error"),
        }));
        self.mark(marker, content);
    }

    fn part<'t>(&mut self, part: &'t Part<'_>, content: &mut Vec<Block<'t>>) -> Result<(), Failure> {
        let block = match &part.content {
            Content::Text(text) | Content::Refusal(text) => {
                if text.trim().is_empty() {
                    return Ok(());
                }
                Block::Text(Cow::Borrowed(text))
            }
            Content::Image(source) => Block::Image(image(source)?),
            Content::File { source, name } => Block::Document(self.document(source, name.as_deref())?),
            Content::Audio { data, format } => {
                let format = if format == "wav" { "wav" } else { "mp3" };
                Block::Audio(Media { format, source: Bytes { bytes: data } })
            }
        };
        content.push(block);
        self.mark(part.cache_control, content);
        Ok(())
    }

    fn mark(&self, marker: Option<View<'_>>, content: &mut Vec<Block<'_>>) {
        if let Some(marker) = marker.filter(|_| self.rules.caches()) {
            content.push(Block::CachePoint(cache_point(marker, self.rules)));
        }
    }

    fn document<'t>(&mut self, source: &'t Source<'_>, name: Option<&str>) -> Result<Document<'t>, Failure> {
        let Source::Data { media_type, base64 } = source else {
            return Err(unsupported(
                "Invalid 'file': this provider takes documents as data, not by address or id.",
            ));
        };
        let ending = name.and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
        let format = document_format(media_type).or_else(|| ending.and_then(document_format));
        let format = format.ok_or_else(|| {
            unsupported(
                "Invalid 'file': this provider takes pdf, csv, doc, docx, xls, xlsx, html, txt and md documents.",
            )
        })?;
        Ok(Document { format, name: self.name(name), source: Bytes { bytes: base64 } })
    }

    /// A name of the letters that are allowed, which no other document has.
    fn name(&mut self, name: Option<&str>) -> String {
        let name = name.unwrap_or_default();
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let mut clean = String::new();
        for letter in stem.chars().take(LONGEST_NAME - 8) {
            match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '(' | ')' | '[' | ']' => clean.push(letter),
                _ if clean.ends_with(' ') || clean.is_empty() => {}
                _ => clean.push(' '),
            }
        }
        let clean = match clean.trim_end() {
            "" => "document",
            clean => clean,
        };
        self.names.take(clean, |count| format!("{clean} {count}"))
    }
}

fn image<'t>(source: &'t Source<'_>) -> Result<Media<'t>, Failure> {
    let Source::Data { media_type, base64 } = source else {
        return Err(unsupported(
            "Invalid 'image_url': this provider takes images as data URLs, not by address.",
        ));
    };
    let format = match media_type.as_str() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => {
            return Err(unsupported(
                "Invalid 'image_url': this provider takes png, jpeg, gif and webp images.",
            ));
        }
    };
    Ok(Media { format, source: Bytes { bytes: base64 } })
}

/// Of a media type or of the ending of a file's name.
fn document_format(kind: &str) -> Option<&'static str> {
    Some(match kind.to_ascii_lowercase().as_str() {
        "application/pdf" | "pdf" => "pdf",
        "text/csv" | "csv" => "csv",
        "application/msword" | "doc" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" | "docx" => "docx",
        "application/vnd.ms-excel" | "xls" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" | "xlsx" => "xlsx",
        "text/html" | "html" | "htm" => "html",
        "text/plain" | "txt" => "txt",
        "text/markdown" | "md" => "md",
        _ => return None,
    })
}

/// A call's id. Claude refuses `.` and `:`, which Converse takes and other models write (`functions.look:0`).
fn call_id(id: &str, rules: ModelRules) -> Cow<'_, str> {
    if rules.vendor() == "claude" { word_id(id) } else { converse_id(id) }
}

fn tool_use<'t>(call: &'t Called<'_>, rules: ModelRules) -> ToolUse<'t> {
    let input = match call.arguments_object() {
        Cow::Borrowed(object) => written(object),
        Cow::Owned(object) => RawValue::from_string(object).map_or_else(|_| written("{}"), Json::Made),
    };
    ToolUse { tool_use_id: call_id(&call.id, rules), name: &call.name, input }
}
