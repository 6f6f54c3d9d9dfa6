//! The turns of a conversation as Converse takes them: the user first, then strictly alternating, and never blank. API
//! Reference, `Message`, `ContentBlock`.

use std::borrow::Cow;

use gw_wire::conversation::{
    Content, MISSING_RESULT, Message, Part, PastToolCall, Source, Turn, UserItem, converse_id, word_id,
};
use gw_wire::failure::Failure;
use gw_wire::json::View;
use serde_json::value::RawValue;

use super::reasoning;
use super::tools::raw_json;
use super::wire::{
    BedrockBlock, BedrockBytes, BedrockCachePoint, BedrockDocument, BedrockJson, BedrockMedia,
    BedrockMessage, BedrockRole, BedrockToolResult, BedrockToolUse,
};
use crate::adapters::anthropic::messages::CONTINUE_TEXT;
use crate::adapters::call_ids::CallIds;
use crate::adapters::media_types;
use crate::adapters::native::{image_address, unsupported};
use crate::adapters::replay::order::{ReplayedBlock, arrange, has_reasoning};
use crate::adapters::unique_names::UniqueNames;
use crate::model_rules::ModelRules;

/// The text where Converse requires some and the client gave none. Converse refuses blank text.
const PLACEHOLDER_TEXT: &str = ".";
/// The text for an empty tool result.
const EMPTY_RESULT_TEXT: &str = "(no output)";

/// The most characters in a document's name.
const MAX_DOCUMENT_NAME_CHARS: usize = 200;

/// The messages of a request, and their differences from the client's.
pub(super) struct ConverseMessages<'t> {
    pub(super) messages: Vec<BedrockMessage<'t>>,
    /// A user message was added, because a conversation must begin or end with one.
    pub(super) is_added: bool,
    /// Reasoning was left out, because the model does not take it back.
    pub(super) has_discarded: bool,
}

/// Returns the messages. A user message is added if the first message is not the user's, or if the last one must be
/// (`must_end_with_user`). Content that Converse cannot take is a 400.
pub(super) fn messages<'t>(
    turns: &'t [Turn<'_, '_>],
    rules: ModelRules,
    must_end_with_user: bool,
) -> Result<ConverseMessages<'t>, Failure> {
    let mut is_added = false;
    // Claude refuses `.` and `:`, which Converse takes and other models write (`functions.look:0`).
    let ids = CallIds::new(if rules.vendor() == "claude" { word_id } else { converse_id });
    let mut writer = BedrockMessageWriter { rules, names: UniqueNames::default(), ids, has_discarded: false };
    let mut messages: Vec<BedrockMessage<'t>> = Vec::with_capacity(turns.len() + 1);
    for turn in turns {
        let (role, content) = match turn {
            Turn::User(items) => (BedrockRole::User, writer.user(items)?),
            Turn::Assistant(messages) => (BedrockRole::Assistant, writer.assistant(messages)?),
        };
        if content.is_empty() {
            continue;
        }
        // A blank turn is left out, so its neighbours may have the same role and are merged.
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            Some(_) => messages.push(BedrockMessage { role, content }),
            None => {
                if role == BedrockRole::Assistant {
                    messages.push(user_message(PLACEHOLDER_TEXT));
                    is_added = true;
                }
                messages.push(BedrockMessage { role, content });
            }
        }
    }
    if messages.is_empty() {
        messages.push(user_message(PLACEHOLDER_TEXT));
        is_added = true;
    }
    if let Some(BedrockMessage { role: BedrockRole::Assistant, content }) = messages.last_mut()
        && let Some(BedrockBlock::Text(text)) = content.last_mut()
    {
        // Converse refuses an assistant message to continue from if it ends in white space.
        *text = Cow::Owned(text.trim_end().to_owned());
    }
    if must_end_with_user && messages.last().is_some_and(|last| last.role == BedrockRole::Assistant) {
        messages.push(user_message(CONTINUE_TEXT));
        is_added = true;
    }
    Ok(ConverseMessages { messages, is_added, has_discarded: writer.has_discarded })
}

fn user_message(text: &'static str) -> BedrockMessage<'static> {
    BedrockMessage { role: BedrockRole::User, content: vec![BedrockBlock::Text(Cow::Borrowed(text))] }
}

/// Appends an instruction for this answer only. It goes last, so that the messages before it stay the same from request
/// to request and can be cached.
pub(super) fn append_instruction<'t>(messages: &mut [BedrockMessage<'t>], request: Option<&'t str>) {
    let last = messages.last_mut().filter(|last| last.role == BedrockRole::User);
    if let (Some(last), Some(text)) = (last, request) {
        last.content.push(BedrockBlock::Text(Cow::Borrowed(text)));
    }
}

/// Returns the system prompt.
pub(super) fn system<'t>(
    texts: impl Iterator<Item = (&'t str, Option<View<'t>>)>,
    rules: ModelRules,
) -> Vec<BedrockBlock<'t>> {
    let mut system = Vec::new();
    for (text, marker) in texts.filter(|(text, _)| !text.trim().is_empty()) {
        system.push(BedrockBlock::Text(Cow::Borrowed(text)));
        system.extend(
            marker
                .filter(|_| rules.caches())
                .map(|marker| BedrockBlock::CachePoint(cache_point(marker, rules))),
        );
    }
    system
}

/// Returns the cache point for Anthropic's marker (`{"type":"ephemeral","ttl":"1h"}`).
pub(super) fn cache_point(marker: View<'_>, rules: ModelRules) -> BedrockCachePoint {
    let hour = member(marker, "ttl").and_then(View::string).is_some_and(|ttl| ttl == "1h");
    BedrockCachePoint::new(hour && rules.cache_hour)
}

/// Returns a member of an object.
pub(super) fn member<'a>(object: View<'a>, name: &str) -> Option<View<'a>> {
    let found = object.members().find(|(known, _)| known.string().is_some_and(|known| known == name));
    found.map(|(_, value)| value)
}

struct BedrockMessageWriter {
    rules: ModelRules,
    /// The names of documents. Converse refuses two documents of one name.
    names: UniqueNames,
    /// The ids of all calls. Converse refuses two calls of one id.
    ids: CallIds,
    has_discarded: bool,
}

impl BedrockMessageWriter {
    fn user<'t>(&mut self, items: &'t [UserItem<'_, '_>]) -> Result<Vec<BedrockBlock<'t>>, Failure> {
        let mut content = Vec::with_capacity(items.len());
        for item in items {
            match item {
                UserItem::Result { id, message, .. } => self.result(id, *message, &mut content),
                UserItem::Part(part) => self.part(part, &mut content)?,
            }
        }
        // Converse refuses a document without any text beside it.
        let has = |wanted: fn(&BedrockBlock<'_>) -> bool| content.iter().any(wanted);
        if has(|block| matches!(block, BedrockBlock::Document(_)))
            && !has(|block| matches!(block, BedrockBlock::Text(_)))
        {
            content.push(BedrockBlock::Text(Cow::Borrowed(PLACEHOLDER_TEXT)));
        }
        Ok(content)
    }

    fn assistant<'t>(&mut self, messages: &'t [&Message<'_>]) -> Result<Vec<BedrockBlock<'t>>, Failure> {
        let (mut content, mut ids) = (Vec::new(), Vec::new());
        self.has_discarded |= !self.rules.signs && messages.iter().any(|message| has_reasoning(message));
        if let [message] = messages
            && let Some(pieces) = arrange(message)
        {
            self.assistant_in_order(message, pieces, &mut content);
            return Ok(content);
        }
        for message in messages {
            if self.rules.signs {
                content.extend(
                    reasoning::signed_history(&message.reasoning_details).map(BedrockBlock::ReasoningContent),
                );
            }
            for part in &message.parts {
                self.part(part, &mut content)?;
            }
            for call in &message.tool_calls {
                let id = self.ids.of_call(&call.id);
                ids.push(id.clone());
                content.push(BedrockBlock::ToolUse(tool_use(call, id)));
            }
        }
        self.ids.end_turn(ids);
        // Converse refuses a turn that holds only reasoning.
        let only_reasoning = content.iter().all(|block| matches!(block, BedrockBlock::ReasoningContent(_)));
        Ok(if only_reasoning { Vec::new() } else { content })
    }

    /// Writes an assistant message in its recorded order, without blank text and without reasoning at its end.
    fn assistant_in_order<'t>(
        &mut self,
        message: &Message<'_>,
        pieces: Vec<ReplayedBlock<'t, 't>>,
        content: &mut Vec<BedrockBlock<'t>>,
    ) {
        let marker = message.parts.iter().find_map(|part| part.cache_control);
        let last = pieces.iter().rposition(|piece| matches!(piece, ReplayedBlock::Text(_)));
        let mut ids = Vec::new();
        for (at, piece) in pieces.into_iter().enumerate() {
            match piece {
                ReplayedBlock::Text(text) if !text.trim().is_empty() => {
                    content.push(BedrockBlock::Text(Cow::Borrowed(text)));
                    self.mark(marker.filter(|_| last == Some(at)), content);
                }
                ReplayedBlock::Detail(entry) | ReplayedBlock::Signature(entry) if self.rules.signs => {
                    content.extend(reasoning::read_signed(entry).map(BedrockBlock::ReasoningContent));
                }
                ReplayedBlock::Call(call) => {
                    let id = self.ids.of_call(&call.id);
                    ids.push(id.clone());
                    content.push(BedrockBlock::ToolUse(tool_use(call, id)));
                }
                _ => {}
            }
        }
        self.ids.end_turn(ids);
        while matches!(content.last(), Some(BedrockBlock::ReasoningContent(_))) {
            content.pop();
        }
    }

    fn result<'t>(
        &mut self,
        id: &str,
        message: Option<&'t Message<'_>>,
        content: &mut Vec<BedrockBlock<'t>>,
    ) {
        let mut result = Vec::new();
        let mut marker = None;
        for part in message.iter().flat_map(|message| &message.parts) {
            marker = marker.or(part.cache_control);
            if let Content::Text(text) = &part.content
                && !text.trim().is_empty()
            {
                result.push(BedrockBlock::Text(Cow::Borrowed(text)));
            }
        }
        if result.is_empty() {
            let words = if message.is_some() { EMPTY_RESULT_TEXT } else { MISSING_RESULT };
            result.push(BedrockBlock::Text(Cow::Borrowed(words)));
        }
        // Only Claude and Nova take a status.
        let failed = message.is_none() && self.rules.result_status;
        content.push(BedrockBlock::ToolResult(BedrockToolResult {
            tool_use_id: self.ids.of_result(id),
            content: result,
            status: failed.then_some("error"),
        }));
        self.mark(marker, content);
    }

    fn part<'t>(&mut self, part: &'t Part<'_>, content: &mut Vec<BedrockBlock<'t>>) -> Result<(), Failure> {
        let block = match &part.content {
            Content::Text(text) | Content::Refusal(text) => {
                if text.trim().is_empty() {
                    return Ok(());
                }
                BedrockBlock::Text(Cow::Borrowed(text))
            }
            Content::Image(source) => BedrockBlock::Image(image(source)?),
            Content::File { source, name } => BedrockBlock::Document(self.document(source, name.as_deref())?),
            Content::Audio { data, format } => {
                let format = if format == "wav" { "wav" } else { "mp3" };
                BedrockBlock::Audio(BedrockMedia { format, source: BedrockBytes { bytes: data } })
            }
        };
        content.push(block);
        self.mark(part.cache_control, content);
        Ok(())
    }

    fn mark(&self, marker: Option<View<'_>>, content: &mut Vec<BedrockBlock<'_>>) {
        if let Some(marker) = marker.filter(|_| self.rules.caches()) {
            content.push(BedrockBlock::CachePoint(cache_point(marker, self.rules)));
        }
    }

    fn document<'t>(
        &mut self,
        source: &'t Source<'_>,
        name: Option<&str>,
    ) -> Result<BedrockDocument<'t>, Failure> {
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
        Ok(BedrockDocument { format, name: self.name(name), source: BedrockBytes { bytes: base64 } })
    }

    /// Returns a name of allowed characters that no other document has.
    fn name(&mut self, name: Option<&str>) -> String {
        let name = name.unwrap_or_default();
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let mut clean = String::new();
        for letter in stem.chars().take(MAX_DOCUMENT_NAME_CHARS - 8) {
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

fn image<'t>(source: &'t Source<'_>) -> Result<BedrockMedia<'t>, Failure> {
    const BY_ADDRESS: &str = "Invalid 'image_url': this provider takes images as data URLs, not by address.";
    let (media_type, base64) = match source {
        Source::Data { media_type, base64 } => (media_type, base64),
        Source::Url(_) => return Err(image_address(BY_ADDRESS)),
        Source::Id(_) => return Err(unsupported(BY_ADDRESS)),
    };
    let format = match media_types::corrected(media_type, base64) {
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => {
            return Err(unsupported(
                "Invalid 'image_url': this provider takes png, jpeg, gif and webp images.",
            ));
        }
    };
    Ok(BedrockMedia { format, source: BedrockBytes { bytes: base64 } })
}

/// Returns the document format for a media type or a file extension.
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

fn tool_use<'t>(call: &'t PastToolCall<'_>, id: String) -> BedrockToolUse<'t> {
    let input = match call.arguments_object() {
        Cow::Borrowed(object) => raw_json(object),
        Cow::Owned(object) => {
            RawValue::from_string(object).map_or_else(|_| raw_json("{}"), BedrockJson::Made)
        }
    };
    BedrockToolUse { tool_use_id: id, name: &call.name, input }
}
