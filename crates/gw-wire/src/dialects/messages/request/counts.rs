//! Counts what a Messages request has against the limits of requests.

use crate::dialects::messages::faults::{MessagesPath, too_many};
use crate::request::{Invalid, RequestLimits};

/// The numbers of messages, parts and calls of a request, against its limits.
pub(super) struct Counts<'l> {
    limits: &'l RequestLimits,
    messages: usize,
    parts: usize,
    calls: usize,
}

impl<'l> Counts<'l> {
    /// Nothing is counted yet.
    pub(super) fn new(limits: &'l RequestLimits) -> Self {
        Self { limits, messages: 0, parts: 0, calls: 0 }
    }

    /// Counts chat messages.
    pub(super) fn message(&mut self, count: usize) -> Result<(), Invalid> {
        self.messages += count;
        let max = self.limits.max_messages;
        if self.messages <= max {
            return Ok(());
        }
        Err(too_many(&MessagesPath::Top("messages"), "messages and tool results", max, "max_messages"))
    }

    /// Counts content parts.
    pub(super) fn parts(&mut self, path: &MessagesPath<'_>, count: usize) -> Result<(), Invalid> {
        self.parts += count;
        let max = self.limits.max_content_parts;
        if self.parts <= max {
            Ok(())
        } else {
            Err(too_many(path, "content blocks", max, "max_content_parts"))
        }
    }

    /// Counts a call.
    pub(super) fn call(&mut self, path: &MessagesPath<'_>) -> Result<(), Invalid> {
        self.calls += 1;
        let max = self.limits.max_tool_calls;
        if self.calls <= max { Ok(()) } else { Err(too_many(path, "tool_use blocks", max, "max_tool_calls")) }
    }
}
