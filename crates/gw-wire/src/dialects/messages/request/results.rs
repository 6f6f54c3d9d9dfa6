//! Results of tool calls as tool messages.

use std::borrow::Cow;

use super::counts::Counts;
use super::documents;
use super::parts::{BlockPart, ChatContent, write_content};
use super::warnings::Losses;
use crate::dialects::messages::faults::{MessagesPath, boolean, list, object, required_string, string};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::Invalid;

/// The start of the text of a call that failed.
const FAILED: &str = "Error: ";

/// The text of a result that consists of images or files. A tool message of a chat has text only, so they follow in the
/// user's message.
const ATTACHED: &str = "(The tool returned content that the next user message shows.)";

/// A result of a call.
pub(super) struct ToolResult<'a> {
    /// The id of the call.
    pub(super) id: Cow<'a, str>,
    texts: Vec<Cow<'a, str>>,
    /// Images and files, for the user's message after the results.
    pub(super) attached: Vec<BlockPart<'a>>,
    is_error: bool,
    cache_control: Option<View<'a>>,
}

impl<'a> ToolResult<'a> {
    /// Reads a `tool_result` block, and counts the blocks in it.
    pub(super) fn read(
        path: &MessagesPath<'_>,
        block: View<'a>,
        counts: &mut Counts<'_>,
        losses: &mut Losses,
    ) -> Result<Self, Invalid> {
        let [id, content, is_error, cache_control] =
            block.pick(["tool_use_id", "content", "is_error", "cache_control"]);
        let path = path.member("tool_result");
        let id = required_string(&path.member("tool_use_id"), id)?;
        let is_error = boolean(&path.member("is_error"), is_error)?;
        let mut result = Self { id, texts: Vec::new(), attached: Vec::new(), is_error, cache_control };
        if let Some(content) = content {
            result.content(&path.member("content"), content, counts, losses)?;
        }
        Ok(result)
    }

    fn content(
        &mut self,
        path: &MessagesPath<'_>,
        content: View<'a>,
        counts: &mut Counts<'_>,
        losses: &mut Losses,
    ) -> Result<(), Invalid> {
        if content.kind() == Kind::String {
            self.texts.push(string(path, content)?);
            return Ok(());
        }
        for (at, block) in list(path, content)?.enumerate() {
            let path = path.item(at);
            let [kind, text] = object(&path, block, ["type", "text"])?;
            let parts = match &*required_string(&path.member("type"), kind)? {
                "text" => {
                    counts.parts(&path, 1)?;
                    self.texts.push(required_string(&path.member("text").member("text"), text)?);
                    continue;
                }
                "image" => documents::image(&path, block, losses)?.into_iter().collect(),
                "document" => documents::document(&path, block, losses)?,
                "search_result" => vec![documents::search_result(&path, block)?],
                // References to tools, and blocks of later versions of the API.
                other => {
                    counts.parts(&path, 1)?;
                    losses.content(other);
                    continue;
                }
            };
            counts.parts(&path, parts.len())?;
            for part in parts {
                match part.content {
                    ChatContent::Text(text) => self.texts.push(text),
                    _ => self.attached.push(part),
                }
            }
        }
        Ok(())
    }

    /// Writes the tool message.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut text = String::new();
        if self.is_error {
            text.push_str(FAILED);
        }
        let attached = (!self.attached.is_empty()).then_some(Cow::Borrowed(ATTACHED));
        let texts = self.texts.iter().filter(|text| !text.is_empty()).chain(attached.as_ref());
        for (position, piece) in texts.enumerate() {
            if position > 0 {
                text.push('\n');
            }
            text.push_str(piece);
        }
        let mut message = ObjectWriter::begin(out);
        message.string("role", "tool");
        message.string("tool_call_id", &self.id);
        let part =
            BlockPart { content: ChatContent::Text(Cow::Owned(text)), cache_control: self.cache_control };
        write_content(message.member("content"), &[part]);
        message.finish();
    }
}
