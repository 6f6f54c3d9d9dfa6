//! `messages` as the messages of a chat: messages with the same role are merged, results of tools come right after their
//! calls.

use std::borrow::Cow;
use std::collections::HashMap;

use super::assistant::AssistantTurn;
use super::counts::Counts;
use super::system;
use super::user::UserTurn;
use super::warnings::Losses;
use crate::dialects::messages::faults::{
    MessagesPath, invalid, list, missing, not_one_of, object, required_string,
};
use crate::json::View;
use crate::request::fields::clip;
use crate::request::{Invalid, RequestLimits};

/// The turn that is being read.
enum OpenTurn<'a> {
    User(UserTurn<'a>),
    Assistant(AssistantTurn<'a>),
}

/// The calls of the last assistant turn.
#[derive(Default)]
pub(super) struct OpenCalls<'a> {
    /// The position of the message with the calls.
    message: usize,
    /// The ids of the calls in order.
    ids: Vec<Cow<'a, str>>,
    /// Whether the call of each id has its result.
    is_answered: HashMap<Cow<'a, str>, bool>,
    /// The upstream holds the messages before these, and with them the calls of the first results.
    has_earlier: bool,
}

impl<'a> OpenCalls<'a> {
    /// Takes the result of a call.
    pub(super) fn answer(&mut self, path: &MessagesPath<'_>, id: &str) -> Result<(), Invalid> {
        let what = match self.is_answered.get_mut(id) {
            Some(is_answered) if !*is_answered => {
                *is_answered = true;
                return Ok(());
            }
            // The upstream knows the call.
            None if self.has_earlier => return Ok(()),
            Some(_) => format!(
                "each tool_use must have a single result. Found multiple `tool_result` blocks with id: {}",
                clip(id)
            ),
            None => format!(
                "unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block must have a \
                 corresponding `tool_use` block in the previous message.",
                clip(id)
            ),
        };
        Err(invalid(path, what))
    }

    /// Takes the calls of an assistant turn.
    fn begin(&mut self, message: usize, ids: Vec<Cow<'a, str>>) {
        self.has_earlier = false;
        self.message = message;
        self.is_answered = ids.iter().map(|id| (id.clone(), false)).collect();
        self.ids = ids;
    }

    /// Checks that each call has its result.
    fn end(&mut self) -> Result<(), Invalid> {
        let is_answered = std::mem::take(&mut self.is_answered);
        let ids = std::mem::take(&mut self.ids);
        let open = ids.iter().filter(|id| is_answered.get(*id) == Some(&false));
        let open: Vec<Cow<'_, str>> = open.map(|id| clip(id)).take(MAX_NAMED_CALLS).collect();
        if open.is_empty() {
            return Ok(());
        }
        let messages = MessagesPath::Top("messages");
        let what = format!(
            "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must \
             have a corresponding `tool_result` block in the next message.",
            open.join(", ")
        );
        Err(invalid(&messages.item(self.message), what))
    }
}

/// The most calls that an error message names.
const MAX_NAMED_CALLS: usize = 16;

/// Writes the list of chat messages.
pub(super) struct History<'o, 'l, 'a> {
    out: &'o mut Vec<u8>,
    counts: Counts<'l>,
    turn: Option<OpenTurn<'a>>,
    /// The position of the first message of the turn.
    turn_start: usize,
    calls: OpenCalls<'a>,
}

impl<'o, 'l, 'a> History<'o, 'l, 'a> {
    /// Opens the list. With `is_continued` the upstream holds the messages before these.
    pub(super) fn new(out: &'o mut Vec<u8>, limits: &'l RequestLimits, is_continued: bool) -> Self {
        out.push(b'[');
        let counts = Counts::new(limits);
        let calls = OpenCalls { has_earlier: is_continued, ..OpenCalls::default() };
        Self { out, counts, turn: None, turn_start: 0, calls }
    }

    /// Closes the list.
    pub(super) fn finish(self) {
        self.out.push(b']');
    }

    /// Writes a system message, unless it is empty.
    pub(super) fn system(&mut self, path: &MessagesPath<'_>, value: View<'_>) -> Result<(), Invalid> {
        let parts = system::read(path, value, &mut self.counts)?;
        if parts.is_empty() {
            return Ok(());
        }
        self.counts.message(1)?;
        separate(self.out);
        system::write(self.out, &parts);
        Ok(())
    }

    /// Writes all messages.
    pub(super) fn messages(&mut self, value: View<'a>, losses: &mut Losses) -> Result<(), Invalid> {
        let path = MessagesPath::Top("messages");
        let mut is_empty = true;
        for (at, message) in list(&path, value)?.enumerate() {
            is_empty = false;
            self.message(at, &path.item(at), message, losses)?;
        }
        if is_empty && self.calls.has_earlier {
            // The upstream goes on with the turn that it holds. A chat needs a message.
            self.turn = Some(OpenTurn::User(UserTurn::default()));
        } else if is_empty {
            let message = format!("{path}: at least one message is required");
            return Err(Invalid { code: "empty_array", message });
        }
        self.end_turn()?;
        self.calls.end()
    }

    fn message(
        &mut self,
        at: usize,
        path: &MessagesPath<'_>,
        message: View<'a>,
        losses: &mut Losses,
    ) -> Result<(), Invalid> {
        let [role, content] = object(path, message, ["role", "content"])?;
        let role_path = path.member("role");
        let role = required_string(&role_path, role)?;
        let content_path = path.member("content");
        let content = content.ok_or_else(|| missing(&content_path))?;
        match &*role {
            "user" => {
                if !matches!(self.turn, Some(OpenTurn::User(_))) {
                    self.end_turn()?;
                    self.turn_start = at;
                    self.turn = Some(OpenTurn::User(UserTurn::default()));
                }
                if let Some(OpenTurn::User(turn)) = &mut self.turn {
                    turn.read(&content_path, content, &mut self.calls, &mut self.counts, losses)?;
                }
            }
            "assistant" => {
                if !matches!(self.turn, Some(OpenTurn::Assistant(_))) {
                    self.end_turn()?;
                    self.turn_start = at;
                    self.turn = Some(OpenTurn::Assistant(AssistantTurn::default()));
                }
                if let Some(OpenTurn::Assistant(turn)) = &mut self.turn {
                    turn.read(&content_path, content, &mut self.counts, losses)?;
                }
            }
            "system" => {
                self.end_turn()?;
                self.system(&content_path, content)?;
            }
            other => return Err(not_one_of(&role_path, &["user", "assistant", "system"], other)),
        }
        Ok(())
    }

    fn end_turn(&mut self) -> Result<(), Invalid> {
        match self.turn.take() {
            None => {}
            Some(OpenTurn::User(turn)) => {
                self.calls.end()?;
                self.counts.message(turn.messages())?;
                turn.write(self.out);
            }
            Some(OpenTurn::Assistant(turn)) => {
                self.counts.message(1)?;
                separate(self.out);
                let calls = turn.write(self.out);
                self.calls.begin(self.turn_start, calls);
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
