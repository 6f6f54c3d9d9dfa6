//! One turn of the conversation: contents of one role that follow each other.

use std::borrow::Cow;

use super::calls::WaitingCalls;
use super::history::{ContentCounts, separate};
use super::media;
use crate::dialects::gemini::members::{
    Losses, flag, is_named, list, members, members_and, optional, required_name,
};
use crate::dialects::gemini::seals::PartSeals;
use crate::dialects::messages::request::assistant::AssistantTurn;
use crate::dialects::messages::request::parts::{BlockPart, ChatContent, write_content};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::Invalid;
use crate::request::fields::{Path, invalid_value, missing, wrong_type};

/// The result of a call.
struct CallResult<'a> {
    /// The id of the call in the chat.
    id: String,
    text: &'a str,
}

/// Contents of the user.
#[derive(Default)]
pub(super) struct UserContents<'a> {
    results: Vec<CallResult<'a>>,
    parts: Vec<BlockPart<'a>>,
}

/// Contents of the model. Streams come back in pieces, which are joined.
#[derive(Default)]
pub(super) struct ModelContents<'a> {
    turn: AssistantTurn<'a>,
    open: OpenPiece<'a>,
    is_empty: bool,
}

/// The text or the thought that may go on.
#[derive(Default)]
enum OpenPiece<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Thought(Cow<'a, str>),
}

/// Parts of tools that Google runs. A chat has no place for them.
const LEFT_OUT: [&str; 4] = ["executableCode", "codeExecutionResult", "toolCall", "toolResponse"];

/// Members that say how a part is read.
const READ_HOW: [&str; 2] = ["videoMetadata", "mediaResolution"];

/// The members of a part.
struct PartMembers<'a> {
    text: Option<Cow<'a, str>>,
    is_thought: bool,
    seals: PartSeals,
    inline_data: Option<View<'a>>,
    file_data: Option<View<'a>>,
    call: Option<View<'a>>,
    response: Option<View<'a>>,
}

impl<'a> PartMembers<'a> {
    fn read(path: &Path<'_>, part: View<'a>, losses: &mut Losses) -> Result<Self, Invalid> {
        let names = [
            "text",
            "thought",
            "thoughtSignature",
            "inlineData",
            "fileData",
            "functionCall",
            "functionResponse",
        ];
        let mut is_left_out = false;
        let found = members_and(path, part, names, |name, _| {
            is_left_out |= LEFT_OUT.iter().any(|known| is_named(name, known));
            if !READ_HOW.iter().any(|known| is_named(name, known)) {
                losses.content(name);
            }
        })?;
        if !is_left_out && found.iter().all(Option::is_none) {
            let what = "a part needs 'text', 'inlineData', 'fileData', 'functionCall' or 'functionResponse'.";
            return Err(invalid_value(path, what));
        }
        let [text, thought, signature, inline_data, file_data, call, response] = found;
        let signature = optional(path, "thoughtSignature", signature)?;
        Ok(Self {
            text: optional(path, "text", text)?,
            is_thought: flag(path, "thought", thought)?,
            seals: signature.map(|signature| PartSeals::read(&signature)).unwrap_or_default(),
            inline_data,
            file_data,
            call,
            response,
        })
    }

    /// The bytes or the file of the part.
    fn media(&self, path: &Path<'_>) -> Result<Option<ChatContent<'a>>, Invalid> {
        match (self.inline_data, self.file_data) {
            (Some(data), _) => media::inline(&path.member("inlineData"), data).map(Some),
            (None, Some(file)) => media::file(&path.member("fileData"), file).map(Some),
            (None, None) => Ok(None),
        }
    }
}

impl<'a> UserContents<'a> {
    /// Reads the parts of a content.
    pub(super) fn read(
        &mut self,
        path: &Path<'_>,
        parts: View<'a>,
        calls: &mut WaitingCalls<'a>,
        counts: &mut ContentCounts<'_>,
        losses: &mut Losses,
    ) -> Result<(), Invalid> {
        for (at, part) in list(path, parts, "an array of parts")?.enumerate() {
            let path = path.item(at);
            let members = PartMembers::read(&path, part, losses)?;
            counts.parts(&path, 1)?;
            if members.call.is_some() {
                let what = "a call of a function belongs to a content of the role 'model'.";
                return Err(invalid_value(&path.member("functionCall"), what));
            }
            if let Some(response) = members.response {
                self.result(&path.member("functionResponse"), response, calls, counts)?;
            }
            // An empty text says nothing, and some upstreams refuse it.
            if let Some(text) = members.text.clone().filter(|text| !text.is_empty()) {
                self.parts.push(BlockPart::text(text));
            }
            self.parts.extend(members.media(&path)?.map(part_of));
        }
        Ok(())
    }

    fn result(
        &mut self,
        path: &Path<'_>,
        response: View<'a>,
        calls: &mut WaitingCalls<'a>,
        counts: &mut ContentCounts<'_>,
    ) -> Result<(), Invalid> {
        let [id, name, value, parts] = members(path, response, ["id", "name", "response", "parts"])?;
        let id = optional(path, "id", id)?.filter(|id| !id.is_empty());
        let name = required_name(path, "name", name)?;
        let text = match value {
            None => "{}",
            Some(value) if value.kind() == Kind::Object => value.text(),
            Some(value) => return Err(wrong_type(&path.member("response"), "an object", value)),
        };
        let id = calls.answer(path, id.as_deref(), &name)?;
        self.results.push(CallResult { id, text });
        let parts_path = path.member("parts");
        let Some(parts) = parts else { return Ok(()) };
        for (at, part) in list(&parts_path, parts, "an array of parts")?.enumerate() {
            let path = parts_path.item(at);
            let [data, file] = members(&path, part, ["inlineData", "fileData"])?;
            counts.parts(&path, 1)?;
            let content = match (data, file) {
                (Some(data), _) => media::inline(&path.member("inlineData"), data)?,
                (None, Some(file)) => media::file(&path.member("fileData"), file)?,
                (None, None) => return Err(missing(&path.member("inlineData"))),
            };
            self.parts.push(part_of(content));
        }
        Ok(())
    }

    /// Number of chat messages.
    pub(super) fn messages(&self) -> usize {
        self.results.len() + usize::from(self.has_message())
    }

    fn has_message(&self) -> bool {
        !self.parts.is_empty() || self.results.is_empty()
    }

    /// Writes the turn's messages: results of tools first, because a chat wants them right after their calls.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for result in &self.results {
            separate(out);
            let mut message = ObjectWriter::begin(out);
            message.string("role", "tool");
            message.string("tool_call_id", &result.id);
            message.string("content", result.text);
            message.finish();
        }
        if self.has_message() {
            separate(out);
            let mut message = ObjectWriter::begin(out);
            message.string("role", "user");
            write_content(message.member("content"), &self.parts);
            message.finish();
        }
    }
}

fn part_of(content: ChatContent<'_>) -> BlockPart<'_> {
    BlockPart { content, cache_control: None }
}

impl<'a> ModelContents<'a> {
    /// A turn without parts.
    pub(super) fn new() -> Self {
        Self { is_empty: true, ..Self::default() }
    }

    /// Reads the parts of a content.
    pub(super) fn read(
        &mut self,
        path: &Path<'_>,
        parts: View<'a>,
        calls: &mut WaitingCalls<'a>,
        counts: &mut ContentCounts<'_>,
        losses: &mut Losses,
    ) -> Result<(), Invalid> {
        for (at, part) in list(path, parts, "an array of parts")?.enumerate() {
            let path = path.item(at);
            let mut members = PartMembers::read(&path, part, losses)?;
            counts.parts(&path, 1)?;
            self.is_empty = false;
            self.seals(std::mem::take(&mut members.seals.details));
            if members.response.is_some() {
                let what = "a response of a function belongs to a content of the role 'user'.";
                return Err(invalid_value(&path.member("functionResponse"), what));
            }
            if let Some(text) = members.text.clone().filter(|text| !text.is_empty()) {
                self.text(text, members.is_thought);
            }
            if let Some(call) = members.call {
                counts.call(&path)?;
                self.call(&path.member("functionCall"), call, members.seals.call.as_deref(), calls)?;
            }
            match members.media(&path)? {
                Some(ChatContent::Image(source)) => {
                    self.close();
                    self.turn.add_image(source);
                }
                Some(_) => losses.content("inlineData"),
                None => {}
            }
            self.turn.end_part();
        }
        Ok(())
    }

    /// Adds the opaque strings before a part. The first one signs the thought that is open.
    fn seals(&mut self, details: Vec<String>) {
        for detail in details {
            match std::mem::take(&mut self.open) {
                OpenPiece::Thought(text) => self.turn.add_thought(text, Some(detail.into())),
                OpenPiece::Text(text) => {
                    self.turn.add_text(text);
                    self.turn.add_redacted(detail.into());
                }
                OpenPiece::None => self.turn.add_redacted(detail.into()),
            }
        }
    }

    fn text(&mut self, more: Cow<'a, str>, is_thought: bool) {
        match &mut self.open {
            OpenPiece::Text(text) if !is_thought => text.to_mut().push_str(&more),
            OpenPiece::Thought(text) if is_thought => text.to_mut().push_str(&more),
            _ => {
                self.close();
                self.open = if is_thought { OpenPiece::Thought(more) } else { OpenPiece::Text(more) };
            }
        }
    }

    fn call(
        &mut self,
        path: &Path<'_>,
        call: View<'a>,
        signature: Option<&str>,
        calls: &mut WaitingCalls<'a>,
    ) -> Result<(), Invalid> {
        let [id, name, arguments] = members(path, call, ["id", "name", "args"])?;
        let id = optional(path, "id", id)?.filter(|id| !id.is_empty());
        let name = required_name(path, "name", name)?;
        let arguments = match arguments {
            None => "{}",
            Some(value) if value.kind() == Kind::Object => value.text(),
            Some(value) => return Err(wrong_type(&path.member("args"), "an object", value)),
        };
        self.close();
        let id = calls.open(id, name.clone(), arguments, signature);
        self.turn.add_call(id.into(), name, arguments);
        Ok(())
    }

    /// Ends the open piece.
    fn close(&mut self) {
        match std::mem::take(&mut self.open) {
            OpenPiece::Text(text) => self.turn.add_text(text),
            OpenPiece::Thought(text) => self.turn.add_thought(text, None),
            OpenPiece::None => {}
        }
    }

    /// Whether the turn says nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Writes the turn's message.
    pub(super) fn write(mut self, out: &mut Vec<u8>) {
        self.close();
        self.turn.write(out);
    }
}
