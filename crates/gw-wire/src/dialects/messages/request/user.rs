//! A turn of the user: results of tools first, because a chat wants them right after their calls, then the user's own
//! content.

use super::counts::Counts;
use super::documents;
use super::history::{OpenCalls, separate};
use super::parts::{BlockPart, ChatContent, write_content};
use super::results::ToolResult;
use super::system;
use super::warnings::Losses;
use crate::dialects::messages::faults::{MessagesPath, list, missing, object, required_string, string};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::Invalid;

/// A message of the turn after the results.
enum UserMessage<'a> {
    /// The user's content.
    Content(Vec<BlockPart<'a>>),
    /// A system text between the user's blocks.
    System(Vec<BlockPart<'a>>),
}

/// One or more user messages in a row.
#[derive(Default)]
pub(super) struct UserTurn<'a> {
    results: Vec<ToolResult<'a>>,
    messages: Vec<UserMessage<'a>>,
}

impl<'a> UserTurn<'a> {
    /// Number of chat messages.
    pub(super) fn messages(&self) -> usize {
        let attached = self.results.iter().any(|result| !result.attached.is_empty());
        self.results.len() + (self.messages.len() + usize::from(attached)).max(1)
    }

    /// Reads the content of a message.
    pub(super) fn read(
        &mut self,
        path: &MessagesPath<'_>,
        content: View<'a>,
        calls: &mut OpenCalls<'a>,
        counts: &mut Counts<'_>,
        losses: &mut Losses,
    ) -> Result<(), Invalid> {
        if content.kind() == Kind::String {
            counts.parts(path, 1)?;
            self.push(BlockPart::text(string(path, content)?));
            return Ok(());
        }
        for (at, block) in list(path, content)?.enumerate() {
            let path = path.item(at);
            let [kind] = object(&path, block, ["type"])?;
            let kind = required_string(&path.member("type"), kind)?;
            if kind == "tool_result" {
                counts.parts(&path, 1)?;
                let result = ToolResult::read(&path, block, counts, losses)?;
                calls.answer(&path, &result.id)?;
                self.results.push(result);
            } else {
                self.block(&path, &kind, block, counts, losses)?;
            }
        }
        Ok(())
    }

    /// Reads a block that is not a result, and counts its parts.
    fn block(
        &mut self,
        path: &MessagesPath<'_>,
        kind: &str,
        block: View<'a>,
        counts: &mut Counts<'_>,
        losses: &mut Losses,
    ) -> Result<(), Invalid> {
        let parts = match kind {
            "text" => {
                let [text, cache_control] = block.pick(["text", "cache_control"]);
                let text = required_string(&path.member("text").member("text"), text)?;
                vec![BlockPart { content: ChatContent::Text(text), cache_control }]
            }
            "image" => documents::image(path, block, losses)?.into_iter().collect(),
            "document" => documents::document(path, block, losses)?,
            "search_result" => vec![documents::search_result(path, block)?],
            "mid_conv_system" => {
                let [content] = block.pick(["content"]);
                let path = path.member("mid_conv_system");
                let path = path.member("content");
                let parts = system::read(&path, content.ok_or_else(|| missing(&path))?, counts)?;
                if !parts.is_empty() {
                    self.messages.push(UserMessage::System(parts));
                }
                return Ok(());
            }
            // Blocks of tools that Anthropic runs, and blocks of later versions of the API.
            other => {
                losses.content(other);
                return Ok(());
            }
        };
        counts.parts(path, parts.len())?;
        parts.into_iter().for_each(|part| self.push(part));
        Ok(())
    }

    fn push(&mut self, part: BlockPart<'a>) {
        // An empty text says nothing, and some upstreams refuse it.
        if matches!(&part.content, ChatContent::Text(text) if text.is_empty()) {
            return;
        }
        match self.messages.last_mut() {
            Some(UserMessage::Content(parts)) => parts.push(part),
            _ => self.messages.push(UserMessage::Content(vec![part])),
        }
    }

    /// Writes the turn's messages.
    pub(super) fn write(mut self, out: &mut Vec<u8>) {
        let mut attached = Vec::new();
        for result in &mut self.results {
            separate(out);
            result.write(out);
            attached.append(&mut result.attached);
        }
        if !attached.is_empty() {
            match self.messages.first_mut() {
                Some(UserMessage::Content(parts)) => {
                    attached.append(parts);
                    *parts = attached;
                }
                _ => self.messages.insert(0, UserMessage::Content(attached)),
            }
        }
        if self.messages.is_empty() && self.results.is_empty() {
            self.messages.push(UserMessage::Content(Vec::new()));
        }
        for message in &self.messages {
            separate(out);
            match message {
                UserMessage::System(parts) => system::write(out, parts),
                UserMessage::Content(parts) => {
                    let mut message = ObjectWriter::begin(out);
                    message.string("role", "user");
                    write_content(message.member("content"), parts);
                    message.finish();
                }
            }
        }
    }
}
