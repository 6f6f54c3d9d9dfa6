//! The last tool calls of a session.

use std::collections::VecDeque;

use super::ToolCall;

/// The tool calls that a session remembers.
pub(crate) const MAX_RECENT_CALLS: usize = 256;

/// The last tool calls, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentCalls {
    /// The occurrences that were counted, so that a request that is sent again does not count twice.
    occurrences: VecDeque<u64>,
    calls: VecDeque<u64>,
}

impl RecentCalls {
    /// Adds the calls that are new. Returns how often the most frequent of the given calls occurred.
    pub(super) fn add(&mut self, newest: &[ToolCall]) -> u32 {
        for ToolCall { occurrence, call } in newest {
            if !self.occurrences.contains(occurrence) {
                push(&mut self.occurrences, *occurrence);
                push(&mut self.calls, *call);
            }
        }
        let count = |wanted: &ToolCall| self.calls.iter().filter(|call| **call == wanted.call).count();
        let most = newest.iter().map(count).max().unwrap_or(0);
        u32::try_from(most).unwrap_or(u32::MAX)
    }
}

fn push(list: &mut VecDeque<u64>, value: u64) {
    if list.len() >= MAX_RECENT_CALLS {
        list.pop_front();
    }
    list.push_back(value);
}
