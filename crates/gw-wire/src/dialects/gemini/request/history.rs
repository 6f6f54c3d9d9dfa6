//! `systemInstruction` and `contents` as the messages of a chat.

use super::calls::WaitingCalls;
use super::turns::{ModelContents, UserContents};
use crate::dialects::gemini::members::{Losses, list, members, optional};
use crate::dialects::messages::request::parts::{BlockPart, write_content};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::fields::{Path, empty_array, missing, not_one_of, string};
use crate::request::limits::too_many;
use crate::request::{Invalid, RequestLimits};

/// The turn that is being read.
enum ReadTurn<'a> {
    User(UserContents<'a>),
    Model(ModelContents<'a>),
}

/// ContentCounts the parts of the history against the limits of a request.
pub(super) struct ContentCounts<'l> {
    limits: &'l RequestLimits,
    messages: usize,
    parts: usize,
    calls: usize,
}

impl ContentCounts<'_> {
    fn message(&mut self, count: usize) -> Result<(), Invalid> {
        self.messages += count;
        let most = self.limits.max_messages;
        if self.messages <= most {
            return Ok(());
        }
        Err(too_many(&Path::Top("contents"), "messages", most, self.messages, "max_messages"))
    }

    /// ContentCounts content parts.
    pub(super) fn parts(&mut self, path: &Path<'_>, count: usize) -> Result<(), Invalid> {
        self.parts += count;
        let most = self.limits.max_content_parts;
        if self.parts <= most {
            return Ok(());
        }
        Err(too_many(path, "content parts", most, self.parts, "max_content_parts"))
    }

    /// ContentCounts a call.
    pub(super) fn call(&mut self, path: &Path<'_>) -> Result<(), Invalid> {
        self.calls += 1;
        let most = self.limits.max_tool_calls;
        if self.calls <= most {
            return Ok(());
        }
        Err(too_many(path, "function calls", most, self.calls, "max_tool_calls"))
    }
}

/// Writes the list of chat messages.
pub(super) struct ContentsHistory<'o, 'l, 'a> {
    out: &'o mut Vec<u8>,
    counts: ContentCounts<'l>,
    turn: Option<ReadTurn<'a>>,
    calls: WaitingCalls<'a>,
}

impl<'o, 'l, 'a> ContentsHistory<'o, 'l, 'a> {
    /// Opens the list.
    pub(super) fn new(out: &'o mut Vec<u8>, limits: &'l RequestLimits) -> Self {
        out.push(b'[');
        let counts = ContentCounts { limits, messages: 0, parts: 0, calls: 0 };
        Self { out, counts, turn: None, calls: WaitingCalls::default() }
    }

    /// Closes the list.
    pub(super) fn finish(self) {
        self.out.push(b']');
    }

    /// Writes the system instruction, unless it is empty.
    pub(super) fn system(&mut self, value: View<'_>, losses: &mut Losses) -> Result<(), Invalid> {
        let path = Path::Top("systemInstruction");
        let mut texts = Vec::new();
        if value.kind() == Kind::String {
            texts.push(string(&path, value)?);
        } else {
            let [parts] = members(&path, value, ["parts"])?;
            let path = path.member("parts");
            let parts = parts.ok_or_else(|| missing(&path))?;
            for (at, part) in list(&path, parts, "an array of parts")?.enumerate() {
                let path = path.item(at);
                let [text] = members(&path, part, ["text"])?;
                match optional(&path, "text", text)? {
                    Some(text) => texts.push(text),
                    None => losses.content("systemInstruction"),
                }
            }
        }
        let parts: Vec<BlockPart<'_>> =
            texts.into_iter().filter(|text| !text.is_empty()).map(BlockPart::text).collect();
        if parts.is_empty() {
            return Ok(());
        }
        self.counts.parts(&path, parts.len())?;
        self.counts.message(1)?;
        separate(self.out);
        let mut message = ObjectWriter::begin(self.out);
        message.string("role", "system");
        write_content(message.member("content"), &parts);
        message.finish();
        Ok(())
    }

    /// Writes all contents.
    pub(super) fn contents(&mut self, value: View<'a>, losses: &mut Losses) -> Result<(), Invalid> {
        let path = Path::Top("contents");
        let mut is_empty = true;
        for (at, content) in list(&path, value, "an array of contents")?.enumerate() {
            is_empty = false;
            self.content(&path.item(at), content, losses)?;
        }
        if is_empty {
            return Err(empty_array(&path));
        }
        self.end_turn(&path)?;
        self.calls.end(&path)
    }

    fn content(&mut self, path: &Path<'_>, content: View<'a>, losses: &mut Losses) -> Result<(), Invalid> {
        let [role, parts] = members(path, content, ["role", "parts"])?;
        let role = optional(path, "role", role)?;
        let parts_path = path.member("parts");
        let parts = parts.ok_or_else(|| missing(&parts_path))?;
        match role.as_deref() {
            // Google's former name for contents with responses of functions.
            None | Some("" | "user" | "function") => {
                if parts.is_empty_array() {
                    return Err(empty_array(&parts_path));
                }
                if !matches!(self.turn, Some(ReadTurn::User(_))) {
                    self.end_turn(path)?;
                    self.turn = Some(ReadTurn::User(UserContents::default()));
                }
                if let Some(ReadTurn::User(turn)) = &mut self.turn {
                    turn.read(&parts_path, parts, &mut self.calls, &mut self.counts, losses)?;
                }
            }
            Some("model") => {
                if !matches!(self.turn, Some(ReadTurn::Model(_))) {
                    self.end_turn(path)?;
                    self.turn = Some(ReadTurn::Model(ModelContents::new()));
                }
                if let Some(ReadTurn::Model(turn)) = &mut self.turn {
                    turn.read(&parts_path, parts, &mut self.calls, &mut self.counts, losses)?;
                }
            }
            Some(other) => return Err(not_one_of(&path.member("role"), &["user", "model"], other)),
        }
        Ok(())
    }

    fn end_turn(&mut self, path: &Path<'_>) -> Result<(), Invalid> {
        match self.turn.take() {
            None => {}
            Some(ReadTurn::User(turn)) => {
                if self.calls.is_open() {
                    self.calls.end(path)?;
                }
                self.counts.message(turn.messages())?;
                turn.write(self.out);
            }
            // Node's client notes an answer without content so.
            Some(ReadTurn::Model(turn)) if turn.is_empty() => {}
            Some(ReadTurn::Model(turn)) => {
                self.counts.message(1)?;
                separate(self.out);
                turn.write(self.out);
            }
        }
        Ok(())
    }
}

/// Writes the comma before a message, unless it is the first of its list.
pub(super) fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'[')) {
        out.push(b',');
    }
}
